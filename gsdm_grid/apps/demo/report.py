"""What the demo has measured, as data: rates, what the sites spent, and whether every window came, in its place."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gsdm_grid.apps.demo.bare_kernel import BareRate
from gsdm_grid.apps.demo.plans import (
    GROWING,
    PLANS,
    WORKLOADS,
    DemoPlan,
    Workload,
)
from gsdm_grid.optimizer import TrialResult
from gsdm_grid.plan import Plan
from gsdm_grid.reports import functions_of

BARE_PROCESSES = (1, 2)
UNDISTURBED = 0.9
"""A loop that gets less than this share of a core was disturbed by other programs."""


@dataclass
class Delivery:
    """How many windows were read, and what became of them. ``difference``: what was not as in the central plan."""

    read: int = 0
    arrived: int = 0
    missing: int = 0
    misplaced: int = 0
    time_reversals: int = 0
    difference: str | None = None

    @property
    def in_order(self) -> bool:
        """Whether no window came twice, too late or with a time that goes back."""
        return not self.misplaced and not self.time_reversals

    @property
    def lost(self) -> int:
        """Windows that were read and did not come."""
        return max(self.read - self.arrived, self.missing, 0)

    @property
    def problem(self) -> str | None:
        """What is wrong, in words; None if nothing is."""
        if self.lost:
            return f"{self.lost:,} of {self.read:,} windows lost"
        if not self.in_order or self.arrived != self.read:
            number = max(self.misplaced, self.time_reversals, self.arrived - self.read)
            return f"{number:,} window{'s' if number > 1 else ''} doubled or out of order"
        return self.difference

    def since(self, earlier: Delivery) -> Delivery:
        """What has been delivered after this was noted before."""
        return Delivery(
            self.read - earlier.read,
            self.arrived - earlier.arrived,
            self.missing - earlier.missing,
            self.misplaced - earlier.misplaced,
            self.time_reversals - earlier.time_reversals,
            self.difference,
        )


@dataclass
class PlanReport:
    """What one query of the demo did: rounds of measuring, and what was delivered. ``plan`` None: it computes nothing.

    Mutable until the demo is over.
    """

    plan: DemoPlan | None
    rounds: list[TrialResult] = field(default_factory=list)
    delivery: Delivery = field(default_factory=Delivery)
    compared: int = 0
    compiled: Plan | None = None

    @property
    def rates(self) -> list[float]:
        """MB of input per second, by round."""
        return [one.bytes / 1e6 / one.seconds if one.seconds else 0.0 for one in self.rounds]

    @property
    def mb_s(self) -> float:
        """The median of the rates."""
        return statistics.median(self.rates) if self.rounds else 0.0

    @property
    def busy(self) -> dict[str, float]:
        """CPU time of each site as a share of the duration of all rounds; the busiest site first."""
        seconds = sum(one.seconds for one in self.rounds) or 1e-9
        spent_s: dict[str, float] = {}
        for site in (site for one in self.rounds for site in one.sites):
            spent_s[site.site] = spent_s.get(site.site, 0.0) + site.utilization_s
        return {site: spent_s[site] / seconds for site in sorted(spent_s, key=lambda name: -spent_s[name])}

    @property
    def computing_sites(self) -> list[float]:
        """How busy the compute sites were, the busiest first."""
        compute = {site.site for one in self.rounds for site in one.sites if site.role == "compute"}
        return [share for site, share in self.busy.items() if site in compute]

    @property
    def cores_busy(self) -> float:
        """How many cores all its sites together kept busy."""
        return sum(self.busy.values())

    @property
    def computing_share(self) -> float:
        """Share of its CPU time that went into functions on compute sites; the rest moved windows."""
        sites = [site for one in self.rounds for site in one.sites]
        total_s = sum(site.utilization_s for site in sites)
        return sum(site.processing_s for site in sites if site.role == "compute") / total_s if total_s else 0.0

    @property
    def busiest(self) -> tuple[str, float]:
        """What the busiest site does, and how busy it was."""
        site, share = next(iter(self.busy.items()), ("", 0.0))
        return (functions_of(self.compiled, site) if self.compiled and site else site), share

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        does, share = self.busiest
        return {
            "degree": self.plan.degree if self.plan else 1,
            "mb_s": round(self.mb_s, 2),
            "rounds_mb_s": [round(rate, 2) for rate in self.rates],
            "windows": self.delivery.arrived,
            "windows_compared": self.compared,
            "lost": self.delivery.lost,
            "in_order": self.delivery.in_order,
            "equals_central": self.delivery.difference is None,
            "problem": self.delivery.problem,
            "busiest_does": does,
            "utilization": round(share, 3),
            "cores_busy": round(self.cores_busy, 3),
        }


@dataclass
class WorkReport:
    """All plans of one workload, and the bare kernel beside them: its rates by number of processes, round by round."""

    workload: Workload
    plans: list[PlanReport] = field(default_factory=list)
    bare: dict[int, list[BareRate]] = field(default_factory=lambda: {number: [] for number in BARE_PROCESSES})

    @property
    def central(self) -> PlanReport:
        """The plan that the others are compared with."""
        return next(one for one in self.plans if one.plan is not None and one.plan.name == "central")

    @property
    def others(self) -> list[PlanReport]:
        """The parallel plans."""
        return [one for one in self.plans if one is not self.central]

    def bare_mb_s(self, processes: int) -> float:
        """The median rate of the bare functions in so many processes."""
        return statistics.median([one.mb_s for one in self.bare[processes]]) if self.bare[processes] else 0.0

    def times_central(self, report: PlanReport) -> list[float]:
        """How many times as fast as central a plan was, round by round."""
        return [rate / max(central, 1e-9) for rate, central in zip(report.rates, self.central.rates, strict=True)]


@dataclass
class Growth:
    """A plan that grew from one compute site to two while it ran."""

    before_mb_s: float
    after_mb_s: float
    stall_s: float
    delivery: Delivery

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "plan": GROWING.name,
            "before_mb_s": round(self.before_mb_s, 2),
            "after_mb_s": round(self.after_mb_s, 2),
            "stall_s": round(self.stall_s, 3),
            "windows": self.delivery.arrived,
            "lost": self.delivery.lost,
            "in_order": self.delivery.in_order,
        }


@dataclass
class DemoReport:
    """The outcome of a demo."""

    works: list[WorkReport] = field(default_factory=lambda: [WorkReport(workload) for workload in WORKLOADS])
    transport: PlanReport = field(default_factory=lambda: PlanReport(None))
    growth: Growth | None = None
    pictures: list[Path] = field(default_factory=list)

    @property
    def plans(self) -> list[PlanReport]:
        """All plans, in the order in which they are shown."""
        return [one for work in self.works for one in work.plans]

    @property
    def bare_cpu_share(self) -> float | None:
        """CPU time that the bare functions got, as a share of what they asked for; None if they were not measured."""
        shares = [rate.cpu_share for work in self.works for rates in work.bare.values() for rate in rates]
        return round(statistics.mean(shares), 3) if shares else None

    @property
    def disturbed(self) -> bool:
        """Whether other programs used the machine while it was measured."""
        return self.bare_cpu_share is not None and self.bare_cpu_share < UNDISTURBED

    @property
    def problems(self) -> list[str]:
        """What was lost, doubled, reordered or different anywhere, in words."""
        deliveries: Sequence[tuple[str, Delivery]] = [
            *((one.plan.label if one.plan else "", one.delivery) for one in self.plans),
            ("nothing computed", self.transport.delivery),
            *([("growing", self.growth.delivery)] if self.growth else []),
        ]
        return [f"{name}: {delivery.problem}" for name, delivery in deliveries if delivery.problem is not None]

    @property
    def ok(self) -> bool:
        """Whether everything ran, and no window was lost, doubled, reordered or different."""
        return len(self.plans) == len(PLANS) and self.growth is not None and not self.problems


def work_of(report: DemoReport, plan: DemoPlan) -> WorkReport:
    """Where a plan belongs."""
    return next(work for work in report.works if work.workload is plan.workload)


def delivery_of(counts: Mapping[str, Any], read: int, difference: str | None = None) -> Delivery:
    """From what a sink of the demo has counted."""
    return Delivery(
        read,
        int(counts["arrived"]),
        int(counts["missing"]),
        int(counts["misplaced"]),
        int(counts["time_reversals"]),
        difference,
    )
