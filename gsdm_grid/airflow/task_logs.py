"""What tasks write into their logs: tables and bars in plain text. Pure: documents in, lines out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gsdm_grid.client import Document, Trial, TrialResult

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_WIDTH = 20
_KINDS = ("processing", "communication", "system")


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Aligned columns under a ruled head; what looks like a number is aligned to the right.

    >>> print("\\n".join(table(("plan", "ms"), [("central", "12.1"), ("RR", "3.0")])))
    plan       ms
    ───────  ────
    central  12.1
    RR        3.0
    """
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in [list(columns), *cells]) for at in range(len(columns))]
    right = [bool(cells) and all(_is_number(row[at]) for row in cells) for at in range(len(columns))]

    def line(row: Sequence[str]) -> str:
        placed = (
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(row, widths, right, strict=True)
        )
        return "  ".join(placed).rstrip()

    return [line(columns), "  ".join("─" * width for width in widths), *map(line, cells)]


def _is_number(cell: str) -> bool:
    return not cell or cell == "–" or cell.lstrip("+-")[:1].isdigit()


def bar(value: float, most: float, width: int = _WIDTH) -> str:
    """A bar as long as a value is large.

    >>> bar(5, 10, 8), bar(1, 64, 8), bar(3, 0, 8)
    ('████', '▏', '')
    """
    if most <= 0 or value <= 0:
        return ""
    eighths = max(1, round(value / most * width * 8))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def trial_lines(trial: Trial) -> list[str]:
    """What a trial measured: a line for each site with its CPU time, the busiest one marked, and the rates."""
    if trial.result is None:
        why = f": {trial.error}" if trial.error else ""
        return [f"trial {trial.id} of {trial.query} {trial.status}{why}"]
    result = trial.result
    most = max((site.utilization_s for site in result.sites), default=0.0)
    rows = [
        (
            f"{'▸' if site.site == result.busiest else ' '} {site.site}",
            site.role,
            ", ".join(dict.fromkeys(site.functions)),
            *(f"{getattr(site, f'{kind}_s') * 1e3:,.1f}" for kind in _KINDS),
            f"{site.utilization_s * 1e3:,.1f}",
            bar(site.utilization_s, most),
        )
        for site in result.sites
    ]
    head = ("  site", "role", "does", *_KINDS, "CPU ms", "")
    short = [result.short] if result.short else []
    return [f"{result.windows:,} windows in {result.seconds:.2f} s", *table(head, rows), *_costs(result), *short]


def _costs(result: TrialResult) -> list[str]:
    return [
        f"cost: {result.cost_s * 1e3:,.1f} CPU ms, of the busiest site ▸; "
        f"with a core per site {result.derived_windows_s:,.0f} windows/s",
        f"reached: {result.windows_s:,.0f} windows/s, {result.mb_s:,.1f} MB/s",
    ]


def requests_lines(requests: Sequence[Document]) -> list[str]:
    """The trials that a round wants."""
    rows = [(one["label"], f"{one['count']:,}", _milliseconds(one.get("predicted"))) for one in requests]
    return table(("plan", "windows", "predicted ms/window"), rows) if rows else ["no trials: the search is over"]


def choice_lines(choice: Document) -> list[str]:
    """All plans that were tried, the best first, with a bar for the cost of each; who won, and by how much."""
    tried = sorted(choice["table"], key=lambda one: (-one["count"], one["figures"].get("cost_s", float("inf"))))
    most = max((one["figures"].get("cost_s", 0.0) for one in tried), default=0.0)
    rows = [_tried_row(one, choice, most) for one in tried]
    head = ("  plan", "windows", "cost ms/window", "predicted", "windows/s", "hosts", "busiest", "")
    return [*table(head, rows), *_outcome(choice), *_skipped(choice["skipped"])]


def _tried_row(tried: Document, choice: Document, most: float) -> tuple[str, ...]:
    figures = tried["figures"]
    name = f"{'▸' if tried['key'] == choice['key'] else ' '} {tried['key']}"
    shown = (name, f"{tried['count']:,}", _milliseconds(figures.get("cost_s")), _milliseconds(tried["predicted_s"]))
    if tried["error"]:
        return (*shown, "–", "–", "", f"failed: {tried['error']}")
    rate, hosts = f"{figures['throughput']:,.0f}", f"{figures['hosts']:.0f}"
    return (*shown, rate, hosts, tried.get("busiest") or "", bar(figures["cost_s"], most))


def _outcome(choice: Document) -> list[str]:
    made = []
    if again := choice.get("verification"):
        medians = ", ".join(f"{key} {_milliseconds(one['cost_s'])}" for key, one in again["figures"].items())
        made.append(f"run again in turn, ms/window: {medians}")
    return [*made, chosen_line(choice)]


def chosen_line(choice: Document) -> str:
    """What was chosen and how sure that is."""
    return f"chosen by all measurements together: {choice['summary']}"


def _skipped(skipped: Sequence[Document]) -> list[str]:
    if not skipped:
        return []
    return ["", "not tried:", *table(("plan", "why"), [(one["plan"], one["why"]) for one in skipped])]


def publication_lines(outcomes: Mapping[str, str]) -> list[str]:
    """What became of a plan in each query that it was given to."""
    return table(("query", "plan"), outcomes.items()) if outcomes else ["no query asked for the plan"]


def drift_lines(found: Sequence[Document]) -> list[str]:
    """Queries that cost other than the trial which their plan was chosen by."""
    if not found:
        return ["all queries cost what their trials did"]
    rows = [
        (
            one["query"],
            _milliseconds(one["chosen_cost_s"]),
            _milliseconds(one["measured_cost_s"]),
            f"{one['drift']:+.0%}",
            "; ".join(one["stale"]),
        )
        for one in found
    ]
    return table(("query", "chosen ms/window", "now", "drift", "stale"), rows)


def _milliseconds(value_s: float | None) -> str:
    return "–" if value_s is None else f"{value_s * 1e3:.4g}"
