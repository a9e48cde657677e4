"""The optimizer's report: which plans were tried, what each of their sites spent, and which one was chosen.

Made from the document of an optimization (``GET /v1/optimizations/{id}``), or from a `Choice` as JSON: a picture like
figures 4.9 and 4.11 of the thesis, and a page that holds it with the tables.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping, Sequence
from typing import Any

KINDS = {"processing_s": "#3b6fb6", "communication_s": "#e08a2c", "system_s": "#8c8c8c"}
ROLES = ("source", "partition", "compute", "combine", "sink")
MOST_SHOWN = 24
"""Plans in one picture, the cheapest ones."""
_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #1c2430 }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100% } th, td { padding: .3rem .6rem; text-align: right }
th:first-child, td:first-child, td.text { text-align: left } tr:nth-child(even) { background: #f3f5f8 }
th { border-bottom: 2px solid #cbd2dc } tr.winner { background: #dcefdc; font-weight: 600 }
tr.runner-up { background: #f4efd6 } .bad { color: #a12622 } img { max-width: 100% } small { color: #5b6675 }
"""


def report_png(optimization: Mapping[str, Any]) -> bytes:
    """CPU time per window of the busiest site of each role, by kind of task, for each plan; predictions as marks."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    rows = _measured(optimization)[:MOST_SHOWN]
    figure = Figure(figsize=(11, max(3.0, 0.62 * len(rows) + 1.8)), layout="constrained")
    axes = figure.subplots()
    if not rows:
        axes.text(0.5, 0.5, "no trial has succeeded yet", ha="center", va="center", transform=axes.transAxes)
        axes.set_axis_off()
    for place, row in enumerate(rows):
        roles = _busiest_by_role(row)
        height = 0.8 / max(len(roles), 3)
        for number, (role, site) in enumerate(roles.items()):
            at, left = place + height * (number - (len(roles) - 1) / 2), 0.0
            for kind, colour in KINDS.items():
                width = 1e3 * site[kind] / max(row["windows"], 1)
                axes.barh(at, width, 0.9 * height, left=left, color=colour)
                left += width
            axes.annotate(role, (left, at), (3, 0), textcoords="offset points", **_SMALL)
        if row["predicted_s"] is not None:
            axes.plot([row["predicted_s"] * 1e3], [place], marker="D", color="#a12622", markersize=6, linestyle="none")
    marks = [Patch(color=colour, label=kind.removesuffix("_s")) for kind, colour in KINDS.items()]
    axes.legend(handles=[*marks, Patch(color="#a12622", label="predicted cost (◆)")], loc="upper right", fontsize=8)
    axes.set_yticks(range(len(rows)), [_label(optimization, row) for row in rows], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("CPU time of the busiest site of each role, ms per window")
    axes.set_title(f"Plans for {_title(optimization)}", fontsize=11)
    written = io.BytesIO()
    figure.savefig(written, format="png", dpi=110)
    return written.getvalue()


_SMALL: dict[str, Any] = {"fontsize": 6.5, "va": "center", "color": "#5b6675"}


def report_html(optimization: Mapping[str, Any]) -> str:
    """The whole report as one page that needs nothing else."""
    picture = base64.b64encode(report_png(optimization)).decode()
    choice = optimization.get("choice") or {}
    parts = [
        f"<h1>Plans for {_text(_title(optimization))}</h1>",
        f"<p>{_verdict(optimization)}</p>",
        f'<img alt="cost of each plan by site" src="data:image/png;base64,{picture}">',
        "<h2>What was tried</h2>",
        _tried_table(optimization),
        "<h2>Verification</h2>" + _verification(choice) if choice.get("verification") else "",
        "<h2>What was not tried, and why</h2>",
        _table(("plan", "why"), [((one["plan"], one["why"]), "") for one in choice.get("skipped", ())], text=True),
        f"<p><small>{_text(_circumstances(optimization))}</small></p>",
    ]
    head = f"<meta charset='utf-8'><title>{_text(_title(optimization))}</title><style>{_STYLE}</style>"
    return f"<!doctype html><html lang='en'><head>{head}</head><body>{''.join(parts)}</body></html>"


def _tried_table(optimization: Mapping[str, Any]) -> str:
    names = ["plan", "windows", "cost, ms", "predicted, ms", "derived windows/s", "measured windows/s"]
    names += ["CPU ms/window", "p99, ms", "hosts", "busiest"]
    rows = []
    for row in _measured(optimization):
        figures = row["figures"]
        cells = (
            row["key"],
            f"{row['windows']:,}",
            _ms(figures["cost_s"]),
            _ms(row["predicted_s"]),
            f"{figures['throughput']:,.0f}",
            f"{figures['measured_throughput']:,.0f}",
            _ms(figures["cpu_s_per_window"]),
            f"{figures['p99_ms']:.3g}" if "p99_ms" in figures else "",
            f"{figures['hosts']:.0f}",
            row["busiest"],
        )
        rows.append((cells, _standing(optimization, row)))
    made = _table(names, rows)
    failed = [row for row in _rows(optimization) if row.get("error")]
    told = "".join(f"<li><b>{_text(row['key'])}</b>: {_text(row['error'])}</li>" for row in failed)
    note = "<p><small>Cost: CPU time per window of the busiest site. Derived: with one core per site.</small></p>"
    return made + note + (f"<p class='bad'>Trials that failed:</p><ul class='bad'>{told}</ul>" if told else "")


def _verification(choice: Mapping[str, Any]) -> str:
    figures = choice["verification"]["figures"]
    rows = [((key, _ms(one["cost_s"]), f"{one['throughput']:,.0f}"), "") for key, one in figures.items()]
    return _table(("plan, run again", "median cost, ms", "derived windows/s"), rows)


def _verdict(optimization: Mapping[str, Any]) -> str:
    choice = optimization.get("choice") or {}
    if not choice.get("winner"):
        error = optimization.get("error")
        reason = f": {error['detail']}" if error else ""
        return f"<span class='bad'>{_text(str(optimization.get('status', 'unfinished')) + reason)}</span>"
    return f"Chosen: <b>{_text(choice['summary'])}</b>."


def _circumstances(optimization: Mapping[str, Any]) -> str:
    machine = optimization.get("machine") or {}
    stale = optimization.get("stale") or []
    told = ", ".join(f"{name} {value}" for name, value in machine.items())
    return f"Measured on: {told}." + (f" Stale: {'; '.join(stale)}." if stale else "")


def _rows(optimization: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = (optimization.get("choice") or {}).get("table", ())
    return found


def _measured(optimization: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Plans with a result, the cheapest first."""
    found = [row for row in _rows(optimization) if not row.get("error")]
    return sorted(found, key=lambda row: float(row["figures"]["cost_s"]))


