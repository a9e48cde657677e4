"""Clocks: where times come from, so that tests can choose them."""

from __future__ import annotations

import time
from typing import Protocol

from typing_extensions import override


class Clock(Protocol):
    """A source of time. Both readings never block."""

    def now_ns(self) -> int:
        """Wall-clock time in nanoseconds since the Unix epoch: for timestamps."""

    def monotonic_s(self) -> float:
        """Seconds that never go back: for time-outs and periods."""


class SystemClock(Clock):
    """The machine's clocks."""

    @override
    def now_ns(self) -> int:
        return time.time_ns()

    @override
    def monotonic_s(self) -> float:
        return time.monotonic()
