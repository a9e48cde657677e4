"""Splitstream plans at work: which sites route, split and merge, and what they report. Pure.

From the statistics of a run come observations for the cost models, and what became of the tuples. In a parasplit plan
the number of window splitters is the degree of parallelism that may change while the query runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gsdm_grid.planning.plan import Plan, PlanOperator, PlanSite
from gsdm_grid.planning.split_fit import Kind, Observed
from gsdm_grid.planning.split_sample import SplitSample

SPLIT, ROUTE = "split", "route"
"""Names of the functions of splitters and of window routers."""

Statistics = Mapping[str, Mapping[str, Any]]


def split_kinds(plan: Plan) -> dict[str, Kind]:
    """What sites do in a splitstream plan: route windows, split them, or read what was split. Others are not in it."""
    found: dict[str, Kind] = {}
    for site in plan.sites:
        names = {operator.function["name"] for operator in site.operators}
        if names & {ROUTE, SPLIT}:
            found[site.id] = "router" if ROUTE in names else "splitter"
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
        counted = statistics[site.id]["operators"][_entry("splitter", site).id]
        if counted["tuples"]:
            routed = tuple(count - counted["broadcast"] for count in counted["per_output"])
            found.append(SplitSample(counted["tuples"], counted["omitted"], counted["broadcast"], routed))
    return found


def _observed(kind: Kind, site: PlanSite, told: Mapping[str, Any]) -> Observed:
    entry = _entry(kind, site)
    counted = told["operators"][entry.id]
    emitted = counted["windows_out"]
    return Observed(
        kind,
        tuples=counted["windows_in"],
        placed=emitted + counted.get("omitted", 0),
        emitted=emitted,
        windows=sum(told["streams"][name]["blocks"] for name in entry.inputs if name in told["streams"]),
        outputs=len(set(entry.carries)) or len(entry.outputs),
        inputs=len(entry.inputs),
        processing_s=told["processing_s"],
        communication_s=told["communication_s"] + told["system_s"],
    )


def _entry(kind: Kind, site: PlanSite) -> PlanOperator:
    """The operator that makes a site what it is; of a query processor the one that reads the split streams."""
    wanted = {"router": ROUTE, "splitter": SPLIT}.get(kind)
    return next(one for one in site.operators if wanted is None or one.function["name"] == wanted)
