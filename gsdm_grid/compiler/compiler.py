"""The compiler: from a data flow and its input and result streams to a plan (thesis algorithms 9 and 10).

Level by level it derives the type of each vertex's result, the known lengths of its vectors and whether they are
spectra, groups the consumers by site, and connects them: by a memory stream inside a site, by a channel between sites.
It also follows how streams are split and put together again, because that decides how a merge orders its inputs:

* Every source numbers its windows; functions keep the numbers (ordinals).
* Streams that descend from one numbering are merged by ordinal, which restores the order of the central plan.
* Streams from different sources are merged by timestamp, and the result is numbered anew.
* A stream that is about to be partitioned is numbered anew if a function has come since it was numbered (one that
  returns several windows for one gives them all the same ordinal), unless it is itself a part of something.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from gsdm_grid.compiler.plan_code import check_packages
from gsdm_grid.errors import FlowError, GsdmError
from gsdm_grid.flow import DataFlow, Input, Vertex, push_selections, repeated
from gsdm_grid.functions import Lengths, fixed_lengths, function_value
from gsdm_grid.model import StreamType
from gsdm_grid.plan import (
    THREADS,
    Order,
    PlacementPolicy,
    Plan,
    PlanOperator,
    PlanSite,
    PlanStream,
    StreamKind,
    StreamSpec,
    place,
)


@dataclass(frozen=True)
class Split:
    """Some parts of a split of a stream; ``stride`` is the distance it puts between neighbouring ordinals."""

    id: str
    ways: int
    parts: frozenset[int]
    stride: int


@dataclass(frozen=True)
class Lineage:
    """Where the ordinals of a stream come from, and which splits it is still a part of."""

    numbering: str
    splits: tuple[Split, ...] = ()
    fresh: bool = True


@dataclass(frozen=True)
class CompiledStream:
    """What is known of a result stream once its vertex has been compiled."""

    type: StreamType
    lineage: Lineage
    order: Order
    renumber: bool
    lengths: Lengths
    spectra: bool = False


def compile_flow(
    query: str,
    flow: DataFlow,
    inputs: Sequence[StreamSpec],
    outputs: Sequence[StreamSpec],
    policy: PlacementPolicy = THREADS,
    renumbered: Collection[str] = (),
) -> Plan:
    """Compile a data flow into a plan, or say which vertex does not fit and why.

    ``renumbered`` are vertices that number their results anew for a consumer outside of this flow.
    """
    _check_streams(flow, inputs, outputs)
    placed = place(push_selections(flow), inputs, outputs, policy)
    flow = placed.flow
    compiled = compile_vertices(flow, inputs)
    streams, reads, writes = _connect(flow, inputs, outputs, compiled)
    members: dict[str, list[Vertex]] = {}
    for vertex in sorted(flow.vertices, key=lambda v: flow.levels[v.id]):
        members.setdefault(vertex.site, []).append(vertex)
    sites = []
    for site in flow.sites:
        operators = tuple(
            PlanOperator(
                id=v.id,
                function=v.function,
                params=_params(v, inputs, compiled),
                inputs=tuple(reads[v.id]),
                outputs=tuple(name for _, name in writes[v.id]),
                output_type=compiled[v.streams[0]].type,
                level=flow.levels[v.id],
                order=compiled[v.streams[0]].order,
                renumber=compiled[v.streams[0]].renumber or v.id in renumbered,
                carries=tuple(number for number, _ in writes[v.id]) if v.width > 1 else (),
            )
            for v in members[site.id]
        )
        sites.append(PlanSite(site.id, site.role, placed.hosts[site.id], operators))
    plan = Plan(query, tuple(sites), tuple(streams))
    check_packages(plan)
    return plan


def compile_vertices(flow: DataFlow, inputs: Sequence[StreamSpec]) -> dict[str, CompiledStream]:
    """What follows for each result stream from those before it."""
    compiled: dict[str, CompiledStream] = {}
    for vertex in sorted(flow.vertices, key=lambda v: flow.levels[v.id]):
        compiled |= zip(vertex.streams, _compile_vertex(vertex, flow, inputs, compiled), strict=True)
    return compiled


def _check_streams(flow: DataFlow, inputs: Sequence[StreamSpec], outputs: Sequence[StreamSpec]) -> None:
    if len(inputs) != flow.arity:
        raise FlowError("query", f"the data flow takes {flow.arity} input streams, got {len(inputs)}")
    if not outputs:
        raise FlowError("query", "needs at least one result stream")
    if flow.width > 1 and len(outputs) != flow.width:
        raise FlowError("query", f"the data flow has {flow.width} output streams, got {len(outputs)} result streams")
    names = [stream.name for stream in (*inputs, *outputs)]
    double = repeated(names)
    if double is not None:
        raise FlowError("query", f"stream name {double!r} is used twice")
    for number, stream in enumerate(inputs):
        if stream.type is None:
            raise FlowError("query", f"input stream {stream.name!r} needs a stream type")
        if not flow.readers(number):
            raise FlowError("query", f"nothing reads input stream {stream.name!r}")


def _compile_vertex(
    vertex: Vertex, flow: DataFlow, inputs: Sequence[StreamSpec], compiled: dict[str, CompiledStream]
) -> list[CompiledStream]:
    """What is known of each result stream of a vertex."""
    if not vertex.inputs or (vertex.resolved.kind != "combining" and len(vertex.inputs) > 1):
        takes = "one stream or more" if vertex.resolved.kind == "combining" else "one stream"
        reason = f"{vertex.function_name!r} takes {takes}, but gets {len(vertex.inputs)}"
        raise FlowError(f"vertex {vertex.id!r}", reason)
    types = _input_types(vertex, inputs, compiled)
    lineages = _input_lineages(vertex, inputs, compiled)
    try:
        result = vertex.resolved.result_type(types, vertex.params)
        known = vertex.resolved.result_lengths(_input_lengths(vertex, inputs, compiled), vertex.params)
    except GsdmError as error:
        raise FlowError(f"vertex {vertex.id!r}", str(error)) from error
    if vertex.width != vertex.resolved.width(vertex.params):
        reason = (
            f"has {vertex.width} result streams where {vertex.resolved.width(vertex.params)} follow from its parameters"
        )
        raise FlowError(f"vertex {vertex.id!r}", reason)
    lengths = {**{name: known[name] for name in known if name in result.attributes}, **fixed_lengths(result)}
    spectra = _gives_spectra(vertex, inputs, compiled)
    order: Order = "ordinal"
    renumber = False
    first = lineages[0]
    if vertex.resolved.traits.by_arrival:
        order, renumber, lineage = "arrival", True, Lineage(vertex.id)
    elif vertex.resolved.kind == "combining":
        if all(lineage.numbering == first.numbering for lineage in lineages):
            lineage = Lineage(first.numbering, _put_together([item.splits for item in lineages]), False)
        else:
            order, renumber = "time", True
            lineage = Lineage(vertex.id)
    elif vertex.resolved.kind == "partitioning":
        parts = [Lineage(first.numbering, (*first.splits, split), first.fresh) for split in _splits(vertex)]
        return [CompiledStream(result, part, order, renumber, lengths, spectra) for part in parts]
    else:
        lineage = Lineage(first.numbering, first.splits, first.fresh and vertex.resolved.traits.relays)
    partitioned = any(consumer.resolved.kind == "partitioning" for consumer in flow.consumers(vertex.id))
    if partitioned and not lineage.splits and not lineage.fresh:
        renumber = True
        lineage = Lineage(vertex.id)
    return [CompiledStream(result, lineage, order, renumber, lengths, spectra)]


def _gives_spectra(vertex: Vertex, inputs: Sequence[StreamSpec], compiled: dict[str, CompiledStream]) -> bool:
    """Whether the vectors of a vertex's results are spectra: as its functions declare, else as its inputs are."""
    named = (
        [vertex.params.get(name) for name in vertex.resolved.functions] if vertex.resolved.traits.joins_parts else []
    )
    functions = [*(function_value(one) for one in named if one is not None), vertex.resolved]
    declared = [function.traits.spectra for function in functions if function.traits.spectra is not None]
    if declared:
        return declared[0]
    return any(
        compiled[source].spectra if isinstance(source, str) else inputs[source].spectra for source in vertex.inputs
    )