def _busiest_by_role(row: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    made: dict[str, Mapping[str, Any]] = {}
    for site in row["sites"]:
        if site["role"] not in made or site["utilization_s"] > made[site["role"]]["utilization_s"]:
            made[site["role"]] = site
    return {role: made[role] for role in ROLES if role in made}


def _standing(optimization: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    choice = optimization.get("choice") or {}
    if row["key"] == choice.get("key"):
        return "winner"
    pair = [(choice.get(one) or {}).get("key") for one in ("winner", "runner_up")]
    return "runner-up" if row["key"] in pair else ""


def _label(optimization: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    sign = {"winner": "★ ", "runner-up": "☆ "}.get(_standing(optimization, row), "")
    return f"{sign}{row['key']}"


def _title(optimization: Mapping[str, Any]) -> str:
    return f"{optimization.get('query', 'a query')} ({optimization.get('id', 'optimization')})"


def _table(names: Sequence[str], rows: Sequence[tuple[Sequence[str], str]], text: bool = False) -> str:
    head = "".join(f"<th>{_text(name)}</th>" for name in names)
    kind = " class='text'" if text else ""
    body = "".join(
        f"<tr class='{standing}'>" + "".join(f"<td{kind}>{_text(cell)}</td>" for cell in cells) + "</tr>"
        for cells, standing in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e3:.4g}"


def _text(value: Any) -> str:
    return html.escape(str(value))
