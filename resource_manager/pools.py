"""Host pools as the settings name them: Spark on what Ray gives, and named pools, each a Ray cluster of its own.

A process can be connected to one Ray cluster only and have one Spark application, so each named pool is reached from a
process of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from gsdm_grid.config import Settings
from gsdm_grid.hosts import ON_RAY, ForwardingPool, HostPool, PoolProcess, RayPool, SparkPool
from gsdm_grid.plan import HostKind
from resource_manager.spark_cluster import SparkCluster
from resource_manager.spark_daemon_actors import RayDaemons

Pools = dict[HostKind, HostPool]


def own_pools(settings: Settings) -> Pools:
    """Pools that a grid is to use instead of those that it would make itself; whoever asked for them closes them."""
    if settings.spark_master != ON_RAY:
        return {}
    return _on_ray(settings.ray_address, settings.ray_dashboard, settings.spare_hosts, settings.ray_most_cpus)


def named_pools(settings: Settings) -> dict[str, Mapping[HostKind, HostPool]]:
    """The pools that the settings name, by name and kind of host. Nothing is started yet."""
    made: dict[str, Mapping[HostKind, HostPool]] = {}
    for name, address in settings.pools.items():
        process = PoolProcess(name, partial(_on_ray, address, False, settings.spare_hosts, None))
        made[name] = {"ray": ForwardingPool(process, "ray"), "spark": ForwardingPool(process, "spark")}
    return made


def _on_ray(address: str | None, dashboard: bool, spares: int, most_cpus: float | None) -> Pools:
    """Ray, and Spark on what it gives; Spark comes first, as it is to be closed first."""
    ray = RayPool(address, dashboard, spares, most_cpus)
    return {
        "spark": SparkPool(executors=SparkCluster(RayDaemons(ray.connect, local=address is None, most_cpus=most_cpus))),
        "ray": ray,
    }
