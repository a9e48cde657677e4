"""What the figures of the demo mean, in sentences that are computed from them, and what the optimizer makes of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from gsdm_grid.apps.demo.report import (
    BARE_PROCESSES,
    DemoReport,
    Growth,
    PlanReport,
    WorkReport,
)
from gsdm_grid.optimizer import (
    Choice,
    Tried,
    choose,
)
from gsdm_grid.spec import parse_criteria

LIMITING = 0.75
"""A site that is busy for at least this share of the time is said to be the limit."""
MOSTLY = 0.6
"""Of a function that takes less than this share of a plan's CPU time is said that moving windows costs more."""
ON_THIS_MACHINE, A_CORE_EACH = "measured_throughput", "throughput"
"""What the optimizer is asked to make large: the rate that was measured, or the one with a core for each site."""


def verdict(work: WorkReport, disturbed: bool = False) -> str:
    """Which plan won, by what factor, and why, in a sentence. Who wins was faster than central in each round.

    Where other programs disturbed the measurement nothing is said of why: it would rest on how busy sites were.
    """
    name = work.workload.described
    if not work.central.mb_s:
        return f"{name}: nothing can be said, because no window came through in so short a time."
    best = max(work.others, key=lambda one: one.mb_s)
    factor, ratios = best.mb_s / work.central.mb_s, work.times_central(best)
    rounds = f"in each of {len(ratios)} rounds" if len(ratios) > 1 else "in the only round"
    if min(ratios) > 1:
        return (
            f"{name}: {_name(best)} won, {_times(factor)} as fast as central and faster {rounds}"
            f"{'' if disturbed else f', because {_why_faster(work.central, best)}'}."
        )
    if factor > 1:
        return (
            f"{name}: the rounds do not agree, so no plan won: {_name(best)} was {_times(factor)} as fast as central "
            f"in the median, but not faster {rounds}."
        )
    return (
        f"{name}: no plan was faster than central; the nearest, {_name(best)}, was {_times(factor)} as fast"
        f"{'' if disturbed else f', because {_why_not_faster(work.central, best)}'}."
    )


def _why_faster(central: PlanReport, best: PlanReport) -> str:
    alone, shared = central.computing_sites[:1], best.computing_sites
    if alone and alone[0] >= LIMITING and len(shared) > 1:
        return (
            f"central's compute site was its limit (busy {alone[0]:.0%} of the time) and {len(shared)} sites shared "
            f"the work (busy {_listed(shared)})"
        )
    return f"its sites kept {_cores(best)} busy, those of central {_cores(central)}"


def _why_not_faster(central: PlanReport, best: PlanReport) -> str:
    if central.computing_share < MOSTLY:
        return (
            f"only {central.computing_share:.0%} of central's CPU time is computing: the rest moves windows, which "
            "more sites do not make less"
        )
    if central.cores_busy >= LIMITING * (os.cpu_count() or 1):
        return f"central alone kept {_cores(central)} of {os.cpu_count()} busy"
    does, share = best.busiest
    return f"its sites got no more than {_cores(best)} together, and the busiest one ({does}) was busy {share:.0%}"


def transport_sentence(report: DemoReport) -> str:
    """Whether the source, or the way of the windows, is slower than the bare functions: no plan can be faster then."""
    alone, cores = report.transport.mb_s, max(BARE_PROCESSES)
    fact = f"With nothing to compute, source, channels and sink move {alone:,.0f} MB/s"
    if report.disturbed:
        return f"{fact}."
    bare = {work.workload.described: work.bare_mb_s(cores) for work in report.works}
    faster = {name: rate for name, rate in bare.items() if rate >= alone}
    if not faster:
        rate = max(bare.values(), default=0.0)
        return (
            f"{fact}, more than the bare functions reach on {cores} cores (at most {rate:,.0f} MB/s): they are not the "
            "limit."
        )
    rates = " and ".join(
        f"the bare {name} reaches on {cores} cores ({rate:,.0f} MB/s)" for name, rate in faster.items()
    )
    return f"{fact}, no more than {rates}: there they are the limit."


