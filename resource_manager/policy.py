"""When a running query gets another degree of parallelism: a pure function of what its sites report.

The load of a query is the share of its time in which its busiest compute site does not wait, over the last interval.
Above ``high`` the query grows to where the load would be at ``target``; it shrinks by one where the load would still be
below ``target`` with one site less. Between the two nothing happens, so that a steady stream has a steady degree; a
change is followed by a pause in which the next one is not even thought of.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class AutoscalePolicy:
    """Bounds and thresholds of one query. Immutable."""

    least: int = 1
    most: int = 8
    high: float = 0.85
    target: float = 0.6
    samples: int = 3
    """How many intervals in a row must say the same."""
    pause_s: float = 5.0


@dataclass(frozen=True)
class Load:
    """What a query's sites did in one interval. Immutable."""

    at_s: float
    degree: int
    busiest: float
    """Share of its time in which the busiest compute site did not wait."""
    dropped: int = 0
    """Windows that sources which cannot wait had to drop."""


@dataclass(frozen=True)
class ScalingDecision:
    """Another degree, and why."""

    degree: int
    reason: str


def decide(policy: AutoscalePolicy, loads: list[Load], changed_s: float) -> ScalingDecision | None:
    """What to do after these loads (oldest first), the last change having been at ``changed_s``; None is nothing."""
    recent = loads[-policy.samples :]
    if len(recent) < policy.samples or recent[-1].at_s - changed_s < policy.pause_s:
        return None
    degree = recent[-1].degree
    if any(load.degree != degree for load in recent):
        return None
    if degree < policy.least:
        return ScalingDecision(policy.least, f"at least {policy.least} are wanted")
    if degree > policy.most:
        return ScalingDecision(policy.most, f"at most {policy.most} are allowed")
    lightest, heaviest = min(load.busiest for load in recent), max(load.busiest for load in recent)
    dropped = sum(load.dropped for load in recent)
    if (lightest > policy.high or (dropped and lightest > policy.target)) and degree < policy.most:
        wanted = min(max(math.ceil(degree * lightest / policy.target), degree + 1), policy.most)
        why = f", {dropped} windows dropped" if dropped else ""
        return ScalingDecision(wanted, f"the busiest of {degree} compute sites is busy {lightest:.0%} of its time{why}")
    if degree > policy.least and heaviest * degree / (degree - 1) < policy.target:
        fewer = heaviest * degree / (degree - 1)
        return ScalingDecision(degree - 1, f"{degree - 1} compute sites would be busy {fewer:.0%} of their time")
    return None


class LoadMeter:
    """Loads from the running totals that sites report. Not thread-safe; one per query."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[float, float]] = {}
        self._dropped = 0

    def read(self, now_s: float, compute: set[str], statistics: Mapping[str, Mapping[str, Any]]) -> Load | None:
        """The load since the last reading; None until every compute site has reported twice."""
        shares = []
        known = True
        for site in compute:
            told = statistics.get(site)
            if told is None:
                known = False
                continue
            active_s, idle_s = float(told["active_s"]), float(told["idle_s"])
            before = self._before.get(site)
            self._before[site] = (active_s, idle_s)
            if before is None or active_s <= before[0]:
                known = False
                continue
            shares.append(1 - (idle_s - before[1]) / (active_s - before[0]))
        self._before = {site: figures for site, figures in self._before.items() if site in compute}
        total = sum(
            int(value)
            for told in statistics.values()
            for stream in told["streams"].values()
            for key, value in stream.items()
            if key.startswith("dropped_")
        )
        dropped, self._dropped = max(total - self._dropped, 0), total
        if not known or not shares:
            return None
        return Load(now_s, len(compute), min(max(*shares, 0.0), 1.0), dropped)
