"""Stream query functions: what `@sqf` makes of an ordinary Python function, and what it says about it.

A *transforming* function reads one stream, a *combining* one several (its first parameter is then a list). It
returns nothing, one window, or several windows, of the type it declares. The engine calls it; nothing here
runs it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, overload

from gsdm_grid.errors import FlowError, QueryError, SchemaError
from gsdm_grid.functions.lengths import LengthRule, Lengths
from gsdm_grid.functions.neighbours import seems_to_use_neighbours
from gsdm_grid.functions.strategies import ROUND_ROBIN, Strategy, window_distribute
from gsdm_grid.functions.traits import ORDINARY, Traits
from gsdm_grid.model import STREAM, StreamType

FunctionKind = Literal["transforming", "combining", "partitioning", "combine", "routing"]
OutputRule = Callable[[Sequence[StreamType], Mapping[str, Any]], StreamType]
Params = Mapping[str, Any] | Sequence[Any] | set[Any] | float | str | None
_EMPTY = inspect.Parameter.empty
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def same_type(inputs: Sequence[StreamType], params: Mapping[str, Any]) -> StreamType:  # noqa: ARG001
    """The result has the type of the input."""
    return inputs[0]


@dataclass(frozen=True)
class Parameter:
    """One non-stream parameter of a function."""

    name: str
    default: Any = _EMPTY

    @property
    def required(self) -> bool:
        """Whether a value must be given."""
        return self.default is _EMPTY

    def describe(self) -> dict[str, Any]:
        """As plain JSON."""
        made = {"name": self.name, "required": self.required}
        return made if self.required else {**made, "default": repr(self.default)}


@dataclass(frozen=True)
class StreamFunction:
    """A registered function: its code, signature and valid parallel strategies.

    ``kind`` tells what it takes: *transforming* and *partitioning* functions one stream, *combining* ones a
    list of streams, *combine* functions (for OS-Join) a list of windows, *routing* functions (for splitstream) a
    window. ``whole`` functions are called with whole physical windows. ``builtin`` names an operator of the engine that
    works instead of ``code``; ``results`` the parameter that tells how many result streams it has, if not one.
    ``uses_neighbours`` says that a result may depend on other windows than the current one; the engine refuses a
    function that asks for them without saying so.
    ``functions`` are the parameters whose values name other functions. ``lengths`` tells how long the vectors of its
    result are; see `gsdm_grid.functions.lengths`. ``traits`` is what others may rely on; see `Traits`.
    Immutable, pickled by cloudpickle.
    """

    name: str
    kind: FunctionKind
    code: Callable[..., Any]
    input: StreamType = STREAM
    output: StreamType | OutputRule = same_type
    parameters: tuple[Parameter, ...] = ()
    whole: bool = False
    strategies: tuple[Strategy, ...] = ()
    init: Callable[..., Any] | None = None
    cleanup: Callable[[Any], None] | None = None
    rescale: Callable[[list[Any], int], list[Any]] | None = None
    builtin: str | None = None
    results: str | None = None
    imports: tuple[str, ...] = ()
    uses_neighbours: bool = False
    functions: tuple[str, ...] = ()
    lengths: LengthRule | None = None
    traits: Traits = ORDINARY
    doc: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False, compare=False)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the plain function; window functions then need a `StreamView`."""
        return self.code(*args, **kwargs)

    def bind(self, params: Params, place: str = "") -> dict[str, Any]:
        """Parameters by name, from a mapping, a sequence in order, or one single value. Checked."""
        where = place or f"function {self.name!r}"
        names = [parameter.name for parameter in self.parameters]
        given = _as_mapping(params, names, where)
        for name in given:
            if name not in names:
                allowed = ", ".join(names) or "none"
                raise FlowError(where, f"{self.name!r} has no parameter {name!r}; its parameters: {allowed}")
        missing = [p.name for p in self.parameters if p.required and p.name not in given]
        if missing:
            raise FlowError(where, f"{self.name!r} needs a value for parameter {missing[0]!r}")
        return {p.name: given.get(p.name, p.default) for p in self.parameters}

    def result_type(self, inputs: Sequence[StreamType], params: Mapping[str, Any]) -> StreamType:
        """Type of the result stream, after checking that the function takes the types of its inputs."""
        for number, given in enumerate(inputs):
            if not given.is_under(self.input):
                expected = f"{self.input.name!r} or a subtype, as {self.name!r} takes"
                raise SchemaError(given.name, None, expected, f"{given.name!r} as input {number}")
        if isinstance(self.output, StreamType):
            return self.output
        return self.output(inputs, params)

    def result_lengths(self, inputs: Sequence[Lengths], params: Mapping[str, Any]) -> Lengths:
        """What is known of the lengths of the result's vectors; a `FlowError` if the function cannot take these."""
        return {} if self.lengths is None else self.lengths(inputs, params)

    def width(self, params: Mapping[str, Any]) -> int:
        """Number of result streams with these parameters."""
        return 1 if self.results is None else int(params[self.results])

    def strategy(self, name: str) -> Strategy | None:
        """The registered parallel strategy of this name, if it is valid for the function."""
        return next((strategy for strategy in self.strategies if strategy.name == name), None)

    def describe(self) -> dict[str, Any]:
        """Signature and strategies as plain JSON, for listings."""
        output = self.output.name if isinstance(self.output, StreamType) else "derived from the input"
        return {
            "name": self.name,
            "kind": self.kind,
            "input": self.input.name,
            "output": output,
            "parameters": [parameter.describe() for parameter in self.parameters],
            "whole": self.whole,
            "uses_neighbours": self.uses_neighbours,
            "strategies": [strategy.describe() for strategy in self.strategies],
            "doc": inspect.cleandoc(self.doc),
        }


