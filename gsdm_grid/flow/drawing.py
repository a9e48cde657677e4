"""Data flows as text, DOT and Mermaid, for terminals, papers and web pages."""

from __future__ import annotations

from gsdm_grid.flow.graph import DataFlow, Vertex

COLOURS = {"source": "#e8e8e8", "partition": "#ffe3b3", "compute": "#cfe8ff", "combine": "#d8f0d0", "sink": "#e8e8e8"}


def label(vertex: Vertex) -> str:
    """The function's name with its parameters, those left out that nobody set."""
    defaults = {parameter.name: parameter.default for parameter in vertex.resolved.parameters}
    shown = [
        f"{name}={_short(value)}" for name, value in vertex.params.items() if value != defaults.get(name, object())
    ]
    return f"{vertex.function_name}({', '.join(shown)})"


def _short(value: object) -> str:
    if isinstance(value, dict) and "$function" in value:
        return str(value["$function"]["name"])
    if isinstance(value, dict) and set(value) == {"function", "params"}:  # a routing function with its parameters
        inner = ", ".join(f"{name}={_short(one)}" for name, one in value["params"].items())
        return f"{_short(value['function'])}({inner})"
    return str(value)


def to_text(flow: DataFlow) -> str:
    """One line per site: what it runs and where that goes."""
    lines = [f"data flow: {flow.arity} in, {flow.width} out, {len(flow.sites)} sites"]
    width = max(len(site.id) for site in flow.sites)
    for site in flow.sites:
        for vertex in (v for v in flow.vertices if v.site == site.id):
            sources = ", ".join(f"in[{s}]" if isinstance(s, int) else s for s in vertex.inputs)
            ends = "".join(f" → out[{k}]" for k, output in enumerate(flow.outputs) if output in vertex.streams)
            lines.append(f"  {site.id:<{width}}  {vertex.id}: {label(vertex)} ← {sources}{ends}")
    return "\n".join(lines)


def to_dot(flow: DataFlow) -> str:
    """For Graphviz: sites are clusters."""
    lines = ["digraph flow {", '  rankdir=LR; node [shape=box, style="rounded,filled", fillcolor=white];']
    for number, site in enumerate(flow.sites):
        lines.append(f'  subgraph cluster_{number} {{ label="{site.id}"; style=filled; color="{COLOURS[site.role]}";')
        lines += [f'    "{v.id}" [label="{_escape(label(v))}"];' for v in flow.vertices if v.site == site.id]
        lines.append("  }")
    lines += [f'  "{a}" -> "{b}";' for a, b in arcs(flow)]
    return "\n".join([*lines, "}"])


def to_mermaid(flow: DataFlow) -> str:
    """For Markdown and notebooks: sites are subgraphs."""
    ids = {vertex.id: f"v{number}" for number, vertex in enumerate(flow.vertices)}
    ids |= {f"in[{k}]": f"in{k}" for k in range(flow.arity)} | {f"out[{k}]": f"out{k}" for k in range(flow.width)}
    lines = ["flowchart LR"]
    for number, site in enumerate(flow.sites):
        lines.append(f'  subgraph s{number}["{site.id}"]')
        members = [v for v in flow.vertices if v.site == site.id]
        lines += [f'    {ids[v.id]}["{label(v).replace(chr(34), chr(39))}"]' for v in members]
        lines.append("  end")
    lines += [f'  {ids[name]}(["{name}"])' for name in ids if name.startswith(("in[", "out["))]
    lines += [f"  {ids[a]} --> {ids[b]}" for a, b in arcs(flow)]
    return "\n".join(lines)


def arcs(flow: DataFlow) -> list[tuple[str, str]]:
    """All arcs between vertices, with ``in[k]`` and ``out[k]`` for the borders."""
    begin = {stream: vertex.id for stream, vertex in flow.producer_of.items()}
    inner = [(f"in[{s}]" if isinstance(s, int) else begin[s], v.id) for v in flow.vertices for s in v.inputs]
    return inner + [(begin[output], f"out[{k}]") for k, output in enumerate(flow.outputs)]


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
