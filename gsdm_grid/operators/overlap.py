"""Overlap partitions: round robin for functions over sliding and time windows.

Results are dealt out in chunks; each partition gets the windows that its results need, which overlap with what its
neighbours get, as separate segments (see ``halo`` in `gsdm_grid.model.physical`). The function then runs unchanged.
"""

from __future__ import annotations

import math

from gsdm_grid.errors import QueryError
from gsdm_grid.functions import first_within
from gsdm_grid.model import NO_TIME_MARK, PhysicalWindow, StreamType, cut, seconds
from gsdm_grid.operators.base import Blocks, Kept, Snapshot, StreamOperator


class OverlapPartition(StreamOperator):
    """Partition ``i`` of ``n``. Subclasses say which rows a chunk needs; rows are counted from the stream's start."""

    def __init__(self, stream_type: StreamType, n: int, i: int, chunk: int) -> None:
        if chunk < 1:
            raise QueryError(f"overlap partition: chunk must be at least 1, got {chunk}")
        self.n, self.chunk = n, chunk
        self._held = PhysicalWindow.empty(stream_type)
        self._start = 0  # row number of the first held row
        self._turn = i  # number of the chunk being sent
        self._sent_to: int | None = None  # row up to which it was sent; None before its first row
        self._mark = -1
        self._passed_time: int = NO_TIME_MARK  # what the input has passed
        self._time_mark: int = NO_TIME_MARK  # what this partition has passed

    def first_row(self, chunk: int) -> int:
        """First row for which this chunk has a result."""
        raise NotImplementedError

    def end_row(self, chunk: int) -> int:
        """Row after the last one that this chunk needs."""
        raise NotImplementedError

    def halo_before(self, row: int) -> int:
        """Number of held rows before ``row`` that are context for it."""
        raise NotImplementedError

    def keep_from(self, row: int) -> int:
        """First row that is still needed when the next result is at ``row``."""
        raise NotImplementedError

    def next_result(self, end: int) -> int:
        """Row of the first result that the rows before ``end`` do not suffice for."""
        raise NotImplementedError

    def push(self, port: int, block: PhysicalWindow) -> Blocks:  # noqa: ARG002
        """See `StreamOperator`."""
        self._passed_time = max(self._passed_time, block.time_mark)
        self._held = PhysicalWindow.concat([self._held, block]) if len(self._held) else block
        out: list[PhysicalWindow] = []
        end = self._start + len(self._held)
        while (piece := self._next_piece(end)) is not None:
            out.append(piece)
        self._marked(out, end)
        self._forget(min(end, self.first_row(self._turn)))
        return out

    def waiting(self, port: int) -> Blocks:  # noqa: ARG002
        """See `StreamOperator`."""
        return (self._held,)

    def snapshot(self) -> Snapshot:
        """See `StreamOperator`: what the next result of all partitions needs, as far as this one has it.

        Every partition has seen the same rows, so they agree where that result is; the one whose turn it is has all of
        its rows. What this one has to send later needs no more than that.
        """
        end = self._start + len(self._held)
        result = self.next_result(end)
        first = min(max(self._start, self.keep_from(min(result, end))), end)
        kept = Kept(first - result, cut(self._held, first - self._start))
        progress = {
            "result": result,
            "turn": self._turn,
            "sent_to": self._sent_to,
            "mark": self._mark,
            "time_marks": (self._passed_time, self._time_mark),
        }
        return Snapshot((kept,), progress=progress)

    def restore(self, snapshot: Snapshot) -> None:
        """See `StreamOperator`: without progress, turns begin anew with the next result."""
        kept = next(iter(snapshot.kept), None)
        if kept is not None:
            self._start, self._held = kept.at, kept.windows
        if snapshot.progress is not None:
            self._start += snapshot.progress["result"]
            self._turn, self._sent_to = snapshot.progress["turn"], snapshot.progress["sent_to"]
            self._mark = snapshot.progress["mark"]
            self._passed_time, self._time_mark = snapshot.progress["time_marks"]

    def _next_piece(self, end: int) -> PhysicalWindow | None:
        first, stop = self.first_row(self._turn), self.end_row(self._turn)
        begin = first if self._sent_to is None else self._sent_to
        if begin >= end:
            return None
        halo = None
        if self._sent_to is None:
            halo = self.halo_before(first)
            begin -= halo
        upto = min(stop, end)
        piece = cut(self._held, begin - self._start, upto - self._start)
        self._sent_to = upto
        if upto == stop:
            self._turn += self.n
            self._sent_to = None
        return piece.stamped(halo=halo)

    def _marked(self, out: list[PhysicalWindow], end: int) -> None:
        """Say what will not come any more: rows before our next chunk, and what is earlier than its first row.

        Between chunks that also ends the segment, so that nobody waits for the rest of it.
        """
        inside = self._sent_to is not None
        upto = min(end, self.first_row(self._turn + self.n if inside else self._turn))
        mark, time_mark = self._mark, self._passed_time
        if upto < end:
            time_mark = min(time_mark, int(self._held.ts[upto - self._start :].min()) - 1)
        if upto > self._start and not inside:
            mark = max(mark, int(self._held.ordinals[upto - 1 - self._start]))
        if mark > self._mark or time_mark > self._time_mark:
            self._mark, self._time_mark = mark, max(self._time_mark, time_mark)
            if inside and out:
                out[-1] = out[-1].stamped(halo=out[-1].halo, time_mark=self._time_mark)
            else:
                out.append(PhysicalWindow.empty(self._held.type, mark, None if inside else 0, self._time_mark))

    def _forget(self, row: int) -> None:
        keep = max(self._start, self.keep_from(row))
        self._held = cut(self._held, keep - self._start)
        self._start = keep


