"""Trial runs: one plan over one stream segment, measured. One at a time, so that they do not disturb each other."""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from api.errors import Problem
from api.operations import Operations
from api.store import Store
from api.store import trials as table
from gsdm_grid import Grid, __version__
from gsdm_grid.channels import interfaces
from gsdm_grid.coordination import RegisteredStream
from gsdm_grid.coordination.specification import QuerySpecification
from gsdm_grid.ids import IdFactory
from gsdm_grid.planning.trial import measured

TIMEOUT_S = 600.0


class Trials:
    """Stores and runs trials. Thread-safe."""

    def __init__(
        self,
        store: Store,
        operations: Operations,
        checked: Callable[[Any, str], QuerySpecification],
        grid: Callable[[], Grid],
    ) -> None:
        self._store = store
        self._operations = operations
        self._checked = checked
        self._grid = grid
        self._ids = IdFactory()
        self._one_at_a_time = threading.Lock()

    def submit(self, given: Any, count: int, token_id: str, role: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Store a trial of a specification over ``count`` windows; gives the trial and its operation."""
        specification = self._checked(given, role)
        trial = {
            "id": self._ids.new("trial"),
            "specification": given,
            "query": specification.name,
            "count": count,
            "result": None,
            "token_id": token_id,
            "created_s": time.time(),
        }
        with self._store.begin() as connection:
            connection.execute(table.insert().values(**trial))
            operation = self._operations.record(connection, trial["id"], "trial")
        self._operations.enqueue(operation)
        return self.view(trial["id"]), operation

    def view(self, trial_id: str) -> dict[str, Any]:
        """A trial as people see it."""
        row = self._store.row(sa.select(table).where(table.c.id == trial_id))
        if row is None:
            raise Problem("not-found", f"there is no trial {trial_id!r:.60}")
        return self._shown(row)

    def page(self, limit: int, before_s: float | None, query: str | None) -> list[dict[str, Any]]:
        """Trials, the newest first."""
        wanted = sa.select(table).order_by(table.c.created_s.desc()).limit(limit)
        if before_s is not None:
            wanted = wanted.where(table.c.created_s < before_s)
        if query is not None:
            wanted = wanted.where(table.c.query == query)
        return [self._shown(row) for row in self._store.rows(wanted)]

    def remove(self, trial_id: str) -> None:
        """Cancel a trial if it runs, and forget it."""
        self.view(trial_id)
        running = self._grid().queries.get(trial_id)
        if running is not None:
            running.drop()
        with self._store.begin() as connection:
            connection.execute(table.delete().where(table.c.id == trial_id))

    def carry_out(self, trial_id: str) -> None:
        """Run a trial and keep what it says."""
        with self._one_at_a_time:
            row = self._store.row(sa.select(table).where(table.c.id == trial_id))
            if row is None:
                return
            result = self._run(trial_id, self._checked(row["specification"], "admin"), row["count"])
            with self._store.begin() as connection:
                connection.execute(table.update().where(table.c.id == trial_id).values(result=result))

    def _run(self, trial_id: str, wanted: QuerySpecification, count: int) -> dict[str, Any]:
        nowhere = [RegisteredStream(stream.name, "null", stream.type) for stream in wanted.outputs]
        inputs = [_alone_where_possible(stream) for stream in wanted.inputs]
        query = self._grid().cq(
            wanted.flow, inputs, nowhere, trial_id, wanted.schedule, wanted.flush_s, wanted.placement
        )
        try:
            load = os.getloadavg()[0]
            query.run(count=count).wait(TIMEOUT_S)
            statistics = query.refresh()
            assert query.plan is not None
            result = measured(query.plan, statistics, query.run_seconds or 0.0).to_json()
        finally:
            query.drop()
        if result["windows"] < count:
            result["short"] = f"the stream ended after {result['windows']} of {count} windows"
        return {**result, "machine": _machine(), "load": load}

    def _shown(self, row: Mapping[str, Any]) -> dict[str, Any]:
        operation = self._operations.page(1, None, row["id"])
        status = operation[0]["status"] if operation else "succeeded"
        named = {key: row[key] for key in ("id", "query", "specification", "count", "result")}
        error = operation[0]["error"] if operation else None
        return {**named, "status": status, "error": error, "created": row["created_s"]}


def _alone_where_possible(stream: RegisteredStream) -> RegisteredStream:
    """A trial reads its own segment, unless a running query holds the only way to the stream."""
    exclusive = interfaces.get(stream.interface).exclusive(stream.options)
    return replace(stream, shared=stream.shared and exclusive)


def _machine() -> dict[str, Any]:
    return {
        "name": platform.node(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "gsdm": __version__,
    }
