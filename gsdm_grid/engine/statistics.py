"""Statistics of a working node: what the coordinator shows, and what the optimizer decides by.

Times are CPU seconds of the node's thread, so that they mean the same on a busy machine; wall-clock time stands beside
them. A node's utilization is the share of wall-clock time in which it was not waiting. All counters of a node begin at
the same time: when it starts, and anew when its query is rescaled.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import Any

from gsdm_grid.model import PhysicalWindow


@dataclass
class OperatorStatistics:
    """Counters of one operator. Bound to the node's thread."""

    executions: int = 0
    processing_s: float = 0.0
    windows_in: int = 0
    windows_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


@dataclass
class StreamStatistics:
    """Counters of one stream at one node."""

    windows: int = 0
    bytes: int = 0
    blocks: int = 0
    buffered_blocks: int = 0

    def count(self, block: PhysicalWindow) -> None:
        """Another block has passed."""
        self.windows += len(block)
        self.bytes += block.nbytes
        self.blocks += 1


@dataclass
class NodeStatistics:
    """Counters of a node: CPU seconds per kind of task, and wall-clock seconds active and waiting.

    ``since_s`` is when they began, in seconds since 1970.
    """

    processing_s: float = 0.0
    communication_s: float = 0.0
    system_s: float = 0.0
    idle_s: float = 0.0
    active_s: float = 0.0
    periods: int = 0
    overloads: int = 0
    since_s: float = 0.0
    operators: dict[str, OperatorStatistics] = field(default_factory=dict)
    streams: dict[str, StreamStatistics] = field(default_factory=dict)

    @property
    def utilization(self) -> float:
        """Share of active time in which the node was not waiting."""
        return max(0.0, 1 - self.idle_s / self.active_s) if self.active_s > 0 else 0.0

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {**asdict(self), "utilization": self.utilization}


class CpuTimer:
    """Splits the thread's CPU time among the tasks of a period."""

    def __init__(self) -> None:
        self._last = time.thread_time()

    def lap(self) -> float:
        """CPU seconds since the last lap."""
        now = time.thread_time()
        spent, self._last = now - self._last, now
        return spent
