"""What is stored of a query when its state has changed. Pure.

Who asks is `StateRecorder`, which knows the query and the database.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from api.errors import document, problem_of
from api.operations import failure
from gsdm_grid.errors import NodeLost

RUNNING = ("active", "stopping")
"""States in which a query runs."""
COMEBACK_S = 600.0
"""A query that lost working nodes is brought back so many times (`Settings.restarts`) within this time."""


@dataclass(frozen=True)
class StateChange:
    """A state that a query has come to. Immutable.

    ``plan`` is that of a query which was compiled; ``positions``, how far its inputs have been read, are those of a
    query whose run is over.
    """

    query: str
    state: str
    since_s: float
    error: Exception | None = None
    plan: Mapping[str, Any] | None = None
    positions: Mapping[str, int] | None = None

    def values(self) -> dict[str, Any]:
        """Columns that follow from the change alone."""
        error = None if self.error is None else document(problem_of(self.error), f"/v1/queries/{self.query}")
        values = {"state": self.state, "since_s": self.since_s, "error": error}
        return values if self.plan is None else {**values, "plan": self.plan}

    def values_after(
        self, row: Mapping[str, Any], activation: Mapping[str, Any] | None, is_last: bool
    ) -> dict[str, Any]:
        """Columns of a query, given its ``run`` and desired state until now.

        ``activation`` is the operation that last activated it; ``is_last``: nothing else was asked of it that is not
        done. Then a query that failed is not desired to run any more, nor is one whose run is over.
        """
        values = {**self.values(), "failure": None}
        if self.error is not None:
            asked: Mapping[str, Any] = activation or {"action": "run", "id": None}
            values["failure"] = failure(asked["action"], asked["id"], self.since_s)
            if is_last:
                values["desired"] = "failed"
        if self.positions is not None:
            values["run"] = {**(row["run"] or {}), "positions": self.positions, "running": False}
            if self.state == "installed" and row["desired"] == "active" and is_last:
                values["desired"] = "installed"
        return values

    def lost_hosts(self, desired: str) -> bool:
        """Whether what the query ran on is gone, and it is desired to be there again."""
        return isinstance(self.error, NodeLost) and desired in ("installed", "active")


class Comebacks:
    """How often queries that lost working nodes are brought back: not over and over. Not thread-safe."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._attempts_s: dict[str, list[float]] = defaultdict(list)

    def may_try(self, name: str, now_s: float) -> bool:
        """Whether a query is brought back once more."""
        self._attempts_s[name] = [then_s for then_s in self._attempts_s[name] if now_s - then_s < COMEBACK_S]
        return len(self._attempts_s[name]) < self._most

    def forget(self, name: str) -> None:
        """A query is removed."""
        self._attempts_s.pop(name, None)

    def count(self, name: str, now_s: float) -> None:
        """It is brought back, and that is stored."""
        self._attempts_s[name].append(now_s)


def may_give_up_hosts(row: Mapping[str, Any] | None) -> bool:
    """Whether an installed query, given its ``run`` and desired state, has run and stopped, and is not about to run.

    >>> may_give_up_hosts({"desired": "installed", "run": {"running": False}})
    True
    >>> may_give_up_hosts({"desired": "installed", "run": None})
    False
    """
    return row is not None and row["desired"] == "installed" and bool(row["run"]) and not row["run"].get("running")
