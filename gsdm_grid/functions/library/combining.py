"""Combining functions: S-Merge and OS-Join (thesis 3.3.4), and the others of mergestream. Operators do their work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gsdm_grid.errors import QueryError, SchemaError
from gsdm_grid.functions import Lengths, StreamFunction, StreamView, Traits, function_value, same_lengths, sqf
from gsdm_grid.model import STREAM, StreamType


def _one_type(inputs: Sequence[StreamType], params: Mapping[str, Any]) -> StreamType:  # noqa: ARG001
    for number, given in enumerate(inputs):
        if given != inputs[0]:
            expected = f"{inputs[0].name!r}, as input 0 has"
            raise SchemaError(given.name, None, expected, f"{given.name!r} as input {number}")
    return inputs[0]


def combine_function(given: Any) -> StreamFunction:
    """The combine function that a parameter of OS-Join names; in a plan it may be a function reference."""
    found = function_value(given)
    if found.kind != "combine":
        raise QueryError(f"OS-Join: expected a function of kind 'combine', got {found.name!r} ({found.kind})")
    return found


def _joined_type(inputs: Sequence[StreamType], params: Mapping[str, Any]) -> StreamType:
    if params.get("partial") is not None:
        combine_function(params["partial"])
    return combine_function(params["combine"]).result_type(inputs, {})


def _joined_lengths(inputs: Sequence[Lengths], params: Mapping[str, Any]) -> Lengths:
    return combine_function(params["combine"]).result_lengths(inputs, {})


@sqf(
    STREAM,
    returns=_one_type,
    kind="combining",
    builtin="S-Merge",
    name="S-Merge",
    lengths=same_lengths,
    traits=Traits(interleaves=True),
)
def s_merge(streams: Sequence[StreamView], timeout: float | None = None) -> Any:
    """Merge ordered streams into one ordered stream (thesis algorithm 14).

    Streams that were partitioned from one stream are put back in its order; others are ordered by timestamp.
    With a ``timeout`` (seconds) a silent input is waited for that long, then left behind until it delivers
    again: what came too late is counted, and the gap is recorded. Without one the merge waits.
    """
    raise NotImplementedError("executed by the operator of the same name")


@sqf(
    STREAM,
    returns=_joined_type,
    kind="combining",
    builtin="OS-Join",
    name="OS-Join",
    functions=("combine", "partial"),
    lengths=_joined_lengths,
    traits=Traits(joins_parts=True),
)
def os_join(streams: Sequence[StreamView], combine: Any, timeout: float | None = None, partial: Any = None) -> Any:
    """Join sub-windows of the same window and combine them in order (thesis algorithm 15).

    If a sub-window is missing (an input left it out, or was silent for longer than ``timeout`` seconds) the
    result is ``partial(parts)``, with None for what is missing; without such a function it is a recorded gap.
    """
    raise NotImplementedError("executed by the operator of the same name")


@sqf(
    STREAM,
    returns=_one_type,
    kind="combining",
    builtin="union",
    lengths=same_lengths,
    traits=Traits(by_arrival=True),
)
def union(streams: Sequence[StreamView]) -> Any:
    """Windows of several streams as they arrive, numbered anew: it waits for nobody, and promises no order."""
    raise NotImplementedError("executed by the operator of the same name")


REDUCTIONS = ("sum", "min", "max")


def _keyed_type(inputs: Sequence[StreamType], params: Mapping[str, Any]) -> StreamType:
    given = _one_type(inputs, params)
    kind = given.attribute(params["key"])
    if not (kind.is_scalar or kind.is_string):
        raise SchemaError(given.name, params["key"], "a number or a string, to merge by", str(kind))
    for name, how in (params.get("how") or {}).items():
        if how not in REDUCTIONS:
            raise QueryError(f"unknown aggregate {how!r} of {name!r}; known: {', '.join(REDUCTIONS)}")
        if given.attribute(name).is_string or given.attribute(name).varies or name in ("ts", params["key"]):
            raise SchemaError(given.name, name, "numbers to aggregate, neither 'ts' nor the key", str(kind))
    if params.get("combine") is not None:
        return combine_function(params["combine"]).result_type(inputs, {})
    return given


@sqf(
    STREAM,
    returns=_keyed_type,
    kind="combining",
    builtin="key_join",
    functions=("combine",),
    uses_neighbours=True,
)
def key_join(
    streams: Sequence[StreamView],
    key: str,
    how: Mapping[str, str] | None = None,
    combine: Any = None,
    within: float = 60.0,
) -> Any:
    """Join windows that have the same ``key``, one of each stream, such as the answers of all sites to one question.

    ``how`` says by attribute what to make of them (``sum``, ``min``, ``max``); others are as stream 0 has them, and the
    time is the latest. Or a ``combine`` function makes one window of them. A window waits for its counterparts while
    the streams go on for ``within`` seconds, by their timestamps; then it is dropped, and counted as incomplete.
    """
    raise NotImplementedError("executed by the operator of the same name")


@sqf(STREAM, returns=_keyed_type, kind="combining", builtin="key_aggregate", uses_neighbours=True)
def key_aggregate(streams: Sequence[StreamView], key: str, how: Mapping[str, str]) -> Any:
    """One window for each time and value of ``key``, of all streams together, when they are past that time.

    ``how`` says by attribute what to make of several (``sum``, ``min``, ``max``); others are those of the first.
    """
    raise NotImplementedError("executed by the operator of the same name")
