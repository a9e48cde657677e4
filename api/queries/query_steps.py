"""Steps of a query's life cycle, as the coordinator takes them: with its logs, and from where it had got to."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from api.operations import crashes
from api.queries import runs
from api.queries.live_queries import LiveQueries
from api.queries.query_rows import QueryRows
from api.queries.result_logs import ResultLogs
from api.queries.specifications import Specifications
from api.queries.state_recorder import StateRecorder
from gsdm_grid.compiler import resumption
from gsdm_grid.coordination import ContinuousQuery
from gsdm_grid.spec import KEPT, Stop, parse_stop


class QuerySteps:
    """Takes steps. Each returns when it is done, and its state is stored. Thread-safe."""

    def __init__(
        self,
        rows: QueryRows,
        specifications: Specifications,
        logs: ResultLogs,
        live: LiveQueries,
        states: StateRecorder,
    ) -> None:
        self._rows = rows
        self._specifications = specifications
        self._logs = logs
        self._live = live
        self._states = states

    def take(self, query: ContinuousQuery, action: str, params: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The step that an action stands for; gives the result of its operation."""
        if action == "compile":
            query.compile()
        elif action == "install":
            self._install(query)
        elif action in ("activate", "run"):
            if query.state != "installed":
                self._install(query)
            self._activate(query, parse_stop(params.get("stop")))
        elif params.get("mode") == "immediate":
            return self._give_up(query, params.get("reason"))
        else:
            query.deactivate()
            query.wait()
        self._states.settle()
        return None

    def install(self, query: ContinuousQuery) -> None:
        """Install a query, so that it goes on after the last window that is kept of its results."""
        self._install(query)
        self._states.settle()

    def bring_back(self, query: ContinuousQuery, row: Mapping[str, Any]) -> None:
        """To the desired state, as if the coordinator had never been away."""
        desired = row["desired"]
        if desired == "compiled" and query.state == "specified":
            query.compile()
        if desired in ("installed", "active") and query.state in ("specified", "compiled", "failed"):
            self._install(query)
        if desired == "active" and query.state == "installed":
            run = row["run"] or {}
            stop = parse_stop(run["stop"]) if run.get("stop") else self._specifications.of(row).stop
            rest = runs.rest(run, stop, time.time())
            if rest is not None:
                query.activate(**rest)
            else:
                self._activate(query, stop)
        self._states.settle()

    def delete(self, name: str) -> Mapping[str, Any] | None:
        """Remove a query with everything it runs on and everything kept of its results."""
        left = self._live.drop(name)
        with self._rows.lock:
            self._live.forget(name)
            self._rows.remove(name)
        return _warning(left)

    def _install(self, query: ContinuousQuery) -> None:
        if query.state in ("specified", "failed"):
            query.compile()
        plan = query.plan
        assert plan is not None
        row = self._rows.row(query.id)
        kept = [stream for stream in plan.streams if stream.interface == KEPT]
        logs = {stream.name: self._logs.open(query.id, stream.name, stream.type) for stream in kept}
        read = (row["run"] or {}).get("positions", {})
        last = {name: log.last_ordinal for name, log in logs.items()}
        resumed = resumption(plan, query.replayable(), read, last)
        for log in logs.values():
            if resumed.exact:
                log.resume()
        new = not any(read.values()) and all(ordinal is None for ordinal in last.values())
        query.install(resumed.positions, joining=new)

    def _activate(self, query: ContinuousQuery, stop: Stop) -> None:
        row = self._rows.row(query.id)
        if not (stop.count or stop.time_s):
            stop = self._specifications.of(row).stop
        run = runs.begun(stop, query.positions(), row["run"], time.time())
        self._rows.update(query.id, run=run)
        query.activate(time_s=stop.time_s, upto=runs.last_window(run, stop))
        began = max(query.begun_at().values(), default=run["base"])
        if began > run["base"] and (self._rows.row(query.id)["run"] or {}).get("running"):
            self._rows.update(query.id, run={**run, "base": began})  # it joined others in mid-stream

    def _give_up(self, query: ContinuousQuery, reason: str | None) -> Mapping[str, Any] | None:
        """Stop a query at once: what was read and has not flowed out is read again when it runs again."""
        left = query.uninstall() if query.state != "compiled" else []
        self._states.settle()
        if reason:
            self._rows.update_with_event(query.id, {}, "compiled", reason)
        return _warning(left)


def _warning(left: Sequence[str]) -> Mapping[str, Any] | None:
    """The result of an operation that ended working nodes, given those that it could not end."""
    return {"warning": crashes.reason_of_removal(left)} if left else None
