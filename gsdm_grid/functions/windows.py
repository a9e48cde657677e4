"""Window functions: what a stream query function may ask of its input streams.

A function is given a `StreamView` per input stream and reads it through `current_window`, `sliding_window`
and `time_window`. They have no side effects: however often a function asks during one execution, it is told
the same. The engine fills the view before an execution and moves its cursor afterwards, by as much as the
window functions said.

If a view does not hold enough windows yet, the window function leaves the stream query function by way of
`NeedMore`; the engine executes it again when more windows have come.

The view of a function that uses its current window only refuses to give others: what crashes, rescaling and sharing do
with a query depends on it.
"""

from __future__ import annotations

import math
from datetime import timedelta

import numpy as np

from gsdm_grid.errors import QueryError
from gsdm_grid.model import Array, LogicalWindow, PhysicalWindow, StreamType, cut, row_slice, seconds

_EARLIEST = np.iinfo(np.int64).min


class NeedMore(BaseException):
    """Not enough windows yet: ``rows`` more are needed.

    Not an error, so that user code which catches `Exception` does not see it.
    """

    def __init__(self, view: StreamView, rows: int) -> None:
        super().__init__(view, rows)
        self.view = view
        self.rows = rows


class StreamView:
    """What one function sees of one input stream. Made and moved by the engine; bound to its thread.

    ``block`` holds windows around the cursor ``at``: those before it are history for time windows. How much
    history is kept follows from the spans asked for so far: a function should ask from the first time on.
    """

    __slots__ = ("_nothing", "at", "block", "history_ns", "refused", "single_for", "step", "type", "whole")

    def __init__(self, stream_type: StreamType, whole: bool = False, single_for: str | None = None) -> None:
        self.type = stream_type
        self.whole = whole
        self.single_for = single_for
        """Name of the function that has said to use its current window only; None if it may ask for others."""
        self.refused: str | None = None
        """Why it was refused another window: kept, because the function may have caught the error."""
        self.block = self._nothing = PhysicalWindow.empty(stream_type)
        self.at = 0
        self.step: int | None = None
        self.history_ns: int | None = None

    @property
    def ordinal(self) -> int:
        """Ordinal of the window at the cursor."""
        return int(self.block.ordinals[self.at])

    def feed(self, block: PhysicalWindow) -> None:
        """Put more windows behind those at hand; a block that starts a segment replaces them."""
        if block.halo is not None:
            self.block, self.at = block, block.halo
            return
        first = self._first_needed()
        if first >= len(self.block):
            self.at -= len(self.block)
            self.block = block
        else:
            rest = cut(self.block, first)
            self.at -= first
            self.block = PhysicalWindow.concat([rest, block]) if len(block) else rest

    def advance(self) -> None:
        """Move the cursor past what the last execution was done with."""
        self.at += 1 if self.step is None else self.step
        self.step = None

    def forget(self) -> None:
        """Let go of the block if nothing in it is needed any more: its memory may be shared."""
        if len(self.block) and self._first_needed() >= len(self.block):
            self.at -= len(self.block)
            self.block = self._nothing

    def kept(self) -> tuple[int, PhysicalWindow]:
        """The windows that are still needed, and where the first of them is, counted from the cursor."""
        first = min(self._first_needed(), len(self.block))
        return first - self.at, cut(self.block, first)

    def keep(self, at: int, windows: PhysicalWindow) -> None:
        """Begin with what another view kept; what lies before the cursor is history, as long as the function asks."""
        self.block, self.at = windows, -at
        if at < 0 and len(windows):
            self.history_ns = int(windows.ts[-1]) - int(windows.ts[0])

    def passed_ns(self, time_mark: int, looks_back: bool) -> int:
        """What results have passed if nothing at or before this time comes any more.

        No result is earlier than the windows that are still to be read, nor, if the function ``looks_back``, than those
        that time windows can still show it.
        """
        if self.at < len(self.block):
            time_mark = min(time_mark, int(self.block.ts[self.at :].min()) - 1)
        first = self._first_needed()
        if looks_back and self.history_ns and first < min(self.at, len(self.block)):
            time_mark = min(time_mark, max(time_mark - self.history_ns, int(self.block.ts[first]) - 1))
        return time_mark

    def earliest_ns(self, looks_back: bool) -> int:
        """Timestamp of the earliest window that an execution may use."""
        return int(self.block.ts[self._first_needed() if looks_back else self.at :].min())

    def check_neighbours(self, window_function: str) -> None:
        """Refuse other windows than the current one to a function that has not said that it uses them."""
        if self.single_for is not None:
            self.refused = (
                f"{self.single_for!r} calls {window_function}, but does not say that it uses other windows than its "
                "current one: write @sqf(…, uses_neighbours=True)"
            )
            raise QueryError(self.refused)

    def _first_needed(self) -> int:
        if self.history_ns is None or self.at == 0 or not len(self.block):
            return self.at
        return first_within(self.block.ts, min(self.at, len(self.block) - 1), self.history_ns)


def first_within(times: Array, at: int, span_ns: int) -> int:
    """First row whose time is at most the span before that of the row ``at``."""
    before = times[row_slice(0, at, len(times))]
    return int(np.searchsorted(before, max(int(times[at]) - span_ns, _EARLIEST), side="left"))


def current_window(s: StreamView) -> LogicalWindow | PhysicalWindow:
    """The logical window at the cursor.

    In a function declared with ``whole=True`` it is the whole physical window at the cursor: the same
    attribute names, each with one leading axis over the windows.
    """
    if s.at >= len(s.block):
        raise NeedMore(s, 1)
    if s.whole:
        s.step = len(s.block) - s.at
        return s.block if s.at == 0 else cut(s.block, s.at)
    window: LogicalWindow = s.block[s.at]
    return window


def sliding_window(s: StreamView, size: int, step: int = 1) -> PhysicalWindow:
    """The next ``size`` windows from the cursor, which then moves on by ``step``; jumping if they are equal.

    The result is a sequence of logical windows whose attributes can also be read as columns.
    """
    s.check_neighbours("sliding_window")
    if size < 1 or step < 1:
        raise QueryError(f"sliding_window: size and step must be at least 1, got size {size} and step {step}")
    if s.at + size > len(s.block):
        raise NeedMore(s, s.at + size - len(s.block))
    s.step = step
    return cut(s.block, s.at, s.at + size)


def time_window(s: StreamView, span: float | timedelta) -> PhysicalWindow:
    """The windows up to the cursor with a timestamp in [ts - span, ts], ts being that at the cursor.

    ``span`` is in seconds. Windows behind the cursor with the same timestamp are not among them.
    """
    s.check_neighbours("time_window")
    span_s = span.total_seconds() if isinstance(span, timedelta) else span
    if not 0 <= span_s < math.inf:
        raise QueryError(f"time_window: span must be a number of seconds, at least 0, got {span}")
    span_ns = seconds(span_s)
    s.history_ns = max(span_ns, s.history_ns or 0)
    if s.at >= len(s.block):
        raise NeedMore(s, 1)
    return cut(s.block, first_within(s.block.ts, s.at, span_ns), s.at + 1)