def _splits(vertex: Vertex) -> list[Split]:
    """The part that each result stream of a partitioning vertex is.

    The streams of one vertex are parts of one split, and so are those of vertices that share a site and an input.
    Splitters that go by the same routing functions make the same split, wherever they are: of parts of a stream they
    make parts of its parts.
    """
    if vertex.resolved.results is not None:
        same = json.dumps(vertex.params, sort_keys=True) if vertex.resolved.traits.routes_by else vertex.id
        return [Split(same, vertex.width, frozenset([part]), 1) for part in range(vertex.width)]
    ways, part = int(vertex.params.get("n", 1)), int(vertex.params.get("i", 0))
    stride = ways if vertex.resolved.traits.deals_in_turn else 1
    return [Split(f"{vertex.site}:{vertex.inputs[0]}", ways, frozenset([part]), stride)]


def _put_together(stacks: Sequence[tuple[Split, ...]]) -> tuple[Split, ...]:
    """Splits that the combination of such streams is still a part of: one ends when all its parts are together."""
    common: list[Split] = []
    for levels in zip(*stacks, strict=False):
        if any(level.id != levels[0].id for level in levels):
            break
        parts = frozenset[int]().union(*(level.parts for level in levels))
        if len(parts) < levels[0].ways:
            common.append(replace(levels[0], parts=parts))
    return tuple(common)


