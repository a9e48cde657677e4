"""The plan that a search chooses: the best of those tried, by how much, and whether it won again when verified."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gsdm_grid.errors import PlanError
from gsdm_grid.planning.candidates import Candidate
from gsdm_grid.planning.criteria import Criteria, Figures
from gsdm_grid.planning.trial import TrialResult


@dataclass(frozen=True)
class Failure:
    """Why a trial has no result. Immutable."""

    reason: str


Outcome = TrialResult | Failure


@dataclass(frozen=True)
class Tried:
    """A plan with the outcome of its longest trial, over ``count`` windows. Immutable."""

    plan: Candidate
    count: int
    outcome: Outcome
    predicted_s: float | None = None

    @property
    def succeeded(self) -> bool:
        """Whether there is a result."""
        return isinstance(self.outcome, TrialResult)

    @property
    def figures(self) -> Figures:
        """What it is judged by; empty if it failed."""
        return self.outcome.figures() if isinstance(self.outcome, TrialResult) else {}

    def to_json(self) -> dict[str, Any]:
        """As plain JSON: a row of the table of all plans."""
        made: dict[str, Any] = {
            "key": self.plan.key,
            "plan": self.plan.to_json(),
            "block_bytes": self.plan.block_bytes,
            "count": self.count,
            "predicted_s": self.predicted_s,
            "figures": dict(self.figures),
            "error": self.outcome.reason if isinstance(self.outcome, Failure) else None,
        }
        if isinstance(self.outcome, TrialResult):
            result = self.outcome.to_json()
            made |= {"busiest": result["busiest"], "sites": result["sites"], "windows": result["windows"]}
        return made


@dataclass(frozen=True)
class Verification:
    """Winner and runner-up run again in turn: medians of their figures, and the better one. Immutable."""

    figures: Mapping[str, Figures]
    better: str | None
    margin: float | None

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "figures": {key: dict(figures) for key, figures in self.figures.items()},
            "better": self.better,
            "margin": self.margin,
        }


@dataclass(frozen=True)
class Choice:
    """The outcome of a search. Immutable. ``margin``: by what share the runner-up's score is worse."""

    winner: Tried
    runner_up: Tried | None
    margin: float | None
    table: tuple[Tried, ...]
    skipped: Mapping[str, str] = field(default_factory=dict)
    verification: Verification | None = None

    @property
    def verified(self) -> bool | None:
        """Whether the winner won again; None if that was not tried."""
        return None if self.verification is None else self.verification.better == self.winner.plan.key

    @property
    def plan(self) -> Candidate:
        """The plan to use: the winner, unless the runner-up beat it when both were run again."""
        if self.runner_up is not None and self.verified is False:
            return self.runner_up.plan
        return self.winner.plan

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "plan": self.plan.to_json(),
            "key": self.plan.key,
            "block_bytes": self.plan.block_bytes,
            "winner": self.winner.to_json(),
            "runner_up": None if self.runner_up is None else self.runner_up.to_json(),
            "margin": self.margin,
            "verified": self.verified,
            "verification": None if self.verification is None else self.verification.to_json(),
            "skipped": [{"plan": key, "why": why} for key, why in self.skipped.items()],
            "table": [tried.to_json() for tried in self.table],
        }


def choose(
    tried: Sequence[Tried], criteria: Criteria, skipped: Mapping[str, str], verification: Verification | None = None
) -> Choice:
    """The best plan of those with the longest trials; a `PlanError` says why there is none."""
    succeeded = [one for one in tried if one.succeeded]
    if not succeeded:
        reasons = "; ".join(
            f"{one.plan.key}: {one.outcome.reason}" for one in tried if isinstance(one.outcome, Failure)
        )
        raise PlanError(f"no trial succeeded ({reasons or 'none was run'})")
    allowed = [one for one in succeeded if criteria.violation(one.figures) is None]
    if not allowed:
        reasons = "; ".join(f"{one.plan.key}: {criteria.violation(one.figures)}" for one in succeeded[:8])
        raise PlanError(f"no plan keeps the bounds ({reasons})")
    longest = max(one.count for one in allowed)
    ranked = criteria.ranked([(one, one.figures) for one in allowed if one.count == longest])
    if len(ranked) < 2:
        rest = [(one, one.figures) for one in allowed if one.count < longest]
        ranked = criteria.ranked([*((one, one.figures) for one, _ in ranked), *rest])
        ranked.sort(key=lambda pair: pair[0].count < longest)
    (winner, best), *others = ranked
    runner_up, second = others[0] if others else (None, None)
    margin = None if second is None or best <= 0 else second / best - 1
    return Choice(winner, runner_up, margin, tuple(tried), skipped, verification)


def verified(outcomes: Sequence[tuple[Candidate, Outcome]], criteria: Criteria) -> Verification:
    """Medians of what winner and runner-up measured when they were run again."""
    by_plan: dict[str, list[Figures]] = {}
    for plan, outcome in outcomes:
        if isinstance(outcome, TrialResult):
            by_plan.setdefault(plan.key, []).append(outcome.figures())
    medians = {
        key: {name: statistics.median(one[name] for one in found if name in one) for name in found[0]}
        for key, found in by_plan.items()
    }
    ranked = criteria.ranked(list(medians.items()))
    margin = ranked[1][1] / ranked[0][1] - 1 if len(ranked) > 1 and ranked[0][1] > 0 else None
    return Verification(medians, ranked[0][0] if ranked else None, margin)
