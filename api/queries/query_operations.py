"""Carrying out operations: who does what was asked, and what a query says when that failed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

from api.errors import document, problem_of
from api.operations import MEASURING, CrashWatch, Operations, crashes, failure
from api.optimization import OptimizationDriver, Segments, Trials
from api.queries.live_queries import LiveQueries
from api.queries.query_rows import QueryRows
from api.queries.query_steps import QuerySteps
from api.queries.rewiring import Rewiring
from api.queries.state_changes import RUNNING
from api.queries.state_recorder import StateRecorder
from gsdm_grid.coordination import ContinuousQuery


class Measurements:
    """Carries out operations that are no steps of a query."""

    def __init__(self, trials: Trials, segments: Segments, optimizations: OptimizationDriver) -> None:
        self._trials = trials
        self._segments = segments
        self._optimizations = optimizations

    def carry_out(self, name: str, action: str) -> Mapping[str, Any] | None:
        """Run a trial, record a segment, or search for a plan; gives the result of the operation."""
        if action == "optimize":
            return self._optimizations.carry_out(name)
        (self._trials if action == "trial" else self._segments).carry_out(name)
        return None


class StepOperations:
    """Carries out operations that are steps of a query, or bring one back."""

    def __init__(
        self, live: LiveQueries, steps: QuerySteps, rewiring: Rewiring, states: StateRecorder, watch: CrashWatch
    ) -> None:
        self._live = live
        self._steps = steps
        self._rewiring = rewiring
        self._states = states
        self._watch = watch

    def carry_out(self, name: str, action: str, operation: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Do what was asked of a query; gives the result of the operation.

        An operation that is ``resumed`` was promised before the coordinator, or what the query ran on, died: the query
        is brought to its desired state.
        """
        if action == "delete":
            return self._steps.delete(name)
        row, query = self._live.get(name)
        if action in ("compile", "deactivate") and not operation.get("resumed"):
            return self._steps.take(query, action, operation["params"])
        with self._watched(query, one_by_one=bool(operation.get("resumed"))):
            return self._start(query, row, action, operation)

    def _start(
        self, query: ContinuousQuery, row: Mapping[str, Any], action: str, operation: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        resumed = bool(operation.get("resumed"))
        if action in ("activate", "run") or resumed:
            self._states.activated_by(query.id, operation)
        if resumed:
            self._steps.bring_back(query, row)
        if action in ("scale", "replan"):  # also after a restart: it may have come in between
            return self._rewiring.rewire(query, row, action, operation["params"])
        return None if resumed else self._steps.take(query, action, operation["params"])

    @contextlib.contextmanager
    def _watched(self, query: ContinuousQuery, one_by_one: bool) -> Iterator[None]:
        """While a query is started, and for a while after, a death of ours may be its doing (see `crashes`)."""

        def runs() -> bool:
            self._states.settle()
            return query.state in RUNNING

        with self._watch.starting(query.id, crashes.in_threads(self._live.plan(query)), one_by_one, runs):
            yield


class OperationDispatch:
    """Gives operations to whom they concern, and keeps with the query that one has failed."""

    def __init__(
        self,
        rows: QueryRows,
        operations: Operations,
        states: StateRecorder,
        steps: StepOperations,
        measurements: Measurements,
    ) -> None:
        self._rows = rows
        self._operations = operations
        self._states = states
        self._steps = steps
        self._measurements = measurements

    def carry_out(self, operation: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Carry out an operation (see `CarryOut`)."""
        name, action = operation["query"], operation["action"]
        if action in MEASURING:
            return self._measurements.carry_out(name, action)
        try:
            result = self._steps.carry_out(name, action, operation)
        except Exception as error:
            if not self._operations.closed:
                self._keep_failure(operation, error)
            raise
        self._clear_failure(operation)
        return result

    def _keep_failure(self, operation: Mapping[str, Any], error: Exception) -> None:
        """What was asked failed: the query says so, and if nothing else was asked, nobody is trying any more."""
        self._states.settle()
        name = operation["query"]
        with self._rows.lock:
            row = self._rows.columns(name, "state")
            if row is None:
                return
            values: dict[str, Any] = {
                "error": document(problem_of(error), f"/v1/queries/{name}"),
                "failure": failure(operation["action"], operation["id"], time.time()),
            }
            if not self._operations.others(name, operation):
                values["desired"] = row["state"]
            self._rows.update(name, **values)

    def _clear_failure(self, operation: Mapping[str, Any]) -> None:
        """The failure of an earlier operation is forgotten."""
        name = operation["query"]
        with self._rows.lock:
            row = self._rows.columns(name, "state", "failure")
            if row is None or not row["failure"] or row["state"] == "failed":
                return
            if row["failure"]["operation"] != operation["id"]:
                self._rows.update(name, error=None, failure=None)
