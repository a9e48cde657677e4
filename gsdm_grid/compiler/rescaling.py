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
from gsdm_grid.functions import StreamFunction
from gsdm_grid.plan import Plan, PlanOperator

Packed = Mapping[str, Any]
"""What an operator remembers, as plain data (see `gsdm_grid.operators.Snapshot`): ``kept`` (by input, windows with
``at``, where they are, and ``count``, how many; None if there are none), ``memory`` (of the user's function; None if it
has none), ``progress`` (how far it is; None: it begins anew) and ``numbered`` (how many results it has numbered)."""
NOTHING: Packed = {"kept": [], "memory": None, "progress": None, "numbered": 0}
StagePlace = tuple[str, int]
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
    if function.kind == "combining" and not _alike(members, heirs):
        if function.uses_neighbours:
            return f"{first.id!r} holds several windows at a time, and its streams would change"
        if any(one.order == "time" for one in members):
            return f"{first.id!r} holds windows of one stream until those of others come, and its streams would change"
    return None


def moved(
    before: Plan,
    after: Plan,
    snapshots: Mapping[str, Packed],
    load: Callable[[bytes], Any],
    dump: Callable[[Any], bytes],
) -> dict[str, Packed]:
    """What each operator of the new plan is to remember, from what those of the old one did.

    Operators correspond by function and stage. Where their number changes, the function's ``rescale`` divides their
    memories anew. Combining operators take over all that their predecessors remember, others only windows.
    """
    stages = _stages(before)
    for stage in stages.keys() - _stages(after).keys():
        for operator in stages[stage]:
            if snapshots.get(operator.id, NOTHING)["memory"] is not None:
                raise PlanError(f"{operator.id!r} remembers what the new plan has no place for")
    inherited: dict[str, dict[str, Any]] = {}
    for stage, heirs in _stages(after).items():
        members = [operator for operator in stages.get(stage, ()) if operator.id in snapshots]
        if not members:
            continue
        left = [snapshots[operator.id] for operator in members]
        memories = _divided(heirs[0].resolved, [one["memory"] for one in left], len(heirs), load, dump)
        numbered = [one["numbered"] for one in left] if len(left) == len(heirs) else [0] * len(heirs)
        for heir, memory, number in zip(heirs, memories, numbered, strict=True):
            inherited[heir.id] = {**NOTHING, "memory": memory, "numbered": number}
        if heirs[0].resolved.kind == "combining":
            for heir_id, whole in _continued(members, heirs, left).items():
                inherited[heir_id] |= whole
    for heir_id, kept in _moved_windows(_keepers(before), _keepers(after), snapshots).items():
        inherited.setdefault(heir_id, dict(NOTHING))["kept"] = [kept]
    return dict(inherited)


def remembers(snapshot: Packed) -> bool:
    """Whether an operator begins with more than its numbers."""
    return snapshot["memory"] is not None or snapshot["progress"] is not None or _keeps(snapshot)


def _keeps(snapshot: Packed) -> bool:
    return any(kept is not None for kept in snapshot["kept"])


def _divided(
    function: StreamFunction,
    memories: list[bytes | None],
    sites: int,
    load: Callable[[bytes], Any],
    dump: Callable[[Any], bytes],
) -> list[bytes | None]:
    """Memories of a function for so many sites."""
    present = [memory for memory in memories if memory is not None]
    if len(memories) == sites or not present:
        return [*memories, *[None] * sites][:sites]
    assert function.rescale is not None
    divided = function.rescale([load(memory) for memory in present], sites)
    if len(divided) != sites:
        raise PlanError(f"rescale of {function.name!r} returned {len(divided)} states where {sites} were asked for")
    return [dump(memory) for memory in divided]


def _continued(
    members: Sequence[PlanOperator], heirs: Sequence[PlanOperator], left: Sequence[Packed]
) -> dict[str, dict[str, Any]]:
    """By combining operator of the new plan, windows and progress of its predecessor.

    Those that go by ordinals and hold nothing need not know how far they are: what comes has higher ones.
    """
    if not any(one.order == "time" or one.resolved.uses_neighbours for one in members) and not any(map(_keeps, left)):
        return {}
    if not _alike(members, heirs):
        raise PlanError(f"{members[0].id!r} holds windows that the new plan has no place for")
    return {heir.id: {"kept": one["kept"], "progress": one["progress"]} for heir, one in zip(heirs, left, strict=True)}


def _moved_windows(
    before: Mapping[StagePlace, Sequence[PlanOperator]],
    after: Mapping[StagePlace, Sequence[PlanOperator]],
    snapshots: Mapping[str, Packed],
) -> dict[str, Mapping[str, Any]]:
    """By operator of the new plan, the windows that it is to begin with."""
    inherited: dict[str, Mapping[str, Any]] = {}
    for stage, keepers in before.items():
        left = [next(iter(snapshots.get(operator.id, NOTHING)["kept"]), None) for operator in keepers]
        heirs = after.get(stage, ())
        present = [kept for kept in left if kept is not None]
        if not present:
            continue
        if not _fit(keepers, heirs):
            raise PlanError(f"{keepers[0].id!r} holds windows that the new plan has no place for")
        if _of_all(keepers) and _of_all(heirs):
            most = min(present, key=lambda kept: int(kept["at"]))
            inherited |= {heir.id: most for heir in heirs}
        else:
            inherited |= {heir.id: kept for heir, kept in zip(heirs, left, strict=True) if kept is not None}
    return inherited


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


def _numbering(plan: Plan) -> dict[StagePlace, int]:
    """Where windows are numbered anew, and by how many operators: what comes after goes by those numbers."""
    counts = {stage: sum(one.renumber for one in members) for stage, members in _stages(plan).items()}
    return {stage: count for stage, count in counts.items() if count}


def _overlaps(operator: PlanOperator) -> bool:
    return operator.resolved.traits.overlaps


def _keepers(plan: Plan) -> dict[StagePlace, Sequence[PlanOperator]]:
    """By stage of a function, who keeps windows for it: the overlap partitions in front of it, or else itself."""
    producers = {name: operator for operator in _operators(plan) for name in operator.outputs}
    found: dict[StagePlace, Sequence[PlanOperator]] = {}
    for stage, members in _stages(plan).items():
        if members[0].resolved.kind in ("combining", "partitioning"):
            continue
        fed_by = [producers[one.inputs[0]] for one in members if one.inputs[0] in producers]
        overlapping = len(fed_by) == len(members) and all(map(_overlaps, fed_by))
        found[stage] = fed_by if overlapping else members
    return found


def _operators(plan: Plan) -> list[PlanOperator]:
    return [operator for site in plan.sites for operator in site.operators]


def _stages(plan: Plan) -> dict[StagePlace, Sequence[PlanOperator]]:
    by_level: dict[str, dict[int, list[PlanOperator]]] = {}
    for operator in _operators(plan):
        by_level.setdefault(operator.function["name"], {}).setdefault(operator.level, []).append(operator)
    return {
        (name, number): sorted(levels[level], key=lambda one: (len(one.id), one.id))
        for name, levels in by_level.items()
        for number, level in enumerate(sorted(levels))
    }
