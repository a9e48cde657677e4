"""The order of time of an input stream: checked, or made by sorting, where the stream enters. Pure.

What is late is decided window by window: a window is late if one before it is later by more than what was declared. So
the result does not depend on how the stream was cut into blocks, and a stream that is read again comes out the same.
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from gsdm_grid.errors import QueryError
from gsdm_grid.model import NO_TIME_MARK, PhysicalWindow, cut, seconds
from gsdm_grid.plan import StreamOrder

MOST_BYTES = 256 << 20
LATEST = 2**63 - 1


class TimeOrder:
    """One input stream. Holds the windows that others may still come before: those of the last ``within_s`` seconds.

    What is held lies in sorted runs, each a part of one block, so a block costs the sorting of itself and of what goes
    out, however much is held.
    """

    def __init__(self, order: StreamOrder, stream: str, most_bytes: int = MOST_BYTES) -> None:
        self._order, self._stream, self._most_bytes = order, stream, most_bytes
        self._within_ns = seconds(order.within_s or 0.0)
        self._latest: int = NO_TIME_MARK  # greatest timestamp so far
        self._runs: list[tuple[int, int, PhysicalWindow]] = []  # a heap: first timestamp, number of the run, its rows
        self._run_count = 0
        self._held_bytes = 0
        self.held = 0
        """Number of windows that it holds."""
        self.late = 0

    @property
    def time_mark(self) -> int:
        """Nothing at or before this time goes out any more."""
        return max(self._latest - self._within_ns - 1, NO_TIME_MARK)

    def take(self, block: PhysicalWindow) -> PhysicalWindow:
        """The windows whose turn has come, if any, with their time mark.

        The block may have a time mark of its own: its stream has passed more than its windows say.
        """
        if self._order.within_s is None:
            return block
        ordered = self._in_time(block) if len(block) else block
        if block.time_mark > NO_TIME_MARK:
            self._latest = max(self._latest, min(block.time_mark + 1 + self._within_ns, LATEST))
        if self._within_ns:
            self._hold(ordered)
            ordered = self._passed(block)
        return ordered.stamped(time_mark=self.time_mark)

    def rest(self) -> PhysicalWindow | None:
        """The stream has ended: what is left."""
        runs, self._runs, self.held, self._held_bytes = self._runs, [], 0, 0
        return _in_order([(number, rows) for _, number, rows in runs]) if runs else None

    def _in_time(self, block: PhysicalWindow) -> PhysicalWindow:
        """The windows that are not late."""
        ts = block.ts
        if not self._within_ns and ts[0] >= self._latest and (ts[1:] >= ts[:-1]).all():  # nearly always
            self._latest = int(ts[-1])
            return block
        latest = np.maximum.accumulate(np.concatenate(([self._latest], ts)))
        self._latest, before = int(latest[-1]), latest[:-1]
        earliest = np.where(before < NO_TIME_MARK + self._within_ns, NO_TIME_MARK, before - self._within_ns)
        in_time = ts >= earliest
        return block if in_time.all() else self._without_late(block, in_time, before)

    def _hold(self, block: PhysicalWindow) -> None:
        if not len(block):
            return
        ts = block.ts
        run = block if (ts[1:] >= ts[:-1]).all() else block.select(np.argsort(ts, kind="stable"))
        heapq.heappush(self._runs, (int(run.ts[0]), self._run_count, run))
        self._run_count += 1
        self.held += len(run)
        self._held_bytes += run.nbytes
        if self._held_bytes > self._most_bytes:
            raise QueryError(
                f"input stream {self._stream!r} holds {self._held_bytes >> 20} MiB to sort windows within "
                f"{self._order.within_s:g} s; at most {self._most_bytes >> 20} MiB: declare a shorter time"
            )

    def _passed(self, block: PhysicalWindow) -> PhysicalWindow:
        """What is held and before which nothing comes any more."""
        parts: list[tuple[int, PhysicalWindow]] = []
        while self._runs and self._runs[0][0] <= self.time_mark:
            _, number, run = heapq.heappop(self._runs)
            count = int(np.searchsorted(run.ts, self.time_mark, "right"))
            passed, rest = cut(run, 0, count), cut(run, count)
            parts.append((number, passed))
            self.held -= count
            self._held_bytes += rest.nbytes - run.nbytes
            if len(rest):
                heapq.heappush(self._runs, (int(rest.ts[0]), number, rest))
        return _in_order(parts) if parts else PhysicalWindow.empty(block.type)

    def _without_late(
        self, block: PhysicalWindow, in_time: NDArray[np.bool_], latest: NDArray[np.int64]
    ) -> PhysicalWindow:
        late = np.flatnonzero(~in_time)
        if self._order.late == "fail":
            first = int(late[0])
            behind_s = (int(latest[first]) - int(block.ts[first])) / 1e9
            allowed = "windows in order of time" if not self._within_ns else f"at most {self._order.within_s:g} s"
            raise QueryError(
                f"input stream {self._stream!r}: a window with timestamp {int(block.ts[first])} ns is {behind_s:.9g} s "
                f"earlier than one before it, declared: {allowed}. Declare order: {{within: SECONDS}} to have them "
                "sorted, order: {within: SECONDS, late: drop} to drop and count what is later still, or "
                "order: arrival to leave them as they come"
            )
        self.late += len(late)
        return block.select(in_time)


def _in_order(parts: list[tuple[int, PhysicalWindow]]) -> PhysicalWindow:
    """Parts of several runs, by timestamps; equal ones as they came."""
    parts.sort(key=lambda part: part[0])
    rows = PhysicalWindow.concat([rows for _, rows in parts])
    return rows if len(parts) == 1 else rows.select(np.argsort(rows.ts, kind="stable"))