def _as_mapping(params: Params, names: Sequence[str], where: str) -> dict[str, Any]:
    if params is None:
        return {}
    if isinstance(params, Mapping):
        return dict(params)
    if isinstance(params, set | frozenset):
        if len(params) > 1:
            raise FlowError(where, "a set has no order: give several parameters as a list or by name")
        values: list[Any] = list(params)
    elif isinstance(params, str | bytes) or not isinstance(params, Iterable):
        values = [params]
    else:
        values = list(params)
    if len(values) > len(names):
        allowed = f"at most {len(names)} parameters ({', '.join(names) or 'none'})"
        raise FlowError(where, f"takes {allowed}, got {len(values)}")
    return dict(zip(names, values, strict=False))


def parameters_of(code: Callable[..., Any], hidden: Iterable[str] = ("state",)) -> tuple[Parameter, ...]:
    """Non-stream parameters of a function: all but the first, and but those the engine supplies."""
    given = list(inspect.signature(code).parameters.values())
    if not given or given[0].kind is inspect.Parameter.KEYWORD_ONLY:
        raise QueryError(f"@sqf: {code!r} takes no stream: its first parameter should be one")
    for parameter in given[1:]:
        if parameter.kind not in _BY_NAME:
            raise QueryError(f"@sqf: parameter {str(parameter)!r} of {code!r} cannot be given by name")
    return tuple(Parameter(p.name, p.default) for p in given[1:] if p.name not in hidden)


@overload
def sqf(input: Callable[..., Any]) -> StreamFunction: ...


@overload
def sqf(
    input: StreamType = STREAM,
    *,
    returns: StreamType | OutputRule = same_type,
    name: str | None = None,
    kind: FunctionKind = "transforming",
    whole: bool = False,
    strategies: Sequence[Strategy] | None = None,
    init: Callable[..., Any] | None = None,
    cleanup: Callable[[Any], None] | None = None,
    rescale: Callable[[list[Any], int], list[Any]] | None = None,
    builtin: str | None = None,
    results: str | None = None,
    imports: Sequence[str] = (),
    uses_neighbours: bool | None = None,
    functions: Sequence[str] = (),
    lengths: LengthRule | None = None,
    traits: Traits = ORDINARY,
    register: bool = True,
) -> Callable[[Callable[..., Any]], StreamFunction]: ...


