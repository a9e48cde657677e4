"""Clocks: where times come from, so that tests can choose them."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A source of time. Both readings never block."""

    def now_ns(self) -> int:
        """Wall-clock time in nanoseconds since the Unix epoch: for timestamps."""

    def monotonic_s(self) -> float:
        """Seconds that never go back: for time-outs and periods."""


class SystemClock:
    """The machine's clocks."""

    def now_ns(self) -> int:
        """See `Clock`."""
        return time.time_ns()

    def monotonic_s(self) -> float:
        """See `Clock`."""
        return time.monotonic()
