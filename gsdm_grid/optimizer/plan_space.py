"""The plan space: all plans that the optimizer may try for some work, and why others are left out.

Strategies that the functions registered × degrees × flat or tree × windows in turn × size of physical windows; for a
pipe each stage by itself, and all stages fused. Within the limits that were given: of degree, and of hosts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NoReturn

from gsdm_grid.errors import FlowError, PlanError
from gsdm_grid.flow import DataFlow
from gsdm_grid.optimizer.candidates import (
    Candidate,
    Parallel,
    Work,
    planned_flow,
    strategies_of,
    tree_obstacle,
)

MOST_PLANS = 400
"""Plans of a space that is listed; those of long pipes are larger, and are only searched from plan to plan."""


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

    @cached_property
    def size(self) -> int:
        """How many plans there are, those with obstacles included; sizes of physical windows are not counted."""
        return math.prod(len(choices) for choices in self._choices) + len(self._fused)

    @property
    def listed(self) -> bool:
        """Whether the space is small enough to be listed."""
        return self.size <= MOST_PLANS

    def plans(self) -> list[Candidate]:
        """All plans, with the first size of physical windows; a `PlanError` says why there is none, or too many."""
        if not self.listed:
            raise PlanError(
                f"the plan space of {self._names} has {self.size:,} plans, too many to try them all (at most "
                f"{MOST_PLANS}): limit degrees, strategies or shapes"
            )
        kept, left_out = self._divided
        if not kept:
            self._refuse_empty(left_out)
        return kept

    def beginnings(self) -> list[Candidate]:
        """Where a search begins: the central plan, and each strategy with its least degree; a pipe also fused."""
        plain = tuple(choices[0] for choices in self._choices if choices)
        begun = [Candidate(plain, block_bytes=self._size)] if len(plain) == len(self.work) else []
        if len(self.work) == 1:
            begun = [Candidate((how,), block_bytes=self._size) for how in _least(self._choices[0])]
        fused = [Candidate((how,), True, self._size) for how in _least(self._fused)]
        obstacles = {plan: self.obstacle(plan) for plan in (*begun, *fused)}
        found = [plan for plan, why in obstacles.items() if why is None]
        if not found:
            self._refuse_empty({plan.key: why or "" for plan, why in obstacles.items()})
        return found

    def holds(self, plan: Candidate) -> bool:
        """Whether a plan is in the space."""
        choices = [self._fused] if plan.fused else self._choices
        return (
            all(how in allowed for how, allowed in zip(plan.stages, choices, strict=True))
            and self.obstacle(plan) is None
        )

    def sized(self, plan: Candidate) -> list[Candidate]:
        """The same plan with the other sizes of physical windows."""
        return [replace(plan, block_bytes=size) for size in self.limits.block_bytes if size != plan.block_bytes]

    def left_out(self) -> Mapping[str, str]:
        """Plans that are not in the space although the functions allow them, by key, with the reason."""
        return self._divided[1] if self.listed else {}

    def flow(self, plan: Candidate) -> DataFlow:
        """The data flow of a plan."""
        return planned_flow(self.work, plan, self.inputs)

    def obstacle(self, plan: Candidate) -> str | None:
        """Why a plan is not in the space; None if it is."""
        try:
            needed = self.hosts_of(self.flow(plan))
        except FlowError as error:
            return str(error)
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
            runs = self.limits.runs if strategy.partition_traits.deals_in_turn else (1,)
            for run in runs:
                if "flat" in self.limits.shapes:
                    made.append(Parallel(strategy.name, degree, run=run))
                if "tree" in self.limits.shapes and degree > 2 and tree_obstacle(strategy, degree) is None:
                    made.append(Parallel(strategy.name, degree, tree=True, run=run))
        return made

    def _refuse_empty(self, reasons: Mapping[str, str]) -> NoReturn:
        told = "; ".join(f"{key}: {why}" for key, why in itertools.islice(reasons.items(), 8))
        raise PlanError(f"the plan space of {self._names} is empty ({told or 'no strategy is allowed'})")

    @property
    def _names(self) -> str:
        return ", ".join(stage.function.name for stage in self.work)

    @cached_property
    def _divided(self) -> tuple[list[Candidate], dict[str, str]]:
        kept: list[Candidate] = []
        left_out: dict[str, str] = {}
        for plan in self._all():
            why = self.obstacle(plan)
            if why is None:
                kept.append(plan)
            else:
                left_out[plan.key] = why
        return kept, left_out

    def _all(self) -> Iterator[Candidate]:
        for stages in itertools.product(*self._choices):
            yield Candidate(tuple(stages), block_bytes=self._size)
        for how in self._fused:
            yield Candidate((how,), fused=True, block_bytes=self._size)

    @property
    def _size(self) -> int | None:
        return self.limits.block_bytes[0]

    @property
    def _single(self) -> list[Parallel | None]:
        """The central plan, unless only strategies were asked for."""
        return [None] if self.limits.strategies is None or "central" in self.limits.strategies else []

    @cached_property
    def _choices(self) -> list[list[Parallel | None]]:
        """Ways to run each stage by itself. A function of several streams has no partitioning: it stays central."""
        return [
            [*self._single, *(self.variants((stage,)) if number > 0 or self.inputs == 1 else ())]
            for number, stage in enumerate(self.work)
        ]

    @cached_property
    def _fused(self) -> list[Parallel | None]:
        """Ways to run all stages of a pipe together."""
        if len(self.work) == 1 or self.inputs > 1:
            return []
        return [*self._single, *self.variants(self.work)]


def _least(choices: Sequence[Parallel | None]) -> list[Parallel | None]:
    """The central plan and the least degree of each strategy, flat if it can be."""
    made: dict[tuple[str, int] | None, Parallel | None] = {}
    for how in choices:  # rising degrees, flat before tree
        made.setdefault(None if how is None else (how.strategy, how.run), how)
    return list(made.values())
