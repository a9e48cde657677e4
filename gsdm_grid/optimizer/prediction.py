"""What a plan would cost, judged by the trial of a smaller one: the cost model that keeps the search from trying it.

Deliberately simple and optimistic: more compute sites share the compute work evenly, and nothing else becomes dearer. A
plan that is not good enough even so need not be tried. Costs are CPU seconds per window of the busiest site.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gsdm_grid.optimizer.candidates import Parallel
from gsdm_grid.optimizer.trial_result import SiteCost, TrialResult

SPREAD = ("partition", "combine")
"""Roles that a tree spreads over several sites."""


def grown_cost_s(result: TrialResult, stage: Collection[str], degree: int, wanted: int) -> float:
    """Cost with ``wanted`` instead of ``degree`` compute sites at the sites of one stage."""

    def seconds(site: SiteCost) -> float:
        shared = site.site in stage and site.role == "compute"
        return site.utilization_s * degree / wanted if shared else site.utilization_s

    return result.per_window_s(max(map(seconds, result.sites), default=0.0))


def tree_cost_s(
    result: TrialResult, stage: Collection[str], wanted: Parallel, flat: Mapping[int, TrialResult]
) -> float:
    """Cost of a tree instead of the flat plan of the same degree.

    Its outermost sites split and combine as many ways as the flat plan of that smaller degree does, if that was tried
    (``flat``: results by degree); else their work is taken to shrink as the number of ways does.
    """
    outer = wanted.fan_outs[0]
    known = flat.get(outer)

    def seconds(site: SiteCost) -> float:
        if site.site not in stage or site.role not in SPREAD:
            return result.per_window_s(site.utilization_s)
        if known is None:
            return result.per_window_s(site.utilization_s * outer / wanted.degree)
        same = [one.utilization_s for one in known.sites if one.role == site.role]
        return known.per_window_s(max(same, default=0.0))

    return max(map(seconds, result.sites), default=0.0)


def balanced_degree(result: TrialResult, stage: Collection[str], degree: int) -> float:
    """Degree at which the compute sites of a stage would be no busier than the busiest of the others."""
    compute = max((s.utilization_s for s in result.sites if s.site in stage and s.role == "compute"), default=0.0)
    others = max((s.utilization_s for s in result.sites if s.site not in stage or s.role != "compute"), default=0.0)
    return degree * compute / others if others > 0 else float("inf")
