"""The search for the best plan, as ask and tell: it says which trials to run next, and is told what they measured.

It runs nothing itself and depends on nothing but what it was told, so whoever runs the trials (a coordinator, Airflow,
a benchmark) gets the same plan, and a search that was interrupted is rebuilt by telling it the same results again.

The heuristic (VLDB 2005, "Optimal Data Flows") starts with the central plan and with two partitions by each strategy,
over a short part of the segment. It raises the degree of a stage while its compute sites are the busiest, tries a tree
where partition or combine is, and leaves out what the cost model says cannot win. The best plans are then run longer
(successive halving), with other sizes of physical windows too, and the best two over the whole segment.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from gsdm_grid.errors import FlowError, PlanError
from gsdm_grid.optimizer.candidates import Candidate, Parallel, sites_of_stages
from gsdm_grid.optimizer.choice import (
    Choice,
    Failure,
    Outcome,
    Tried,
    Verification,
    choose,
    verified,
)
from gsdm_grid.optimizer.criteria import Criteria
from gsdm_grid.optimizer.plan_space import PlanSpace
from gsdm_grid.optimizer.prediction import (
    SPREAD,
    balanced_degree,
    grown_cost_s,
    tree_cost_s,
)
from gsdm_grid.optimizer.trial_result import PARTS, TrialResult

Method = Literal["heuristic", "exhaustive"]
METHODS: tuple[Method, ...] = get_args(Method)
MOST_ROUNDS = 6
GROWTHS = MOST_ROUNDS - 3
"""Rounds that raise degrees: the first one is before them, halving and the final one come after them."""
NEARLY = 0.75
"""Sites that spend at least this share of what the busiest one does are relieved as well."""
CLEARLY = 0.85
"""Of two kinds of plans the dearer one is given up if the other costs at most this share."""
CONTENDER = 1.3
"""A plan whose score is worse than the best one's by more than this ratio is not run longer."""


@dataclass(frozen=True)
class SearchOptions:
    """How to search. Immutable. ``count``: windows of the longest trials; ``short``: share of it in the first ones.

    ``threshold`` is the least gain for which a plan with more sites is tried.
    """

    method: Method = "heuristic"
    count: int = 1000
    threshold: float = 0.05
    short: float = 0.125
    finalists: int = 3
    repeats: int = 2
    """How often winner and runner-up are run again to verify the choice."""

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise FlowError("search.method", f"must be one of {', '.join(METHODS)}, got {self.method!r:.40}")
        if self.count < 1:
            raise FlowError("count", f"must be at least 1, got {self.count}")

    @property
    def short_count(self) -> int:
        """Windows of the first trials."""
        return max(1, min(self.count, round(self.count * self.short)))


@dataclass(frozen=True)
class TrialRequest:
    """A trial to run: a plan over ``count`` windows. Immutable. ``key`` is unique in its search.

    ``asked`` is how many windows all plans of its round have, before ``count`` was rounded up to whole turns of this
    plan. ``predicted_s`` is what the cost model says: CPU seconds per window of the busiest site.
    """

    key: str
    plan: Candidate
    count: int
    asked: int
    round: int
    predicted_s: float | None = None


