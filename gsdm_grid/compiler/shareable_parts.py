"""Sharing: which part of a query others may use too. Pure.

A query is cut where all that it takes from some of its input streams passes through one place: behind an input stream
that is shared, and, if the query shares its sites, behind every vertex that is the last of its sites and gives a
whole stream, not a part of one. What lies before a cut is a *part*, a plan of its own; the query reads the part's
results. Parts that do the same have the same id, whichever queries they were cut from: the same sources, functions,
parameters and sites.

Windows keep the ordinals that they would have if nothing was shared, so that a query can go on alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gsdm_grid.compiler.compiler import compile_flow, compile_vertices
from gsdm_grid.flow import DataFlow, Site, Vertex, central, renamed
from gsdm_grid.functions import function_reference
from gsdm_grid.plan import (
    ARRIVAL,
    TAP_SINK,
    TAP_SOURCE,
    THREADS,
    Demands,
    PlacementPolicy,
    Plan,
    PlanStream,
    StreamSpec,
    unused,
)

PART = "shared:"
"""How ids of parts begin; no query that people name does."""
TAP = "tap"
"""The result stream of every part."""
_RESULT = StreamSpec(TAP, TAP_SINK)


@dataclass(frozen=True)
class _Rest:
    """What is left of a query while it is being cut, and the parts cut off so far."""

    flow: DataFlow
    inputs: tuple[StreamSpec, ...]
    parts: tuple[Plan, ...] = ()


def compile_query(
    query: str,
    flow: DataFlow,
    inputs: Sequence[StreamSpec],
    outputs: Sequence[StreamSpec],
    policy: PlacementPolicy = THREADS,
    share: bool = False,
    demands: Demands | None = None,
) -> Plan:
    """Compile a query into a plan with the parts that it shares: shared input streams, and its sites if ``share``.

    Only queries with the same ``demands``, apart from those on sites of their own, share sites.
    """
    alone = compile_flow(query, flow, inputs, outputs, policy)  # complains in terms of the whole query
    rest = _Rest(flow, tuple(inputs))
    for number, stream in enumerate(inputs):
        if stream.shared:
            rest = _without_source(rest, number, policy)
    while share and (cut := _next_cut(rest)) is not None:
        rest = _without_prefix(rest, cut, policy, (demands or Demands()).by_role())
    if not rest.parts:
        return alone
    plan = compile_flow(query, rest.flow, [_own(stream) for stream in rest.inputs], outputs, policy)
    needed = {stream.options["part"] for stream in rest.inputs if stream.interface == TAP_SOURCE}
    return replace(plan, parts=tuple(part for part in rest.parts if part.query in needed))


def real_sources(plan: Plan, stream: PlanStream) -> list[PlanStream]:
    """The input streams of the world that an input stream of a plan comes from."""
    part = plan.part(stream)
    if part is None:
        return [stream]
    return [real for below in part.streams if below.kind == "source" for real in real_sources(part, below)]


def replayable_inputs(plan: Plan, replayable: Callable[[PlanStream], bool]) -> dict[str, bool]:
    """Which input streams of a plan can be read again, by name: those of which all of the world can."""
    return {
        stream.name: all(replayable(real) for real in real_sources(plan, stream))
        for stream in plan.streams
        if stream.kind == "source"
    }


def flow_of(plan: Plan) -> DataFlow:
    """The data flow that a plan executes, relays included."""
    operators = [operator for site in plan.sites for operator in site.operators]
    origin: dict[str, int | str] = {}
    for operator in operators:
        carried = operator.carries or (None,) * len(operator.outputs)
        for name, number in zip(operator.outputs, carried, strict=True):
            origin[name] = operator.id if number is None else f"{operator.id}[{number}]"
    sources = [stream.name for stream in plan.streams if stream.kind == "source"]
    origin |= {name: number for number, name in enumerate(sources)}
    sinks = [stream.name for stream in plan.streams if stream.kind == "sink"]
    vertices = tuple(
        Vertex(o.id, o.function, o.params, tuple(origin[name] for name in o.inputs), site.id)
        for site in plan.sites
        for o in site.operators
    )
    sites = tuple(Site(site.id, site.role) for site in plan.sites)
    return DataFlow(len(sources), tuple(str(origin[name]) for name in sinks), vertices, sites).checked()


def _without_source(rest: _Rest, number: int, policy: PlacementPolicy) -> _Rest:
    """Cut behind an input stream: the part only reads it."""
    stream = rest.inputs[number]
    relay = central("identity")
    relay = replace(relay, sites=tuple(replace(site, role="source") for site in relay.sites))
    source = replace(stream, name=stream.identity, shared=False)
    part = compile_flow(PART + _digest("source", stream.identity), renamed(relay), [source], [_RESULT], policy)
    inputs = list(rest.inputs)
    inputs[number] = _tapped(stream, part, stream.name)
    return replace(rest, inputs=tuple(inputs), parts=(*rest.parts, part))


def _without_prefix(rest: _Rest, cut: str, policy: PlacementPolicy, demands: Demands) -> _Rest:
    """Cut behind a vertex: the part is everything before it."""
    flow, compiled = rest.flow, compile_vertices(rest.flow, rest.inputs)
    inside = _before(flow, cut)
    read = sorted({source for v in flow.vertices if v.id in inside for source in v.inputs if isinstance(source, int)})
    segment = _segment(flow, cut, inside, read)
    given = [rest.inputs[number] for number in read]
    sources = [replace(stream, name=stream.identity, shared=False) for stream in given]
    renumber = compiled[cut].renumber
    same = [segment.to_json() | {"template": ""}, [stream.identity for stream in given]]
    part_id = PART + _digest(*same, policy.name, demands.to_json(), renumber)
    part = compile_flow(part_id, segment, sources, [_RESULT], policy, [segment.outputs[0]] if renumber else [])
    needed = {stream.options.get("part") for stream in given}
    part = replace(part, parts=tuple(one for one in rest.parts if one.query in needed))
    entry = _tapped(given[0], part, part.query)
    entry = replace(entry, fresh=renumber or compiled[cut].lineage.fresh)
    kept = [number for number in range(flow.arity) if number not in read]
    inputs = (*(rest.inputs[number] for number in kept), entry)
    return _Rest(_remainder(flow, cut, inside, kept), inputs, (*rest.parts, part))


def _tapped(stream: StreamSpec, part: Plan, name: str) -> StreamSpec:
    """The results of a part as an input stream; it is read as the stream would be that the part reads.

    Its windows come with the time marks that the part has given them.
    """
    [result] = [one for one in part.streams if one.name == TAP]
    options = {"part": part.query, **stream.reader}
    return StreamSpec(
        name,
        TAP_SOURCE,
        result.type,
        options,
        identity=part.query,
        reader=stream.reader,
        overload=stream.overload,
        order=ARRIVAL,
        spectra=result.spectra,
    )


def _own(stream: StreamSpec) -> StreamSpec:
    """An input stream as this query reads it, not as others do."""
    if stream.interface != TAP_SOURCE or stream.overload is None:
        return stream
    return replace(stream, options={**stream.options, "overload": stream.overload})


def _next_cut(rest: _Rest) -> str | None:
    """The vertex nearest to the sources behind which the query can be cut; None if there is none."""
    flow, compiled = rest.flow, compile_vertices(rest.flow, rest.inputs)
    for vertex in sorted(flow.vertices, key=lambda v: flow.levels[v.id]):
        whole = vertex.width == 1 and not compiled[vertex.id].lineage.splits
        if whole and not _relays(vertex, rest.inputs) and _closed(flow, vertex, _before(flow, vertex.id)):
            return vertex.id
    return None


def _closed(flow: DataFlow, cut: Vertex, inside: set[str]) -> bool:
    """Whether others have nothing of what lies before a cut but the results of its vertex: no stream, site or input."""
    sites = {flow.by_id[name].site for name in inside}
    read = {source for name in inside for source in flow.by_id[name].inputs if isinstance(source, int)}
    lent = inside - {cut.id}
    return lent.isdisjoint(flow.producer_of[stream].id for stream in flow.outputs) and all(
        lent.isdisjoint(flow.producer_of[stream].id for stream in v.producers)
        and v.site not in sites
        and read.isdisjoint(v.inputs)
        for v in flow.vertices
        if v.id not in inside
    )


def _relays(vertex: Vertex, inputs: Sequence[StreamSpec]) -> bool:
    """Whether all that a vertex does is to pass on the results of a part."""
    read = [inputs[source].interface for source in vertex.inputs if isinstance(source, int)]
    return vertex.resolved.traits.relays and read == [TAP_SOURCE]


def _before(flow: DataFlow, vertex_id: str) -> set[str]:
    """A vertex and all that its windows have passed through."""
    found, waiting = set[str](), [vertex_id]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += (flow.producer_of[stream].id for stream in flow.by_id[one].producers)
    return found


def _segment(flow: DataFlow, cut: str, inside: set[str], read: Sequence[int]) -> DataFlow:
    """The data flow before a cut, under ids that do not depend on what comes after it."""
    numbers = {number: place for place, number in enumerate(read)}
    vertices = tuple(_renumbered(v, numbers) for v in flow.vertices if v.id in inside)
    used = {v.site for v in vertices}
    sites = tuple(site for site in flow.sites if site.id in used)
    return renamed(DataFlow(len(read), (cut,), vertices, sites))


def _remainder(flow: DataFlow, cut: str, inside: set[str], kept: Sequence[int]) -> DataFlow:
    """The data flow behind a cut, which reads the cut's results as its last input stream."""
    numbers: dict[int | str, int] = {number: place for place, number in enumerate(kept)} | {cut: len(kept)}
    vertices = [_renumbered(v, numbers) for v in flow.vertices if v.id not in inside]
    used = {v.site for v in vertices}
    sites = [site for site in flow.sites if site.id in used]
    outputs = flow.outputs
    if cut in outputs:
        relay = unused("shared", {v.id for v in vertices} | {site.id for site in sites})
        vertices.append(Vertex(relay, function_reference("identity"), {}, (len(kept),), relay))
        sites.append(Site(relay, "sink"))
        outputs = tuple(relay if output == cut else output for output in outputs)
    return DataFlow(len(kept) + 1, outputs, tuple(vertices), tuple(sites), flow.template).checked()


def _renumbered(vertex: Vertex, numbers: dict[Any, int]) -> Vertex:
    return replace(vertex, inputs=tuple(numbers.get(source, source) for source in vertex.inputs))


def _digest(*same: Any) -> str:
    return hashlib.sha256(json.dumps(same, sort_keys=True).encode()).hexdigest()[:12]
