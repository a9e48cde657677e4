"""Plots of the splitting benchmark: the papers' theoretical curves, and measurements under the model's predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gsdm_grid.flow.split_shapes import autosplit_choice, exptree_fanouts, maxtree_fanouts
from gsdm_grid.splitting.split_cost import (
    PAPER,
    Prediction,
    StreamShares,
    fsplit_prediction,
    tree_prediction,
)

COLOURS = {"fsplit": "C3", "exptree": "C0", "maxtree": "C2", "autosplit": "C4", "parasplit": "C1"}
MARKERS = {"fsplit": "o", "exptree": "s", "maxtree": "^", "autosplit": "x", "parasplit": "D"}
WIDTHS = tuple(2**k for k in range(1, 9))
SHARES = tuple(k / 100 for k in range(0, 101, 2))


def theoretical(plan: str, b: float, w: int) -> Prediction:
    """A plan by the paper's equations alone: cc = 1, a = 1, nothing per physical window."""
    shares = StreamShares(b=b)
    if plan == "autosplit":
        plan = autosplit_choice(has_bfn=b > 0)
    if plan == "fsplit":
        return fsplit_prediction(PAPER, shares, w)
    fanouts = exptree_fanouts(w) if plan == "exptree" else maxtree_fanouts(w, b)
    return tree_prediction(plan, PAPER, shares, fanouts, w)


def plot_theory(path: Path) -> None:
    """Figure 4 of the first paper: throughput as a share of the emit capacity E, and total CPU cost."""
    plt = _pyplot()
    figure, axes = plt.subplots(2, 2, figsize=(8, 5.6), dpi=100)
    for plan in ("fsplit", "exptree", "maxtree"):
        style = {"color": COLOURS[plan], "label": plan}
        by_width = [theoretical(plan, 0.005, w) for w in WIDTHS]
        by_share = [theoretical(plan, b, 64) for b in SHARES]
        axes[0, 0].plot(WIDTHS, [100 * one.rate for one in by_width], marker=MARKERS[plan], ms=4, **style)
        axes[0, 1].plot(WIDTHS, [one.cost_s for one in by_width], marker=MARKERS[plan], ms=4, **style)
        axes[1, 0].plot([100 * b for b in SHARES], [100 * one.rate for one in by_share], **style)
        axes[1, 1].plot([100 * b for b in SHARES], [one.cost_s for one in by_share], **style)
    for row, (head, below) in enumerate((("b = 0.5 %", "w"), ("w = 64", "b in %"))):
        for column, (what, unit) in enumerate((("throughput", "% of E"), ("total CPU cost", "in units of cc"))):
            at = axes[row, column]
            at.set_title(f"({'abcd'[2 * row + column]}) {what}, {head}", fontsize=9)
            at.set_xlabel(below, fontsize=8)
            at.set_ylabel(unit, fontsize=8)
            at.set_ylim(bottom=0)
            if row == 0:
                _powers_of_two(at, WIDTHS)
    _finish(figure, axes, path)


def plot_measured(
    path: Path, points: Sequence[Mapping[str, Any]], key: str, label: str, costs: str = "CPU ns per tuple"
) -> None:
    """Rate and cost of plans by ``key`` (w or b): measured points, and lines for what the model says."""
    plt = _pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.4), dpi=100)
    for plan in dict.fromkeys(point["plan"] for point in points):
        mine = sorted((point for point in points if point["plan"] == plan), key=lambda point: point[key])
        at = [point[key] for point in mine]
        for axis, measured, predicted, scale in (
            (axes[0], "tuples_s", "predicted_tuples_s", 1e-6),
            (axes[1], "cpu_s_per_tuple", "predicted_cpu_s_per_tuple", 1e9),
        ):
            axis.plot(at, [scale * point[predicted] for point in mine], color=COLOURS[plan], lw=1)
            axis.plot(
                at, [scale * point[measured] for point in mine], color=COLOURS[plan], marker=MARKERS[plan], ms=5,
                ls="", label=plan,
            )  # fmt: skip
    for axis, unit in zip(axes, ("million tuples/s, one core per site (derived)", costs), strict=True):
        axis.set_xlabel(label, fontsize=8)
        axis.set_ylabel(unit, fontsize=8)
        axis.set_yscale("log")
        if key == "w":
            _powers_of_two(axis, sorted({point["w"] for point in points}))
    _finish(figure, axes, path)


def _powers_of_two(axis: Any, at: Sequence[int]) -> None:
    axis.set_xscale("log", base=2)
    axis.set_xticks(at, [str(value) for value in at])


def _finish(figure: Any, axes: Any, path: Path) -> None:
    for axis in axes.flat:
        axis.tick_params(labelsize=7)
        axis.grid(True, alpha=0.3)
    axes.flat[0].legend(fontsize=7, frameon=False)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Software": None})
    _pyplot().close(figure)


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt
