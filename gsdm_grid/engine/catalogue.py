"""From a planned operator to one that runs: built-in operators by name, everything else as an executed function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gsdm_grid.engine.execute import Execute, load, user_call
from gsdm_grid.errors import FunctionError
from gsdm_grid.functions import StreamFunction, function_value
from gsdm_grid.functions.library.combining import combine_function
from gsdm_grid.functions.library.splitters import split_routing
from gsdm_grid.model import LogicalWindow, PhysicalWindow, StreamType
from gsdm_grid.operators import (
    KeyAggregate,
    KeyJoin,
    OSJoin,
    SlidingOverlap,
    SMerge,
    Splitter,
    StreamOperator,
    TimeOverlap,
    Union,
    WindowRouter,
    added_up,
)
from gsdm_grid.plan import PlanOperator


def make_operator(planned: PlanOperator, input_types: Sequence[StreamType]) -> StreamOperator:
    """The operator that a plan describes, with fresh state."""
    function = planned.resolved
    if function.builtin is None:
        return Execute(planned.id, function, planned.params, input_types, planned.output_type)
    return BUILTIN[function.builtin](planned, input_types)


def _s_merge(planned: PlanOperator, inputs: Sequence[StreamType]) -> StreamOperator:
    return SMerge(len(inputs), planned.output_type, planned.order, planned.params["timeout"])


def _os_join(planned: PlanOperator, inputs: Sequence[StreamType]) -> StreamOperator:
    params = planned.params
    combine = combine_function(params["combine"])
    load(planned.id, combine)
    partial = function_value(params["partial"]) if params.get("partial") is not None else None
    return OSJoin(
        len(inputs),
        planned.output_type,
        lambda parts: _combined(planned, combine, parts),
        planned.order,
        params.get("timeout"),
        None if partial is None else lambda parts: _partial(planned, partial, parts),
    )


def _combined(planned: PlanOperator, function: StreamFunction, parts: list[PhysicalWindow]) -> PhysicalWindow:
    if function.whole:
        return _checked(planned, function, user_call(planned.id, function, parts), len(parts[0]))
    rows = [user_call(planned.id, function, [part[row] for part in parts]) for row in range(len(parts[0]))]
    return _checked(planned, function, rows, len(rows))


def _partial(
    planned: PlanOperator, function: StreamFunction, parts: list[PhysicalWindow | None]
) -> PhysicalWindow | None:
    given: list[Any] = parts if function.whole else [part[0] if part is not None else None for part in parts]
    made = user_call(planned.id, function, given)
    return None if made is None else _checked(planned, function, made if function.whole else [made], 1)


def _checked(planned: PlanOperator, function: StreamFunction, made: Any, count: int) -> PhysicalWindow:
    """What a combine function returned, as a block of as many windows as it was given."""
    if isinstance(made, list) and all(isinstance(row, LogicalWindow) for row in made):
        wrong = next((row.type.name for row in made if row.type != planned.output_type), None)
        made = PhysicalWindow.pack(planned.output_type, made) if wrong is None else wrong
    fits = isinstance(made, PhysicalWindow) and made.type == planned.output_type and len(made) == count
    if not fits:
        got = f"{len(made)} of {made.type.name!r}" if isinstance(made, PhysicalWindow) else type(made).__name__
        raise FunctionError(
            planned.id, function.name, f"promised {count} windows of {planned.output_type.name!r}, returned {got}"
        )
    result: PhysicalWindow = made
    return result


def _sliding_overlap(planned: PlanOperator, inputs: Sequence[StreamType]) -> StreamOperator:
    p = planned.params
    return SlidingOverlap(inputs[0], p["n"], p["i"], p["size"], p["step"], p["chunk"])


def _time_overlap(planned: PlanOperator, inputs: Sequence[StreamType]) -> StreamOperator:
    p = planned.params
    return TimeOverlap(inputs[0], p["n"], p["i"], p["span"], p["chunk"])


def _union(planned: PlanOperator, inputs: Sequence[StreamType]) -> StreamOperator:
    return Union(len(inputs), planned.output_type)


def _key_join(planned: PlanOperator, inputs: Sequence[StreamType]) -> StreamOperator:
    p = planned.params
    how = p["how"] or {}
    combine = None if p["combine"] is None else combine_function(p["combine"])
    if combine is not None:
        load(planned.id, combine)

    def combined(parts: list[PhysicalWindow]) -> PhysicalWindow:
        return added_up(parts, how) if combine is None else _combined(planned, combine, parts)

    return KeyJoin(len(inputs), planned.output_type, p["key"], combined, planned.order, p["within"])


def _key_aggregate(planned: PlanOperator, inputs: Sequence[StreamType]) -> StreamOperator:
    p = planned.params
    return KeyAggregate(len(inputs), planned.output_type, p["key"], p["how"], planned.order)


def _split(planned: PlanOperator, inputs: Sequence[StreamType]) -> StreamOperator:
    routing = split_routing(inputs[0], planned.params, planned.id)
    return Splitter(inputs[0], planned.params["w"], routing, {"per_tuple": routing.slow} if routing.slow else None)


def _route(planned: PlanOperator, inputs: Sequence[StreamType]) -> StreamOperator:
    return WindowRouter(inputs[0], planned.params["w"], planned.params["below"])


BUILTIN: Mapping[str, Callable[[PlanOperator, Sequence[StreamType]], StreamOperator]] = {
    "S-Merge": _s_merge,
    "OS-Join": _os_join,
    "overlap_part": _sliding_overlap,
    "time_overlap_part": _time_overlap,
    "union": _union,
    "key_join": _key_join,
    "key_aggregate": _key_aggregate,
    "split": _split,
    "route": _route,
}
