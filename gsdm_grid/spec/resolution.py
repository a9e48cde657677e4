"""What a query's document stands for: its streams, with what is registered under the names in it, and its data flow.

``parse`` checks a document and gives its parts; errors name the place in the document. It makes nothing that lives:
that is the coordinator's business.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gsdm_grid.errors import FlowError, GsdmError, SchemaError, UnknownName
from gsdm_grid.flow import DataFlow, build
from gsdm_grid.interfaces import check_accepted, interfaces
from gsdm_grid.model import StreamType, TypeRegistry, create_stream_type, stream_types
from gsdm_grid.optimizer import Candidate, Parallel, Work, planned_flow, strategies_of
from gsdm_grid.plan import ORDERED
from gsdm_grid.spec.document_model import Name, checked
from gsdm_grid.spec.open_plans import MAX_DEPTH, refuse_code, with_degree, work_of
from gsdm_grid.spec.plan_member import AUTO, parse_plan
from gsdm_grid.spec.specification import QueryFlow, QuerySpecification, Stop
from gsdm_grid.spec.stream_members import InlineType, InputDocument, OutputDocument
from gsdm_grid.spec.stream_registration import RegisteredStream

KEPT = "log"
"""Interface of result streams that the coordinator keeps for readers."""

Registered = Callable[[str, str], Mapping[str, Any]]
"""Finds a registered stream: its kind (``source``, ``sink`` or ``segment``) and name to its document."""
Chosen = Callable[[Mapping[str, Any]], Mapping[str, Any] | None]
"""Finds what the optimizer chose for a document: its ``plan`` and ``block_bytes``; None if it has chosen nothing."""


@dataclass(frozen=True)
class ResolvedQuery:
    """A checked document with what its names stand for. Immutable. ``kept``: result streams the coordinator keeps."""

    specification: QuerySpecification
    flow: DataFlow
    inputs: tuple[RegisteredStream, ...]
    outputs: tuple[RegisteredStream, ...]
    kept: tuple[str, ...]

    @property
    def name(self) -> str:
        """The query's name."""
        return self.specification.name

    @property
    def stop(self) -> Stop:
        """When a run stops by itself."""
        return self.specification.stop or Stop()


def _nothing_chosen(_document: Mapping[str, Any]) -> None:
    return None


def parse(
    document: Any, registered: Registered, cores: int | None = None, chosen: Chosen = _nothing_chosen
) -> ResolvedQuery:
    """Check a document, or say at which place it is wrong and what is allowed there.

    The plan ``auto`` is what ``chosen`` finds, or else one compute site for each core.
    """
    specification: QuerySpecification = checked(QuerySpecification, document)
    if specification.plan == AUTO and (choice := chosen(document)) is not None:
        known = {name: value for name, value in choice.items() if value is not None}
        specification = checked(QuerySpecification, {**document, **known})
    try:
        return _resolved(specification, document, registered, cores or os.cpu_count() or 1)
    except UnknownName as error:
        places = _places(document, error.args[1])
        raise (error.at(" and ".join(places[:3])) if places else error) from None


def _places(value: Any, name: str, place: str = "") -> list[str]:
    """Paths in a document at which a name stands."""
    if isinstance(value, str):
        return [place] if value == name else []
    steps: list[tuple[str, Any]] = []
    if isinstance(value, Mapping):
        steps = [(f"{place}.{key}" if place else str(key), item) for key, item in value.items() if key != "labels"]
    elif isinstance(value, list | tuple):
        steps = [(f"{place}[{number}]", item) for number, item in enumerate(value)]
    return [path for step, item in steps for path in _places(item, name, step)]


def _resolved(
    specification: QuerySpecification, document: Mapping[str, Any], registered: Registered, cores: int
) -> ResolvedQuery:
    inputs = tuple(
        _input(member, number, specification.overload, registered) for number, member in enumerate(specification.inputs)
    )
    outputs = tuple(
        _output(member, number, registered)
        for number, member in enumerate(specification.outputs or [OutputDocument(name="results")])
    )
    kept = tuple(stream.name for stream in outputs if stream.interface == KEPT)
    flow = _flow(specification, len(inputs), cores)
    if specification.autoscale is not None:
        with_degree(document, specification.autoscale.min)  # complains if there is no degree to change
    return ResolvedQuery(specification, flow, inputs, outputs, kept)


# -- streams ----------------------------------------------------------------------------------------------------------


def _input(member: InputDocument, number: int, overload: str | None, registered: Registered) -> RegisteredStream:
    place = f"inputs[{number}]"
    name = member.name or checked(Name, member.source or f"in{number}", f"{place}.name")
    if member.segment is not None:
        segment = registered("segment", member.segment)
        segment = {**segment, "options": {**segment["options"], "repeat": member.repeat}}
        stream = parse_stream(segment, name, place, source=True)
    elif member.source is not None:
        source = registered("source", member.source)
        stream = parse_stream({**source, "shared": shared_unless_told(source)}, name, place, source=True)
    else:
        stream = _stream(member, name, place, source=True)
    if overload is None:
        return stream
    if stream.shared:
        return replace(stream, overload=overload)  # this query's business; the source has its own policy
    known = interfaces.get(stream.interface).known_options
    if known is None or "overload" in known:
        return replace(stream, options={"overload": overload, **stream.options})
    return stream


