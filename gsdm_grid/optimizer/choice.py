"""The plan that a search chooses: the best by all measurements together, by how much, and how sure that is.

A plan is judged by the medians of all its trials, those of the verification included; a trial counts as much as it had
windows. How much the trials of one plan differ among themselves is the noise that a margin is compared with.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gsdm_grid.errors import PlanError
from gsdm_grid.optimizer.candidates import Candidate
from gsdm_grid.optimizer.criteria import Criteria, Figures
from gsdm_grid.optimizer.trial_result import TrialResult

LONG_ENOUGH = 0.5
"""Trials over at least this share of the windows of the longest ones count as much: those of the last but one round."""


@dataclass(frozen=True)
class Failure:
    """Why a trial has no result. Immutable."""

    reason: str


Outcome = TrialResult | Failure


@dataclass(frozen=True)
class Tried:
    """A plan with the outcome of its longest trial, over ``count`` windows. Immutable.

    ``results`` are those of all its trials; ``failed_again`` says why it failed when it was verified.
    """

    plan: Candidate
    count: int
    outcome: Outcome
    predicted_s: float | None = None
    results: tuple[TrialResult, ...] = ()
    failed_again: str | None = None

    @property
    def succeeded(self) -> bool:
        """Whether there is a result."""
        return isinstance(self.outcome, TrialResult)

    @property
    def figures(self) -> Figures:
        """What it is judged by, from all its trials; empty if it failed."""
        if not isinstance(self.outcome, TrialResult):
            return {}
        return medians([(one.figures(), one.windows) for one in self.results or (self.outcome,)])

    def to_json(self) -> dict[str, Any]:
        """As plain JSON: a row of the table of all plans."""
        made: dict[str, Any] = {
            "key": self.plan.key,
            "plan": self.plan.to_json(),
            "block_bytes": self.plan.block_bytes,
            "count": self.count,
            "predicted_s": self.predicted_s,
            "figures": dict(self.figures),
            "trials": len(self.results),
            "error": self.outcome.reason if isinstance(self.outcome, Failure) else self.failed_again,
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
    """The outcome of a search. Immutable. ``margin``: by what share the runner-up's score is worse.

    ``noise``: by what share the scores of one and the same plan differ from trial to trial; None if each plan was
    measured once.
    """

    winner: Tried
    runner_up: Tried | None
    margin: float | None
    noise: float | None
    table: tuple[Tried, ...]
    criteria: Criteria
    functions: tuple[str, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    verification: Verification | None = None

    @property
    def verified(self) -> bool | None:
        """Whether the winner was the better one when both were run again; None if that was not tried."""
        return None if self.verification is None else self.verification.better == self.winner.plan.key

    @property
    def plan(self) -> Candidate:
        """The plan to use."""
        return self.winner.plan

    @property
    def sure(self) -> bool | None:
        """Whether the winner is ahead by more than the noise; None if that is not known."""
        return None if self.margin is None or self.noise is None else self.margin > self.noise

    @property
    def summary(self) -> str:
        """What was chosen and how sure that is, in a sentence."""
        chosen = self.plan.described(self.functions)
        central = next((one for one in self.table if one.plan.is_central and one.succeeded), None)
        compared = "" if central is None or central == self.winner else f": {self._against(central)}"
        if self.runner_up is None:
            return f"{chosen}{compared}, the only plan that succeeded and keeps the bounds"
        lead = f"ahead of {self.runner_up.plan.described()} by {_percent(self.margin or 0.0)}"
        if self.noise is None:
            how_sure = "measured only once each"
        elif self.sure:
            how_sure = f"more than the noise of {_percent(self.noise)}"
        else:
            how_sure = f"which is within the noise of {_percent(self.noise)}"
        return f"{chosen}{compared}{',' if compared else ':'} {lead}, {how_sure}"

    def _against(self, central: Tried) -> str:
        """The winner beside the central plan, by the figure that weighs most."""
        figure = max(self.criteria.weights, key=lambda name: self.criteria.weights[name])
        own, other = self.winner.figures.get(figure), central.figures.get(figure)
        if not own or not other:
            return "the central plan was not measured by the same figure"
        if figure in ("cost_s", "throughput", "measured_throughput"):
            ratio = other / own if figure == "cost_s" else own / other
            return f"{ratio:.2g} times as fast as the central plan"
        return f"its {figure} is {own / other:.2g} times that of the central plan"

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "plan": self.plan.to_json(),
            "key": self.plan.key,
            "block_bytes": self.plan.block_bytes,
            "winner": self.winner.to_json(),
            "runner_up": None if self.runner_up is None else self.runner_up.to_json(),
            "margin": self.margin,
            "noise": self.noise,
            "sure": self.sure,
            "summary": self.summary,
            "verified": self.verified,
            "verification": None if self.verification is None else self.verification.to_json(),
            "skipped": [{"plan": key, "why": why} for key, why in self.skipped.items()],
            "table": [tried.to_json() for tried in self.table],
        }


def choose(
    tried: Sequence[Tried],
    criteria: Criteria,
    skipped: Mapping[str, str],
    verification: Verification | None = None,
    functions: Sequence[str] = (),
) -> Choice:
    """The best plan of those with long trials; a `PlanError` says why there is none.

    A plan that was left out of the last round is chosen all the same if it is the best by what was measured in the
    end. One that failed when it was run again comes after those that did not.
    """
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
    ranked = criteria.ranked([(one, one.figures) for one in allowed if one.count >= longest * LONG_ENOUGH])
    if len(ranked) < 2:
        known = {one.plan for one, _ in ranked}
        ranked = criteria.ranked([(one, one.figures) for one in allowed])
        ranked.sort(key=lambda pair: pair[0].plan not in known)
    ranked.sort(key=lambda pair: pair[0].failed_again is not None)
    (winner, best), *others = ranked
    runner_up, second = others[0] if others else (None, None)
    margin = None if second is None or best <= 0 else second / best - 1
    noise = _noise([one for one, _ in ranked[:2]], criteria)
    return Choice(
        winner=winner,
        runner_up=runner_up,
        margin=margin,
        noise=noise,
        table=tuple(tried),
        criteria=criteria,
        functions=tuple(functions),
        skipped=dict(skipped),
        verification=verification,
    )


def medians(measured: Sequence[tuple[Figures, float]]) -> dict[str, float]:
    """The median of each figure, each measurement with its weight.

    >>> medians([({"cost_s": 1.0}, 10), ({"cost_s": 5.0}, 10), ({"cost_s": 2.0}, 10), ({"cost_s": 9.0}, 1)])
    {'cost_s': 2.0}
    """
    names = dict.fromkeys(name for figures, _ in measured for name in figures)
    return {name: _median([(one[name], weight) for one, weight in measured if name in one]) for name in names}


def _median(values: Sequence[tuple[float, float]]) -> float:
    """The value below which half of the weight lies; the mean of two if it lies between them."""
    rising = sorted(values)
    half, below = sum(weight for _, weight in rising) / 2, 0.0
    for number, (value, weight) in enumerate(rising):
        below += weight
        if below == half and number + 1 < len(rising):
            return (value + rising[number + 1][0]) / 2
        if below >= half:
            return value
    return rising[-1][0]


def _noise(plans: Sequence[Tried], criteria: Criteria) -> float | None:
    """How much a margin between these plans may be chance: the root mean square of what their trials differ by.

    Each trial is compared with the median of its own plan. Only the longest trials count: short ones differ more.
    """
    deviations: list[float] = []
    for one in plans:
        longest = [result for result in one.results if result.windows >= one.count]
        scores = [criteria.score(result.figures(), one.figures) for result in longest]
        if len(scores) > 1:
            middle = statistics.median(scores)
            deviations += [score / middle - 1 for score in scores] if middle > 0 else []
    if not deviations:
        return None
    return math.sqrt(sum(one * one for one in deviations) / len(deviations))


def _percent(share: float) -> str:
    """A share as people write it: 4 %, 0.4 %."""
    return f"{share * 100:.0f} %" if share >= 0.01 else f"{share * 100:.1g} %"


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
