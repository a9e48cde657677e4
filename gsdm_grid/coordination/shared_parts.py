"""Parts that queries share: at work once, from their first reader to their last.

A part is a query of its own that nobody submitted (see `gsdm_grid.compiler`). `SharedParts` keeps those of a
grid, `SharedPart` is one of them, and `Readings` is what one query reads of them. Readers come and go without the
others noticing; with its last reader a part is dropped, and the next one starts it anew. A part that fails takes its
readers with it, as its source or functions would have done in each of them.

A query on sources that can be read again, and that has read some of them, must go on where it was: it gets a part of
its own, which begins there.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gsdm_grid.compiler import (
    TAP,
    flow_of,
    keeps_ordinals,
    replayable_inputs,
)
from gsdm_grid.errors import GsdmError
from gsdm_grid.interfaces import interfaces
from gsdm_grid.plan import Demands, Plan, PlanStream
from gsdm_grid.spec import QueryOptions, RegisteredStream

if TYPE_CHECKING:
    from gsdm_grid.coordination.grid import Grid
    from gsdm_grid.coordination.query import ContinuousQuery


class SharedPart:
    """One part at work. Made by `SharedParts`; thread-safe; never resumed once it is over.

    ``common``: others may join; else it began at the place of one query, for that one only.
    """

    def __init__(self, query: ContinuousQuery, plan: Plan, common: bool) -> None:
        self.query = query
        self.plan = plan
        self.common = common
        self.over = False
        self.lock = threading.RLock()
        self.holders: set[Readings] = set()
        """Who has it installed."""
        self.readers: dict[str, Readings] = {}
        """Who reads it now, by channel."""

    @property
    def tap_site(self) -> str:
        """The site that its readers are attached to."""
        return str(self.plan.stream(TAP).from_site)

    def queries(self) -> set[str]:
        """Names of the queries that read it, directly or through other parts."""
        return {name for reader in list(self.readers.values()) for name in reader.queries()}

    def figures(self, channel: str) -> Mapping[str, Any]:
        """What was counted for one of its readers."""
        told = self.query.statistics().get(self.tap_site, {}).get("streams", {}).get(TAP, {})
        found: Mapping[str, Any] = told.get("readers", {}).get(channel, {})
        return found


TapOf = tuple[str, SharedPart, str]
"""An input stream, the part it reads, and the channel in between."""


class SharedParts:
    """The parts of one grid. Thread-safe."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._lock = threading.Lock()
        self._joinable: dict[str, SharedPart] = {}
        self._by_query: dict[str, SharedPart] = {}
        self._numbers = itertools.count(1)

    def acquire(self, plan: Plan, holder: Readings, place: Mapping[str, int] | None) -> SharedPart:
        """A part that does what the plan says, installed: the one that is there, or another.

        ``place`` is where it is to begin in its input streams; then it is for this holder only.
        """
        while True:
            with self._lock:
                part = self._joinable.get(plan.query) if place is None else None
                if part is None:
                    part = self._made(plan, holder.inputs, holder.demands.by_role(), place is None)
                    if part.common:
                        self._joinable[plan.query] = part
                part.holders.add(holder)
            with part.lock:  # whoever comes second waits until it is installed
                if part.over:
                    continue
                if part.query.state == "compiled":
                    try:
                        part.query.install(place, joining=place is None)
                    except BaseException:
                        self._end(part)
                        raise
                return part

    def attach(self, part: SharedPart, holder: Readings, channel: str, tap: Mapping[str, Any]) -> int | None:
        """Let a holder read a part, which begins to work if it has not; None if it is over, or was released.

        Gives the ordinal of the window that comes next.
        """
        with part.lock:
            if part.over or holder not in part.holders:
                return None
            node = part.query.node(part.tap_site)
            there, here = (self._grid.control.registration(name) for name in (tap["node"], node))
            settings = self._grid.settings
            begins_at: int = self._grid.control.call(
                node,
                {
                    "do": "attach",
                    "stream": TAP,
                    "channel": channel,
                    "endpoint": there.endpoint,
                    "shared": settings.shared_memory and there.machine == here.machine,
                    "epoch": self._grid.control.new_epoch(),
                    "limits": {"blocks": settings.channel_blocks, "bytes": settings.channel_bytes},
                    "options": tap["options"],
                },
            )
            part.readers[channel] = holder
            if part.query.state == "installed":
                part.query.activate()
            return begins_at

    def detach(self, part: SharedPart, channel: str) -> Mapping[str, Any]:
        """A reader has left; gives what was counted for it. Safe to call twice."""
        with part.lock:
            if part.readers.pop(channel, None) is None:
                return {}
            counted = part.figures(channel)
            try:
                command = {"do": "detach", "stream": TAP, "channel": channel}
                counted = self._grid.control.call(part.query.node(part.tap_site), command)
            except GsdmError:
                pass  # the part has died: its readers are told by its failure
            if not part.readers:
                self._end(part)
            return counted

    def release(self, part: SharedPart, holder: Readings) -> None:
        """A holder needs it no more. Safe to call twice."""
        with part.lock:
            for channel in [channel for channel, reader in part.readers.items() if reader is holder]:
                self.detach(part, channel)
            with self._lock:
                part.holders.discard(holder)
                idle = not part.holders
            if idle:
                self._end(part)

    def waiting(self, holder: Readings) -> str | None:
        """Why a part that a query needs waits for hosts; None if none does."""
        reasons = (part.query.waiting for part in list(self._by_query.values()) if holder in part.holders)
        return next((reason for reason in reasons if reason), None)

    def of(self, query: ContinuousQuery) -> SharedPart | None:
        """The part that a query is the work of; None if it is one that people submitted."""
        return self._by_query.get(query.id)

    def on_change(self, query: ContinuousQuery) -> None:
        """A query's state has changed; called by any thread, does not block."""
        part = self._by_query.get(query.id)
        if part is not None and query.state == "failed":
            threading.Thread(target=self._failed, args=(part,), name=f"{query.id}-failed", daemon=True).start()
        if part is not None and query.state == "installed" and query.run_seconds is not None:
            self._close(part)  # its streams have ended: who comes now reads them anew

    def _failed(self, part: SharedPart) -> None:
        with part.lock:
            readers = set(part.readers.values())
            error = part.query.error
            self._end(part)
        for reader in readers:
            reader.fail(error)

    def _made(self, plan: Plan, inputs: Sequence[RegisteredStream], demands: Demands, common: bool) -> SharedPart:
        from gsdm_grid.coordination.query import ContinuousQuery

        query = ContinuousQuery(
            self._grid,
            f"{plan.query}.{next(self._numbers)}",
            flow_of(plan),
            [_known_by_identity(stream) for stream in inputs],
            [RegisteredStream(TAP, plan.stream(TAP).interface or "", None)],
            QueryOptions(resources=demands),
        )
        query.adopt(plan)
        part = SharedPart(query, plan, common)
        self._by_query[query.id] = part
        self._grid.queries[query.id] = query
        return part

    def _end(self, part: SharedPart) -> None:
        """Drop a part; called with its lock held. Who waits for the lock finds it gone and starts another."""
        part.over = True
        part.readers.clear()
        part.query.drop()
        self._close(part)
        self._by_query.pop(part.query.id, None)

    def _close(self, part: SharedPart) -> None:
        """Nobody can join a part any more."""
        with self._lock:
            part.over = True
            if self._joinable.get(part.plan.query) is part:
                del self._joinable[part.plan.query]


