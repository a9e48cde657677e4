"""Combining functions: S-Merge and OS-Join (thesis 3.3.4). Operators of the same name do their work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gsdm_grid.errors import QueryError, SchemaError
from gsdm_grid.functions.registry import functions, resolve
from gsdm_grid.functions.sqf import StreamFunction, sqf
from gsdm_grid.functions.windows import StreamView
from gsdm_grid.model import STREAM, StreamType


def _one_type(inputs: Sequence[StreamType], params: Mapping[str, Any]) -> StreamType:  # noqa: ARG001
    for number, given in enumerate(inputs):
        if given != inputs[0]:
            expected = f"{inputs[0].name!r}, as input 0 has"
            raise SchemaError(given.name, None, expected, f"{given.name!r} as input {number}")
    return inputs[0]


def combine_function(given: Any) -> StreamFunction:
    """The combine function that a parameter of OS-Join names; in a plan it may be a function reference."""
    found = resolve(given["$function"]) if isinstance(given, Mapping) else functions.get(given)
    if found.kind != "combine":
        raise QueryError(f"OS-Join: expected a function of kind 'combine', got {found.name!r} ({found.kind})")
    return found


def _joined_type(inputs: Sequence[StreamType], params: Mapping[str, Any]) -> StreamType:
    return combine_function(params["combine"]).result_type(inputs, {})


@sqf(STREAM, returns=_one_type, kind="combining", builtin="S-Merge", name="S-Merge")
def s_merge(streams: Sequence[StreamView], timeout: float | None = None) -> Any:
    """Merge ordered streams into one ordered stream (thesis algorithm 14).

    Streams that were partitioned from one stream are put back in its order; others are ordered by timestamp.
    With a ``timeout`` (seconds) a silent input is waited for that long, then left behind until it delivers
    again: what came too late is counted, and the gap is recorded. Without one the merge waits.
    """
    raise NotImplementedError("executed by the operator of the same name")


@sqf(STREAM, returns=_joined_type, kind="combining", builtin="OS-Join", name="OS-Join")
def os_join(streams: Sequence[StreamView], combine: Any, timeout: float | None = None, partial: Any = None) -> Any:
    """Join sub-windows of the same window and combine them in order (thesis algorithm 15).

    If a sub-window is missing (an input left it out, or was silent for longer than ``timeout`` seconds) the
    result is ``partial(parts)``, with None for what is missing; without such a function it is a recorded gap.
    """
    raise NotImplementedError("executed by the operator of the same name")
