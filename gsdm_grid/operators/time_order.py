"""The order of time of an input stream: checked, or made by sorting, where the stream enters. Pure.

What is late is decided window by window: a window is late if one before it is later by more than what was declared. So
the result does not depend on how the stream was cut into blocks, and a stream that is read again comes out the same.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gsdm_grid.errors import QueryError
from gsdm_grid.model import NO_TIME_MARK, PhysicalWindow, seconds
from gsdm_grid.plan import StreamOrder

MOST_BYTES = 256 << 20


class TimeOrder:
    """One input stream. Holds the windows that others may still come before: those of the last ``within_s`` seconds."""

    def __init__(self, order: StreamOrder, stream: str, most_bytes: int = MOST_BYTES) -> None:
        self._order, self._stream, self._most_bytes = order, stream, most_bytes
        self._within_ns = seconds(order.within_s or 0.0)
        self._latest: int = NO_TIME_MARK  # greatest timestamp so far
        self._held: PhysicalWindow | None = None
        self.late = 0

    @property
    def held(self) -> int:
        """Number of windows that it holds."""
        return 0 if self._held is None else len(self._held)

    def take(self, block: PhysicalWindow) -> PhysicalWindow | None:
        """The windows whose turn has come, with their time mark; None if there are none."""
        if self._order.within_s is None or not len(block):
            return block
        ts = block.ts
        if not self._within_ns and ts[0] >= self._latest and (ts[1:] >= ts[:-1]).all():  # nearly always
            self._latest = int(ts[-1])
            return block.stamped(time_mark=self._latest - 1)
        latest = np.maximum.accumulate(np.concatenate(([self._latest], ts)))
        self._latest = int(latest[-1])
        earliest = np.where(latest[:-1] == NO_TIME_MARK, NO_TIME_MARK, latest[:-1] - self._within_ns)
        in_time = ts >= earliest
        if not in_time.all():
            block = self._without_late(block, in_time, latest[:-1])
        held = block if self._held is None else PhysicalWindow.concat([self._held, block])
        held = held.select(np.argsort(held.ts, kind="stable"))
        bound = self._latest - self._within_ns
        count = int(np.searchsorted(held.ts, bound, "left" if self._within_ns else "right"))
        self._held = held[count:] if count < len(held) else None
        if self._held is not None and self._held.nbytes > self._most_bytes:
            raise QueryError(
                f"input stream {self._stream!r} holds {self._held.nbytes >> 20} MiB to sort windows within "
                f"{self._order.within_s:g} s; at most {self._most_bytes >> 20} MiB: declare a shorter time"
            )
        return held[:count].stamped(time_mark=bound - 1) if count else None

    def rest(self) -> PhysicalWindow | None:
        """The stream has ended: what is left."""
        rest, self._held = self._held, None
        return rest

    def idle(self, now_ns: int) -> int:
        """The stream's clock went on though nothing came: the new time mark. What comes at or before it is late."""
        self._latest = max(self._latest, now_ns + self._within_ns)
        return self._latest - self._within_ns - 1

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
