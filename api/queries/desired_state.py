"""What people want of queries: specifications that they submit, and actions that they ask for.

What is asked is checked and stored here, and answered at once. `api.queries.query_operations` carries it out
afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from api.errors import Problem
from api.operations import Operations, actions
from api.queries.live_queries import LiveQueries
from api.queries.query_rows import QueryRows
from api.queries.query_views import QueryViews
from api.queries.specifications import Specifications
from gsdm_grid.coordination import lifecycle
from gsdm_grid.errors import FlowError
from gsdm_grid.spec import parse_stop, with_degree

REPLACEABLE = ("specified", "compiled", "failed")
"""States in which a query may be given another specification."""


class DesiredState:
    """Takes specifications and actions. Thread-safe. ``limit`` is how many queries one token may have."""

    def __init__(
        self,
        rows: QueryRows,
        specifications: Specifications,
        operations: Operations,
        live: LiveQueries,
        views: QueryViews,
        limit: int,
    ) -> None:
        self._rows = rows
        self._specifications = specifications
        self._operations = operations
        self._live = live
        self._views = views
        self._limit = limit

    def submit(self, document: Any, token_id: str, role: str) -> dict[str, Any]:
        """Check a specification and store it as a new query."""
        specification = self._specifications.checked(document, role)
        with self._rows.lock:
            row = self._rows.add(specification.name, document, token_id, self._limit)
            self._specifications.keep(specification.name, specification)
        return self._views.of(row)

    def replace(self, name: str, document: Any, role: str, if_match: str | None) -> dict[str, Any]:
        """Give a query that is not installed another specification; what was kept of its results goes."""
        specification = self._specifications.checked({**document, "name": document.get("name", name)}, role)
        if specification.name != name:
            raise FlowError("name", f"is {specification.name!r}, but the query's is {name!r}")
        with self._rows.lock:
            row = self._rows.row(name, if_match)
            pending = self._pending(name)
            if row["state"] not in REPLACEABLE or pending:
                detail = f"query {name!r} is {row['state']}: its specification can be replaced before it is installed"
                if pending:
                    detail = f"query {name!r} has an operation under way, wait for it: {', '.join(sorted(pending))}"
                raise Problem("invalid-transition", detail, state=row["state"], allowed=actions.allowed(row["state"]))
            self._live.forget(name)
            values = {"specification": {**document, "name": name}, "plan": None, "run": None, "error": None}
            state = {"desired": "specified", "state": "specified", "since_s": time.time(), "failure": None}
            self._rows.update_with_event(name, values | state, "specified", "another specification")
            self._specifications.keep(name, specification)
        return self._views.view(name)

    def act(
        self, name: str, action: str, params: Mapping[str, Any] | None = None, if_match: str | None = None
    ) -> dict[str, Any]:
        """Promise an action: checked against what will be by then, stored, and queued."""
        params = dict(params or {})
        with self._rows.lock:
            row = self._rows.row(name, if_match)
            step = self._checked_step(row, action, params)
            if action in ("activate", "run"):
                params = {"stop": parse_stop(params.get("stop"), "body").to_json()}
            values: dict[str, Any] = {"desired": actions.desired(step, row["desired"]), "failure": None}
            if row["state"] != "failed":
                values["error"] = None
            with self._rows.transaction() as connection:
                self._rows.change(connection, name, values)
                operation = self._operations.record(connection, name, action, params)
        self._operations.enqueue(operation)
        return operation

    def scale(self, name: str, degree: int, reason: str) -> None:
        """Promise another degree of parallelism, and say why."""
        self.act(name, "scale", {"degree": degree, "reason": reason})

    def _checked_step(self, row: Mapping[str, Any], action: str, params: Mapping[str, Any]) -> lifecycle.Action:
        """The step of the life cycle; refused if it is not possible in the state that the query will be in by then."""
        name = row["name"]
        pending = self._pending(name)
        step = actions.step(action, params)
        state = row["desired"] if pending and row["state"] != "failed" else row["state"]
        if "delete" in pending:
            raise Problem("invalid-transition", f"query {name!r} is being removed", state="dropped", allowed=[])
        if action == "scale":
            with_degree(row["specification"], params["degree"])  # complains if there is no degree
        if step != "rescale" or state == "stopping":
            actions.check(name, state, step)
        return step

    def _pending(self, name: str) -> set[str]:
        return {operation["action"] for operation in self._operations.unfinished(name)}
