"""The plan space: all plans that the optimizer may try for some work, and why others are left out.

Strategies that the functions registered × degrees × flat or tree × windows in turn × size of physical windows; for a
pipe each stage by itself, and all stages fused. Within the limits that were given: of degree, and of hosts.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from gsdm_grid.errors import FlowError, PlanError
from gsdm_grid.flow import DataFlow
from gsdm_grid.planning.candidates import (
    ROUND_ROBIN,
    Candidate,
    Parallel,
    Work,
    planned_flow,
    strategies_of,
    tree_obstacle,
)

MOST_PLANS = 5000
"""Plans that are enumerated at most; spaces of long pipes are larger, and are not searched exhaustively."""


def hosts_of_flow(flow: DataFlow) -> Mapping[str, int]:
    """Hosts by kind that a data flow needs on threads, where nothing has to be relayed: one for each site."""
    return {"thread": len(flow.sites)}


@dataclass(frozen=True)
class Limits:
    """What the plans may use. Immutable. ``degrees`` None: 2, 4, 8 … up to ``most``.

    ``hosts`` bounds the number of all hosts; ``pool`` is how many there are of a kind, where that is limited.
    """

    most: int = 8
    hosts: int | None = None
    pool: Mapping[str, int] = field(default_factory=dict)
    degrees: tuple[int, ...] | None = None
    strategies: tuple[str, ...] | None = None
    shapes: tuple[str, ...] = ("flat", "tree")
    runs: tuple[int, ...] = (1,)
    block_bytes: tuple[int | None, ...] = (None,)

    @property
    def allowed_degrees(self) -> tuple[int, ...]:
        """Degrees that may be tried, rising."""
        doubled = (1 << k for k in range(1, 32))
        wanted = sorted(set(self.degrees)) if self.degrees is not None else doubled
        return tuple(itertools.takewhile(lambda degree: degree <= self.most, (n for n in wanted if n > 1)))


@dataclass(frozen=True)
class PlanSpace:
    """The plans of some work within limits. Immutable. ``hosts_of`` counts the hosts that a flow needs by kind."""

    work: Work
    limits: Limits = field(default_factory=Limits)
    inputs: int = 1
    hosts_of: Callable[[DataFlow], Mapping[str, int]] = hosts_of_flow

    def plans(self) -> list[Candidate]:
        """All plans, with the first size of physical windows; a `PlanError` says why there is none."""
        kept, left_out = self._divided
        if not kept:
            reasons = "; ".join(f"{key}: {why}" for key, why in itertools.islice(left_out.items(), 8))
            names = ", ".join(stage.function.name for stage in self.work)
            raise PlanError(f"the plan space of {names} is empty ({reasons or 'no strategy is allowed'})")
        return kept

    def sized(self, plan: Candidate) -> list[Candidate]:
        """The same plan with the other sizes of physical windows."""
        return [replace(plan, block_bytes=size) for size in self.limits.block_bytes if size != plan.block_bytes]

    def left_out(self) -> Mapping[str, str]:
        """Plans that are not in the space although the functions allow them, by key, with the reason."""
        return self._divided[1]

    def flow(self, plan: Candidate) -> DataFlow:
        """The data flow of a plan."""
        return planned_flow(self.work, plan, self.inputs)

    def obstacle(self, plan: Candidate) -> str | None:
        """Why a plan is not in the space; None if it is."""
        try:
            flow = self.flow(plan)
        except FlowError as error:
            return str(error)
        needed = self.hosts_of(flow)
        hosts = sum(needed.values())
        if self.limits.hosts is not None and hosts > self.limits.hosts:
            return f"needs {hosts} hosts, at most {self.limits.hosts} are allowed"
        for kind, number in needed.items():
            if number > self.limits.pool.get(kind, number):
                return f"needs {number} {kind} hosts, the pool has {self.limits.pool[kind]}"
        return None

    def variants(self, stages: Work) -> list[Parallel]:
        """All ways to parallelize a stage, or fused stages, the least degree first."""
        made = []
        for degree, strategy in itertools.product(self.limits.allowed_degrees, strategies_of(stages)):
            if self.limits.strategies is not None and strategy.name not in self.limits.strategies:
                continue
            if strategy.degrees is not None and degree not in strategy.degrees:
                continue
            runs = self.limits.runs if strategy.partition == ROUND_ROBIN else (1,)
            for run in runs:
                if "flat" in self.limits.shapes:
                    made.append(Parallel(strategy.name, degree, run=run))
                if "tree" in self.limits.shapes and degree > 2 and tree_obstacle(strategy, degree) is None:
                    made.append(Parallel(strategy.name, degree, tree=True, run=run))
        return made

    @cached_property
    def _divided(self) -> tuple[list[Candidate], dict[str, str]]:
        kept: list[Candidate] = []
        left_out: dict[str, str] = {}
        for plan in itertools.islice(self._all(), MOST_PLANS):
            why = self.obstacle(plan)
            if why is None:
                kept.append(plan)
            else:
                left_out[plan.key] = why
        return kept, left_out

    def _all(self) -> Iterator[Candidate]:
        size = self.limits.block_bytes[0]
        central_too = self.limits.strategies is None or "central" in self.limits.strategies
        single: list[Parallel | None] = [None] if central_too else []
        choices: Sequence[list[Any]] = [[*single, *self._variants_of(k)] for k in range(len(self.work))]
        for stages in itertools.product(*choices):
            yield Candidate(tuple(stages), block_bytes=size)
        if len(self.work) > 1:
            for how in (*single, *(self.variants(self.work) if self.inputs == 1 else ())):
                yield Candidate((how,), fused=True, block_bytes=size)

    def _variants_of(self, stage: int) -> list[Parallel]:
        """A function of several streams has no partitioning: it stays central."""
        return self.variants((self.work[stage],)) if stage > 0 or self.inputs == 1 else []
