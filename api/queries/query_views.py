"""Queries as people see them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from api.errors import Problem
from api.operations import actions
from api.queries.query_rows import QueryRows
from api.queries.service_grid import ServiceGrid
from api.queries.specifications import Specifications
from gsdm_grid.flow import DataFlow
from gsdm_grid.plan import Plan, placement_warnings

_PARTS = ("graph", "plan", "statistics", "results", "events")
"""What can be asked of a query beside itself, by the last part of its address."""


class QueryViews:
    """Shows queries. Thread-safe. ``placement`` is that of queries which name none."""

    def __init__(self, rows: QueryRows, specifications: Specifications, grid: ServiceGrid, placement: str) -> None:
        self._rows = rows
        self._specifications = specifications
        self._grid = grid
        self._placement = placement

    def view(self, name: str) -> dict[str, Any]:
        """A query as people see it."""
        return self.of(self._rows.row(name))

    def gives_spectra(self, name: str, stream: str | None) -> bool:
        """Whether the vectors of a kept result stream are spectra, as the query's plan says; false if it has none."""
        row = self._rows.row(name)
        kept = stream or next(iter(self._specifications.of(row).kept), None)
        sinks = [sink for sink in (row["plan"] or {}).get("streams", ()) if sink["kind"] == "sink"]
        return any(sink["name"] == kept and sink.get("spectra", False) for sink in sinks)

    def page(
        self, limit: int, after: str | None, state: str | None = None, prefix: str | None = None
    ) -> list[dict[str, Any]]:
        """Queries by name, from the one after ``after`` on."""
        return [self.of(row) for row in self._rows.page(limit, after, state, prefix)]

    def of(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """What people see of a stored query."""
        here = f"/v1/queries/{row['name']}"
        query = self._grid.queries.get(row["name"])
        return {
            "name": row["name"],
            "specification": row["specification"],
            "desired": row["desired"],
            "state": row["state"],
            "since": row["since_s"],
            "error": row["error"],
            "failure": row["failure"],
            "waiting": query.waiting if query is not None else None,
            "warnings": placement_warnings(row["specification"].get("placement") or self._placement),
            "created": row["created_s"],
            "version": row["version"],
            "allowed": actions.allowed(row["state"]),
            "shared": query.shared() if query is not None else {},
            "totals": query.totals() if query is not None else None,
            "links": {"self": here, **{part: f"{here}/{part}" for part in _PARTS}},
        }

    def events(self, name: str, limit: int) -> list[dict[str, Any]]:
        """State changes of a query, the newest first."""
        return self._rows.events(name, limit)

    def flow(self, name: str) -> DataFlow:
        """The data flow of a query."""
        return self._specifications.of(self._rows.row(name)).flow

    def plan(self, name: str) -> dict[str, Any]:
        """The compiled plan of a query, without the code of its functions."""
        row = self._rows.row(name)
        if row["plan"] is None:
            raise Problem("not-found", f"query {name!r} has not been compiled")
        plan: dict[str, Any] = _without_code(row["plan"])
        return plan

    def plans(self, limit: int, after: str | None) -> list[tuple[str, dict[str, Any]]]:
        """Names and plans of compiled queries, by name."""
        return self._rows.plans(limit, after)

    def compiled(self, name: str) -> Plan:
        """The plan of a query, as it is or would be compiled."""
        return self._specifications.plan_of(self._rows.row(name))


def _without_code(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: "…" if key == "code" else _without_code(item) for key, item in value.items()}
    return [_without_code(item) for item in value] if isinstance(value, list) else value