def _input_types(vertex: Vertex, inputs: Sequence[StreamSpec], compiled: dict[str, CompiledStream]) -> list[StreamType]:
    types = []
    for source in vertex.inputs:
        given = compiled[source].type if isinstance(source, str) else inputs[source].type
        assert given is not None
        types.append(given)
    return types


def _input_lengths(vertex: Vertex, inputs: Sequence[StreamSpec], compiled: dict[str, CompiledStream]) -> list[Lengths]:
    known: list[Lengths] = []
    for source in vertex.inputs:
        if isinstance(source, str):
            known.append(compiled[source].lengths)
        else:
            stream = inputs[source]
            assert stream.type is not None
            known.append({**stream.lengths, **fixed_lengths(stream.type)})
    return known


def _input_lineages(vertex: Vertex, inputs: Sequence[StreamSpec], compiled: dict[str, CompiledStream]) -> list[Lineage]:
    return [
        compiled[source].lineage if isinstance(source, str) else _from_outside(inputs[source])
        for source in vertex.inputs
    ]


def _from_outside(stream: StreamSpec) -> Lineage:
    return Lineage(f"in:{stream.name}", fresh=stream.fresh)


def _params(vertex: Vertex, inputs: Sequence[StreamSpec], compiled: dict[str, CompiledStream]) -> dict[str, object]:
    """The vertex's parameters; nested round robin must count by the distance its ordinals already have."""
    params = dict(vertex.params)
    if vertex.resolved.traits.deals_in_turn and params.get("stride", 1) == 1:
        stride = 1
        for split in _input_lineages(vertex, inputs, compiled)[0].splits:
            stride *= split.stride
        params["stride"] = stride
    return params


def _connect(
    flow: DataFlow, inputs: Sequence[StreamSpec], outputs: Sequence[StreamSpec], compiled: dict[str, CompiledStream]
) -> tuple[list[PlanStream], dict[str, list[str]], dict[str, list[tuple[int, str]]]]:
    """Streams for all arcs; for each vertex, names of the streams it reads (by input number) and writes.

    What it writes comes with the number of the vertex's result stream that it carries.
    """
    streams: list[PlanStream] = []
    reads: dict[str, list[str]] = {v.id: ["?"] * len(v.inputs) for v in flow.vertices}
    writes: dict[str, list[tuple[int, str]]] = {v.id: [] for v in flow.vertices}

    ports: dict[Input, list[tuple[Vertex, int]]] = {}
    for vertex in flow.vertices:
        for port, source in enumerate(vertex.inputs):
            ports.setdefault(source, []).append((vertex, port))

    def bind(name: str, source: Input, site: str | None = None) -> None:
        for reader, port in ports[source]:
            if site in (None, reader.site):
                reads[reader.id][port] = name

    for number, spec in enumerate(inputs):
        readers = flow.readers(number)
        assert spec.type is not None
        streams.append(
            PlanStream(
                spec.name,
                "source",
                spec.type,
                None,
                readers[0].site,
                spec.interface,
                dict(spec.options),
                spec.live,
                spec.order,
                spec.spectra,
            )
        )
        bind(spec.name, number)
    for vertex in flow.vertices:
        for number, stream in enumerate(vertex.streams):
            consumers = flow.consumers(stream)
            for site in dict.fromkeys(consumer.site for consumer in consumers):
                name = f"{stream}→{site}"
                kind: StreamKind = "memory" if site == vertex.site else "channel"
                carried = compiled[stream]
                streams.append(PlanStream(name, kind, carried.type, vertex.site, site, spectra=carried.spectra))
                writes[vertex.id].append((number, name))
                bind(name, stream, site)
    numbered = {stream: number for vertex in flow.vertices for number, stream in enumerate(vertex.streams)}
    for number, spec in enumerate(outputs):
        end = flow.outputs[number if len(flow.outputs) > 1 else 0]
        vertex, result = flow.producer_of[end], compiled[end].type
        _check_result(vertex, result, spec)
        streams.append(
            PlanStream(
                spec.name,
                "sink",
                result,
                vertex.site,
                None,
                spec.interface,
                dict(spec.options),
                spec.live,
                spectra=compiled[end].spectra,
            )
        )
        writes[vertex.id].append((numbered[end], spec.name))
    return streams, reads, writes


def _check_result(vertex: Vertex, result: StreamType, spec: StreamSpec) -> None:
    """Refuse a result stream that cannot carry the type of a result."""
    interface = f"interface {spec.interface!r} of result stream {spec.name!r}"
    for taker, accepted in ((f"result stream {spec.name!r}", spec.type), (interface, spec.accepts)):
        if accepted is not None and not result.is_under(accepted):
            raise FlowError(
                f"vertex {vertex.id!r}", f"its result is of type {result.name!r}, but {taker} takes {accepted.name!r}"
            )
