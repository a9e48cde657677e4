"""The grid: one installation in this process. It owns the key, the control server, the host pools and the queries."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

from gsdm_grid.channels import InstallationKey
from gsdm_grid.compiler import PART
from gsdm_grid.config import Settings
from gsdm_grid.coordination.control import ControlServer, Event
from gsdm_grid.coordination.progress import StartProgress
from gsdm_grid.coordination.query import ContinuousQuery
from gsdm_grid.coordination.shared_parts import SharedParts
from gsdm_grid.errors import NodeLost, QueryError, ResourceError, UnknownName
from gsdm_grid.flow import DataFlow, central
from gsdm_grid.functions import StreamFunction
from gsdm_grid.hosts import HostPool, ProcessPool, RayPool, SparkPool, ThreadPool
from gsdm_grid.ids import IdFactory
from gsdm_grid.plan import Demands, HostKind, placement_policy
from gsdm_grid.spec import QueryOptions, RegisteredStream, query_options, register_result_stream
from gsdm_grid.tuning import remembered_block_bytes

WATCH_S = 0.5
DEFAULT_BLOCK_BYTES = 2 << 20


def _nothing(_query: ContinuousQuery) -> None:
    return None


class Grid:
    """Runs queries. ``placement``: ``threads`` (all in this process), ``processes`` (of this machine), ``grid`` (Ray
    and Spark), ``ray`` or ``spark``.

    Ray and Spark are started when a query first needs them, which takes up to half a minute (`Settings.progress` says
    so meanwhile), and stopped with the grid if it started them.
    Use it as a context manager, or call `close`. ``on_change`` is called whenever a query's state changes, by whichever
    thread changes it; it must not block. ``on_waiting`` is called now and then while a query waits for hosts.
    """

    def __init__(
        self,
        placement: str = "grid",
        settings: Settings | None = None,
        pools: Mapping[HostKind, HostPool] | None = None,
        named: Mapping[str, Mapping[HostKind, HostPool]] | None = None,
        on_change: Callable[[ContinuousQuery], None] | None = None,
        on_waiting: Callable[[ContinuousQuery], None] | None = None,
    ) -> None:
        self.placement = placement_policy(placement)
        self.settings = settings or Settings()
        self.block_bytes = self.settings.block_bytes or remembered_block_bytes() or DEFAULT_BLOCK_BYTES
        self.on_waiting = on_waiting or _nothing
        self._on_change = on_change or _nothing
        self.key = InstallationKey()
        self.queries: dict[str, ContinuousQuery] = {}
        self.parts = SharedParts(self)
        self.progress = StartProgress(self.settings.progress)
        self.turn = threading.Lock()
        """Whoever acquires hosts of several kinds has it: see `Installation`."""
        threads = ThreadPool(self.settings.thread_cores)
        self._pools: dict[HostKind, HostPool] = {
            "thread": threads,
            "local": threads,
            "process": ProcessPool(),
            "ray": RayPool(
                self.settings.ray_address,
                self.settings.ray_dashboard,
                self.settings.spare_hosts,
                self.settings.ray_most_cpus,
            ),
            "spark": SparkPool(self.settings.spark_master, log_level=self.settings.spark_log_level),
            **(pools or {}),
        }
        self._shared = set(pools or {})
        self._named = dict(named or {})
        self._ids = IdFactory()
        self._closed = threading.Event()
        self.control = ControlServer(self.key, self._on_event, self.settings.address)
        self._watcher = threading.Thread(target=self._watch, name="gsdm-watch", daemon=True)
        self._watcher.start()
        self.close_at_exit()

    def close_at_exit(self) -> None:
        """See that the grid is closed before what its hosts use, however late that was imported."""
        if not self._closed.is_set():
            atexit.unregister(self.close)
            atexit.register(self.close)  # what is registered last is called first

    def cq(
        self,
        flow: DataFlow | StreamFunction | str,
        inputs: Sequence[RegisteredStream],
        outputs: Sequence[RegisteredStream] = (),
        name: str | None = None,
        *,
        schedule: Mapping[str, Any] | None = None,
        flush_s: float | None = None,
        placement: str | None = None,
        demands: Demands | None = None,
        block_bytes: int | None = None,
        share: bool = False,
    ) -> ContinuousQuery:
        """A new query over a data flow (or a single function). Without result streams the result is kept.

        ``schedule`` holds an input rate (see `Schedule`); ``flush_s`` is how long windows may wait for others;
        ``placement`` and ``block_bytes`` (size of physical windows) are others than the grid's; ``demands`` is what the
        hosts of its sites must have.
        ``share``: its first sites may be those of other such queries that begin in the same way.
        """
        options = query_options(
            schedule=schedule,
            flush_s=flush_s,
            placement=placement,
            resources=demands,
            block_bytes=block_bytes,
            share=share,
        )
        return self.new_query(flow, inputs, outputs, name, options)

    def new_query(
        self,
        flow: DataFlow | StreamFunction | str,
        inputs: Sequence[RegisteredStream],
        outputs: Sequence[RegisteredStream],
        name: str | None,
        options: QueryOptions,
    ) -> ContinuousQuery:
        """The same with options that have been checked, such as those of a document."""
        query_id = name or self._ids.new("q")
        if query_id in self.queries:
            raise QueryError(f"there is a query named {query_id!r} already: drop it, or choose another name")
        if "/" in query_id:
            raise QueryError(f"query name {query_id!r} must not contain '/'")
        if query_id.startswith(PART):
            raise QueryError(f"query name {query_id!r} must not begin with {PART!r}: parts that queries share do")
        query = ContinuousQuery(
            self,
            query_id,
            flow if isinstance(flow, DataFlow) else central(flow),
            inputs,
            list(outputs) or [register_result_stream()],
            options,
        )
        self.queries[query_id] = query
        return query

    def pool(self, host: HostKind, name: str | None = None) -> HostPool:
        """The pool of a host kind; of the resource pool of this name, if one is given."""
        if name is None:
            return self._pools[host]
        if name not in self._named:
            raise UnknownName("resource pool", name, self._named)
        if host not in self._named[name]:
            kinds = ", ".join(self._named[name])
            raise ResourceError(f"resource pool {name!r} has no hosts of kind {host!r}; it has: {kinds}")
        return self._named[name][host]

    def warm(self) -> None:
        """Start what working nodes of this placement need, all at once. Returns at once."""
        for kind in set(self.placement.hosts.values()):
            work = (kind, self._pools[kind])
            threading.Thread(target=self.warm_pool, args=work, name=f"gsdm-warm-{kind}", daemon=True).start()

    def warm_pool(self, kind: HostKind, pool: HostPool) -> None:
        """Start what a pool needs, and say so where somebody looks."""
        with self.progress.starting(kind, pool):
            pool.warm()

    def whereabouts(self, node: str) -> dict[str, Any]:
        """Machine and process of a working node; empty while it is not registered."""
        try:
            found = self.control.registration(node)
        except NodeLost:
            return {}
        return {"machine": found.host, "pid": found.pid}

    def inventory(self) -> dict[str, dict[str, Any]]:
        """What each kind of host has and uses, as far as it has been started; named pools under ``pools``."""
        told: dict[str, Any] = {kind: pool.inventory() for kind, pool in self._pools.items() if kind != "local"}
        told["pools"] = {
            name: {kind: pool.inventory() for kind, pool in pools.items()} for name, pools in self._named.items()
        }
        return told

    def on_change(self, query: ContinuousQuery) -> None:
        """A query's state has changed. Called by any thread; does not block."""
        self.parts.on_change(query)
        self._on_change(query)

    def forget(self, query_id: str) -> None:
        """A query was dropped."""
        self.queries.pop(query_id, None)

    def close(self) -> None:
        """Drop all queries and give back everything. Safe to call twice."""
        if self._closed.is_set():
            return
        self._closed.set()
        droppers = [threading.Thread(target=query.drop, name=f"{query.id}-drop") for query in self.queries.values()]
        for dropper in droppers:  # an executor refuses work while the interpreter shuts down
            dropper.start()
        for dropper in droppers:
            dropper.join()
        for kind, pool in reversed(self._pools.items()):  # what stands on others first
            if kind not in self._shared:
                pool.close()
        for pool in (pool for pools in self._named.values() for pool in pools.values()):
            pool.close()
        self.control.close()
        self._watcher.join(5)
        atexit.unregister(self.close)

    def __enter__(self) -> Grid:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _on_event(self, event: Event) -> None:
        query = self.queries.get(event["node"].partition("/")[0])
        if query is not None:
            query.on_event(event)

    def _watch(self) -> None:
        while not self._closed.wait(WATCH_S):
            for query in list(self.queries.values()):
                query.check_hosts()


_default: Grid | None = None
_lock = threading.Lock()


def default_grid() -> Grid:
    """The grid that `cq` uses unless told otherwise; made when first needed, closed at exit."""
    global _default  # noqa: PLW0603
    with _lock:
        if _default is None or _default._closed.is_set():
            _default = Grid()
        return _default


def cq(
    flow: DataFlow | StreamFunction | str,
    inputs: Sequence[RegisteredStream],
    outputs: Sequence[RegisteredStream] = (),
    *,
    grid: Grid | None = None,
    name: str | None = None,
    schedule: Mapping[str, Any] | None = None,
    flush_s: float | None = None,
    share: bool = False,
) -> ContinuousQuery:
    """A continuous query (thesis 5.1): a data flow over input streams, with its result streams."""
    return (grid or default_grid()).cq(flow, inputs, outputs, name, schedule=schedule, flush_s=flush_s, share=share)
