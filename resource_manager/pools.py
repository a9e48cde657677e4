"""Named resource pools: each is a Ray cluster of its own, reached from a process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from gsdm_grid.config import Settings
from gsdm_grid.hosts import HostPool, RayPool
from gsdm_grid.hosts.elsewhere import ElsewherePool, PoolProcess
from gsdm_grid.planning import HostKind


def named_pools(settings: Settings) -> dict[str, Mapping[HostKind, HostPool]]:
    """The pools that the settings name, by name and kind of host. Nothing is started yet."""
    made: dict[str, Mapping[HostKind, HostPool]] = {}
    for name, address in settings.pools.items():
        process = PoolProcess(name, partial(_pools, address, settings.spare_hosts))
        made[name] = {"ray": ElsewherePool(process, "ray")}
    return made


def _pools(address: str, spares: int) -> dict[str, HostPool]:
    """Made in the process of the pool."""
    return {"ray": RayPool(address, spares=spares)}
