"""The working nodes of one query: started on their hosts, installed with their part of a plan, and ended.

What the query is in, and why, is the business of `query`; here is what it runs on.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gsdm_grid.compiler import packages_of
from gsdm_grid.engine import Bootstrap
from gsdm_grid.errors import NodeLost, ResourceError
from gsdm_grid.hosts import HostGroup, HostRequest
from gsdm_grid.interfaces import StreamInterface
from gsdm_grid.plan import (
    HostKind,
    Plan,
    PlanSite,
    PlanStream,
    site_groups,
)
from gsdm_grid.spec import QueryOptions

if TYPE_CHECKING:
    from gsdm_grid.coordination.grid import Grid

Command = dict[str, Any]
ACQUIRED: tuple[HostKind, ...] = ("ray", "spark")
"""Kinds of hosts that others may have, and that are then waited for."""
NOT_YET = "it is the turn of a query that came before it"
LOOK_S = 0.1


class Installation:
    """Everything that one query runs on. Thread-safe; lives as long as its query, and may be filled again."""

    def __init__(self, grid: Grid, query_id: str, options: QueryOptions) -> None:
        self.live: dict[str, StreamInterface] = {}
        """Interfaces of this process by stream name."""
        self.positions: dict[str, int] = {}
        """Where to begin in input streams."""
        self.demands = options.demands
        """What its hosts must have."""
        self.waiting: str | None = None
        """Why it waits for hosts; None when it does not."""
        self._grid = grid
        self._query = query_id
        self._flush_s = grid.settings.flush_s if options.flush_s is None else options.flush_s
        self._block_bytes = options.block_bytes or grid.block_bytes
        self._groups: list[HostGroup] = []
        self._nodes: set[str] = set()
        self._lock = threading.Lock()
        self.ending = threading.RLock()
        """Held while its nodes are ended: others of the same names are not started before that is over."""

    def node(self, site: PlanSite | str) -> str:
        """Name of the working node of a site."""
        return f"{self._query}/{site if isinstance(site, str) else site.id}"

    def start(self, plan: Plan, sites: Sequence[PlanSite], check: Callable[[], None]) -> None:
        """Start working nodes for sites of a plan and wait until they have registered; ``check`` may raise meanwhile.

        Hosts are acquired in one order by all queries, and hosts of several kinds by one query at a time: two never
        hold a part each of what both need.
        """
        if not sites:
            return
        with self.ending:
            pass
        check()
        with self._lock:
            self._nodes |= {self.node(site) for site in sites}
        self._grid.control.expect(self.node(site) for site in sites)
        places: dict[tuple[str, HostKind], list[PlanSite]] = {}
        for site in sites:
            places.setdefault((self._pool_of(site), site.host), []).append(site)
        pools = {place: self._grid.pool(place[1], place[0] or None) for place in places}
        with ThreadPoolExecutor(len(places), thread_name_prefix=f"{self._query}-start") as starters:
            for (_, host), pool in pools.items():  # Ray and Spark take seconds each when they are not up yet
                starters.submit(self._grid.warm_pool, host, pool)
            requests = {place: self._request(plan, places[place], check) for place in sorted(places)}
            try:
                with self._in_turn([request for (_, host), request in requests.items() if host in ACQUIRED], check):
                    for place, request in requests.items():
                        group = pools[place].start(request)
                        self._grid.close_at_exit()
                        with self._lock:
                            self._groups.append(group)
            finally:
                self.waiting = None

        def checked() -> None:
            check()
            for node, reason in self.lost().items():
                raise NodeLost(node, reason)

        nodes = [self.node(site) for site in sites]
        self._grid.control.wait_for(nodes, self._grid.settings.start_timeout_s, checked)

    @contextlib.contextmanager
    def _in_turn(self, requests: Sequence[HostRequest], check: Callable[[], None]) -> Iterator[None]:
        if len(requests) < 2:
            yield
            return
        until_s = time.monotonic() + requests[0].deadline_s
        while not self._grid.turn.acquire(timeout=LOOK_S):
            self.waiting = NOT_YET  # and no more: only who has the turn asks others to give hosts up
            check()
            if time.monotonic() > until_s:
                limit_s = requests[0].deadline_s
                raise ResourceError(f"query {self._query!r} found no hosts within {limit_s:g} s: {NOT_YET}")
        try:
            yield
        finally:
            self._grid.turn.release()

    def _pool_of(self, site: PlanSite) -> str:
        return self.demands.of(site).pool or "" if site.host in ACQUIRED else ""

    def _request(self, plan: Plan, sites: Sequence[PlanSite], check: Callable[[], None]) -> HostRequest:
        settings = self._grid.settings

        def waiting(reason: str) -> None:
            self.waiting = reason
            check()
            if (query := self._grid.queries.get(self._query)) is not None:  # else it has just been dropped
                self._grid.on_waiting(query)

        endpoint, key = self._grid.control.endpoint, self._grid.key
        return HostRequest(
            self._query,
            [Bootstrap(self.node(site), endpoint, key, settings.orphan_s, packages_of(site)) for site in sites],
            self.live,
            {self.node(site): self.demands.of(site) for site in sites},
            [
                replace(group, sites=tuple(self.node(site) for site in group.sites))
                for group in site_groups(plan, sites, self.demands)
            ],
            settings.acquire_timeout_s if self.demands.deadline_s is None else self.demands.deadline_s,
            waiting,
        )

    def install(self, plan: Plan, inherited: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        """Install a plan on its working nodes; ``inherited`` is what operators are to remember."""
        wired = [(site, self.commands(plan, site, inherited)) for site in plan.sites]
        self.at_once([(site, {"do": "batch", "commands": commands}) for site, commands in wired])

    def at_once(self, commands: Sequence[tuple[PlanSite, Command]]) -> list[Any]:
        """Send commands to several sites together; gives their answers."""
        control = self._grid.control
        calls = [control.send(self.node(site), command) for site, command in commands]
        return [control.result(call) for call in calls]

    def lost(self) -> dict[str, str]:
        """Nodes whose host died, with the reason."""
        return {node: reason for group in list(self._groups) for node, reason in group.lost().items()}

    def restart(self, node: str) -> bool:
        """Start a lost node anew; False if its kind of host cannot."""
        return any(node in group.lost() and group.restart(node) for group in list(self._groups))

    def release(self, nodes: Sequence[str]) -> None:
        """End some nodes; the others go on."""
        timeout_s = self._grid.settings.drop_timeout_s
        self._grid.control.drop(nodes)
        for group in list(self._groups):
            group.release(nodes, timeout_s)
        self._grid.control.forget(nodes)
        with self._lock:
            self._nodes -= set(nodes)

    def release_all(self) -> list[str]:
        """End all nodes and their hosts; gives the nodes that run on, because they cannot be ended by force.

        Safe to call twice.
        """
        with self.ending:
            with self._lock:
                groups, self._groups = self._groups, []
                nodes, self._nodes = self._nodes, set()
            self._grid.control.drop(nodes)
            until_s = time.monotonic() + self._grid.settings.drop_timeout_s
            left = [node for group in groups for node in group.stop(max(until_s - time.monotonic(), 0.0))]
            self._grid.control.forget(list(nodes))
            return left

    def commands(
        self, plan: Plan, site: PlanSite, inherited: Mapping[str, Mapping[str, Any]] | None = None
    ) -> list[Command]:
        """What a working node must be told to execute its site of a plan."""
        commands: list[Command] = [
            {
                "do": "install_stream",
                "stream": stream.to_json(),
                "site": site.id,
                "settings": self._stream_settings(stream, site),
            }
            for stream in plan.streams_of(site.id)
        ]
        for operator in site.operators:
            types = [plan.stream(name).type.to_json() for name in operator.inputs]
            snapshot = (inherited or {}).get(operator.id)
            commands.append({"do": "install_sqf", "operator": operator.to_json(), "types": types, "snapshot": snapshot})
        return commands

    def _stream_settings(self, stream: PlanStream, site: PlanSite) -> dict[str, Any]:
        settings, control = self._grid.settings, self._grid.control
        told: dict[str, Any] = {"block_bytes": self._block_bytes, "flush_s": self._flush_s}
        if stream.kind == "source":
            told["start_at"] = self.positions.get(stream.name, 0)
        if stream.kind == "channel":
            told |= {
                "channel": f"{self._query}/{stream.name}",
                "channel_blocks": settings.channel_blocks,
                "channel_bytes": settings.channel_bytes,
            }
            if stream.from_site == site.id and stream.to_site is not None:
                there = control.registration(self.node(stream.to_site))
                here = control.registration(self.node(site))
                shared = settings.shared_memory and there.machine == here.machine
                told |= {"endpoint": there.endpoint, "shared": shared, "epoch": control.new_epoch()}
        return told
