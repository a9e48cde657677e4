"""A query as one plain document (JSON or YAML): what people submit, and what is kept of a query.

``parse`` checks a document and gives its parts; errors name the place in the document. It makes nothing that lives:
that is the coordinator's business.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gsdm_grid.engine import check_schedule
from gsdm_grid.errors import FlowError, GsdmError, SchemaError, UnknownName
from gsdm_grid.flow import TEMPLATES, DataFlow, build
from gsdm_grid.functions import functions
from gsdm_grid.interfaces import POLICIES as OVERLOAD_POLICIES
from gsdm_grid.interfaces import check_accepted, interfaces
from gsdm_grid.model import StreamType, TypeRegistry, create_stream_type, stream_types
from gsdm_grid.optimizer import (
    CENTRAL,
    Candidate,
    Parallel,
    Stage,
    Work,
    planned_flow,
    read_plan,
    stages_of,
    strategies_of,
)
from gsdm_grid.plan import Demands, parse_demands, placement_policy
from gsdm_grid.spec.stream_registration import RegisteredStream

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,62}")
MEMBERS = (
    "name",
    "inputs",
    "flow",
    "function",
    "params",
    "plan",
    "outputs",
    "stop",
    "overload",
    "placement",
    "schedule",
    "flush_s",
    "labels",
    "autoscale",
    "resources",
    "block_bytes",
    "share",
)
AUTO = "auto"
KEPT = "log"
"""Interface of result streams that the coordinator keeps for readers."""
MAX_DEPTH = 64

Registered = Callable[[str, str], Mapping[str, Any]]
"""Finds a registered stream: its kind (``source``, ``sink`` or ``segment``) and name to its document."""
Chosen = Callable[[Mapping[str, Any]], Mapping[str, Any] | None]
"""Finds what the optimizer chose for a document: its ``plan`` and ``block_bytes``; None if it has chosen nothing."""
SMALLEST_BLOCK, LARGEST_BLOCK = 1 << 12, 1 << 28


@dataclass(frozen=True)
class Stop:
    """Stop condition of a run; neither means until stopped."""

    count: int | None = None
    time_s: float | None = None

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {key: value for key, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class QuerySpecification:
    """A checked document. Immutable. ``kept`` names the result streams that the coordinator keeps."""

    name: str
    flow: DataFlow
    inputs: tuple[RegisteredStream, ...]
    outputs: tuple[RegisteredStream, ...]
    kept: tuple[str, ...]
    stop: Stop = Stop()
    placement: str | None = None
    schedule: Mapping[str, Any] = field(default_factory=dict)
    flush_s: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    autoscale: tuple[int, int] | None = None
    """Least and most compute sites, if the degree is to follow the load."""
    demands: Demands = field(default_factory=Demands)
    """What the hosts of its sites must have."""
    block_bytes: int | None = None
    """Size of physical windows, if not the installation's."""
    share: bool = False
    """Whether its first sites may be those of other such queries that begin in the same way."""


def _nothing_chosen(_document: Mapping[str, Any]) -> None:
    return None


def parse(
    document: Any, registered: Registered, cores: int | None = None, chosen: Chosen = _nothing_chosen
) -> QuerySpecification:
    """Check a document, or say at which place it is wrong and what is allowed there.

    The plan ``auto`` is what ``chosen`` finds, or else one compute site for each core.
    """
    try:
        return _parse(document, registered, cores, chosen)
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


