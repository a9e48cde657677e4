"""Changing the degree of parallelism of a running query: what allows it, and what goes where. Pure.

A query is rescaled at one place in its streams: the sources hold, everything that was read flows out, the sites are
wired anew, and the sources go on. So nothing is under way when the plan changes. What must move is what functions
remember from window to window, the windows that are kept for results to come, where a result takes several, and those
that merges keep because other streams are not as far.

Windows are kept by functions over sliding and time windows, and by the overlap partitions in front of them. The
partitions have all that their functions have, so only they are asked, and every one of their heirs is given the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gsdm_grid.errors import PlanError
from gsdm_grid.plan import Plan, PlanOperator

Memory = Mapping[str, Any]
"""What a cleared operator leaves: ``state`` (of its function; None if it keeps none), ``numbered`` (how many results it
has numbered), ``held`` (windows that it keeps, with ``at``, where they are; None if there are none)."""
Stage = tuple[str, int]
"""A function, and how many stages of the plan have it before this one."""


def rescaling_obstacle(before: Plan, after: Plan) -> str | None:
    """Why a plan cannot give way to another one in mid-stream; None if it can."""
    stages, keepers = _stages(after), _keepers(after)
    for stage, members in _stages(before).items():
        if (why := _obstacle_of(members, stages.get(stage, ()))) is not None:
            return why
    for stage, left in _keepers(before).items():
        several = any(operator.resolved.uses_neighbours for operator in left)
        if several and not _fit(left, keepers.get(stage, ())):
            return f"{left[0].id!r} holds several windows at a time of a part of the stream"
    if _numbering(before) != _numbering(after):
        return "windows in the middle of the plan would be numbered otherwise"
    return None


def _obstacle_of(members: Sequence[PlanOperator], heirs: Sequence[PlanOperator]) -> str | None:
    """Why what operators of one stage remember cannot be handed over; None if it can."""
    first, function = members[0], members[0].resolved
    if function.init is not None and function.rescale is None:
        return f"{function.name!r} keeps state and does not say how to rescale it (@sqf(rescale=…))"
    if function.init is not None and not heirs:
        return f"{first.id!r} keeps state, for which the new plan has no place"
    if function.kind == "combining" and function.uses_neighbours:
        return f"{first.id!r} holds several windows at a time"
    if any(one.order == "time" for one in members) and not _alike(members, heirs):
        return f"{first.id!r} holds windows of one stream until those of others have come, and its streams would change"
    return None


def moved(
    before: Plan,
    after: Plan,
    memories: Mapping[str, Memory],
    load: Callable[[bytes], Any],
    dump: Callable[[Any], bytes],
) -> dict[str, Memory]:
    """What each operator of the new plan is to remember, from what those of the old one leave.

    Operators correspond by function and stage. Where their number changes, the function's ``rescale`` divides their
    states anew.
    """
    made: dict[str, dict[str, Any]] = {}
    stages = _stages(before)
    for stage in stages.keys() - _stages(after).keys():
        for operator in stages[stage]:
            if memories.get(operator.id, {}).get("state") is not None:
                raise PlanError(f"{operator.id!r} remembers what the new plan has no place for")
    for stage, heirs in _stages(after).items():
        left = [memories[operator.id] for operator in stages.get(stage, ()) if operator.id in memories]
        if not left:
            continue
        states = [memory["state"] for memory in left]
        function = heirs[0].resolved
        if function.kind == "combining" and any(states) and not _alike(stages[stage], heirs):
            raise PlanError(f"{stages[stage][0].id!r} holds windows that the new plan has no place for")
        if len(heirs) != len(left) and any(state is not None for state in states):
            assert function.rescale is not None
            divided = function.rescale([load(state) for state in states], len(heirs))
            if len(divided) != len(heirs):
                raise PlanError(
                    f"rescale of {function.name!r} returned {len(divided)} states where {len(heirs)} were asked for"
                )
            states = [dump(state) for state in divided]
        for number, heir in enumerate(heirs):
            state = states[number] if number < len(states) else None
            numbered = left[number]["numbered"] if len(left) == len(heirs) else 0
            made[heir.id] = {"state": state, "numbered": numbered}
    for heir_id, held in _moved_windows(_keepers(before), _keepers(after), memories).items():
        made.setdefault(heir_id, {"state": None, "numbered": 0})["held"] = held
    return dict(made)


def _moved_windows(
    before: Mapping[Stage, Sequence[PlanOperator]],
    after: Mapping[Stage, Sequence[PlanOperator]],
    memories: Mapping[str, Memory],
) -> dict[str, Mapping[str, Any]]:
    """By operator of the new plan, the windows that it is to begin with."""
    made: dict[str, Mapping[str, Any]] = {}
    for stage, keepers in before.items():
        left = [memories.get(operator.id, {}).get("held") for operator in keepers]
        heirs = after.get(stage, ())
        found = [held for held in left if held is not None]
        if not found:
            continue
        if not _fit(keepers, heirs):
            raise PlanError(f"{keepers[0].id!r} holds windows that the new plan has no place for")
        if _of_all(keepers) and _of_all(heirs):
            most = min(found, key=lambda held: int(held["at"]))
            made |= {heir.id: most for heir in heirs}
        else:
            made |= {heir.id: held for heir, held in zip(heirs, left, strict=True) if held is not None}
    return made


def _fit(left: Sequence[PlanOperator], heirs: Sequence[PlanOperator]) -> bool:
    """Whether windows that some keep can be handed to others."""
    if _of_all(left) and _of_all(heirs):
        return True
    return len(left) == len(heirs) and not any(map(_overlaps, (*left, *heirs)))


def _of_all(keepers: Sequence[PlanOperator]) -> bool:
    """Whether each of them sees the whole of one stream, not its own part of it, or another stream."""
    streams = {one.inputs[0] for one in keepers}
    return len(keepers) == 1 or (len(streams) == 1 and all(map(_overlaps, keepers)))


def _alike(left: Sequence[PlanOperator], heirs: Sequence[PlanOperator]) -> bool:
    """Whether operators have as many input streams each."""
    return [len(one.inputs) for one in left] == [len(one.inputs) for one in heirs]


def _numbering(plan: Plan) -> dict[Stage, int]:
    """Where windows are numbered anew, and by how many operators: what comes after goes by those numbers."""
    counts = {stage: sum(one.renumber for one in members) for stage, members in _stages(plan).items()}
    return {stage: count for stage, count in counts.items() if count}


def _overlaps(operator: PlanOperator) -> bool:
    return operator.resolved.traits.overlaps


def _keepers(plan: Plan) -> dict[Stage, Sequence[PlanOperator]]:
    """By stage of a function, who keeps windows for it: the overlap partitions in front of it, or else itself."""
    producers = {name: operator for operator in _operators(plan) for name in operator.outputs}
    found: dict[Stage, Sequence[PlanOperator]] = {}
    for stage, members in _stages(plan).items():
        if members[0].resolved.kind in ("combining", "partitioning"):
            continue
        fed_by = [producers[one.inputs[0]] for one in members if one.inputs[0] in producers]
        overlapping = len(fed_by) == len(members) and all(map(_overlaps, fed_by))
        found[stage] = fed_by if overlapping else members
    return found


def _operators(plan: Plan) -> list[PlanOperator]:
    return [operator for site in plan.sites for operator in site.operators]


def _stages(plan: Plan) -> dict[Stage, Sequence[PlanOperator]]:
    by_level: dict[str, dict[int, list[PlanOperator]]] = {}
    for operator in _operators(plan):
        by_level.setdefault(operator.function["name"], {}).setdefault(operator.level, []).append(operator)
    return {
        (name, number): sorted(levels[level], key=lambda one: (len(one.id), one.id))
        for name, levels in by_level.items()
        for number, level in enumerate(sorted(levels))
    }
