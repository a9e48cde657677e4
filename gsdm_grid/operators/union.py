"""Union: several streams into one, as they arrive. Nobody waits for anybody; the engine numbers the result anew.

Its windows are in no order of time, yet what all its inputs have passed, cannot come any more.
"""

from __future__ import annotations

from gsdm_grid.model import NO_MARK, NO_TIME_MARK, PhysicalWindow, StreamType
from gsdm_grid.operators.base import Blocks, Snapshot, StreamOperator
from gsdm_grid.operators.time_marks import LeastTimeMark


class Union(StreamOperator):
    """Passes blocks on. What its inputs promised about ordinals does not hold for the result: those marks end here."""

    def __init__(self, ports: int, stream_type: StreamType) -> None:
        self._type = stream_type
        self._time = LeastTimeMark(ports)

    def push(self, port: int, block: PhysicalWindow) -> Blocks:
        """See `StreamOperator`."""
        moved = self._time.passed(port, block.time_mark)
        if not (len(block) or moved):
            return []
        return [block.stamped(mark=NO_MARK, time_mark=self._time.mark if moved else NO_TIME_MARK)]

    def close(self, port: int) -> Blocks:
        """See `StreamOperator`."""
        moved = self._time.closed(port)
        return [PhysicalWindow.empty(self._type, time_mark=self._time.mark)] if moved else ()

    def snapshot(self) -> Snapshot:
        """See `StreamOperator`."""
        return Snapshot(progress={"time": self._time.snapshot()})

    def restore(self, snapshot: Snapshot) -> None:
        """See `StreamOperator`."""
        if snapshot.progress is not None:
            self._time.restore(snapshot.progress["time"])
