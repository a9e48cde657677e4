"""Splitstream plans at work: which sites route, split and merge, and what they report. Pure.

From the statistics of a run come observations for the cost models, and what became of the tuples. In a parasplit plan
the number of window splitters is the degree of parallelism that may change while the query runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gsdm_grid.plan import Plan, PlanOperator, PlanSite
from gsdm_grid.splitting.split_fit import Observed, SplitSiteKind
from gsdm_grid.splitting.split_sample import SplitSample

Statistics = Mapping[str, Mapping[str, Any]]


def split_kinds(plan: Plan) -> dict[str, SplitSiteKind]:
    """What sites do in a splitstream plan: route windows, split them, or read what was split. Others are not in it."""
    found: dict[str, SplitSiteKind] = {}
    for site in plan.sites:
        work = {_split_work(operator) for operator in site.operators}
        if work != {None}:
            found[site.id] = "router" if "router" in work else "splitter"
    splitters = {site for site, kind in found.items() if kind == "splitter"}
    for stream in plan.streams:
        if stream.from_site in splitters and stream.to_site is not None:
            found.setdefault(stream.to_site, "processor")
    return found


def scaled_sites(plan: Plan) -> frozenset[str]:
    """The sites whose number is the degree of parallelism: window splitters behind a router, else compute sites."""
    kinds = split_kinds(plan)
    if "router" in kinds.values():
        return frozenset(site for site, kind in kinds.items() if kind == "splitter")
    return frozenset(site.id for site in plan.sites if site.role == "compute")


def observations(plan: Plan, statistics: Statistics) -> dict[str, Observed]:
    """What routers, splitters and query processors did and spent, by site; only those that have reported."""
    kinds = split_kinds(plan)
    return {
        site.id: _observed(kinds[site.id], site, statistics[site.id])
        for site in plan.sites
        if site.id in kinds and site.id in statistics
    }


def samples(plan: Plan, statistics: Statistics) -> list[SplitSample]:
    """What became of the tuples, as those splitters report that see the stream itself: not those below another."""
    kinds = split_kinds(plan)
    splitters = [site for site in plan.sites if kinds.get(site.id) == "splitter"]
    below = {stream.to_site for stream in plan.streams if kinds.get(stream.from_site or "") == "splitter"}
    found = []
    for site in splitters:
        if site.id in below or site.id not in statistics:
            continue
        for entry in _entries("splitter", site):
            counted = statistics[site.id]["operators"][entry.id]
            if counted["tuples"]:
                routed = tuple(count - counted["broadcast"] for count in counted["per_output"])
                found.append(SplitSample(counted["tuples"], counted["omitted"], counted["broadcast"], routed))
    return found


def _observed(kind: SplitSiteKind, site: PlanSite, told: Mapping[str, Any]) -> Observed:
    entries = _entries(kind, site)
    counted = [told["operators"][entry.id] for entry in entries]
    emitted = sum(one["windows_out"] for one in counted)
    streams = {name for entry in entries for name in entry.inputs}
    return Observed(
        kind,
        tuples=sum(one["windows_in"] for one in counted),
        placed=emitted + sum(one.get("omitted", 0) for one in counted),
        emitted=emitted,
        windows=sum(told["streams"][name]["blocks"] for name in streams if name in told["streams"]),
        outputs=len(set(entries[0].carries)) or len(entries[0].outputs),
        inputs=len(entries[0].inputs),
        processing_s=told["processing_s"],
        communication_s=told["communication_s"] + told["system_s"],
        members=len(entries),
    )


def _entries(kind: SplitSiteKind, site: PlanSite) -> list[PlanOperator]:
    """The operators that make a site what it is; query processors that share one are those that read from outside."""
    if kind != "processor":
        return [operator for operator in site.operators if _split_work(operator) == kind]
    inside = {name for operator in site.operators for name in operator.outputs}
    return [operator for operator in site.operators if not inside & set(operator.inputs)]


def _split_work(operator: PlanOperator) -> SplitSiteKind | None:
    """Whether an operator routes physical windows or splits by tuples; None if it does neither."""
    traits = operator.resolved.traits
    return "router" if traits.routes_blocks else "splitter" if traits.routes_by else None
