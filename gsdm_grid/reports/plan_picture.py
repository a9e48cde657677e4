"""A picture of a compiled query: what runs where. Turns a plan into the nodes and edges of `flow_picture`."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from gsdm_grid.plan import Plan, PlanOperator
from gsdm_grid.reports.flow_picture import draw_flow, flow_figure

HOST_NAMES = {
    "ray": "Ray actor",
    "spark": "Spark task",
    "thread": "thread",
    "process": "process",
    "local": "this process",
}
Node = tuple[str, str, int, str | None, str]


def draw_plan(plan: Plan, path: str | Path, title: str = "") -> Path:
    """Draw the plan's operators on their sites, with its input and result streams. Returns the path."""
    return draw_flow(*_drawn(plan), path, title)


def plan_svg(plan: Plan, title: str = "") -> bytes:
    """The same picture as SVG."""
    made = BytesIO()
    flow_figure(*_drawn(plan), title).savefig(made, format="svg", facecolor="white")
    return made.getvalue()


def _drawn(plan: Plan) -> tuple[list[Node], list[tuple[str, str]]]:
    """Nodes and edges of the picture."""
    nodes: list[Node] = []
    edges: list[tuple[str, str]] = []
    writers: dict[str, str] = {}
    operators = [(site, operator) for site in plan.sites for operator in site.operators]
    for site, operator in operators:
        place = f"{site.id} · {HOST_NAMES[site.host]}"
        nodes.append((operator.id, _label(operator), operator.level + 1, place, _role(operator)))
        writers |= dict.fromkeys(operator.outputs, operator.id)
    last = max(operator.level for _, operator in operators) + 2
    for stream in plan.streams:
        interface = str(stream.interface).rpartition(":")[2]
        if stream.kind == "source":
            nodes.append((f"in {stream.name}", interface, 0, None, "source"))
            writers[stream.name] = f"in {stream.name}"
        elif stream.kind == "sink":
            nodes.append((f"out {stream.name}", interface, last, None, "sink"))
            edges.append((writers[stream.name], f"out {stream.name}"))
    edges += [(writers[name], operator.id) for _, operator in operators for name in operator.inputs]
    return nodes, edges


def functions_of(plan: Plan, site_id: str) -> str:
    """What a site does, in short: the functions on it, relays left out unless there is nothing else."""
    working = [operator for operator in plan.site(site_id).operators if not operator.resolved.traits.relays]
    return " + ".join(dict.fromkeys(operator.function["name"] for operator in working)) or "relay"


def _label(operator: PlanOperator) -> str:
    name, params = operator.function["name"], operator.params
    if operator.resolved.traits.relays:
        return "relay"
    if "n" in params and "i" in params:
        return f"{name} {params['i']} of {params['n']}"
    return name


def _role(operator: PlanOperator) -> str:
    function = operator.resolved
    if function.traits.relays:
        return "route"
    if function.traits.joins_parts:
        return "join"
    return {"partitioning": "split", "combining": "merge"}.get(function.kind, "compute")
