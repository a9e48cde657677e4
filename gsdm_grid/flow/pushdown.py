"""Selections behind a split are pushed into it: what they would drop is omitted before it is sent. Pure.

The parasplit paper leaves this to future work. A split, with the merges of parasplit and the levels of a tree, is a
region of the data flow. Where everything that leaves the region is read by `where` with one and the same condition, and
rfn and bfn are expressions too, the condition goes to where the stream enters the region, and the selections go.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from gsdm_grid.expressions import parsed
from gsdm_grid.flow.graph import DataFlow, Vertex
from gsdm_grid.functions import function_reference


def push_selections(flow: DataFlow) -> DataFlow:
    """The flow with selections pushed into the splits in front of them, where that changes nothing but the cost."""
    for region in _regions(flow):
        condition = _common_condition(flow, region)
        inside = _streams(region)
        entries = [v for v in region.values() if inside.isdisjoint(v.producers)]
        if condition is not None and all(_takes(entry) for entry in entries):
            flow = _pushed(flow, {entry.id for entry in entries}, region, condition)
    return flow


def selecting(rfn: str, bfn: str | None, condition: str) -> tuple[str, str | None]:
    """rfn and bfn of the same split, of the tuples for which the condition holds.

    >>> selecting("xway", "kind == 2", "spd < 40")
    ('(xway) if (spd < 40) else None', '(kind == 2) if (spd < 40) else False')
    """
    return f"({rfn}) if ({condition}) else None", None if bfn is None else f"({bfn}) if ({condition}) else False"


def _regions(flow: DataFlow) -> Iterator[dict[str, Vertex]]:
    """Splits and merges that are connected with each other, if there is a split among them."""
    waiting = {v.id: v for v in flow.vertices if _splits(v) or _merges(v)}
    while waiting:
        region: dict[str, Vertex] = {}
        reached = [next(iter(waiting))]
        while reached:
            vertex = waiting.pop(reached.pop(), None)
            if vertex is None:
                continue
            region[vertex.id] = vertex
            reached += [flow.producer_of[stream].id for stream in vertex.producers]
            reached += [reader.id for stream in vertex.streams for reader in flow.consumers(stream)]
        merges = [v for v in region.values() if _merges(v)]
        inside = _streams(region)
        if any(map(_splits, region.values())) and all(set(merge.inputs) <= inside for merge in merges):
            yield region


def _splits(vertex: Vertex) -> bool:
    return bool(vertex.resolved.traits.routes_by)


def _merges(vertex: Vertex) -> bool:
    return vertex.resolved.traits.interleaves


def _streams(region: Mapping[str, Vertex]) -> set[str]:
    return {stream for vertex in region.values() for stream in vertex.streams}


def _common_condition(flow: DataFlow, region: Mapping[str, Vertex]) -> str | None:
    """The condition under which everything that leaves the region is selected, if it is the same everywhere."""
    if not _streams(region).isdisjoint(flow.outputs):
        return None
    found: set[str] = set()
    for stream in _streams(region):
        for reader in flow.consumers(stream):
            if reader.id in region:
                continue
            condition = reader.params.get(reader.resolved.traits.selects_by or "")
            if not isinstance(condition, str):
                return None
            found.add(condition)
    return found.pop() if len(found) == 1 and all(_cannot_fail(one) for one in found) else None


def _takes(entry: Vertex) -> bool:
    """Whether the stream enters the region at a split whose rfn and bfn are expressions."""
    given = (entry.params.get("rfn"), entry.params.get("bfn"))
    return _splits(entry) and isinstance(given[0], str) and isinstance(given[1], str | None)


def _cannot_fail(condition: str) -> bool:
    """Whether a condition is a plain truth value of every tuple: also of those that rfn would have omitted.

    ``w`` means the number of outputs in rfn, and nothing in a selection.
    """
    try:
        nodes = list(ast.walk(parsed(condition)))
    except (SyntaxError, ValueError, RecursionError):
        return False
    return not any(_may_fail(node) for node in nodes)


def _may_fail(node: ast.AST) -> bool:
    match node:
        case ast.Constant(value=None) | ast.Name(id="w") | ast.Call(func=ast.Name(id="int")):
            return True
        case ast.BinOp(op=ast.FloorDiv() | ast.Mod(), right=right):
            return not isinstance(right, ast.Constant)
    return False


def _pushed(flow: DataFlow, entries: set[str], region: Mapping[str, Vertex], condition: str) -> DataFlow:
    """The condition in the entries, and the selections behind the region gone: those alone on a site do nothing."""
    leaving = _streams(region)
    at_site = Counter(vertex.site for vertex in flow.vertices)
    gone: dict[str, str] = {}
    made: list[Vertex] = []
    for vertex in flow.vertices:
        if vertex.id in entries:
            rfn, bfn = selecting(vertex.params["rfn"], vertex.params.get("bfn"), condition)
            made.append(replace(vertex, params={**vertex.params, "rfn": rfn, "bfn": bfn}))
        elif vertex.resolved.traits.selects_by is not None and set(vertex.inputs) <= leaving:
            if at_site[vertex.site] == 1:
                made.append(replace(vertex, function=function_reference("identity"), params={}))
            else:
                gone[vertex.id] = vertex.producers[0]
        else:
            made.append(vertex)
    rewired = [replace(v, inputs=tuple(gone.get(s, s) if isinstance(s, str) else s for s in v.inputs)) for v in made]
    outputs = tuple(gone.get(output, output) for output in flow.outputs)
    return replace(flow, vertices=tuple(rewired), outputs=outputs)
