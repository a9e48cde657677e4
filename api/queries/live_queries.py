"""Queries on the grid, made of what is stored of them when something is to be done with them first."""

from __future__ import annotations

from typing import Any

from api.queries.query_rows import QueryRows
from api.queries.result_logs import ResultLogs
from api.queries.service_grid import ServiceGrid
from api.queries.specifications import Specifications, with_log
from api.queries.state_recorder import StateRecorder
from gsdm_grid.coordination import ContinuousQuery
from gsdm_grid.plan import Plan


class LiveQueries:
    """Finds and makes queries on the grid, and lets go of them. Thread-safe."""

    def __init__(
        self,
        grid: ServiceGrid,
        rows: QueryRows,
        specifications: Specifications,
        logs: ResultLogs,
        states: StateRecorder,
    ) -> None:
        self._grid = grid
        self._rows = rows
        self._specifications = specifications
        self._logs = logs
        self._states = states
        self._replaced: dict[str, ContinuousQuery] = {}  # by name: another takes its place, and counts on

    def get(self, name: str) -> tuple[dict[str, Any], ContinuousQuery]:
        """What is stored of a query, and the query on the grid; made of that, if it is not there yet."""
        with self._rows.lock:  # else it may be removed in between, and would be made again
            row = self._rows.row(name)
            grid = self._grid.current()
            query = grid.queries.get(name)
            if query is not None:
                return row, query
            resolved = self._specifications.of(row)
            outputs = [
                with_log(stream, lambda kind, stream=stream.name: self._logs.open(name, stream, kind))
                for stream in resolved.outputs
            ]
            query = grid.new_query(resolved.flow, resolved.inputs, outputs, name, resolved.specification)
            if (before := self._replaced.pop(name, None)) is not None:
                query.go_on_counting(before)
            if row["plan"]:
                query.adopt(Plan.from_json(row["plan"]))
            return row, query

    def plan(self, query: ContinuousQuery) -> Plan:
        """The plan of a query, as it is or would be compiled."""
        return query.plan or self._specifications.compiled(self._specifications.of(self._rows.row(query.id)))

    def let_go(self, query: ContinuousQuery) -> None:
        """The next `get` makes another query in the place of this one; it goes on with the totals."""
        with self._rows.lock:
            self._rows.row(query.id)  # it may have been removed, and another of its name does not go on with its totals
            self._grid.current().forget(query.id)
            self._replaced[query.id] = query
        if query.state == "installed":
            query.uninstall()

    def drop(self, name: str) -> list[str]:
        """End what a query runs on; gives the working nodes that could not be ended."""
        query = self._grid.current().queries.get(name)
        left = query.drop() if query is not None else []
        self._states.settle()
        return left

    def forget(self, name: str) -> None:
        """Let go of what lives here of a query, and of what was kept of its results. The rows' lock is held."""
        self.drop(name)
        self._replaced.pop(name, None)
        self._specifications.forget(name)
        self._states.forget(name)
        self._logs.remove(name)