class SlidingOverlap(OverlapPartition):
    """For ``sliding_window(s, size, step)``: result k needs the rows from k·step to k·step + size."""

    def __init__(self, stream_type: StreamType, n: int, i: int, size: int, step: int | None, chunk: int) -> None:
        super().__init__(stream_type, n, i, chunk)
        self.size, self.step = size, size if step is None else step
        if self.size < 1 or self.step < 1:
            raise QueryError(f"overlap partition: size and step must be at least 1, got size {size} and step {step}")

    def first_row(self, chunk: int) -> int:
        """See `OverlapPartition`."""
        return chunk * self.chunk * self.step

    def end_row(self, chunk: int) -> int:
        """See `OverlapPartition`."""
        return self.first_row(chunk) + (self.chunk - 1) * self.step + self.size

    def next_result(self, end: int) -> int:
        """See `OverlapPartition`."""
        return max((end - self.size) // self.step + 1, 0) * self.step

    def halo_before(self, row: int) -> int:  # noqa: ARG002
        """See `OverlapPartition`: sliding windows look ahead, not back."""
        return 0

    def keep_from(self, row: int) -> int:
        """See `OverlapPartition`."""
        return row


class TimeOverlap(OverlapPartition):
    """For ``time_window(s, span)``: the result at a row needs the rows of the span before it."""

    def __init__(self, stream_type: StreamType, n: int, i: int, span_s: float, chunk: int) -> None:
        super().__init__(stream_type, n, i, chunk)
        if not 0 <= span_s < math.inf:
            raise QueryError(f"overlap partition: span must be a number of seconds, at least 0, got {span_s}")
        self.span_ns = seconds(span_s)

    def first_row(self, chunk: int) -> int:
        """See `OverlapPartition`."""
        return chunk * self.chunk

    def end_row(self, chunk: int) -> int:
        """See `OverlapPartition`."""
        return (chunk + 1) * self.chunk

    def next_result(self, end: int) -> int:
        """See `OverlapPartition`: there is a result at every row."""
        return end

    def halo_before(self, row: int) -> int:
        """See `OverlapPartition`."""
        return row - self._since(row)

    def keep_from(self, row: int) -> int:
        """See `OverlapPartition`: rows of the span before the last row known."""
        at = min(row, self._start + len(self._held) - 1)
        return self._since(at) if at >= self._start else self._start

    def _since(self, row: int) -> int:
        return self._start + first_within(self._held.ts, row - self._start, self.span_ns)
