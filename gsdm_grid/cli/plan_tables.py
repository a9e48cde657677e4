"""How searches for plans look at a terminal: progress, the table of plans, the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from gsdm_grid.cli.tables import state, table

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from gsdm_grid.client import Optimization, RecordedSegment

FAILED_WIDTH = 60


def progress(search: Optimization) -> Group:
    """A search under way: how far it is, and the plans tried so far."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    rows = (search.choice or {}).get("table", ())
    asked, told = len({one.label for one in search.trials}), len(rows)
    line = Text.assemble(
        "search ", (search.id, "bold"), " for ", search.query, ": ", state(search.status), f", round {search.rounds}, "
    )
    line.append(f"{told} of {asked} plans so far")
    return Group(line, ProgressBar(total=max(asked, 1), completed=told, width=40), plans_table({"table": rows}))


def plans_table(choice: Mapping[str, Any]) -> Table:
    """The plans that were tried, the cheapest first; ★ is the one chosen."""
    numbers = ("windows", "cost\nms", "predict.\nms", "derived\nw/s", "measured\nw/s", "hosts")
    words = ("  plan", "busiest")
    made = table("  plan", *numbers, "busiest", right=numbers, wrapped=words)
    rows = [row for row in choice["table"] if not row.get("error")]
    for row in sorted(rows, key=lambda row: float(row["figures"]["cost_s"])):
        figures = row["figures"]
        best = row["key"] == choice.get("key")
        made.add_row(
            f"{'★' if best else ' '} {row['key']}",
            f"{row['windows']:,}",
            f"{figures['cost_s'] * 1e3:.4g}",
            "" if row["predicted_s"] is None else f"{row['predicted_s'] * 1e3:.4g}",
            f"{figures['throughput']:,.0f}",
            f"{figures['measured_throughput']:,.0f}",
            f"{figures['hosts']:.0f}",
            row["busiest"],
            style="bold" if best else "",
        )
    for row in choice["table"]:
        if row.get("error"):
            made.add_row(f"  {row['key']}", "failed", *[""] * 5, row["error"][:FAILED_WIDTH], style="red")
    return made


def skipped_table(choice: Mapping[str, Any]) -> Table:
    """Plans that were not tried."""
    made = table("plan", "why it was not tried", wrapped=("why it was not tried",))
    for one in choice.get("skipped", ()):
        made.add_row(one["plan"], one["why"])
    return made


def searches_table(found: Iterable[Optimization]) -> Table:
    """Searches with what they chose."""
    made = table("search", "query", "status", "chosen", "ahead\nby", "noise", right=("ahead\nby", "noise"))
    for one in found:
        choice = one.choice or {}
        shares = ("" if choice.get(name) is None else f"{choice[name]:.1%}" for name in ("margin", "noise"))
        made.add_row(one.id, one.query, state(one.status), choice.get("key", ""), *shares)
    return made


def segments_table(found: Iterable[RecordedSegment]) -> Table:
    """Recorded segments."""
    made = table("segment", "status", "windows", "MB", right=("windows", "MB"))
    for one in found:
        size = "" if one.bytes is None else f"{one.bytes / 1e6:,.1f}"
        made.add_row(one.id, state(one.status), f"{one.windows:,}", size)
    return made


def verdict(search: Optimization) -> str:
    """What was chosen, by how much, and for whom; or why nothing was."""
    if search.error is not None:
        return f"search {search.id} failed: {search.error}"
    choice = search.choice or {}
    if not choice.get("winner"):
        return f"search {search.id} is {search.status}"
    told = f"chosen: {choice['summary']}"
    for one in search.published or ():
        told += f"\nquery {one['query']}: " + (one["error"] if one.get("error") else "has the plan")
    if search.stale:
        told += f"\nstale: {'; '.join(search.stale)}"
    return told
