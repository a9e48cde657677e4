"""What parasplit costs: equations 1–7 of "Massive scale-out of expensive continuous queries", as code. Pure.

A window router hands whole physical windows to p window splitters, which send each tuple to some of q query processors,
which merge what they get. Symbols are the paper's; costs are CPU seconds per tuple of the input stream of the process
in question, unless the name says otherwise. Equation 6 is `gsdm_grid.flow.split_shapes.window_splitters`; the size of
physical windows is chosen by `gsdm_grid.tuning.window_size.choose`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from gsdm_grid.flow import window_splitters
from gsdm_grid.splitting.split_cost import (
    Coefficients,
    PredictedSites,
    Prediction,
    StreamShares,
    fsplit_cost,
    output_rate,
)

MAX_ROUTER_FANOUT = 64
"""More splitters than this get a tree of routers: the paper's router slowed down beyond 64 outputs."""


@dataclass(frozen=True)
class ProcessCosts:
    """Coefficients of any stream process, per tuple (equation 1): read, poll, merge, query, split, emit."""

    cr: float = 0.0
    cp: float = 0.0
    cm: float = 0.0
    cq: float = 0.0
    cs: float = 0.0
    ce: float = 0.0


def process_cost(given: ProcessCosts, shares: StreamShares, u: int = 1, q: int = 1, sigma: float = 1.0) -> float:
    """C = cr + (cp + cm)·u + cq + σ·(cs·(o + r + q·b) + ce·(r + q·b)) (equation 1).

    ``u`` is the number of input streams, ``sigma`` the selectivity of the query.
    """
    emitted = shares.r + q * shares.b
    split = given.cs * (shares.o + emitted) + given.ce * emitted
    return given.cr + (given.cp + given.cm) * u + given.cq + sigma * split


def router_cost(given: Coefficients, shares: StreamShares) -> float:
    """C_PR = crW + csW + ceW (equation 2), spent once per physical window: the larger that is, the less per tuple."""
    return given.router / shares.n


def splitter_cost(given: Coefficients, shares: StreamShares, q: int) -> float:
    """C_PS = crW + cs·(o + r + q·b) + ce·(r + q·b) (equation 3): a window splitter is an fsplit of physical windows."""
    return fsplit_cost(given, shares, q)


def query_processor_cost(given: Coefficients, shares: StreamShares, p: int, q: int, operator_s: float = 0.0) -> float:
    """C_PQ = cr + p·(cp + cm) + O per tuple that it receives (equation 4), ``operator_s`` being O.

    We merge columns: putting a tuple into its place costs the same for every p. What grows with p is the look at all
    input streams, which is taken once for each part of a physical window.
    """
    received = shares.n * output_rate(shares, q)
    merged = given.cm if p > 1 else 0.0
    return given.cr + merged + (given.cmW + p * given.cpoll) / received + operator_s


def heuristic_splitter_cost(given: Coefficients, q: int, b: float = 0.01) -> float:
    """Ĉ_PS = (cs + ce)·(1 - b + b·q) (equation 5): reading is taken as free, nothing as omitted."""
    return (given.cp + given.ce) * (1 - b + b * q)


def parasplit_prediction(
    given: Coefficients,
    shares: StreamShares,
    p: int,
    q: int,
    channel_rate: float = float("inf"),
    operator_s: float = 0.0,
) -> Prediction:
    """Φ = min(Φ_PR, p·Φ_PS, Φ_PQ), and what the channel carries at most (section 3.2).

    Where routers are a tree, p is rounded up to what fills it.
    """
    share = output_rate(shares, q)
    p = math.prod(router_fanouts(p))
    sites = [
        *_routers(given, shares, p),
        PredictedSites("window splitter", p, splitter_cost(given, shares, q) / p),
        PredictedSites("query processor", q, share * query_processor_cost(given, shares, p, q, operator_s)),
    ]
    return Prediction("parasplit", tuple(sites), {"p": p, "q": q, "routers": router_fanouts(p)}, channel_rate)


def router_fanouts(p: int) -> list[int]:
    """One router, or where p is large a tree of two levels of about √p outputs each.

    >>> router_fanouts(25), router_fanouts(100)
    ([25], [10, 10])
    """
    if p <= MAX_ROUTER_FANOUT:
        return [p]
    first = math.isqrt(p - 1) + 1
    return [first, -(-p // first)]


def _routers(given: Coefficients, shares: StreamShares, p: int) -> list[PredictedSites]:
    fanouts = router_fanouts(p)
    cost = router_cost(given, shares)
    made = [PredictedSites("window router", 1, cost)]
    if len(fanouts) > 1:
        made.append(PredictedSites("window router, level 2", fanouts[0], cost / fanouts[0]))
    return made


def efficiency(router_s: float, splitters_s: float, processors_s: float) -> float:
    """η = p·C_PS / (C_PR + p·C_PS + q·C_PQ with O = 0) (equation 7), from the CPU seconds of all of each kind.

    >>> efficiency(1.0, 6.0, 3.0)
    0.6
    """
    total = router_s + splitters_s + processors_s
    return splitters_s / total if total else 0.0


def predicted_efficiency(prediction: Prediction) -> float:
    """Equation 7 for a predicted plan without query (O = 0)."""
    spent = {"window router": 0.0, "window splitter": 0.0, "query processor": 0.0}
    for site in prediction.sites:
        spent[site.name.partition(",")[0]] += site.count * site.cost_s
    return efficiency(*spent.values())


def heuristic_p(given: Coefficients, shares: StreamShares, q: int, desired_rate: float) -> int:
    """How many window splitters by equation 6, which knows only the rate of a splitter with a single output.

    A measured lower bound of ``shares.o`` makes it smaller: the paper leaves that to future work.
    """
    single = 1 / fsplit_cost(given, StreamShares(n=shares.n), 1)
    return window_splitters(q, desired_rate, single, shares.b, shares.o)


def cost_model_p(given: Coefficients, shares: StreamShares, q: int, desired_rate: float) -> int:
    """How many window splitters by equation 3 in full: p ≥ Φ_D · C_PS."""
    return max(1, math.ceil(round(desired_rate * splitter_cost(given, shares, q), 9)))
