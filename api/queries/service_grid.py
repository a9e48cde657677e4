"""The grid that the coordinator's queries run on: there from the coordinator's start to its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from api.errors import Problem
from api.settings import ServiceSettings
from gsdm_grid.coordination import ContinuousQuery, Grid
from gsdm_grid.hosts import HostPool
from gsdm_grid.plan import HostKind
from resource_manager.pools import named_pools, own_pools

OnQuery = Callable[[ContinuousQuery], None]


class ServiceGrid:
    """Owns the grid and its host pools; ``pools`` are used instead of those that the settings ask for. Thread-safe."""

    def __init__(self, settings: ServiceSettings, pools: Mapping[HostKind, HostPool] | None = None) -> None:
        self._settings = settings
        self._pools = {**own_pools(settings.grid), **(pools or {})}
        self._grid: Grid | None = None
        self.ready = False
        """Whether the coordinator has started and is not ending."""

    def open(self, on_change: OnQuery, on_waiting: OnQuery) -> None:
        """Make the grid; it is not `ready` yet. For the callbacks see `Grid`."""
        self._grid = Grid(
            self._settings.placement,
            self._settings.grid,
            on_change=on_change,
            on_waiting=on_waiting,
            named=named_pools(self._settings.grid),
            pools=self._pools,
        )

    def current(self) -> Grid:
        """The grid; refuses while the coordinator is starting or stopping."""
        if self._grid is None or not self.ready:
            raise Problem("not-ready", "the coordinator is starting or stopping")
        return self._grid

    @property
    def queries(self) -> Mapping[str, ContinuousQuery]:
        """The queries on the grid, by name, also while the coordinator is starting or stopping."""
        return self._grid.queries if self._grid is not None else {}

    def close(self) -> None:
        """End all queries, and give back everything that they ran on."""
        if self._grid is not None:
            self._grid.close()
        for pool in self._pools.values():
            pool.close()