class Readings:
    """What one query reads of shared parts, by input stream. Lives as long as the query; empty if it shares nothing."""

    def __init__(self, grid: Grid, query: ContinuousQuery) -> None:
        self.begun_at: dict[str, int] = {}
        """Ordinal at which this run began to read each stream that can be read again."""
        self._grid = grid
        self._query = query
        self._parts: dict[str, SharedPart] = {}
        self._channels: dict[str, str] = {}
        self._counted: dict[str, Counter[str]] = {}  # in runs that are over, by stream
        self._over: set[str] = set()  # channels that have been counted
        self._lock = threading.Lock()
        self._joining = True
        self._replayable: dict[str, bool] = {}
        self._runs = itertools.count(1)

    @property
    def inputs(self) -> Sequence[RegisteredStream]:
        """The input streams of the query, of which some are read by parts."""
        return self._query.inputs

    @property
    def demands(self) -> Demands:
        """What the query asks of hosts."""
        return self._query.demands

    def queries(self) -> set[str]:
        """Names of the queries that these readings are for."""
        part = self._grid.parts.of(self._query)
        return {self._query.id} if part is None else part.queries()

    def fail(self, error: GsdmError | None) -> None:
        """A part that is read has failed."""
        self._query.part_failed(error)

    def acquire(self, plan: Plan, positions: Mapping[str, int], joining: bool) -> None:
        """Have the parts of a plan installed. ``joining``: wherever they are; else they begin at ``positions``."""
        self._joining = joining
        self._replayable = replayable_inputs(plan, self.can_be_read_again)
        for stream in _tapped(plan):
            self._parts[stream.name] = self._acquired(plan, stream, positions.get(stream.name, 0))

    def begin(self, plan: Plan, positions: Mapping[str, int]) -> None:
        """A run begins: see that there is a part for each stream that begins, or goes on, at the right place."""
        run = next(self._runs)
        self._channels = {stream.name: f"{self._query.id}/{stream.name}#{run}" for stream in _tapped(plan)}
        with self._lock:
            self._over &= set(self._channels.values())
        for stream in _tapped(plan):
            part, position = self._parts.get(stream.name), positions.get(stream.name, 0)
            if part is None:
                return  # dropped meanwhile
            if part.over or (part.common and self._has_own_place(stream.name, position)):
                self._grid.parts.release(part, self)
                self._parts[stream.name] = self._acquired(plan, stream, position)

    def commands(self, plan: Plan, site: str) -> list[dict[str, Any]]:
        """What a site must be told before it is activated."""
        return [
            {
                "do": "listen",
                "stream": stream.name,
                "channel": self._channels[stream.name],
                "replayable": self._replayable[stream.name],
            }
            for stream in _tapped(plan)
            if stream.to_site == site
        ]

    def attach(self, plan: Plan, positions: Mapping[str, int]) -> None:
        """Let the windows come; the sites that read them are active."""
        self.begun_at = {}
        for stream in _tapped(plan):
            options = {key: value for key, value in stream.options.items() if key != "part"}
            tap = {"node": self._query.node(str(stream.to_site)), "options": options}
            position, begun = positions.get(stream.name, 0), None
            while begun is None:
                part = self._parts.get(stream.name)
                if part is None or not self._query.running:
                    return  # stopped or dropped meanwhile; see `settle`
                begun = self._grid.parts.attach(part, self, self._channels[stream.name], tap)
                if begun is None:
                    self._parts[stream.name] = self._acquired(plan, stream, position)
            if self._replayable[stream.name]:
                self.begun_at[stream.name] = max(begun, position)

    def settle(self) -> None:
        """Let go of what was acquired or attached while the query stopped, failed or was dropped."""
        if self._query.state == "installed":
            self.detach(self.taps())
        elif not self._query.running:
            self.release()

    def taps(self) -> list[TapOf]:
        """The taps of this run."""
        return [(name, part, self._channels[name]) for name, part in self._parts.items() if name in self._channels]

    def detach(self, taps: Sequence[TapOf]) -> None:
        """A run is over, and the next may have begun: let go of its taps. Parts that others read stay installed."""
        for name, part, channel in taps:
            counted = _worth_telling(self._grid.parts.detach(part, channel))
            with self._lock:
                self._counted.setdefault(name, Counter()).update(counted)
                self._over.add(channel)

    def release(self) -> None:
        """Let go of all parts. Safe to call twice."""
        parts, self._parts = self._parts, {}
        for part in parts.values():
            self._grid.parts.release(part, self)

    def told(self) -> dict[str, dict[str, Any]]:
        """By input stream: the part it is read through, with whom, and what was counted there for this query."""
        mine = self.queries()
        found: dict[str, dict[str, Any]] = {}
        for name, part in list(self._parts.items()):
            latest = _worth_telling(part.figures(self._channels.get(name, "")))
            with self._lock:
                figures = Counter(self._counted.get(name, {}))
                if self._channels.get(name) not in self._over:
                    figures.update(latest)
            found[name] = {"part": part.query.id, "with": sorted(part.queries() - mine), **figures}
        return found

    def _acquired(self, plan: Plan, stream: PlanStream, position: int) -> SharedPart:
        wanted = plan.part(stream)
        assert wanted is not None
        place = None
        if self._has_own_place(stream.name, position):
            # one window earlier, because a function may have given several windows for it, and not all were read
            begin = max(position - 1, 0) if keeps_ordinals(wanted) else 0
            place = {below.name: begin for below in wanted.streams if below.kind == "source"}
        return self._grid.parts.acquire(wanted, self, place)

    def _has_own_place(self, stream: str, position: int) -> bool:
        """Whether a stream can be read again, and this query must begin elsewhere than where others are."""
        return self._replayable[stream] and (position > 0 or not self._joining)

    def can_be_read_again(self, stream: PlanStream) -> bool:
        """Whether a stream of the world can be read from any place."""
        if not stream.live:
            return interfaces.get(str(stream.interface))(stream.type, stream.options).replayable
        known = (given for given in self._query.inputs if stream.name in (given.name, given.spec().identity))
        return next(known).make(stream.type).replayable


def _worth_telling(counted: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in counted.items() if key == "stalled_s" or key.startswith("dropped_")}


def _tapped(plan: Plan) -> list[PlanStream]:
    return [stream for stream in plan.streams if stream.kind == "source" and plan.part(stream) is not None]


def _known_by_identity(stream: RegisteredStream) -> RegisteredStream:
    """The stream as parts name it: by what it is, not by what a query calls it."""
    identity = stream.spec().identity
    return replace(stream, name=identity, identity=identity, shared=False, overload=None)