def growth_sentence(growth: Growth) -> str:
    """What became of a plan that grew while it ran."""
    lost = f"{growth.delivery.lost:,} of {growth.delivery.read:,} windows lost"
    order = "none doubled or out of order" if growth.delivery.in_order else "some doubled or out of order"
    return (
        f"Window distribute grew from 1 compute site to 2 while it ran: {growth.before_mb_s:,.0f} MB/s before, "
        f"{growth.after_mb_s:,.0f} MB/s after; the stream stood still for {growth.stall_s:.2f} s; {lost}, {order}."
    )


def choice(work: WorkReport, figure: str) -> Choice:
    """The plan that the optimizer chooses by a figure, from what these plans measured in all rounds."""
    count = min((one.windows for report in work.plans for one in report.rounds), default=0)
    tried = [
        Tried(report.plan.candidate(1), count, report.rounds[-1], results=tuple(report.rounds))
        for report in work.plans
        if report.plan is not None and report.rounds
    ]
    return choose(tried, parse_criteria({"maximize": figure}), {}, functions=work.workload.functions)


def choice_sentences(work: WorkReport) -> list[str]:
    """What the optimizer would choose for this machine, and if that is another plan, with a core for each site."""
    here, elsewhere = choice(work, ON_THIS_MACHINE), choice(work, A_CORE_EACH)
    sentences = [f"The optimizer would choose, for this machine: {here.summary}."]
    if elsewhere.plan != here.plan:
        sentences.append(f"With a core for each site it would choose: {elsewhere.summary}.")
    return sentences


def disturbance_sentence(report: DemoReport) -> str | None:
    """That other programs used the machine while it was measured, if they did."""
    if not report.disturbed:
        return None
    return (
        f"The bare functions got only {report.bare_cpu_share:.0%} of the CPU time that they asked for: other programs "
        "use this machine, and the figures say little. Reasons, which would rest on them, are left out."
    )


def report_json(report: DemoReport) -> dict[str, Any]:
    """A whole report as plain JSON."""
    return {
        "ok": report.ok,
        "problems": report.problems,
        "workloads": {work.workload.name: _work_json(work, report.disturbed) for work in report.works if work.plans},
        "bare_cpu_share": report.bare_cpu_share,
        "transport": report.transport.to_json(),
        "growth": report.growth and report.growth.to_json(),
        "pictures": [str(path) for path in report.pictures],
    }


def _work_json(work: WorkReport, disturbed: bool) -> dict[str, Any]:
    return {
        "functions": list(work.workload.functions),
        "bare_mb_s": {str(number): round(work.bare_mb_s(number), 2) for number in work.bare},
        "plans": {one.plan.name: _plan_json(work, one) for one in work.plans if one.plan},
        "verdict": verdict(work, disturbed),
        "optimizer": {figure: _choice_json(choice(work, figure)) for figure in (ON_THIS_MACHINE, A_CORE_EACH)},
    }


def _plan_json(work: WorkReport, one: PlanReport) -> dict[str, Any]:
    return {**one.to_json(), "of_limit": round(of_limit(work, one), 3)}


def _choice_json(chosen: Choice) -> dict[str, Any]:
    return {"plan": chosen.plan.to_json(), "sure": chosen.sure, "summary": chosen.summary}


def of_limit(work: WorkReport, report: PlanReport) -> float:
    """A plan's rate as a share of what the bare functions reach in two processes."""
    limit = work.bare_mb_s(max(work.bare))
    return report.mb_s / limit if limit else 0.0


def _name(report: PlanReport) -> str:
    return report.plan.words if report.plan else "nothing computed"


def _times(factor: float) -> str:
    return f"{factor:.2f} times"


def _cores(report: PlanReport) -> str:
    return f"{report.cores_busy:.1f} cores"


def _listed(shares: Sequence[float]) -> str:
    """Shares in words.

    >>> _listed([0.914, 0.9])
    '91% and 90%'
    """
    *first, last = (f"{share:.0%}" for share in shares)
    return f"{', '.join(first)} and {last}" if first else last
