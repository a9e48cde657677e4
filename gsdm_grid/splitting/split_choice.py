"""Choosing a plan for a splitstream: what each would do by the cost models, which is taken, and why. Pure.

Two choices stand beside each other. *autosplit* is the paper's rule, which knows nothing but whether there is a
broadcasting function. *Chosen* is the cheapest plan that reaches the desired rate, or the fastest if none does, by the
coefficients that were measured here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gsdm_grid.flow import autosplit_choice, exptree_fanouts, maxtree_fanouts
from gsdm_grid.splitting.parasplit_cost import (
    cost_model_p,
    heuristic_p,
    parasplit_prediction,
    predicted_efficiency,
)
from gsdm_grid.splitting.split_cost import (
    Coefficients,
    Prediction,
    StreamShares,
    best,
    fsplit_prediction,
    tree_prediction,
    with_query_processors,
)

PLANS = ("fsplit", "exptree", "maxtree", "autosplit", "parasplit")
DEFAULT_B = 0.01
"""Broadcast share that the second paper takes where there is a broadcasting function and nothing is known of it."""


@dataclass(frozen=True)
class SplitChoice:
    """Predictions of all plans and the one that is taken. Immutable."""

    predictions: tuple[Prediction, ...]
    chosen: Prediction
    reason: str
    p_reason: str

    def named(self, plan: str) -> Prediction:
        """The prediction of this plan."""
        return next(one for one in self.predictions if one.plan == plan)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "plans": [
                one.to_json() | ({"efficiency": predicted_efficiency(one)} if one.plan == "parasplit" else {})
                for one in self.predictions
            ],
            "chosen": self.chosen.plan,
            "reason": self.reason,
            "p_reason": self.p_reason,
        }


def choose_split(
    given: Coefficients,
    shares: StreamShares,
    w: int,
    *,
    has_bfn: bool,
    desired_rate: float | None = None,
    channel_rate: float = float("inf"),
    p: int | None = None,
) -> SplitChoice:
    """Predict all plans of a splitstream into ``w`` and choose among them.

    ``channel_rate`` is what a channel carries at most, in tuples per second. Without a desired rate, parasplit gets as
    many splitters as its router or the channel can feed, but not more than outputs.
    """
    trees = [
        fsplit_prediction(given, shares, w),
        tree_prediction("exptree", given, shares, exptree_fanouts(w), w),
        tree_prediction("maxtree", given, shares, maxtree_fanouts(w, shares.emitting.b, given.a), w),
    ]
    made = {
        tree.plan: replace(with_query_processors(tree, given, shares, w), limit=_limit(channel_rate)) for tree in trees
    }
    taken = autosplit_choice(has_bfn)
    made["autosplit"] = replace(made[taken], plan="autosplit", shape={**made[taken].shape, "is": taken})
    p, why = (p, "as given") if p is not None else _splitters(given, shares, w, desired_rate, channel_rate)
    made["parasplit"] = parasplit_prediction(given, shares, p, w, _limit(channel_rate))
    predictions = tuple(made[plan] for plan in PLANS)
    chosen, reason = _chosen([one for one in predictions if one.plan != "autosplit"], desired_rate)
    return SplitChoice(predictions, chosen, reason, why)


def _splitters(
    given: Coefficients, shares: StreamShares, w: int, desired_rate: float | None, channel_rate: float
) -> tuple[int, str]:
    """p by the cost model, and what the heuristic would have said."""
    router_rate = shares.n / given.router if given.router else float("inf")
    rate = desired_rate or min(router_rate, _limit(channel_rate))
    if rate == float("inf"):
        return w, "as many as outputs, because neither a rate is desired nor the router's cost known"
    p, heuristic = cost_model_p(given, shares, w, rate), heuristic_p(given, shares, w, rate)
    omitted = f", o ≥ {shares.o:.3g}" if shares.o else ""
    why = f"equation 3 for {rate:.3g} tuples/s, b ≤ {shares.b:.3g}{omitted}; equation 6 would say {heuristic}"
    return (p, why) if p <= w else (w, f"{why}; {p} would be needed, more than there are outputs")


def _limit(channel_rate: float) -> float:
    return channel_rate if channel_rate > 0 else float("inf")


def _chosen(candidates: list[Prediction], desired_rate: float | None) -> tuple[Prediction, str]:
    if desired_rate is not None:
        enough = [one for one in candidates if one.rate >= desired_rate]
        if enough:
            cheapest = min(enough, key=lambda one: one.cost_s)
            others = [one.plan for one in candidates if one not in enough]
            less = f"; too slow: {', '.join(others)}" if others else ""
            return cheapest, f"costs least CPU of the plans that reach {desired_rate:,.0f} tuples/s{less}"
        fastest = best(candidates)
        return fastest, f"no plan reaches {desired_rate:,.0f} tuples/s; this one comes closest"
    fastest = best(candidates)
    equals = [one.plan for one in candidates if one is not fastest and one.rate >= fastest.rate * 0.99]
    also = f" (as fast, but dearer: {', '.join(equals)})" if equals else ""
    return fastest, f"has the greatest rate; {fastest.bottleneck} is its bottleneck{also}"
