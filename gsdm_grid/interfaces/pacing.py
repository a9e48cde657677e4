"""Pacing: lets windows of a source pass at a rate, or as their timestamps say.

Never waits; it only knows what is due.
"""

from __future__ import annotations

from gsdm_grid.model import NANOSECONDS, Array, Clock


class Pacer:
    """Counts from its making. ``due_s`` is when the next window may pass, on the clock's monotonic time."""

    def __init__(self, clock: Clock, rate: float | None = None) -> None:
        self._clock = clock
        self._rate = rate
        self._started_s = clock.monotonic_s()
        self._started_ns = clock.now_ns()
        self._passed = 0
        self._first_ts: int | None = None
        self.due_s: float | None = None

    def allowed(self, limit: int) -> int:
        """How many of the next ``limit`` windows are due at the rate."""
        if self._rate is None:
            return limit
        elapsed_s = self._clock.monotonic_s() - self._started_s
        due = int(elapsed_s * self._rate + 1e-6) + 1 - self._passed
        self.due_s = None if due > 0 else self._started_s + self._passed / self._rate
        return max(0, min(limit, due))

    def allowed_by_ts(self, ts: Array) -> int:
        """How many of the windows with these timestamps are due."""
        if len(ts) == 0:
            return 0
        if self._first_ts is None:
            self._first_ts = int(ts[0])
        elapsed_ns = round((self._clock.monotonic_s() - self._started_s) * NANOSECONDS)
        late = ts - self._first_ts > elapsed_ns
        count = int(late.argmax()) if late.any() else len(ts)
        self.due_s = None if count else self._started_s + (int(ts[0]) - self._first_ts) / NANOSECONDS
        return count

    def passed(self, count: int) -> None:
        """Say that windows have passed."""
        self._passed += count

    def stamps(self, count: int) -> Array:
        """Wall-clock times at which the next windows are due at the rate: honest stamps, even if they pass late."""
        import numpy as np

        interval_ns = NANOSECONDS / self._rate if self._rate else 0.0
        made: Array = self._started_ns + ((self._passed + np.arange(count)) * interval_ns).astype(np.int64)
        return made