class Search:
    """One search. `ask` for a round of trials, `tell` how each ended, until `ask` gives none; then there is a `choice`.

    Not thread-safe.
    """

    def __init__(self, space: PlanSpace, criteria: Criteria, options: SearchOptions) -> None:
        self.space = space
        self.criteria = criteria
        self.options = options
        self.rounds: list[list[TrialRequest]] = []
        self._plans = space.plans() if space.listed or options.method == "exhaustive" else []
        self._beginnings = space.beginnings()
        self._outcomes: dict[str, Outcome] = {}
        self._verifications: list[TrialRequest] = []
        self._expanded: set[Candidate] = set()
        self._skipped: dict[str, str] = {}
        self._stopped: dict[tuple[str, int, bool], str] = {}
        self._over = False
        self._steps = iter((self._halve, self._finish))

    # -- ask and tell ---------------------------------------------------------------------------------------------

    def ask(self) -> list[TrialRequest]:
        """The next round of trials; none when the search is over. All trials of the last round must have been told."""
        missing = [request.key for request in self._requests() if request.key not in self._outcomes]
        if missing:
            raise PlanError(f"round {len(self.rounds) - 1} is not over: {len(missing)} trials have not been told")
        found = [] if self._over else self._next_round()
        if found:
            self.rounds.append(found)
        else:
            self._over = True
        return found

    def tell(self, key: str, outcome: Outcome) -> None:
        """How a trial ended: what it measured, or why it failed. Telling it again changes nothing."""
        known = {request.key for request in (*self._requests(), *self._verifications)}
        if key not in known:
            raise PlanError(f"trial {key!r:.80} was not asked for")
        self._outcomes.setdefault(key, outcome)

    def waiting(self) -> list[TrialRequest]:
        """Trials that were asked for and have not been told."""
        return [one for one in (*self._requests(), *self._verifications) if one.key not in self._outcomes]

    @property
    def asked_to_verify(self) -> list[TrialRequest]:
        """Trials of the verification, once they have been asked for."""
        return list(self._verifications)

    @property
    def over(self) -> bool:
        """Whether no trial will be asked for any more."""
        return self._over

    def choice(self) -> Choice:
        """The best plan of those tried; a `PlanError` says why there is none."""
        names = [stage.function.name for stage in self.space.work]
        return choose(self.tried(), self.criteria, self.skipped(), self._verified(), names)

    def verification(self) -> list[TrialRequest]:
        """Trials of the winner and the runner-up, in turn, to see whether the choice holds. Always the same ones."""
        if not self._verifications:
            choice = self.choice()
            pair = [choice.winner] if choice.runner_up is None else [choice.winner, choice.runner_up]
            self._verifications = [
                self._request(tried.plan, self.options.count, key=f"verify{turn}-{tried.plan.key}")
                for turn in range(self.options.repeats)
                for tried in pair
            ]
        return self._verifications

    def tried(self) -> list[Tried]:
        """What was tried so far, in the order in which it was asked for, each plan with its longest trial."""
        made: dict[Candidate, Tried] = {}
        for request in self._requests():
            outcome = self._outcomes.get(request.key)
            if outcome is None:
                continue
            before = made.get(request.plan)
            predicted = request.predicted_s if before is None else before.predicted_s
            made[request.plan] = Tried(request.plan, request.asked, outcome, predicted)
        return [self._with_all_results(tried) for tried in made.values()]

    def _with_all_results(self, tried: Tried) -> Tried:
        """A plan with the results of all its trials, those of the verification included."""
        own = [one for one in (*self._requests(), *self._verifications) if one.plan == tried.plan]
        outcomes = [self._outcomes[one.key] for one in own if one.key in self._outcomes]
        results = tuple(one for one in outcomes if isinstance(one, TrialResult))
        again = (self._outcomes.get(one.key) for one in self._verifications if one.plan == tried.plan)
        failed = next((one.reason for one in again if isinstance(one, Failure)), None)
        return replace(tried, results=results, failed_again=failed)

    def skipped(self) -> dict[str, str]:
        """Plans that were not tried, by key, with the reason; of a large space only those that were thought of."""
        tried = {request.plan.key for request in self._requests()}
        if not self.space.listed:
            others = self.space.size - len(tried) - len(self._skipped)
            return {**self._skipped, f"{others:,} others": "not reached from the plans that were tried"}
        made = {plan.key: self._why_not(plan) for plan in self._plans if plan.key not in tried}
        return {**made, **self.space.left_out()}

    # -- rounds ---------------------------------------------------------------------------------------------------

    def _next_round(self) -> list[TrialRequest]:
        if self.options.method == "exhaustive":
            everything = [sized for plan in self._plans for sized in (plan, *self.space.sized(plan))]
            return [] if self.rounds else [self._request(plan, self.options.count) for plan in everything]
        if not self.rounds:
            return [self._request(plan, self.options.short_count) for plan in self._beginnings]
        if len(self.rounds) <= GROWTHS and (grown := self._grown()):
            return grown
        for step in self._steps:
            if found := step():
                return found
        return []

    def _grown(self) -> list[TrialRequest]:
        """Larger plans next to those that were tried in the last round."""
        found: dict[Candidate, TrialRequest] = {}
        for tried in self.tried():
            if tried.plan in self._expanded or not isinstance(tried.outcome, TrialResult):
                continue
            self._expanded.add(tried.plan)
            for plan, predicted_s in self._neighbours(tried.plan, tried.outcome):
                if plan not in found and self._worth_trying(plan, predicted_s):
                    found[plan] = self._request(plan, self.options.short_count, predicted_s)
        return list(found.values())

    def _neighbours(self, plan: Candidate, result: TrialResult) -> list[tuple[Candidate, float]]:
        """Plans that relieve the busiest site, with the cost that the model predicts for them."""
        busiest = result.busiest
        stages = sites_of_stages(self.space.work, plan)
        number = next((k for k, sites in enumerate(stages) if busiest is not None and busiest.site in sites), None)
        if busiest is None or number is None:
            self._stop(plan, None, f"{busiest.site if busiest else 'nothing'} is the busiest, a relay of the stream")
            return []
        how, stage = plan.stages[number], stages[number]
        found = []
        if self._is_busy(result, stage, ("compute",)):
            degree = how.degree if how else 1
            found += [
                (_with(plan, number, wanted), grown_cost_s(result, stage, degree, wanted.degree))
                for wanted in self._larger(plan, number, balanced_degree(result, stage, degree))
            ]
        if how is not None and not how.tree and self._is_busy(result, stage, SPREAD):
            tree = replace(how, tree=True)
            predicted_s = tree_cost_s(result, stage, tree, self._flat_results(plan, number))
            found += [(_with(plan, number, tree), predicted_s)]
        if busiest.role != "compute":
            self._stop(plan, how, f"{busiest.site} is the busiest{f' at degree {how.degree}' if how else ''}")
        return found

    def _is_busy(self, result: TrialResult, stage: Collection[str], roles: Collection[str]) -> bool:
        """Whether a site of these roles is the busiest, or nearly: which one it is may be chance."""
        own = (site.utilization_s for site in result.sites if site.site in stage and site.role in roles)
        return max(own, default=0.0) >= NEARLY * result.cost_s

    def _larger(self, plan: Candidate, number: int, balance: float) -> list[Parallel]:
        """Ways to parallelize a stage further: the next degree, or one further on if there are too many in between.

        A flat plan grows into a flat one and into a tree.
        """
        how = plan.stages[number]
        work = self.space.work if plan.fused else (self.space.work[number],)
        variants = self.space.variants(work)
        if how is None:
            least = min((v.degree for v in variants), default=0)
            return [] if self._begins_parallel(plan) else [v for v in variants if v.degree == least]
        if (better := self._better_run(plan, number, how)) is not None:
            self._stop(plan, how, f"{better.run} windows in turn cost less at degree {how.degree}")
            return []
        alike = [v for v in variants if (v.strategy, v.run) == (how.strategy, how.run) and v.tree >= how.tree]
        degrees = sorted({v.degree for v in alike if v.degree > how.degree})
        if not degrees:
            return []
        wanted = degrees[0]
        if len(degrees) > GROWTHS + 1 - len(self.rounds):
            wanted = max([degree for degree in degrees if degree <= balance], default=wanted)
        for passed in alike:
            if how.degree < passed.degree < wanted:
                self._skip(_with(plan, number, passed), "passed over: the compute sites would still be the busiest")
        return [v for v in alike if v.degree == wanted]

    def _begins_parallel(self, plan: Candidate) -> bool:
        """Whether the first round holds the parallel plans of the least degree already."""
        return plan.fused or len(self.space.work) == 1

    def _better_run(self, plan: Candidate, number: int, how: Parallel) -> Parallel | None:
        """The same plan with other windows in turn, if that clearly costs less."""
        costs = {one.plan: one.figures["cost_s"] for one in self.tried() if one.succeeded}
        others = [replace(how, run=run) for run in self.space.limits.runs if run != how.run]
        limit = costs[plan] * CLEARLY
        return next((one for one in others if costs.get(_with(plan, number, one), limit) < limit), None)

    def _flat_results(self, plan: Candidate, number: int) -> dict[int, TrialResult]:
        """Results of the flat plans that differ only in the degree of one stage, by that degree."""
        made = {}
        for tried in self.tried():
            how = tried.plan.stages[number] if len(tried.plan.stages) == len(plan.stages) else None
            if not isinstance(tried.outcome, TrialResult) or how is None or how.tree:
                continue
            if _with(tried.plan, number, plan.stages[number]) == plan:
                made[how.degree] = tried.outcome
        return made

    def _worth_trying(self, plan: Candidate, predicted_s: float) -> bool:
        if any(request.plan == plan for request in self._requests()) or not self.space.holds(plan):
            return False
        if not set(self.criteria.weights) <= {"cost_s", "throughput"}:
            return True  # the model knows nothing else
        best = min(one.figures["cost_s"] for one in self.tried() if one.succeeded)
        if predicted_s <= best * (1 - self.options.threshold):
            return True
        self._skip(plan, f"predicted {predicted_s * 1e3:.3g} ms per window at best; {best * 1e3:.3g} ms was measured")
        return False

    def _halve(self) -> list[TrialRequest]:
        """The best plans over half of the windows, the very best also with other sizes of physical windows."""
        ranked = self._ranked()
        count = max(self.options.short_count, self.options.count // 2)
        contenders = [plan for plan, score in ranked[: self.options.finalists] if score <= CONTENDER * ranked[0][1]]
        sized = self.space.sized(contenders[0]) if contenders else []
        if count == self.options.short_count:
            contenders = []
        if len(contenders) < 2 and not sized:
            return []
        return [self._request(plan, count) for plan in (*contenders, *sized)]

    def _finish(self) -> list[TrialRequest]:
        """The best two over all windows."""
        longest = max((tried.count for tried in self.tried() if tried.succeeded), default=0)
        ranked = self._ranked(longest) if longest > self.options.short_count else self._ranked()
        if len(ranked) < 2:
            ranked += [pair for pair in self._ranked() if pair[0] not in {plan for plan, _ in ranked}]
        return [
            self._request(plan, self.options.count)
            for plan, _ in ranked[:2]
            if not any(one.plan == plan and one.asked >= self.options.count for one in self._requests())
        ]

    def _ranked(self, count: int = 0) -> list[tuple[Candidate, float]]:
        """Plans that have succeeded over at least ``count`` windows, the best first, with their scores."""
        tried = [one for one in self.tried() if one.succeeded and one.count >= count]
        return self.criteria.ranked([(one.plan, one.figures) for one in tried])

    # -- what it remembers ----------------------------------------------------------------------------------------

    def _requests(self) -> list[TrialRequest]:
        return [request for asked in self.rounds for request in asked]

    def _request(
        self, plan: Candidate, count: int, predicted_s: float | None = None, key: str | None = None
    ) -> TrialRequest:
        """Sites that get several windows in turn must all get equally many, or the trial says nothing of the plan."""
        turn = max((how.degree * how.run * PARTS for how in plan.stages if how is not None and how.run > 1), default=1)
        rounded = -(-count // turn) * turn
        return TrialRequest(key or f"{plan.key}-w{count}", plan, rounded, count, len(self.rounds), predicted_s)

    def _verified(self) -> Verification | None:
        if not self._verifications or any(one.key not in self._outcomes for one in self._verifications):
            return None
        outcomes: Sequence[tuple[Candidate, Outcome]] = [
            (one.plan, self._outcomes[one.key]) for one in self._verifications
        ]
        return verified(outcomes, self.criteria)

    def _skip(self, plan: Candidate, why: str) -> None:
        self._skipped.setdefault(plan.key, why)

    def _stop(self, plan: Candidate, how: Parallel | None, why: str) -> None:
        if how is not None and len(plan.stages) == 1:
            self._stopped.setdefault((how.strategy, how.run, plan.fused), why)

    def _why_not(self, plan: Candidate) -> str:
        if plan.key in self._skipped:
            return self._skipped[plan.key]
        how = plan.stages[0]
        if how is not None and len(plan.stages) == 1:
            if (stopped := self._stopped.get((how.strategy, how.run, plan.fused))) is not None:
                return f"not reached: {stopped}"
            if how.tree:
                return "not needed: neither partition nor combine was the busiest"
            failed = [t for t in self.tried() if not t.succeeded and t.plan.stages[0] is not None]
            if any(_family(t.plan.stages[0]) == _family(how) for t in failed if t.plan.stages[0] is not None):
                return "not reached: the trial of a smaller degree failed"
        return "not reached from the plans that were tried"


def _family(how: Parallel) -> tuple[str, bool, int]:
    return how.strategy, how.tree, how.run


def _with(plan: Candidate, number: int, how: Parallel | None) -> Candidate:
    return replace(plan, stages=(*plan.stages[:number], how, *plan.stages[number + 1 :]))


def replayed(
    space: PlanSpace, criteria: Criteria, options: SearchOptions, rounds: int, told: Mapping[str, Outcome]
) -> Search:
    """A search that has asked for this many rounds and was told these outcomes, rebuilt from them."""
    search = Search(space, criteria, options)
    while len(search.rounds) < rounds and search.ask():
        for request in search.rounds[-1]:
            if request.key in told:
                search.tell(request.key, told[request.key])
    return search


__all__ = ["Choice", "Failure", "Search", "SearchOptions", "TrialRequest", "replayed"]
