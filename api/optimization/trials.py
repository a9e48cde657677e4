"""Trial runs: one plan over one stream segment, measured. One at a time in each pool, so that they do not disturb
each other.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from api.errors import Problem, document, problem_of
from api.operations import CrashWatch, Operations
from api.store import Store, newest, optimizations
from api.store import trials as table
from gsdm_grid import Grid
from gsdm_grid.ids import IdFactory
from gsdm_grid.interfaces import interfaces
from gsdm_grid.plan import placement_policy
from gsdm_grid.spec import RegisteredStream, ResolvedQuery
from gsdm_grid.trials import (
    TrialRun,
    run_trial,
    this_machine,
    too_short,
)


@dataclass(frozen=True)
class TrialOrder:
    """A trial as it is asked for: a specification, over ``count`` windows. Immutable.

    ``optimization`` and ``key``: the search that asked for it, and as what; ``latency``: whether it is measured too.
    """

    specification: Any
    count: int
    optimization: str | None = None
    key: str | None = None
    latency: bool = False


class Trials:
    """Stores and runs trials. Thread-safe."""

    def __init__(
        self,
        store: Store,
        operations: Operations,
        checked: Callable[[Any, str], ResolvedQuery],
        grid: Callable[[], Grid],
        watch: CrashWatch,
    ) -> None:
        self._store = store
        self._operations = operations
        self._checked = checked
        self._grid = grid
        self._watch = watch
        self._ids = IdFactory()
        self._lock = threading.Lock()
        self.storing = threading.Lock()
        """Held while a trial of a search is stored, and while a search is removed: no trial outlives its search."""
        self._pools: dict[str, threading.Lock] = {}

    def submit(self, order: TrialOrder, token_id: str, role: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Store a trial, to be run as soon as its turn comes; gives the trial and its operation.

        A trial that a search asked for is run once: asking again for its key gives the same one.
        """
        with self._lock:
            known = self.of_search(order.optimization, order.key) if order.optimization is not None else None
            if known is not None:
                operations = self._operations.page(1, None, known["id"])
                return self._shown(known), operations[0] if operations else {"id": known["id"]}
            trial, operation = self.stored(order, token_id, role)
        self._operations.enqueue(operation)
        return self._shown(trial), operation

    def stored(self, order: TrialOrder, token_id: str, role: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Store a trial with its operation, which whoever asks carries out or queues."""
        specification = self._checked(order.specification, role)
        trial = {
            "id": self._ids.new("trial"),
            "specification": order.specification,
            "query": specification.name,
            "count": order.count,
            "result": None,
            "token_id": token_id,
            "created_s": time.time(),
            "failure": None,
            "optimization": order.optimization,
            "key": order.key,
            "latency": order.latency,
            "starting": None,
        }
        with self.storing, self._store.begin() as connection:
            if order.optimization is not None:
                search = sa.select(optimizations.c.id).where(optimizations.c.id == order.optimization)
                if connection.execute(search).first() is None:
                    raise Problem("not-found", f"there is no optimization {order.optimization!r:.60}")
            connection.execute(table.insert().values(**trial))
            operation = self._operations.record(connection, trial["id"], "trial")
        return trial, operation

    def view(self, trial_id: str) -> dict[str, Any]:
        """A trial as people see it."""
        row = self._store.row(sa.select(table).where(table.c.id == trial_id))
        if row is None:
            raise Problem("not-found", f"there is no trial {trial_id!r:.60}")
        return self._shown(row)

    def page(
        self, limit: int, before_s: float | None, query: str | None, optimization: str | None = None
    ) -> list[dict[str, Any]]:
        """Trials, the newest first."""
        rows = self._store.rows(newest(table, limit, before_s, query=query, optimization=optimization))
        return [self._shown(row) for row in rows]

    def of_search(self, optimization: str | None, key: str | None) -> dict[str, Any] | None:
        """The trial that a search asked for under a key, if it has been submitted."""
        return self._store.row(sa.select(table).where(table.c.optimization == optimization, table.c.key == key))

    def all_of_search(self, optimization: str) -> list[dict[str, Any]]:
        """All trials that a search asked for, in the order in which they were submitted."""
        return self._store.rows(
            sa.select(table).where(table.c.optimization == optimization).order_by(table.c.created_s)
        )

    def remove(self, trial_id: str) -> None:
        """Cancel a trial if it runs, and forget it."""
        self.view(trial_id)
        with self._store.begin() as connection:
            connection.execute(table.delete().where(table.c.id == trial_id))
        running = self._grid().queries.get(trial_id)
        if running is not None:
            running.drop()

    def carry_out(self, trial_id: str) -> None:
        """Run a trial and keep what it says, or why it failed; raises that again."""
        row = self._store.row(sa.select(table).where(table.c.id == trial_id))
        if row is None:
            return
        with self._pool(row["specification"].get("placement")):
            row = self._store.row(sa.select(table).where(table.c.id == trial_id))
            if row is None or row["result"] is not None:
                return
            if row["failure"] is not None:
                raise Problem(**row["failure"])
            placement = row["specification"].get("placement")
            policy = self._grid().placement if placement is None else placement_policy(placement)
            try:
                with self._watch.running_trial(trial_id, "thread" in policy.hosts.values()):
                    changed: dict[str, Any] = {"result": self._run(row)}
            except Exception as error:
                if not self._operations.closed:
                    problem = problem_of(error)
                    self._keep(trial_id, failure={"kind": problem.kind, "detail": problem.detail, **problem.extras})
                raise
            self._keep(trial_id, **changed)

    def give_up(self, trial_id: str, problem: Problem) -> None:
        """It is not run by itself again."""
        self._keep(trial_id, failure={"kind": problem.kind, "detail": problem.detail})
        for operation in self._operations.unfinished(trial_id):
            self._operations.finish(operation["id"], document(problem, f"/v1/trials/{trial_id}"))

    def _keep(self, trial_id: str, **values: Any) -> None:
        with self._store.begin() as connection:
            connection.execute(table.update().where(table.c.id == trial_id).values(**values))

    def _pool(self, placement: str | None) -> threading.Lock:
        with self._lock:
            return self._pools.setdefault(placement or self._grid().placement.name, threading.Lock())

    def _run(self, row: Mapping[str, Any]) -> dict[str, Any]:
        query = self._checked(row["specification"], "admin")  # who may submit it was checked when it was submitted
        trial = TrialRun(
            query.flow,
            [_alone_where_possible(stream) for stream in query.inputs],
            len(query.outputs),
            row["count"],
            row["id"],
            latency=bool(row["latency"]),
            options=query.specification,
        )
        load = os.getloadavg()[0]
        began_s = time.monotonic()
        result = run_trial(self._grid(), trial)
        told = {"machine": this_machine(), "load": load, "trial_s": time.monotonic() - began_s}
        if result.windows < row["count"]:
            short = too_short(result.windows, row["count"])
            if row["optimization"] is not None:
                raise Problem("invalid-specification", short, short=True)
            told["short"] = short
        return {**result.to_json(), **told}

    def _shown(self, row: Mapping[str, Any]) -> dict[str, Any]:
        found = self._operations.page(1, None, row["id"])
        operation = found[0] if found else {"status": "succeeded", "error": None}
        status, error = operation["status"], operation["error"]
        if row["result"] is not None:
            status, error = "succeeded", None
        elif row["failure"] is not None:
            status, error = "failed", document(Problem(**row["failure"]), f"/v1/trials/{row['id']}")
        named = {key: row[key] for key in ("id", "query", "specification", "count", "result", "optimization", "key")}
        return {**named, "status": status, "error": error, "created": row["created_s"]}


def _alone_where_possible(stream: RegisteredStream) -> RegisteredStream:
    """A trial reads its own segment, unless a running query holds the only way to the stream."""
    exclusive = interfaces.get(stream.interface).exclusive(stream.options)
    return replace(stream, shared=stream.shared and exclusive)
