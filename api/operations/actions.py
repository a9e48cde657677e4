"""What people may ask of a query, and which steps of its life cycle that is. Pure.

The life cycle itself is in `gsdm_grid.coordination.lifecycle`; the REST face has other names for some of its steps, and
keeps some to itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from gsdm_grid.coordination import lifecycle
from gsdm_grid.errors import InvalidTransition

DESIRED = {
    "compile": "compiled",
    "install": "installed",
    "activate": "active",
    "run": "active",
    "deactivate": "installed",
    "uninstall": "compiled",
    "drop": "dropped",
}
"""The state that is wanted after a step."""
AT_REST: tuple[lifecycle.State, ...] = ("specified", "compiled", "installed", "failed")


def step(action: str, params: Mapping[str, Any]) -> lifecycle.Action:
    """The step of the life cycle that an action of the REST face is."""
    if action == "deactivate" and params.get("mode") == "immediate":
        return "uninstall"
    return cast(lifecycle.Action, {"delete": "drop", "scale": "rescale", "replan": "rescale"}.get(action, action))


def check(name: str, state: lifecycle.State, step: lifecycle.Action) -> None:
    """Refuse a step that the state of a query does not allow, with the actions that it does."""
    try:
        lifecycle.check(name, state, step)
    except InvalidTransition as error:
        raise InvalidTransition(name, error.args[1], state, allowed(state)) from None


def allowed(state: lifecycle.State) -> list[str]:
    """Actions of the REST face that a state allows.

    A query at rest can be scaled too; the life cycle has no step for that, because only its specification changes.
    """
    names = {"drop": "delete", "rescale": "scale"}
    steps = [names.get(action, action) for action in lifecycle.allowed(state) if action != "uninstall"]
    if state in AT_REST:
        steps.insert(steps.index("delete"), "scale")
    return steps


def desired(step: lifecycle.Action, before: str) -> str:
    """The state that is wanted after a step."""
    return before if step == "rescale" else DESIRED[step]