def _output(member: OutputDocument, number: int, registered: Registered) -> RegisteredStream:
    place = f"outputs[{number}]"
    default = member.sink or ("results" if number == 0 else f"results{number}")
    name = member.name or checked(Name, default, f"{place}.name")
    if member.sink is not None:
        return parse_stream(registered("sink", member.sink), name, place, source=False)
    if member.interface is not None:
        return _stream(member, name, place, source=False)
    return RegisteredStream(name, KEPT, None if member.type is None else parse_type(member.type, f"{place}.type"))


def shared_unless_told(document: Mapping[str, Any]) -> bool:
    """Whether a registered source is shared: as it says, else if it could not be opened twice."""
    shared = document.get("shared")
    if shared is not None:
        return bool(shared)
    try:
        return interfaces.get(document["interface"]).exclusive(document.get("options") or {})
    except GsdmError:
        return False  # code that is not there any more; who uses the source is told


def parse_stream(document: Mapping[str, Any], name: str, place: str, source: bool) -> RegisteredStream:
    """An input or result stream as it is registered: its interface, the interface's options, and its type."""
    return _stream(checked(InputDocument if source else OutputDocument, document, place), name, place, source)


def _stream(member: InputDocument | OutputDocument, name: str, place: str, source: bool) -> RegisteredStream:
    """A source needs a type; that of a result stream is derived unless given."""
    if member.interface is None:
        raise FlowError(place, f"needs an interface; known: {', '.join(interfaces.names())}")
    if source and member.type is None:
        raise FlowError(place, f"needs a type; known: {', '.join(stream_types.names())}")
    stream_type = None if member.type is None else parse_type(member.type, f"{place}.type")
    options = member.options or {}
    _check_interface(member.interface, options, stream_type, place, source)
    stream = RegisteredStream(name, member.interface, stream_type, options)
    if isinstance(member, InputDocument):
        return replace(stream, shared=bool(member.shared), order=member.order or ORDERED)
    return stream


def _check_interface(
    interface: str, options: Mapping[str, Any], stream_type: StreamType | None, place: str, source: bool
) -> None:
    """Whether a document may name this interface, with these options, for windows of this type."""
    found = interfaces.get(interface)
    if stream_type is not None:
        try:
            check_accepted(interface, stream_type)
        except SchemaError as error:
            raise FlowError(f"{place}.type", str(error)) from None
    if found.internal:
        raise FlowError(f"{place}.interface", f"{interface!r} is used inside the system only")
    if found.local:
        raise FlowError(f"{place}.interface", f"{interface!r} holds objects of one process: it cannot be submitted")
    for key in options:
        if found.known_options is not None and key not in found.known_options:
            raise UnknownName(f"option of interface {interface!r}", key[:80], found.known_options, f"{place}.options")
    needed = {found.sink_option} if not source and found.sink_option else set()
    if "path" in {*options, *needed} & (found.known_options or frozenset()):
        checked(str, options.get("path"), f"{place}.options.path")
    try:
        if stream_type is not None:
            found(stream_type, options)  # complains of wrong values; what it opens, it opens later
    except FlowError:
        raise
    except GsdmError as error:
        raise FlowError(f"{place}.options", str(error)) from error
    except Exception as error:
        raise FlowError(f"{place}.options", f"{type(error).__name__}: {error}") from error


def parse_type(member: str | InlineType, place: str) -> StreamType:
    """A stream type: a registered one by its name, or one of the query's own."""
    try:
        if isinstance(member, str):
            return stream_types.get(member)
        return create_stream_type(member.name, member.attributes, stream_types.get(member.under), TypeRegistry())
    except (FlowError, UnknownName):
        raise
    except GsdmError as error:
        raise FlowError(place, str(error)) from error


# -- data flow --------------------------------------------------------------------------------------------------------


def flow_of(document: Mapping[str, Any]) -> DataFlow:
    """The data flow of a query's document alone, without looking at its streams."""
    members = {name: document[name] for name in QueryFlow.model_fields if name in document}
    inputs = checked(list[Any], document.get("inputs"), "inputs")
    return _flow(checked(QueryFlow, members), len(inputs), os.cpu_count() or 1)


def _flow(query: QueryFlow, inputs: int, cores: int) -> DataFlow:
    try:
        if query.given("flow"):
            refuse_code(query.flow, "flow")
            if not query.given("plan"):
                return build(query.flow)
        return _planned(query, inputs, cores)
    except GsdmError:
        raise
    except RecursionError:
        raise FlowError("flow", f"is nested more than {MAX_DEPTH} deep") from None
    except Exception as error:  # a document may hold anything anywhere; the builder says what it cannot take
        raise FlowError("flow", f"does not make a data flow: {type(error).__name__}: {error}") from error


def _planned(query: QueryFlow, inputs: int, cores: int) -> DataFlow:
    """A function, or a pipe of functions, as ``plan`` says."""
    work = work_of({name: getattr(query, name) for name in ("flow", "function", "params") if query.given(name)})
    if work is None:
        raise FlowError("plan", "goes with a function or a pipe of functions, not with a flow that says all")
    candidate = _by_rule(work, inputs, cores) if query.plan == AUTO else parse_plan(query.plan, len(work))
    return planned_flow(work, candidate, inputs)


def _by_rule(work: Work, inputs: int, cores: int) -> Candidate:
    """What is done where the optimizer has not been asked: the first strategy, with a compute site for each core."""
    strategies = [one for one in strategies_of(work) if one.degrees is None or cores in one.degrees]
    fused = len(work) > 1
    if inputs > 1 or cores < 2 or not strategies:
        return Candidate((None,), fused) if inputs == 1 or not fused else Candidate((None,) * len(work))
    return Candidate((Parallel(strategies[0].name, cores),), fused)