def _parse(document: Any, registered: Registered, cores: int | None, chosen: Chosen) -> QuerySpecification:
    given = _mapping(document, "specification")
    _known(given, MEMBERS, "specification")
    name = check_name(given.get("name"), "name")
    inputs = tuple(
        _input(one, number, given.get("overload"), registered)
        for number, one in enumerate(_list(given.get("inputs"), "inputs"))
    )
    if not inputs:
        raise FlowError("inputs", "a query needs at least one input stream")
    outputs, kept = _outputs(given.get("outputs"), registered)
    if given.get("plan") == AUTO and (found := chosen(given)) is not None:
        given = {**given, **{name: value for name, value in found.items() if value is not None}}
    flow = _flow(given, len(inputs), cores or os.cpu_count() or 1)
    placement = given.get("placement")
    if placement is not None:
        placement_policy(_text(placement, "placement"))
    schedule = dict(_mapping(given.get("schedule") or {}, "schedule"))
    check_schedule(schedule)
    flush_s = given.get("flush_s")
    if flush_s is not None:
        flush_s = _number(flush_s, "flush_s", least=0.0, most=60.0)
    labels = _mapping(given.get("labels") or {}, "labels")
    for key, value in labels.items():
        _text(value, f"labels.{key}")
    stop, autoscale, demands = parse_stop(given.get("stop")), _autoscale(given), parse_demands(given.get("resources"))
    block_bytes = given.get("block_bytes")
    if block_bytes is not None:
        block_bytes = int(_number(block_bytes, "block_bytes", SMALLEST_BLOCK, LARGEST_BLOCK))
    share = _flag(given.get("share", False), "share")
    if share and autoscale is not None:
        raise FlowError("share", "does not go with autoscale: sites that others use too cannot follow one query's load")
    return QuerySpecification(
        name,
        flow,
        inputs,
        outputs,
        kept,
        stop,
        placement,
        schedule,
        flush_s,
        dict(labels),
        autoscale,
        demands,
        block_bytes,
        share,
    )


def work_of(document: Mapping[str, Any]) -> Work | None:
    """The functions whose plan a document leaves open: one, or those of a pipe; None if its flow says all."""
    if "function" in document:
        _refuse_code(document.get("params"), "params")
        return (Stage.of(_text(document["function"], "function"), document.get("params")),)
    flow = document.get("flow")
    if isinstance(flow, str):
        return (Stage.of(flow),)
    if (
        not isinstance(flow, Mapping)
        or flow.get("template") not in ("pipe", "lpipe")
        or set(flow) - {"template", "args"}
    ):
        return None
    _refuse_code(flow, "flow")
    stages: list[Stage] = []
    for part in _list(flow.get("args"), "flow.args"):
        if isinstance(part, str):
            stages.append(Stage.of(part))
        elif stages and stages[-1].params is None and not (isinstance(part, Mapping) and "template" in part):
            stages[-1] = Stage(stages[-1].function, part)
        else:
            return None
    return tuple(stages) if len(stages) > 1 else None


def with_degree(document: Mapping[str, Any], degree: int) -> dict[str, Any]:
    """The document of the same query with another degree of parallelism, of its outermost template that has one."""
    if "function" in document:
        plan = document.get("plan", "central")
        strategy = plan.get("strategy") if isinstance(plan, Mapping) else None
        if strategy is None:
            strategies = functions.get(_text(document["function"], "function")).strategies
            if not strategies:
                raise FlowError("function", f"{document['function']!r} has no valid parallel strategy")
            strategy = strategies[0].name
        return {**document, "plan": {"strategy": strategy, "degree": degree}}
    return {**document, "flow": _with_degree(document.get("flow"), degree)}


