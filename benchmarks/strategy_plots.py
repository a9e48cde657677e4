"""Plots of the papers' comparisons, from the figures that `strategies` measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

COLOURS = {"central": "#444444", "WD": "#3b6fb6", "WS": "#c2561a"}
DASHES = {"2": ":", "4": "-", "8": "--"}
KINDS = {"processing": "#3b6fb6", "communication": "#e08a2c", "system": "#8c8c8c"}
PHASES = ("partition", "compute", "combine")
PAPER = {"WD": {4: 4.0}, "WS": {4: 4.72}}
"""Speed-ups that the papers name, window 8192, slow."""


def draw(told: Mapping[str, Any], out: Path) -> None:
    """All plots for which there are figures."""
    rows = told.get("fft", [])
    if rows:
        _costs(rows, out / "costs.png")
        _phases(rows, out / "phases.png")
        _speed_ups(rows, out / "speed_ups.png")
    if told.get("marshaling"):
        _marshaling(told["marshaling"], out / "marshaling.png")


def _figure(width: float, height: float, rows: int = 1, columns: int = 1) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def _of(rows: Sequence[Mapping[str, Any]], **wanted: Any) -> list[Mapping[str, Any]]:
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def _style(plan: str) -> dict[str, Any]:
    tree = plan.endswith("-tree")
    degree = plan.removesuffix("-tree")[2:] if plan != "central" else "4"
    kind = "central" if plan == "central" else plan[:2]
    return {
        "color": COLOURS[kind],
        "linestyle": DASHES.get(degree, "-"),
        "marker": "^" if tree else "o",
        "markersize": 5,
    }


def _costs(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Cost by window size: figures 4.6, 4.7 and 4.10. Per million samples, so that sizes can be compared."""
    figure, axes = _figure(12, 5, 1, 2)
    for place, speed in enumerate(("fast", "slow")):
        part = axes[0][place]
        for plan in dict.fromkeys(row["plan"] for row in rows):
            found = sorted(_of(rows, speed=speed, plan=plan), key=lambda row: row["window"])
            per_million = [row["cost_ms"] / row["window"] * 1e6 for row in found]
            part.plot([row["window"] for row in found], per_million, label=plan, **_style(plan))
        part.set_xscale("log", base=2)
        part.set_yscale("log")
        part.set_xlabel("window size, samples")
        part.set_ylabel("CPU ms of the busiest site per million samples")
        part.set_title(f"{speed} fft3")
        part.grid(alpha=0.3, which="both")
    axes[0][1].legend(fontsize=8, ncols=2)
    figure.savefig(path, dpi=110)


def _phases(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """What the busiest site of each phase spends on what, at degree four: figures 4.9 and 4.11."""
    sizes = [size for size in (256, 512, 2048, 8192) if _of(rows, window=size)][-2:]
    figure, axes = _figure(12, 4.2 * len(sizes), max(len(sizes), 1), 2)
    for line, size in enumerate(sizes):
        for column, speed in enumerate(("fast", "slow")):
            part = axes[line][column]
            plans = [row for row in _of(rows, window=size, speed=speed) if row["plan"].removesuffix("-tree")[2:] == "4"]
            ticks = []
            for row in plans:
                for phase in PHASES:
                    left = 0.0
                    for kind, colour in KINDS.items():
                        value = row["roles"].get(phase, {}).get(kind, 0.0)
                        part.barh(len(ticks), value, left=left, color=colour)
                        left += value
                    ticks.append(f"{row['plan']} {phase}")
            part.set_yticks(range(len(ticks)), ticks, fontsize=8)
            part.invert_yaxis()
            part.set_xlabel("CPU ms per window")
            part.set_title(f"window {size}, {speed} fft3")
    from matplotlib.patches import Patch

    axes[0][1].legend(handles=[Patch(color=colour, label=kind) for kind, colour in KINDS.items()], fontsize=8)
    figure.savefig(path, dpi=110)


def _speed_ups(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Derived speed-up by degree at window 8192: figure 4.12, with what the papers name."""
    figure, axes = _figure(12, 4.5, 1, 2)
    for column, speed in enumerate(("fast", "slow")):
        part = axes[0][column]
        for kind in ("WD", "WS"):
            for tree in (False, True):
                found = [
                    (int(row["plan"].removesuffix("-tree")[2:]), row["speed_up"])
                    for row in _of(rows, window=8192, speed=speed)
                    if row["plan"].startswith(kind) and row["plan"].endswith("-tree") == tree
                ]
                if found:
                    label, dash = f"{kind}{' tree' if tree else ''}", "--" if tree else "-"
                    part.plot(*zip(*sorted(found), strict=True), dash, color=COLOURS[kind], marker="o", label=label)
            if speed == "slow":
                part.plot(*zip(*PAPER[kind].items(), strict=True), "*", color=COLOURS[kind], markersize=13, alpha=0.6)
        part.plot([1, 8], [1, 8], color="#bbbbbb", linewidth=1)
        part.set_xlabel("degree of parallelism")
        part.set_ylabel("derived speed-up, one core per site")
        part.set_title(f"window 8192, {speed} fft3" + (" (★ the papers)" if speed == "slow" else ""))
        part.legend(fontsize=8)
    figure.savefig(path, dpi=110)


def _marshaling(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Time for a window there and back: figure 6.4."""
    figure, axes = _figure(6.5, 4)
    part = axes[0][0]
    sizes = [row["window"] for row in rows]
    part.plot(sizes, [row["text_ms"] for row in rows], "o-", color=COLOURS["WS"], label="text")
    part.plot(sizes, [row["binary_ms"] for row in rows], "o-", color=COLOURS["WD"], label="binary")
    part.set_xscale("log", base=2)
    part.set_yscale("log")
    part.set_xlabel("window size, samples")
    part.set_ylabel("CPU ms to write and read a window")
    part.legend()
    part.grid(alpha=0.3, which="both")
    figure.savefig(path, dpi=110)
