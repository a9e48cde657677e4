"""What makes one plan better than another: a figure to minimize or maximize, or a weighted sum, subject to bounds.

Figures come from trials (`TrialResult.figures`) and are per window of input, so that trials of different lengths can be
compared. ``cost_s`` and ``throughput`` are derived for one core per site; ``measured_throughput`` is what the machine
reached with the cores that it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

FIGURES = ("cost_s", "throughput", "measured_throughput", "p99_ms", "cpu_s_per_window", "hosts")
LARGER_IS_BETTER = ("throughput", "measured_throughput")
Figures = Mapping[str, float]
T = TypeVar("T")


@dataclass(frozen=True)
class Criteria:
    """Weights of figures, and bounds: at most so much (at least so much of what is better larger). Immutable."""

    weights: Mapping[str, float] = field(default_factory=lambda: {"cost_s": 1.0})
    subject_to: Mapping[str, float] = field(default_factory=dict)

    @property
    def needs_latency(self) -> bool:
        """Whether trials must measure latency."""
        return "p99_ms" in self.weights or "p99_ms" in self.subject_to

    @property
    def hosts(self) -> int | None:
        """The most hosts that a plan may use, if that is bounded."""
        return int(self.subject_to["hosts"]) if "hosts" in self.subject_to else None

    def violation(self, figures: Figures) -> str | None:
        """The first bound that the figures do not keep; None if they keep all."""
        for name, bound in self.subject_to.items():
            value = figures.get(name)
            if value is None:
                return f"{name} was not measured"
            if name in LARGER_IS_BETTER and value < bound:
                return f"{name} is {value:.4g}, at least {bound:g} is wanted"
            if name not in LARGER_IS_BETTER and value > bound:
                return f"{name} is {value:.4g}, at most {bound:g} is allowed"
        return None

    def ranked(self, measured: Sequence[tuple[T, Figures]]) -> list[tuple[T, float]]:
        """Items that keep the bounds, the best first, each with its score: 1 is the best in every respect.

        A figure counts as its ratio to the best one among them, so weights need no units.
        """
        kept = [(item, figures) for item, figures in measured if self.violation(figures) is None]
        best = {name: self._best(name, [figures[name] for _, figures in kept if name in figures]) for name in FIGURES}
        return sorted(((item, self.score(figures, best)) for item, figures in kept), key=lambda pair: pair[1])

    def score(self, figures: Figures, best: Figures) -> float:
        """The weighted mean of the ratios of figures to the best ones: 1 is as good, more is worse."""
        total = sum(self.weights.values())
        ratios = (weight * _ratio(name, figures, best.get(name, 0.0)) for name, weight in self.weights.items())
        return sum(ratios) / total

    @staticmethod
    def _best(name: str, values: Sequence[float]) -> float:
        return (max if name in LARGER_IS_BETTER else min)(values, default=0.0)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {"weights": dict(self.weights), "subject_to": dict(self.subject_to)}


def _ratio(name: str, figures: Figures, best: float) -> float:
    value = figures.get(name)
    if value is None:
        return float("inf")
    worse, better = (best, value) if name in LARGER_IS_BETTER else (value, best)
    return worse / better if better > 0 else (1.0 if worse <= 0 else float("inf"))