def sqf(
    input: StreamType | Callable[..., Any] = STREAM,
    *,
    returns: StreamType | OutputRule = same_type,
    name: str | None = None,
    kind: FunctionKind = "transforming",
    whole: bool = False,
    strategies: Sequence[Strategy] | None = None,
    init: Callable[..., Any] | None = None,
    cleanup: Callable[[Any], None] | None = None,
    rescale: Callable[[list[Any], int], list[Any]] | None = None,
    builtin: str | None = None,
    results: str | None = None,
    imports: Sequence[str] = (),
    uses_neighbours: bool | None = None,
    functions: Sequence[str] = (),
    lengths: LengthRule | None = None,
    traits: Traits = ORDINARY,
    register: bool = True,
) -> Any:
    """Make a stream query function of a plain function, and register it under its name.

    ``input`` is the stream type it takes (subtypes fit too), ``returns`` the type of its result (default:
    that of the input). ``kind="combining"`` functions take a list of streams. ``whole=True`` says that the
    function handles a whole physical window at once. A function with state declares ``init`` (called with the
    parameters, returns the state, which is passed as ``state=``) and optionally ``cleanup``; ``rescale`` divides
    the states of its sites among another number of sites, so that its degree can change while it runs. ``strategies``
    are the valid ways to run it in parallel; window distribute by round robin is always valid for stateless
    functions over single windows, and is assumed where nothing is said. ``imports`` names modules that the
    function imports inside: they are loaded when it is installed, so that its first window need not wait for them.
    ``uses_neighbours=True`` says that results depend on other windows than the current one: the function asks for
    sliding or time windows, itself or through what it calls. By default that is assumed if its code names
    `sliding_window` or `time_window`; a function that asks for them and is not known to is refused when it runs.
    ``functions`` names the parameters whose values are other functions, or their names: they are checked when the query
    is compiled, reach every host with it, and the function gets them as functions.
    ``lengths`` is a rule for the lengths of vectors, with which a query is refused that splits vectors in parts that do
    not fit; see `gsdm_grid.functions.lengths`.
    ``traits`` is what the compiler and others may rely on, such as that a function passes windows on as they came; see
    `gsdm_grid.functions.traits`. ``builtin`` and ``results`` are for the operators of the engine.

    >>> from gsdm_grid import create_stream_type, current_window, sqf
    >>> Level = create_stream_type("Level", {"value": "float64"})
    >>> @sqf(Level, returns=Level)
    ... def gain(s, factor=2.0):
    ...     v = current_window(s)
    ...     return v.replace(value=v.value * factor)
    """
    if not isinstance(input, StreamType):
        if not callable(input):
            raise QueryError(f"@sqf: expected a stream type or a function, got {input!r}")
        return sqf()(input)
    if kind not in get_args(FunctionKind):
        raise QueryError(f"@sqf: unknown kind {kind!r}; known: {', '.join(get_args(FunctionKind))}")

    def decorate(code: Callable[..., Any]) -> StreamFunction:
        from gsdm_grid.functions.registry import functions as registry

        if (init is not None) != ("state" in inspect.signature(code).parameters):
            raise QueryError(f"@sqf: {code!r} needs both init= and a parameter 'state', or neither")
        around = _uses_neighbours(code, kind, builtin, strategies or (), uses_neighbours)
        assumed = (window_distribute(),) if kind == "transforming" and init is None and not around else ()
        if around and any(strategy.partition == ROUND_ROBIN for strategy in strategies or ()):
            raise QueryError(
                f"@sqf: {code!r} uses neighbouring windows, so it cannot be distributed by {ROUND_ROBIN!r}: "
                "neighbouring windows would be on different sites; use 'overlap_part' or 'time_overlap_part'"
            )
        made = StreamFunction(
            name=name or code.__name__,
            kind=kind,
            code=code,
            input=input,
            output=returns,
            parameters=parameters_of(code),
            whole=whole,
            strategies=assumed if strategies is None else tuple(strategies),
            init=init,
            cleanup=cleanup,
            rescale=rescale,
            builtin=builtin,
            results=results,
            imports=tuple(imports),
            uses_neighbours=around,
            functions=tuple(functions),
            lengths=lengths,
            traits=traits,
            doc=code.__doc__ or "",
        )
        unknown = sorted(set(functions) - {parameter.name for parameter in made.parameters})
        if unknown:
            raise QueryError(f"@sqf: functions= names {unknown[0]!r}, which is no parameter of {made.name!r}")
        return registry.add(made) if register else made

    return decorate


def _uses_neighbours(
    code: Callable[..., Any],
    kind: FunctionKind,
    builtin: str | None,
    strategies: Sequence[Strategy],
    declared: bool | None,
) -> bool:
    """What a function declares, checked; where it declares nothing, what its kind and code suggest."""
    if kind in ("combine", "routing"):
        if declared:
            raise QueryError(f"@sqf: {code!r}: a {kind} function is given windows, not a stream: it has no neighbours")
        return False
    if kind == "combining" and builtin is None:
        if declared is False:
            raise QueryError(
                f"@sqf: {code!r}: a combining function always uses neighbouring windows: "
                "it pairs those of its streams by their count"
            )
        return True
    return seems_to_use_neighbours(code, strategies) if declared is None else declared
