"""What splitstream plans cost: equations 1–9 of "Scalable splitting of massive data streams", with their symbols. Pure.

Costs are CPU seconds per tuple of the input stream (Φ = 1), so that the rate of a plan with one core per site is one
over the cost of its most loaded site. The papers' systems handle single tuples; ours handles columns, and pays for
every physical window, and for every part of one that goes to an output, however few tuples are in it. Those terms
(``crW``, ``ceW``) are zero in `PAPER`; `gsdm profile split` measures them all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from gsdm_grid.errors import QueryError
from gsdm_grid.flow import Fanouts, cumulative_fanouts, tree_nodes


@dataclass(frozen=True)
class Coefficients:
    """Costs in CPU seconds: per tuple, or where it says so per physical window. Immutable.

    The first paper calls the cost of deciding and moving a tuple ``cp``, the second ``cs``: they are one here.
    """

    cc: float
    """Consume: read a tuple and evaluate rfn and bfn on it, once, whatever becomes of it."""
    cp: float
    """Process (``cs`` of the second paper): put a tuple into the part of one output."""
    ce: float
    """Emit: send a tuple to one output."""
    crW: float = 0.0
    """Per physical window: take it in."""
    ceW: float = 0.0
    """Per physical window and output: hand over its part, however small."""
    cr: float = 0.0
    """Read a tuple at a query processor."""
    cm: float = 0.0
    """Merge: put a tuple that came through one of several splitters into its place."""
    cmW: float = 0.0
    """Per part of a physical window that reaches a query processor: take it in, and merge it."""
    cpoll: float = 0.0
    """Per such part and input stream: look whether it can be decided (``cp`` of the second paper)."""
    router: float = 0.0
    """Per physical window at a window router: crW + csW + ceW of the second paper together."""

    @property
    def a(self) -> float:
        """cc / (cp + ce)."""
        return self.cc / (self.cp + self.ce)

    def to_json(self) -> dict[str, float]:
        """As plain JSON."""
        return asdict(self)


PAPER = Coefficients(cc=1.0, cp=0.5, ce=0.5)
"""What the first paper assumes for its theoretical curves: cc = 1 and a = 1, in units of 1 / E, the emit capacity."""


@dataclass(frozen=True)
class StreamShares:
    """What becomes of the tuples of a stream, and how many come in one physical window. Immutable."""

    b: float = 0.0
    """Broadcast."""
    o: float = 0.0
    """Omitted."""
    n: float = float("inf")
    """Tuples per physical window; infinite leaves the costs per physical window out, as the first paper does."""

    def __post_init__(self) -> None:
        if not (self.b >= 0 and self.o >= 0 and self.b + self.o <= 1 + 1e-12):
            raise QueryError(f"shares must be from 0 to 1 together, got b = {self.b} and o = {self.o}")
        if not self.n > 0:
            raise QueryError(f"a physical window holds at least one tuple, got n = {self.n}")

    @property
    def r(self) -> float:
        """Routed: o + r + b = 1."""
        return max(0.0, 1.0 - self.b - self.o)

    @property
    def uncopied(self) -> float:
        """Share of the physical windows that hold only tuples to broadcast: those are passed on as they are.

        The papers' systems have no such thing, nor does a model that leaves physical windows out.
        """
        return 0.0 if math.isinf(self.n) else float(self.b**self.n)

    @property
    def emitting(self) -> StreamShares:
        """The shares below the root of a tree, which has omitted what is to be omitted."""
        kept = 1.0 - self.o
        return replace(self, b=self.b / kept, o=0.0, n=self.n * kept) if kept > 0 else replace(self, b=0.0, o=0.0)


@dataclass(frozen=True)
class PredictedSites:
    """Sites of a plan that do the same: how many, and what one of them spends per tuple of the input stream."""

    name: str
    count: int
    cost_s: float


@dataclass(frozen=True)
class Prediction:
    """What a plan is expected to do. Immutable. ``limit`` is a rate that no site can change, such as the channel's."""

    plan: str
    sites: tuple[PredictedSites, ...]
    shape: dict[str, Any] = field(default_factory=dict)
    limit: float = float("inf")

    @property
    def bottleneck(self) -> str:
        """The kind of site that sets the pace, or the channel."""
        busiest = max(self.sites, key=lambda site: site.cost_s)
        return "channel" if busiest.cost_s * self.limit < 1 else busiest.name

    @property
    def rate(self) -> float:
        """Tuples per second with one core per site (equation 7 with E = 1 core)."""
        busiest = max(site.cost_s for site in self.sites)
        return min(self.limit, 1 / busiest if busiest > 0 else float("inf"))

    @property
    def cost_s(self) -> float:
        """CPU seconds of all sites per tuple (equation 8)."""
        return sum(site.count * site.cost_s for site in self.sites)

    @property
    def site_count(self) -> int:
        """How many sites the plan has."""
        return sum(site.count for site in self.sites)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON, with everything that is derived."""
        return {
            "plan": self.plan,
            **self.shape,
            "tuples_s": self.rate,
            "cpu_s_per_tuple": self.cost_s,
            "bottleneck": self.bottleneck,
            "site_count": self.site_count,
            "sites": [asdict(site) for site in self.sites],
        }


def fsplit_cost(given: Coefficients, shares: StreamShares, w: int) -> float:
    """C = cc + cp·(o + r + w·b) + ce·(r + w·b) (equation 1 with Φ = 1), and the costs per physical window.

    >>> fsplit_cost(PAPER, StreamShares(b=0.005), 64)
    2.315
    """
    emitted = shares.r + w * shares.b
    per_window = (given.crW + w * given.ceW) / shares.n
    moved = given.cp * (shares.o + emitted) + given.ce * emitted
    return given.cc + (1 - shares.uncopied) * moved + per_window


def output_rate(shares: StreamShares, w: int) -> float:
    """Φ_o = Φ·(b + r / w), the rate of one output if rfn favours none (equation 5 with λ_ℓ = w)."""
    return shares.b + shares.r / w


def level_shares(shares: StreamShares, cumulative: int) -> tuple[float, float]:
    """r_ℓ and b_ℓ of a level above which the fanout is ``cumulative`` = λ_(ℓ-1) (equation 4)."""
    routed, broadcast = shares.r, shares.b * cumulative
    total = routed + broadcast
    return (routed / total, broadcast / total) if total else (1.0, 0.0)


def level_cost(given: Coefficients, shares: StreamShares, cumulative: int, fanout: int) -> float:
    """C_ℓ = Φo_(ℓ-1)·(cc + (cp + ce)·(r_ℓ + f_ℓ·b_ℓ)) of one node of a level (equation 6).

    Every node of every level gets a part of every physical window, so those terms do not shrink on the way down.
    """
    routed, broadcast = level_shares(shares, cumulative)
    moved = (given.cp + given.ce) * (routed + fanout * broadcast)
    per_tuple = given.cc + (1 - shares.uncopied) * moved
    return output_rate(shares, cumulative) * per_tuple + (given.crW + fanout * given.ceW) / shares.n


def tree_prediction(
    name: str, given: Coefficients, shares: StreamShares, fanouts: Fanouts, w: int | None = None
) -> Prediction:
    """Rate and cost of a splitstream tree (equations 7 and 8), cut to ``w`` outputs if that is less than it could have.

    The paper lets no tuple be omitted. Where some are, the root omits them, and the levels below see fewer.
    """
    below = shares.emitting
    kept = 1.0 - shares.o
    cumulative = cumulative_fanouts(fanouts)
    sites = []
    for level, nodes in enumerate(tree_nodes(fanouts, w or cumulative[-1]), 1):
        for outputs, count in nodes.items():
            root = level == 1
            above = cumulative[level - 1]
            cost = fsplit_cost(given, shares, outputs) if root else kept * level_cost(given, below, above, outputs)
            sites.append(PredictedSites(f"level {level}", count, cost))
    return Prediction(name, tuple(sites), {"fanouts": list(fanouts)})


def fsplit_prediction(given: Coefficients, shares: StreamShares, w: int) -> Prediction:
    """Rate and cost of a single process."""
    return Prediction("fsplit", (PredictedSites("fsplit", 1, fsplit_cost(given, shares, w)),), {"fanouts": [w]})


def with_query_processors(prediction: Prediction, given: Coefficients, shares: StreamShares, w: int) -> Prediction:
    """The plan with those who read its outputs: each reads one stream, and merges nothing."""
    cost = output_rate(shares, w) * given.cr + given.cmW / shares.n
    return replace(prediction, sites=(*prediction.sites, PredictedSites("query processor", w, cost)))


def best(predictions: Sequence[Prediction]) -> Prediction:
    """The plan of the greatest rate; among those within a hundredth of it the one that costs least."""
    fastest = max(one.rate for one in predictions)
    return min((one for one in predictions if one.rate >= fastest * 0.99), key=lambda one: one.cost_s)
