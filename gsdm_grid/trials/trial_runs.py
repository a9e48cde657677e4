"""Running one plan over one stream segment and measuring it: what trials, the optimizer and its benchmarks share.

A trial warms up first: the first windows pay for imports, caches and page faults that a long run does not notice. Then
it reads ``count`` windows as fast as they go, in a few parts, and what the sites spent on them is its result. If
latency is wanted, the plan is run once more at half of the rate that it reached, with windows that carry the times at
which they were due.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import metadata
from typing import Any

from gsdm_grid.coordination import ContinuousQuery, Grid
from gsdm_grid.errors import ResourceError
from gsdm_grid.flow import DataFlow
from gsdm_grid.interfaces import interfaces
from gsdm_grid.optimizer import (
    PARTS,
    TrialResult,
    measured,
    quietest,
)
from gsdm_grid.plan import PlacementPolicy, placement_policy
from gsdm_grid.spec import QueryOptions, RegisteredStream

TIMEOUT_S = 600.0
WARM_SHARE, WARM_WINDOWS = 4, 32
LATENCY_LOAD = 0.5
LATENCY_S = 2.0
"""How long windows are sent, at most, to measure latency."""
SINK = "latency"


@dataclass(frozen=True)
class TrialRun:
    """What to run: a data flow over streams. Immutable. Results are not written."""

    flow: DataFlow
    inputs: Sequence[RegisteredStream]
    outputs: int = 1
    count: int = 1000
    name: str | None = None
    latency: bool = False
    options: QueryOptions = field(default_factory=QueryOptions)

    @property
    def warm_count(self) -> int:
        """Windows before the measured ones."""
        return max(WARM_WINDOWS, self.count // WARM_SHARE)


def run_trial(grid: Grid, trial: TrialRun, timeout_s: float = TIMEOUT_S) -> TrialResult:
    """Run a trial to its end; raises what made it fail. Leaves nothing behind."""
    query = _query(grid, trial, list(trial.inputs), "null")
    try:
        result = _measured(query, trial.warm_count, trial.count, timeout_s)
    finally:
        query.drop()
    if not trial.latency or not result.windows:
        return result
    return replace(result, p99_ms=_p99_ms(grid, trial, result, timeout_s))


def _query(grid: Grid, trial: TrialRun, inputs: Sequence[RegisteredStream], sink: str) -> ContinuousQuery:
    outputs = [RegisteredStream(f"measured{number}", sink, None) for number in range(trial.outputs)]
    alone = trial.options.model_copy(update={"share": False})
    return grid.new_query(trial.flow, [replace(stream) for stream in inputs], outputs, trial.name, alone)


def _measured(query: ContinuousQuery, warm: int, count: int, timeout_s: float) -> TrialResult:
    """What ``count`` windows cost after ``warm`` ones; a stream that is too short for both is measured as a whole."""
    query.run(count=warm).wait(timeout_s)
    all_s, before = query.run_seconds or 0.0, query.refresh()
    parts: list[TrialResult] = []
    for size in _parts(count):
        query.activate(count=size)
        query.wait(timeout_s)
        seconds, after = query.run_seconds or 0.0, query.refresh()
        assert query.plan is not None
        parts.append(measured(query.plan, after, seconds, before))
        all_s, before = all_s + seconds, after
    if sum(part.windows for part in parts) < count and query.plan is not None:
        return measured(query.plan, before, all_s)
    return quietest(parts)


def _parts(count: int) -> list[int]:
    """Windows of each part of a trial.

    >>> _parts(10), _parts(2)
    ([3, 3, 4], [2])
    """
    return [count] if count < PARTS else [*[count // PARTS] * (PARTS - 1), count - count // PARTS * (PARTS - 1)]


def _p99_ms(grid: Grid, trial: TrialRun, full: TrialResult, timeout_s: float) -> float | None:
    """99th percentile of latency at half load; None if a source cannot say when its windows are due."""
    rate = LATENCY_LOAD * full.figures()["measured_throughput"] / len(trial.inputs)
    paced = [_stamped(stream, rate) for stream in trial.inputs]
    if any(stream is None for stream in paced):
        return None
    query = _query(grid, trial, [stream for stream in paced if stream is not None], SINK)
    try:
        query.run(count=max(1, min(trial.warm_count, int(rate)))).wait(timeout_s)
        query.activate(count=max(1, min(trial.count, int(rate * LATENCY_S))))
        query.wait(timeout_s)
        told = query.refresh()
    finally:
        query.drop()
    found = [figures["p99_ms"] for site in told.values() for figures in site["streams"].values() if "p99_ms" in figures]
    return max(found, default=None)


def _stamped(stream: RegisteredStream, rate: float) -> RegisteredStream | None:
    known = interfaces.get(stream.interface).known_options
    if known is None or not {"rate", "stamp"} <= known or rate <= 0:
        return None
    paced = {name: value for name, value in stream.options.items() if name != "realtime"}
    return replace(stream, options={**paced, "rate": rate, "stamp": True})


def pool_limits(grid: Grid, placement: str | None) -> dict[str, int]:
    """How many working nodes each kind of host of a placement can have, where that is limited.

    A `ResourceError` says which kind has no hosts at all.
    """
    policy = grid.placement if placement is None else placement_policy(placement)
    inventory = grid.inventory()
    limits = {kind: found for kind in _kinds(policy) if (found := _capacity(inventory.get(kind, {}))) is not None}
    empty = next((kind for kind, number in limits.items() if number < 1), None)
    if empty is not None:
        raise ResourceError(
            f"pool {policy.name!r} has no hosts: there is no {empty} host alive; start some, then ask again"
        )
    return limits


def _kinds(policy: PlacementPolicy) -> list[str]:
    return sorted(set(policy.hosts.values()) - {"thread", "process", "local"})


def _capacity(found: Mapping[str, Any]) -> int | None:
    """Working nodes that a kind of host can have at a time; None if that is not known or not limited."""
    if not found.get("started"):
        return None
    if "slots" in found:
        return int(found["slots"])
    if "nodes" in found:
        return int(found.get("total", {}).get("CPU", 0.0)) if found["nodes"] else 0
    return None


def this_machine() -> dict[str, Any]:
    """The machine and the versions that a measurement depends on."""
    return {
        "name": platform.node(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{package: metadata.version(package) for package in ("numpy", "scipy", "ray", "pyspark")},
        "gsdm": metadata.version("gsdm-grid"),
    }
