"""The optimizer against exhaustive search: how much worse its plan is when measured again, and how much less it tries.

Three functions: fft3, which is cheap; the same done the long way, which is expensive; and one that window split cannot
serve. For each, both searches choose a plan by trial runs of the same length over the same windows. The chosen plans
are then run again in turn. *Regret* is by how much the median cost of the heuristic's plan is higher than that of the
exhaustive search's; *trial time ratio* is the wall-clock time of the heuristic's trials over that of the others. The
verification of the choice (winner and runner-up again) is not in it: both searches need it alike. Working nodes are
threads, and costs are CPU seconds per window of the busiest site.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from fft import SOURCE
from functions import expensive_fft3
from reporting import Report, arguments, median

from gsdm_grid import Grid, register_input_stream
from gsdm_grid.optimizer.candidates import Candidate, Stage
from gsdm_grid.optimizer.choice import Choice
from gsdm_grid.optimizer.criteria import Criteria
from gsdm_grid.optimizer.plan_space import Limits, PlanSpace
from gsdm_grid.optimizer.search import Method, Search, SearchOptions
from gsdm_grid.spec import QueryOptions, RegisteredStream
from gsdm_grid.trials.plan_search import optimize, plan_space
from gsdm_grid.trials.trial_runs import TrialRun, run_trial

BLOCK_BYTES = 1 << 19


@dataclass(frozen=True)
class Subject:
    """A function to find a plan for."""

    name: str
    stage: Stage
    window: int
    count: int


SUBJECTS = (
    Subject("cheap: fft3", Stage.of("fft3"), 4096, 4000),
    Subject("expensive: fft3 the long way", Stage.of(expensive_fft3, {"rounds": 4}), 4096, 600),
    Subject("no window split: polar", Stage.of("polar"), 1024, 1600),
)


class Timed:
    """A search with the wall-clock time that its trials took."""

    def __init__(self, report: Report, grid: Grid, space: PlanSpace, count: int, method: Method) -> None:
        self._search = Search(space, Criteria(), SearchOptions(method=method, count=count))
        self._report, self._grid, self._method = report, grid, method
        self.seconds = 0.0
        self.trials = 0

    def run(self, inputs: list[RegisteredStream]) -> Choice:
        """The choice; progress is told round by round."""
        started_s = time.monotonic()

        def told(*_: Any) -> None:
            self.trials += 1

        choice = optimize(self._grid, self._search, inputs, told, verify=False)
        self.seconds = time.monotonic() - started_s
        self._report.progress(f"{self._method}: {choice.plan.key}, {self.trials} trials in {self.seconds:.1f} s")
        return choice


def measured_again(
    grid: Grid, space: PlanSpace, plans: list[Candidate], inputs: list[RegisteredStream], count: int, rounds: int
) -> list[float]:
    """Median cost of each plan, run in turn."""
    costs: list[list[float]] = [[] for _ in plans]
    for _ in range(rounds):
        for number, plan in enumerate(plans):
            trial = TrialRun(space.flow(plan), inputs, count=count, options=QueryOptions(block_bytes=plan.block_bytes))
            costs[number].append(run_trial(grid, trial).figures()["cost_s"])
    return [median(found) for found in costs]


def compare(report: Report, grid: Grid, subject: Subject, shorter: int, rounds: int) -> dict[str, Any]:
    """Both searches for one function."""
    count = subject.count // shorter
    inputs = [register_input_stream("Radio", None, SOURCE, window=subject.window)]
    filling = (1 << 21) // (subject.window * 24)
    limits = Limits(most=8, runs=(1, min(filling, count // 64)), block_bytes=(None, BLOCK_BYTES))
    space = plan_space(grid, (subject.stage,), inputs, limits)
    report.progress(f"{subject.name}: {len(space.plans()) * len(limits.block_bytes)} plans")
    run_trial(
        grid, TrialRun(space.flow(space.plans()[0]), inputs, count=count)
    )  # nobody's first trial is the process's
    heuristic = Timed(report, grid, space, count, "heuristic")
    exhaustive = Timed(report, grid, space, count, "exhaustive")
    chosen, best = heuristic.run(inputs).plan, exhaustive.run(inputs).plan
    ours, theirs = 1.0, 1.0
    if chosen != best:
        ours, theirs = measured_again(grid, space, [chosen, best], inputs, count, rounds)
    regret, ratio = ours / theirs - 1, heuristic.seconds / exhaustive.seconds
    report.row(subject.name, chosen.key, best.key, regret, heuristic.trials, exhaustive.trials, ratio)
    return {
        "name": subject.name,
        "chosen": chosen.key,
        "best": best.key,
        "regret": regret,
        "trial_time_ratio": ratio,
        "trials": heuristic.trials,
        "exhaustive_trials": exhaustive.trials,
        "trial_s": heuristic.seconds,
        "exhaustive_trial_s": exhaustive.seconds,
    }


def main() -> int:
    """Run it."""
    options = arguments(__doc__ or "")
    report = Report("the optimizer against exhaustive search", options.json)
    shorter, rounds = (4, 3) if options.quick else (1, 7)
    report.row("function", "chosen", "best of all", "regret", "trials", "of all", "trial time ratio")
    with Grid("threads") as grid:
        told = [compare(report, grid, subject, shorter, rounds) for subject in SUBJECTS]
    worst = {name: max(one[name] for one in told) for name in ("regret", "trial_time_ratio")}
    return report.finish({**worst, "functions": told})


if __name__ == "__main__":
    raise SystemExit(main())
