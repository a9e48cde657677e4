"""Merges by key: windows of several streams that have the same value of an attribute become one.

*Join*: every input has a window of the key, sooner or later; when all have come, they are combined. *Aggregate*: the
windows of one time and key are added up (or the like), however many inputs have some. Both take their inputs in order,
so the result does not depend on who was quicker; a result takes the place of the window that completed it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsdm_grid.model import Column, PhysicalWindow, Ragged, StreamType, as_array, seconds
from gsdm_grid.operators.base import Blocks, Combine
from gsdm_grid.operators.ports import ALWAYS, OrderedPorts
from gsdm_grid.operators.s_merge import interleave

REDUCTIONS: Mapping[str, np.ufunc] = {"sum": np.add, "min": np.minimum, "max": np.maximum}


class KeyedMerge(OrderedPorts):
    """What both have in common: rows that wait, and the end of the streams."""

    def __init__(self, ports: int, stream_type: StreamType, key: str, order: str) -> None:
        super().__init__(ports, order, None)
        self._type, self._key = stream_type, key

    @property
    def output_type(self) -> StreamType:
        """Type of the merged stream."""
        return self._type

    def close(self, port: int) -> Blocks:
        """See `StreamOperator`."""
        made = list(super().close(port))
        if all(one.closed for one in self.ports):
            made += self.finished()
        return made

    def finished(self) -> list[PhysicalWindow]:
        """All inputs have ended: what is left."""
        raise NotImplementedError


class KeyJoin(KeyedMerge):
    """Combines windows of equal keys, one of each input; if a key comes again, the second joins the second.

    A window waits for its counterparts until the inputs are ``within_s`` seconds further, by their timestamps; then it
    is dropped and counted. A result has the time of the latest of its windows, which completed it: so the result
    stream goes by time.
    """

    def __init__(
        self, ports: int, stream_type: StreamType, key: str, combine: Combine, order: str, within_s: float
    ) -> None:
        super().__init__(ports, stream_type, key, order)
        self._combine, self._within_ns = combine, seconds(within_s)
        self._waiting: list[PhysicalWindow | None] = [None] * ports
        self._latest = np.iinfo(np.int64).min
        self.incomplete = 0

    def decide(self, pieces: list[PhysicalWindow | None]) -> list[PhysicalWindow]:
        """See `OrderedPorts`."""
        parts = [_together(held, piece) for held, piece in zip(self._waiting, pieces, strict=True)]
        self._latest = max(self._latest, *(int(piece.ts[-1]) for piece in pieces if piece is not None))
        found = _matched([None if part is None else part.columns[self._key] for part in parts])
        joined = [part.select(rows) for part, rows in zip(parts, found, strict=True) if part is not None and len(rows)]
        self._waiting = [self._rest(part, rows) for part, rows in zip(parts, found, strict=True)]
        if not joined:
            return []
        places = np.max([as_array(block.ordinals) for block in joined], axis=0)
        times = np.max([block.ts for block in joined], axis=0)
        order = np.lexsort((times, places) if self.by_ordinal else (places, times))
        results = self._combine([block.select(order) for block in joined])
        return [results.replace(ts=times[order]).stamped(ordinals=places[order])]

    def finished(self) -> list[PhysicalWindow]:
        """See `KeyedMerge`: what waits now, waits in vain."""
        self.incomplete += sum(len(part) for part in self._waiting if part is not None)
        self._waiting = [None] * len(self.ports)
        return []

    def waiting(self, port: int) -> Blocks:
        """See `StreamOperator`: rows that wait for their counterparts, and for their turn."""
        held = self._waiting[port]
        return super().waiting(port) if held is None else (held, *super().waiting(port))

    def progress(self) -> dict[str, Any]:
        """See `OrderedPorts`."""
        return {
            **super().progress(),
            "waiting": list(self._waiting),
            "latest": self._latest,
            "incomplete": self.incomplete,
        }

    def go_on(self, progress: Mapping[str, Any]) -> None:
        """See `OrderedPorts`."""
        super().go_on(progress)
        self._waiting = list(progress["waiting"])
        self._latest, self.incomplete = progress["latest"], progress["incomplete"]

    def statistics(self) -> dict[str, Any]:
        """See `StreamOperator`."""
        waiting = [0 if part is None else len(part) for part in self._waiting]
        return {**super().statistics(), "incomplete": self.incomplete, "waiting": waiting}

    def _rest(self, part: PhysicalWindow | None, joined: NDArray[np.intp]) -> PhysicalWindow | None:
        """Rows that were not joined and may still be."""
        if part is None:
            return None
        keep = np.ones(len(part), bool)
        keep[joined] = False
        in_time = part.ts >= self._latest - self._within_ns
        self.incomplete += int(np.count_nonzero(keep & ~in_time))
        keep &= in_time
        return part.select(keep) if keep.any() else None


class KeyAggregate(KeyedMerge):
    """One window for each time and key, complete when the inputs are past that time.

    ``how`` names a reduction by attribute; other attributes are those of the first window. Results of one time are in
    the order of their keys.
    """

    def __init__(self, ports: int, stream_type: StreamType, key: str, how: Mapping[str, str], order: str) -> None:
        super().__init__(ports, stream_type, key, order)
        self._how = dict(how)
        self._open: PhysicalWindow | None = None  # rows of the latest time

    def decide(self, pieces: list[PhysicalWindow | None]) -> list[PhysicalWindow]:
        """See `OrderedPorts`."""
        rows = interleave([piece for piece in pieces if piece is not None], self.by_ordinal)
        rows = rows if self._open is None else PhysicalWindow.concat([self._open, rows])
        latest = int(rows.ts.max())
        done = rows.ts < latest
        self._open = rows.select(~done)
        if not done.any():
            return []
        made = reduced(rows.select(done), self._key, self._how)
        completing = np.searchsorted(np.maximum.accumulate(rows.ts), made.ts, "right")
        return [made.stamped(ordinals=as_array(rows.ordinals)[completing])]

    def passed(self, bound: int) -> list[PhysicalWindow]:
        """See `OrderedPorts`: the latest time is complete once all inputs are past it."""
        if self.by_ordinal or self._open is None or not int(self._open.ts[0]) < bound < ALWAYS:
            return []
        return self.finished()

    def held_since(self) -> int | None:
        """See `OrderedPorts`."""
        return None if self._open is None else int(self._open.ts.min())

    def finished(self) -> list[PhysicalWindow]:
        """See `KeyedMerge`: the latest time is complete too."""
        if self._open is None:
            return []
        made, last = reduced(self._open, self._key, self._how), max(self._open.ordinals)
        self._open = None
        return [made.stamped(ordinals=np.full(len(made), last, np.int64))]

    def waiting(self, port: int) -> Blocks:
        """See `StreamOperator`: rows of the latest time, of all inputs together, and those that wait for their turn."""
        return super().waiting(port) if self._open is None else (self._open, *super().waiting(port))

    def progress(self) -> dict[str, Any]:
        """See `OrderedPorts`."""
        return {**super().progress(), "open": self._open}

    def go_on(self, progress: Mapping[str, Any]) -> None:
        """See `OrderedPorts`."""
        super().go_on(progress)
        self._open = progress["open"]


def reduced(rows: PhysicalWindow, key: str, how: Mapping[str, str]) -> PhysicalWindow:
    """One window for each time and key, in that order, without a place."""
    _, codes = np.unique(_comparable(rows.columns[key]), return_inverse=True)
    order = np.lexsort((codes, rows.ts))
    times, codes = rows.ts[order], codes[order]
    starts = np.flatnonzero(np.concatenate([[True], (np.diff(times) != 0) | (np.diff(codes) != 0)]))
    sorted_rows = rows.select(order)
    first = sorted_rows.select(starts)
    changed = {
        name: REDUCTIONS[kind].reduceat(_wide(sorted_rows.columns[name]), starts, axis=0) for name, kind in how.items()
    }
    return first.replace(**changed)


def added_up(parts: list[PhysicalWindow], how: Mapping[str, str]) -> PhysicalWindow:
    """Windows that were joined, as one: attributes in ``how`` reduced, the rest as input 0 has it."""
    changed = {
        name: REDUCTIONS[kind].reduce([_wide(part.columns[name]) for part in parts], axis=0)
        for name, kind in how.items()
    }
    return parts[0].replace(**changed)


def _together(one: PhysicalWindow | None, other: PhysicalWindow | None) -> PhysicalWindow | None:
    if one is None or other is None:
        return other if one is None else one
    return PhysicalWindow.concat([one, other])


def _matched(columns: list[Column | None]) -> list[NDArray[np.intp]]:
    """For each input the rows whose key all inputs have, in the same order for all."""
    if any(column is None for column in columns):
        return [np.empty(0, np.intp)] * len(columns)
    keys = [_comparable(column) for column in columns if column is not None]
    _, codes = np.unique(np.concatenate(keys), return_inverse=True)
    bounds = np.cumsum([0, *(len(key) for key in keys)])
    told = [_told_apart(codes[start:stop]) for start, stop in pairwise(bounds)]
    common = told[0]
    for other in told[1:]:
        common = np.intersect1d(common, other, assume_unique=True)
    return [_places(mine, common) for mine in told]


def _told_apart(codes: NDArray[np.intp]) -> NDArray[np.int64]:
    """Numbers that tell the first row of a key from the second, and so on, alike in all inputs."""
    order = np.argsort(codes, kind="stable")
    ranked = codes[order]
    repeats = np.arange(len(codes)) - np.searchsorted(ranked, ranked)
    made = np.empty(len(codes), np.int64)
    made[order] = (ranked.astype(np.int64) << 32) + repeats
    return made


def _places(mine: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.intp]:
    order = np.argsort(mine)
    return order[np.searchsorted(mine, wanted, sorter=order)]


def _comparable(column: Column) -> NDArray[Any]:
    return np.array(list(column)) if isinstance(column, Ragged) else column


def _wide(column: Any) -> Any:
    """Whole numbers in 64 bits, so that sums do not overflow unseen; the result is checked when it is stored."""
    return column.astype(np.int64) if column.dtype.kind in "bi" else column
