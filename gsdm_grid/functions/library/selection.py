"""Selection by a condition over the attributes of a stream, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from gsdm_grid.errors import FlowError, QueryError
from gsdm_grid.expressions import Checked, Expression, TupleFault
from gsdm_grid.functions import (
    StreamView,
    Traits,
    current_window,
    same_lengths,
    sqf,
)
from gsdm_grid.model import STREAM, StreamType


@lru_cache(256)
def checked_condition(condition: str, stream_type: StreamType) -> Checked:
    """A condition over streams of a type; the error says what does not fit."""
    if not isinstance(condition, str):
        raise FlowError("where", f"the condition must be text, such as 'spd < 40', got {condition!r:.40}")
    checked = Expression(condition, "where").checked(stream_type)
    if checked.kind != "truth value":
        raise FlowError("where", f"the condition {condition!r} is a {checked.kind}, not a truth value")
    return checked


def _same_type(inputs: Sequence[StreamType], params: Mapping[str, Any]) -> StreamType:
    checked_condition(params["condition"], inputs[0])
    return inputs[0]


@sqf(STREAM, returns=_same_type, whole=True, lengths=same_lengths, traits=Traits(selects_by="condition"))
def where(s: StreamView, condition: str) -> Any:
    """The windows for which the condition holds, such as ``"spd < 40 and lane != 4"``; see `expressions`.

    Behind a splitstream of the same stream it is not executed: the splitter omits what it would drop.
    """
    v: Any = current_window(s)
    try:
        holds, present = checked_condition(condition, v.type).evaluate(v)
    except TupleFault as fault:
        raise QueryError(f"where {condition!r}: {fault.reason}, at {v[fault.row]}") from None
    return v.select(holds if present is None else holds & present)
