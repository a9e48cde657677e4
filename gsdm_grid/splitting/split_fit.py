"""From what sites spent to the coefficients of the cost models: least squares of the errors of rates. Pure.

Each kind of site is explained by a few counts: tuples that arrived, tuples that left, physical windows, parts of them.
Coefficients are not negative. Runs of different widths, broadcast shares and window sizes tell the terms apart.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from gsdm_grid.errors import QueryError
from gsdm_grid.splitting.split_cost import Coefficients

SplitSiteKind = Literal["splitter", "router", "processor"]
STEPS = 8
LEAST_EXPLAINED = 0.05
"""Share of a cost that counts as explained at least: a site that is explained badly is not to rule all others."""
LEAST_S = 1e-12
"""What it costs at least to put a tuple somewhere, also if noise says otherwise: other costs are compared with it."""


@dataclass(frozen=True)
class Observed:
    """What one site, or several that do the same, did in a run, and the CPU seconds spent on it. Immutable."""

    kind: SplitSiteKind
    tuples: int
    """Arrived."""
    placed: int
    """Times that a tuple was put somewhere or found to be of no use: (o + r + w·b) times the tuples."""
    emitted: int
    """Tuples sent, counted once for each output: (r + w·b) times the tuples."""
    windows: int
    """Physical windows, or parts of them, that arrived."""
    outputs: int
    inputs: int
    processing_s: float
    communication_s: float
    """With what the system spent around it."""
    members: int = 1
    """Query processors that share the site; of several sites, theirs together, or how many sites there are."""

    @property
    def cost_s(self) -> float:
        """All of it."""
        return self.processing_s + self.communication_s

    @property
    def member_cost_s(self) -> float:
        """What one of the query processors on the site spends; of other sites, the site."""
        return self.cost_s / self.members

    def less(self, before: Observed) -> Observed:
        """What it did since ``before``."""
        return self._with(DONE, lambda name: getattr(self, name) - getattr(before, name))

    @staticmethod
    def together(sites: Sequence[Observed]) -> Observed:
        """Sites that do the same, as one observation: a hundred of them are not to outweigh one of another kind."""
        return sites[0]._with((*DONE, "members"), lambda name: sum(getattr(site, name) for site in sites))

    def _with(self, names: Collection[str], value: Callable[[str], float]) -> Observed:
        return replace(self, **{name: value(name) for name in names})  # type: ignore[arg-type]


DONE = ("tuples", "placed", "emitted", "windows", "processing_s", "communication_s")
"""What adds up."""


def fit(observed: Sequence[Observed]) -> Coefficients:
    """The coefficients that explain the observations best.

    Needs splitters of different widths, broadcast shares and window sizes; routers, and query processors behind one
    and behind several splitters, add their terms.
    """
    splitters = _of_kind(observed, "splitter")
    if len(splitters) < 4:
        raise QueryError(f"the costs of splitting need runs of at least 4 different splitters, got {len(splitters)}")
    # processing puts tuples into parts, communication sends them: told apart, because statistics do
    cc_p, cp, crW_p, ceW_p = _solved(splitters, _processing, lambda one: one.processing_s)
    cc_e, ce, crW_e, ceW_e = _solved(splitters, _sending, lambda one: one.communication_s)
    routers = _of_kind(observed, "router")
    router = _solved(routers, lambda one: [one.windows], _cost)[0] if routers else 0.0
    processors = _of_kind(observed, "processor")
    cr = cm = cmW = cpoll = 0.0
    if processors:
        cr, cm, cmW, cpoll = _solved(processors, _merging, _cost)
    return Coefficients(
        cc=cc_p + cc_e,
        cp=max(cp, LEAST_S),
        ce=ce,
        crW=crW_p + crW_e,
        ceW=ceW_p + ceW_e,
        cr=cr,
        cm=cm,
        cmW=cmW,
        cpoll=cpoll,
        router=router,
    )


def explained_s(given: Coefficients, site: Observed) -> float:
    """CPU seconds that the coefficients give for what a site did."""
    if site.kind == "router":
        return given.router * site.windows
    if site.kind == "processor":
        terms = (given.cr, given.cm, given.cmW, given.cpoll)
        return float(np.dot(terms, _merging(site)))
    per_tuple = given.cc * site.tuples + given.cp * site.placed + given.ce * site.emitted
    return per_tuple + site.windows * (given.crW + site.outputs * given.ceW)


def median_error(given: Coefficients, observed: Sequence[Observed]) -> float:
    """Median of the relative errors of what the coefficients explain."""
    errors = [abs(explained_s(given, site) - site.cost_s) / site.cost_s for site in observed if site.cost_s > 0]
    return statistics.median(errors) if errors else 0.0


def _of_kind(observed: Sequence[Observed], kind: SplitSiteKind) -> list[Observed]:
    return [site for site in observed if site.kind == kind and site.windows]


def _processing(site: Observed) -> list[float]:
    return [site.tuples, site.placed, site.windows, site.windows * site.outputs]


def _sending(site: Observed) -> list[float]:
    return [site.tuples, site.emitted, site.windows, site.windows * site.outputs]


def _merging(site: Observed) -> list[float]:
    merged = site.tuples if site.inputs > 1 else 0
    return [site.tuples, merged, site.windows, site.windows * site.inputs]


def _cost(site: Observed) -> float:
    return site.cost_s


def _solved(
    sites: Sequence[Observed], counts: Callable[[Observed], list[float]], spent: Callable[[Observed], float]
) -> list[float]:
    """Non-negative coefficients of the counts, by the relative error of the rates that they give.

    A rate is one over a cost, so errors are taken relative to what is explained, which the weights follow step by step.
    A site that did little weighs as much as another.
    """
    from scipy.optimize import nnls

    counted = np.array([counts(site) for site in sites], np.float64)
    seconds = np.array([spent(site) for site in sites])
    least = seconds.max(initial=0.0) * 1e-3 + 1e-12
    explained = seconds
    for _ in range(STEPS):
        weights = 1 / np.maximum(explained, least)
        rows = counted * weights[:, None]
        scale = np.maximum(np.abs(rows).max(axis=0), 1e-300)  # counts differ by many orders of magnitude
        found = nnls(rows / scale, seconds * weights)[0] / scale
        explained = np.maximum(counted @ found, seconds * LEAST_EXPLAINED)
    return [float(value) for value in found]
