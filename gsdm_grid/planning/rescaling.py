"""Changing the degree of parallelism of a running query: what allows it, and which state goes where. Pure.

A query is rescaled at one place in its streams: the sources hold, everything that was read flows out, the sites are
wired anew, and the sources go on. So nothing is under way when the plan changes, and what must move is only what
functions remember from window to window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gsdm_grid.errors import PlanError
from gsdm_grid.functions import resolve
from gsdm_grid.planning.plan import Plan, PlanOperator
from gsdm_grid.planning.recovery import over_single_windows

Memory = Mapping[str, Any]
"""What a cleared operator leaves: ``state`` (of its function; None if it keeps none) and ``numbered``."""


def rescaling_obstacle(plan: Plan) -> str | None:
    """Why a plan cannot give way to another one in mid-stream; None if it can."""
    for operator in _operators(plan):
        function = resolve(operator.function)
        if function.init is not None and function.rescale is None:
            return f"{function.name!r} keeps state and does not say how to rescale it (@sqf(rescale=…))"
        if not over_single_windows(function):
            return f"{operator.id!r} holds several windows at a time"
    return None


def moved(
    before: Plan,
    after: Plan,
    memories: Mapping[str, Memory],
    load: Callable[[bytes], Any],
    dump: Callable[[Any], bytes],
) -> dict[str, Memory]:
    """What each operator of the new plan is to remember, from what those of the old one leave.

    Operators correspond by function and level. Where their number changes, the function's ``rescale`` divides their
    states anew.
    """
    made: dict[str, Memory] = {}
    for family, heirs in _families(after).items():
        left = [memories[operator.id] for operator in _families(before).get(family, ()) if operator.id in memories]
        if not left:
            continue
        states = [memory["state"] for memory in left]
        if len(heirs) != len(left) and any(state is not None for state in states):
            function = resolve(heirs[0].function)
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
    return made


def _operators(plan: Plan) -> list[PlanOperator]:
    return [operator for site in plan.sites for operator in site.operators]


def _families(plan: Plan) -> dict[tuple[str, int], Sequence[PlanOperator]]:
    found: dict[tuple[str, int], list[PlanOperator]] = {}
    for operator in _operators(plan):
        found.setdefault((operator.function["name"], operator.level), []).append(operator)
    return {key: sorted(members, key=lambda one: (len(one.id), one.id)) for key, members in found.items()}
