"""Running the demo's queries: their first windows compared, rounds of measuring in turn, and one that grows."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gsdm_grid.apps.demo.bare_kernel import BYTES_PER_SAMPLE, BareKernel
from gsdm_grid.apps.demo.comparison import difference
from gsdm_grid.apps.demo.plans import (
    CYCLE,
    GROWING,
    WORKLOADS,
    DemoOptions,
)
from gsdm_grid.apps.demo.report import (
    Delivery,
    DemoReport,
    Growth,
    PlanReport,
    delivery_of,
)
from gsdm_grid.apps.demo.sink import read_kept
from gsdm_grid.apps.demo.steps import DemoView
from gsdm_grid.coordination import ContinuousQuery
from gsdm_grid.errors import QueryError
from gsdm_grid.model import PhysicalWindow
from gsdm_grid.optimizer import TrialResult, measured

ROUNDS = 3
WARM_SHARE = 0.5
"""The first round, which is not counted, lasts this share of the others: it pays for page faults and caches."""
BARE_SHARE = 0.4
"""The bare functions need no more: nothing has to be started or to flow out."""
SETTLE_S = 0.5
"""A new site pays for its page faults before it is measured."""


@dataclass(frozen=True)
class DemoQuery:
    """An installed query of the demo, the file in which its sink keeps windows, and the report that it fills."""

    query: ContinuousQuery
    kept: Path
    report: PlanReport

    @property
    def label(self) -> str:
        """For people."""
        return self.report.plan.label if self.report.plan else "nothing computed"

    def first_windows(self) -> PhysicalWindow | None:
        """Run it for one cycle of the carriers; gives the results, if it computes something."""
        self.query.run(count=CYCLE).wait()
        plan = self.report.plan
        return None if plan is None else read_kept(self.kept, plan.workload.results)

    def measure(self, seconds: float) -> TrialResult:
        """One round: what was read in about ``seconds``, until all of it has come out; at least one window."""
        before = self.query.refresh()
        self.query.activate(time_s=seconds)
        self.query.wait()
        result = self._result(before)
        if not result.windows:  # on a busy machine the time may be over before the source begins
            self.query.activate(count=1)
            self.query.wait()
            result = self._result(before)
        return result

    def _result(self, before: Mapping[str, Mapping[str, Any]]) -> TrialResult:
        assert self.query.plan is not None
        return measured(self.query.plan, self.query.refresh(), self.query.run_seconds or 1e-9, before)

    def counts(self) -> Mapping[str, Any]:
        """What its sink has counted so far, asked for now."""
        name = self.query.outputs[0].name
        return next(one["streams"][name] for one in self.query.refresh().values() if name in one["streams"])

    def delivery(self) -> Delivery:
        """What was read and what has come, over all runs so far."""
        counts = self.counts()
        return delivery_of(counts, sum(self.query.positions().values()), self.report.delivery.difference)


def compare(queries: Sequence[DemoQuery], view: DemoView) -> PhysicalWindow:
    """Let all queries run once; compare their results with those of the central plans. Gives those to look at."""
    view.began("comparing", f"the first {CYCLE} windows of each plan with those of central")
    references: dict[str, PhysicalWindow] = {}
    for number, one in enumerate(queries):
        windows = one.first_windows()
        if windows is not None and one.report.plan is not None:
            reference = references.setdefault(one.report.plan.workload.name, windows)
            one.report.compared = len(windows)
            one.report.delivery.difference = difference(reference, windows)
        view.progressed("comparing", number + 1, len(queries), one.label, windows)
    wrong = [one.label for one in queries if one.report.delivery.difference is not None]
    view.ended("comparing", f"different: {', '.join(wrong)}" if wrong else "all plans give the windows of central")
    shown = references[WORKLOADS[0].name]
    if not len(shown):
        raise QueryError(f"demo: no window came out of {queries[0].label}")
    return shown


def measure(
    report: DemoReport,
    queries: Sequence[DemoQuery],
    kernel: BareKernel,
    options: DemoOptions,
    shown: PhysicalWindow,
    view: DemoView,
) -> None:
    """Measure the bare functions and all queries in turn, several rounds after one that is not counted.

    ``shown`` are windows to look at meanwhile.
    """
    view.began("measuring", f"{len(queries)} queries and the bare functions, in {ROUNDS} rounds")
    total, step = (ROUNDS + 1) * len(queries), 0
    for number in range(ROUNDS + 1):
        name = f"round {number} of {ROUNDS}" if number else "warming up"
        if number:
            view.progressed("measuring", step, total, f"{name}, the bare functions", _one_window(shown, step))
            _measure_bare(report, kernel, options.seconds * BARE_SHARE)
        for one in queries:
            view.progressed("measuring", step, total, f"{name}, {one.label}", _one_window(shown, step))
            result = one.measure(options.seconds * (1 if number else WARM_SHARE))
            if number:
                one.report.rounds.append(result)
            step += 1
    for one in queries:
        one.report.delivery = one.delivery()
    view.ended("measuring", f"{len(queries)} queries and the bare functions, in {ROUNDS} rounds")


def _measure_bare(report: DemoReport, kernel: BareKernel, seconds: float) -> None:
    for number, work in enumerate(report.works):
        for processes, rates in work.bare.items():
            rates.append(kernel.measure(number, processes, seconds))


def _one_window(windows: PhysicalWindow, step: int) -> PhysicalWindow:
    row = 4 * step % len(windows)
    return windows.select(slice(row, row + 1))


def grow(one: DemoQuery, options: DemoOptions, view: DemoView) -> Growth:
    """Let the plan run, shrink it to one compute site, and let it grow to two again."""
    query, turn = one.query, options.turn
    view.began("growing", f"{one.label} runs on 2 sites, and shrinks to 1")
    earlier = one.delivery()
    query.activate()
    query.rescale(GROWING.flow(turn, 1))
    view.progressed("growing", 1, 4, "1 compute site")
    before = _rate(one, options)
    view.progressed("growing", 2, 4, "growing from 1 compute site to 2")
    stall_s = query.rescale(GROWING.flow(turn, 2))
    view.progressed("growing", 3, 4, "2 compute sites")
    after = _rate(one, options)
    query.stop()
    growth = Growth(before, after, stall_s, one.delivery().since(earlier))
    view.ended("growing", f"from 1 site to 2: {before:,.0f} MB/s, then {after:,.0f} MB/s")
    return growth


def _rate(one: DemoQuery, options: DemoOptions) -> float:
    """MB of input per second, from what comes to the sink of a query that runs."""
    time.sleep(min(SETTLE_S, options.seconds))
    arrived, began_s = int(one.counts()["arrived"]), time.monotonic()
    time.sleep(2 * options.seconds)
    windows = int(one.counts()["arrived"]) - arrived
    return windows * options.window * BYTES_PER_SAMPLE / 1e6 / (time.monotonic() - began_s)
