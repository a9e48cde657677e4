"""From a flow whose plan is fixed back to the functions that it runs, so that the optimizer can choose another plan.

A template that runs a function in parallel is removed only if it does so by a strategy that the function declares: then
every other plan of that function computes the same. Anything else is refused, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gsdm_grid.errors import FlowError, GsdmError
from gsdm_grid.flow import (
    BRANCH,
    PCC,
    TEMPLATES,
    central,
    parallelize,
)
from gsdm_grid.functions import StreamFunction, functions
from gsdm_grid.optimizer.candidates import Stage

_ARGUMENTS: Mapping[str, Sequence[str]] = {
    template.__name__: template.__code__.co_varnames[: template.__code__.co_argcount]
    for template in (central, PCC, parallelize)
}


def stages_of(flow: Any, params: Any = None, place: str = "flow") -> list[Stage]:
    """The functions that a flow specification runs one after the other; a `FlowError` says why they are not known."""
    if isinstance(flow, Mapping):
        name, arguments = flow.get("template"), flow
        if "vertices" in flow or name is None:
            raise FlowError(
                place, "is a whole graph: the optimizer chooses plans of functions and of pipes of functions"
            )
    elif isinstance(flow, str) and flow in TEMPLATES:
        name, arguments = flow, {"args": params} if isinstance(params, list | tuple) else dict(params or {})
    else:
        return [_stage(flow, params, place)]
    if name in ("pipe", "lpipe"):
        return _piped(arguments.get("args") or [], place)
    if name not in _ARGUMENTS:
        raise FlowError(place, f"template {name!r} leaves nothing to choose: it is not a function run in parallel")
    given = _named(str(name), arguments, place)
    inner = stages_of(given.get("fun"), given.get("params"), place)
    if name == "PCC":
        _check_strategy(given, inner, place)
    return inner


def _stage(function: Any, params: Any, place: str) -> Stage:
    if not isinstance(function, str | StreamFunction):
        raise FlowError(place, f"expected a function or a template, got {type(function).__name__}")
    if _mentions_branch(params):
        raise FlowError(place, f"the parameters of {function!r} depend on the branch ({BRANCH!r}): its plan is fixed")
    return Stage.of(function, params)


def _piped(parts: Sequence[Any], place: str) -> list[Stage]:
    stages: list[Stage] = []
    rest = list(parts)
    while rest:
        part, params = rest.pop(0), None
        if rest and not isinstance(rest[0], str) and not (isinstance(rest[0], Mapping) and "template" in rest[0]):
            params = rest.pop(0)
        stages += stages_of(part, params, place)
    return stages


def _named(template: str, arguments: Mapping[str, Any], place: str) -> dict[str, Any]:
    """The arguments of a template by name, however they were written."""
    names, args = _ARGUMENTS[template], arguments.get("args") or []
    if not isinstance(args, list | tuple) or len(args) > len(names):
        raise FlowError(place, f"template {template!r} takes {', '.join(names)}")
    given = {key: value for key, value in arguments.items() if key not in ("template", "args")}
    return {**given, **dict(zip(names, args, strict=False))}


def _check_strategy(given: Mapping[str, Any], stages: Sequence[Stage], place: str) -> None:
    """Refuse a PCC that does not run its functions by a strategy that each of them declares."""
    partition, partition_params = _with_params(given.get("partfun"))
    combine, combine_params = given.get("combfun"), given.get("combparams")
    for stage in stages:
        if not any(
            strategy.partition == partition
            and strategy.combine == combine
            and _declared(stage, strategy.name, partition_params, combine_params)
            for strategy in stage.function.strategies
        ):
            name, strategies = stage.function.name, stage.function.strategies
            declared = "; ".join(f"{one.name} by {one.partition} and {one.combine}" for one in strategies) or "none"
            raise FlowError(
                place,
                f"runs {name!r} by {partition!r} and {combine!r}, which is not a strategy that {name!r} declares "
                f"({declared}): other plans might compute something else",
            )


def _with_params(given: Any) -> tuple[Any, Any]:
    return (given[0], given[1]) if isinstance(given, list | tuple) and len(given) == 2 else (given, None)


def _declared(stage: Stage, name: str, partition_params: Any, combine_params: Any) -> bool:
    """Whether a strategy has these parameters. How many windows round robin gives in turn is part of the plan."""
    strategy = next(one for one in stage.function.strategies if one.name == name)
    try:
        declared_partition, declared_combine = strategy.resolve(stage.function.bind(stage.params))
        partitions = [_bound(strategy.partition, params, skip=2) for params in (partition_params, declared_partition)]
        combines = [_bound(strategy.combine, params) for params in (combine_params, declared_combine)]
    except GsdmError:
        return False
    if strategy.partition_traits.deals_in_turn:
        for params in partitions:
            params.pop("run", None)
    return partitions[0] == partitions[1] and combines[0] == combines[1]


def _bound(function: str, params: Any, skip: int = 0) -> dict[str, Any]:
    """A function's parameters by name; a partitioning function's ``n`` and ``i`` are the template's."""
    if skip and (params is None or isinstance(params, Mapping)):
        params = {"n": 2, "i": 0, **(params or {})}
    elif skip:
        params = [2, 0, *(params if isinstance(params, list | tuple) else [params])]
    bound = dict(functions.get(function).bind(params))
    return {key: value for key, value in bound.items() if not (skip and key in ("n", "i"))}


def _mentions_branch(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_mentions_branch(item) for item in value.values())
    if isinstance(value, list | tuple):
        return any(_mentions_branch(item) for item in value)
    return bool(value == BRANCH)
