"""When a request is sent again, and after how long."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import httpx

BUSY = frozenset({429, 502, 503})
"""Statuses that say: not now."""
_NEVER_ARRIVED = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


@dataclass(frozen=True)
class RetryPolicy:
    """Exponential back-off with jitter. Immutable.

    Pauses double from ``first_s`` to ``most_s``, each shortened by up to a half at random; what the server asks for
    in ``Retry-After`` is waited for, up to ``most_s``.
    """

    attempts: int = 5
    first_s: float = 0.1
    most_s: float = 10.0
    random: Callable[[], float] = random.random

    def pause_s(self, attempt: int, retry_after: str | None = None) -> float:
        """How long to wait after the failed attempt of this number, counted from 0.

        >>> policy = RetryPolicy(random=lambda: 0.0)
        >>> [policy.pause_s(attempt) for attempt in (0, 1, 2, 20)], policy.pause_s(0, "3")
        ([0.1, 0.2, 0.4, 10.0], 3.0)
        """
        pause_s = min(self.first_s * 2.0 ** min(attempt, 30), self.most_s) * (1 - self.random() / 2)
        try:
            asked_s = float(retry_after) if retry_after else 0.0
        except ValueError:  # a date: rare, and not worth trusting both clocks
            asked_s = 0.0
        return max(pause_s, min(asked_s, self.most_s))

    def exhausted(self, attempt: int) -> bool:
        """Whether the attempt of this number, counted from 0, was the last."""
        return attempt + 1 >= self.attempts


def repeatable(method: str, has_key: bool, error: httpx.TransportError) -> bool:
    """Whether a request that broke off may be sent again: it does no harm twice, or it cannot have arrived."""
    return method == "GET" or has_key or isinstance(error, _NEVER_ARRIVED)
