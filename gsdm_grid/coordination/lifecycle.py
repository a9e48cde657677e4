"""The life cycle of a query as a state machine: which action leads from which state to which. Pure."""

from __future__ import annotations

from typing import Literal

from gsdm_grid.errors import InvalidTransition

State = Literal["specified", "compiled", "installed", "active", "stopping", "failed", "dropped"]
Action = Literal["compile", "install", "activate", "run", "rescale", "deactivate", "uninstall", "drop"]

TRANSITIONS: dict[tuple[State, Action], State] = {
    ("specified", "compile"): "compiled",
    ("compiled", "compile"): "compiled",
    ("failed", "compile"): "compiled",
    ("specified", "install"): "installed",
    ("compiled", "install"): "installed",
    ("failed", "install"): "installed",
    ("installed", "activate"): "active",
    ("specified", "run"): "active",
    ("compiled", "run"): "active",
    ("installed", "run"): "active",
    ("failed", "run"): "active",
    ("active", "rescale"): "active",
    ("active", "deactivate"): "stopping",
    ("stopping", "deactivate"): "stopping",
    ("installed", "uninstall"): "compiled",
    ("active", "uninstall"): "compiled",
    ("stopping", "uninstall"): "compiled",
    ("specified", "drop"): "dropped",
    ("compiled", "drop"): "dropped",
    ("installed", "drop"): "dropped",
    ("active", "drop"): "dropped",
    ("stopping", "drop"): "dropped",
    ("failed", "drop"): "dropped",
}


def allowed(state: State) -> list[Action]:
    """Actions that are allowed in a state."""
    return [action for (at, action) in TRANSITIONS if at == state]


def check(query: str, state: State, action: Action) -> State:
    """The state that an action leads to, or `InvalidTransition` with what is allowed."""
    try:
        return TRANSITIONS[state, action]
    except KeyError:
        raise InvalidTransition(query, action, state, allowed(state)) from None