def with_plan(document: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The document of the same query with another plan and size of physical windows."""
    return {**without_plan(document), **{name: value for name, value in chosen.items() if value is not None}}


def without_plan(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document of the same query with its plan left open; a `FlowError` says why that cannot be done."""
    open_document = {name: value for name, value in document.items() if name != "plan"}
    if work_of(document) is not None:
        return open_document
    flow = open_document.pop("flow", None)
    _refuse_code(flow, "flow")
    stages = stages_of(flow)
    if len(stages) == 1:
        function = {"function": stages[0].function.name, "params": stages[0].params or None}
        return {**open_document, **{name: value for name, value in function.items() if value is not None}}
    args = [part for stage in stages for part in (stage.function.name, stage.params or {})]
    return {**open_document, "flow": {"template": "pipe", "args": args}}


def _with_degree(flow: Any, degree: int) -> dict[str, Any]:
    """The degree of parasplit is the number of its window splitters, also where it is a stage of a pipe; that of a
    person's template is its parameter ``n``.
    """
    template = flow.get("template") if isinstance(flow, Mapping) else None
    places = {"PCC": ("n", 0), "parallelize": ("n", 3), "parasplit": ("p", 0)} | _own_degree(template)
    if template == "pipe":
        stages = list(flow.get("args", []))
        for number, stage in enumerate(stages):
            if isinstance(stage, Mapping) and stage.get("template") == "parasplit":
                return {**flow, "args": [*stages[:number], _with_degree(stage, degree), *stages[number + 1 :]]}
    if template not in places:
        got = f"template {template!r}" if template else "a plain function or graph"
        raise FlowError("flow", f"has no degree of parallelism: it is {got}, not {' or '.join(places)}")
    name, place = places[template]
    args = list(flow.get("args", []))
    if len(args) > place:
        args[place] = degree
        return {**flow, "args": args}
    return {**flow, name: degree}


def _own_degree(name: Any) -> dict[str, tuple[str, int]]:
    """By the name of a person's template, the parameter that is its degree, and its place."""
    template = TEMPLATES.find(name)
    parameters = [] if template is None or template.is_builtin else list(template.signature.parameters)
    return {str(name): ("n", parameters.index("n"))} if "n" in parameters else {}


def check_name(given: Any, place: str) -> str:
    """A name of a query, stream, type or bundle."""
    if not isinstance(given, str) or not NAME.fullmatch(given):
        raise FlowError(place, f"must be a letter and up to 62 letters, digits, '_', '.' or '-', got {given!r:.80}")
    return given


def parse_stop(given: Any, place: str = "stop") -> Stop:
    """``{"count": n}``, ``{"time_s": s}``, or nothing."""
    if given is None:
        return Stop()
    stop = _mapping(given, place)
    _known(stop, ("count", "time_s"), place)
    if len(stop) > 1:
        raise FlowError(place, "count or time_s, not both")
    count, time_s = stop.get("count"), stop.get("time_s")
    if count is not None and (not isinstance(count, int) or isinstance(count, bool) or not 1 <= count < 2**62):
        raise FlowError(f"{place}.count", f"must be a whole number from 1 to 2**62 - 1, got {count!r:.40}")
    return Stop(count, None if time_s is None else _number(time_s, f"{place}.time_s", least=0.001, most=1e9))


def _autoscale(given: Mapping[str, Any]) -> tuple[int, int] | None:
    if given.get("autoscale") is None:
        return None
    bounds = _mapping(given["autoscale"], "autoscale")
    _known(bounds, ("min", "max"), "autoscale")
    least, most = bounds.get("min", 1), bounds.get("max", 8)
    for name, value in (("min", least), ("max", most)):
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 1024:
            raise FlowError(f"autoscale.{name}", f"must be a whole number from 1 to 1024, got {value!r:.40}")
    if least > most:
        raise FlowError("autoscale", f"min is {least}, but max is {most}")
    with_degree(given, least)  # complains if there is no degree to change
    return least, most


def parse_type(given: Any, place: str) -> StreamType:
    """A stream type: the name of a registered one, or a document ``{name, under, attributes}``."""
    try:
        if isinstance(given, str):
            return stream_types.get(given)
        document = _mapping(given, place)
        _known(document, ("name", "under", "attributes"), place)
        name = check_name(document.get("name"), f"{place}.name")
        parent = stream_types.get(_text(document.get("under", "Stream"), f"{place}.under"))
        attributes = _mapping(document.get("attributes"), f"{place}.attributes")
        for key, kind in attributes.items():
            _text(kind, f"{place}.attributes.{key}")
        return create_stream_type(name, attributes, parent, TypeRegistry())
    except (FlowError, UnknownName):
        raise
    except GsdmError as error:
        raise FlowError(place, str(error)) from error


def _input(given: Any, number: int, overload: Any, registered: Registered) -> RegisteredStream:
    place = f"inputs[{number}]"
    document = _mapping({"source": given} if isinstance(given, str) else given, place)
    _known(document, ("name", "source", "segment", "repeat", "type", "interface", "options", "shared"), place)
    name = check_name(document.get("name", document.get("source", f"in{number}")), f"{place}.name")
    if "segment" in document:
        _known(document, ("name", "segment", "repeat"), place)
        found = registered("segment", _text(document["segment"], f"{place}.segment"))
        document = {**found, "options": {**found["options"], "repeat": document.get("repeat", 1)}}
    elif "source" in document:
        _known(document, ("name", "source"), place)
        found = registered("source", _text(document["source"], f"{place}.source"))
        document = {**found, "shared": shared_unless_told(found)}
    else:
        _known(document, ("name", "type", "interface", "options", "shared"), place)
    stream = parse_stream(document, name, place, source=True)
    if overload is not None:
        if overload not in OVERLOAD_POLICIES:
            raise UnknownName("overload policy", str(overload)[:80], OVERLOAD_POLICIES)
        known = interfaces.get(stream.interface).known_options
        if stream.shared:
            stream.overload = overload  # this query's business; the source has its own policy
        elif known is None or "overload" in known:
            stream.options = {"overload": overload, **stream.options}
    return stream


def shared_unless_told(document: Mapping[str, Any]) -> bool:
    """Whether a registered source is shared: as it says, else if it could not be opened twice."""
    given = document.get("shared")
    if given is not None:
        return bool(given)
    try:
        return interfaces.get(document["interface"]).exclusive(document.get("options") or {})
    except GsdmError:
        return False  # code that is not there any more; who uses the source is told


def parse_stream(document: Mapping[str, Any], name: str, place: str, source: bool) -> RegisteredStream:
    """An input or result stream: its type (needed for a source), interface and the interface's options."""
    if "interface" not in document:
        raise FlowError(place, f"needs an interface; known: {', '.join(interfaces.names())}")
    interface = _text(document["interface"], f"{place}.interface")
    options = _mapping(document.get("options") or {}, f"{place}.options")
    stream_type = None
    if source or "type" in document:
        if "type" not in document:
            raise FlowError(place, f"needs a type; known: {', '.join(stream_types.names())}")
        stream_type = parse_type(document["type"], f"{place}.type")
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
            raise UnknownName(
                f"option of interface {interface!r}", str(key)[:80], found.known_options, f"{place}.options"
            )
    needed = {found.sink_option} if not source and found.sink_option else set()
    if "path" in {*options, *needed} & (found.known_options or frozenset()):
        _text(options.get("path"), f"{place}.options.path")
    try:
        if stream_type is not None:
            found(stream_type, options)  # complains of wrong values; what it opens, it opens later
    except FlowError:
        raise
    except GsdmError as error:
        raise FlowError(f"{place}.options", str(error)) from error
    except Exception as error:
        raise FlowError(f"{place}.options", f"{type(error).__name__}: {error}") from error
    shared = source and _flag(document.get("shared") or False, f"{place}.shared")
    return RegisteredStream(name, interface, stream_type, dict(options), shared)


def _outputs(given: Any, registered: Registered) -> tuple[tuple[RegisteredStream, ...], tuple[str, ...]]:
    listed = _list(given, "outputs") if given is not None else []
    made: list[RegisteredStream] = []
    kept: list[str] = []
    for number, one in enumerate(listed or [{"name": "results"}]):
        place = f"outputs[{number}]"
        document = _mapping({"sink": one} if isinstance(one, str) else one, place)
        _known(document, ("name", "sink", "type", "interface", "options"), place)
        default = document.get("sink", "results" if number == 0 else f"results{number}")
        name = check_name(document.get("name", default), f"{place}.name")
        if "sink" in document:
            _known(document, ("name", "sink"), place)
            document = registered("sink", _text(document["sink"], f"{place}.sink"))
        if "interface" in document:
            made.append(parse_stream(document, name, place, source=False))
        else:
            _known(document, ("name", "type"), place)
            stream_type = parse_type(document["type"], f"{place}.type") if "type" in document else None
            made.append(RegisteredStream(name, KEPT, stream_type))
            kept.append(name)
    return tuple(made), tuple(kept)


def _flow(given: Mapping[str, Any], inputs: int, cores: int) -> DataFlow:
    if ("flow" in given) == ("function" in given):
        raise FlowError(
            "specification", "needs either a flow (a template call), or a function with its params and plan"
        )
    try:
        if "flow" in given:
            if "params" in given:
                raise FlowError("params", "goes with a function, not with a flow")
            _refuse_code(given["flow"], "flow")
            if "plan" not in given:
                return build(given["flow"])
        return _planned(given, inputs, cores)
    except GsdmError:
        raise
    except RecursionError:
        raise FlowError("flow", f"is nested more than {MAX_DEPTH} deep") from None
    except Exception as error:  # a document may hold anything anywhere; the builder says what it cannot take
        raise FlowError("flow", f"does not make a data flow: {type(error).__name__}: {error}") from error


def flow_of(document: Mapping[str, Any]) -> DataFlow:
    """The data flow of a query's document alone, without looking at its streams."""
    return _flow(document, len(_list(document.get("inputs"), "inputs")), os.cpu_count() or 1)


def _planned(given: Mapping[str, Any], inputs: int, cores: int) -> DataFlow:
    """A function, or a pipe of functions, as ``plan`` says."""
    work = work_of(given)
    if work is None:
        raise FlowError("plan", "goes with a function or a pipe of functions, not with a flow that says all")
    plan = given.get("plan", CENTRAL)
    candidate = _by_rule(work, inputs, cores) if plan == AUTO else read_plan(plan, len(work))
    return planned_flow(work, candidate, inputs)


def _by_rule(work: Work, inputs: int, cores: int) -> Candidate:
    """What is done where the optimizer has not been asked: the first strategy, with a compute site for each core."""
    strategies = [one for one in strategies_of(work) if one.degrees is None or cores in one.degrees]
    fused = len(work) > 1
    if inputs > 1 or cores < 2 or not strategies:
        return Candidate((None,), fused) if inputs == 1 or not fused else Candidate((None,) * len(work))
    return Candidate((Parallel(strategies[0].name, cores),), fused)


def _refuse_code(value: Any, place: str, depth: int = 0) -> None:
    """Function code comes from installed packages and uploaded bundles, never inside a specification."""
    if depth > MAX_DEPTH:
        raise FlowError(place, f"is nested more than {MAX_DEPTH} deep")
    if isinstance(value, Mapping):
        if "code" in value:
            raise FlowError(place, "must not carry code: upload it as a bundle, and name its function")
        for key, item in value.items():
            _refuse_code(item, f"{place}.{key}", depth + 1)
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            _refuse_code(item, f"{place}[{number}]", depth + 1)


def _mapping(given: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise FlowError(place, f"expected a mapping, got {_kind(given)}")
    for key in given:
        if not isinstance(key, str):
            raise FlowError(place, f"keys must be text, got {key!r:.40}")
    return given


def _list(given: Any, place: str) -> list[Any]:
    if not isinstance(given, list):
        raise FlowError(place, f"expected a list, got {_kind(given)}")
    return given


def _text(given: Any, place: str) -> str:
    if not isinstance(given, str):
        raise FlowError(place, f"expected text, got {_kind(given)}")
    return given


def _flag(given: Any, place: str) -> bool:
    if not isinstance(given, bool):
        raise FlowError(place, f"expected true or false, got {_kind(given)}")
    return given


def _number(given: Any, place: str, least: float, most: float) -> float:
    if not isinstance(given, int | float) or isinstance(given, bool) or not least <= given <= most:
        raise FlowError(place, f"must be a number from {least:g} to {most:g}, got {given!r:.40}")
    return float(given)


def _known(given: Mapping[str, Any], allowed: tuple[str, ...], place: str) -> None:
    unknown = next((key for key in given if key not in allowed), None)
    if unknown is not None:
        raise FlowError(place, f"has no member {unknown!r:.60}; allowed: {', '.join(allowed)}")


def _kind(given: Any) -> str:
    return "nothing" if given is None else type(given).__name__
