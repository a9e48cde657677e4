"""Operations: actions that take time. Each is stored before it is answered, and carried out in order, query by query.

A coordinator that was killed finds the operations it had promised and carries them out after its restart.
"""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import sqlalchemy as sa

from api import errors
from api.store import Store, newest, operations
from gsdm_grid.ids import IdFactory

_log = logging.getLogger("gsdm.operations")
KEPT = 10_000
"""Finished operations that are kept to be looked at."""
RETRY_S = 1.0
"""How long to wait before an outcome that could not be stored is stored again."""

MEASURING = ("trial", "record", "optimize")
"""Actions that are no steps of a query. There may be many that wait for each other: they share some threads."""

CarryOut = Callable[[Mapping[str, Any]], Mapping[str, Any] | None]
"""Carries out an operation; what it returns is the operation's result."""


class Operations:
    """Queues operations and carries them out, one at a time for each query. Thread-safe."""

    def __init__(self, store: Store, carry_out: CarryOut, measuring: int = 8) -> None:
        self._store = store
        self._carry_out = carry_out
        self._ids = IdFactory()
        self._waiting: dict[str, deque[tuple[dict[str, Any], contextvars.Context]]] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._measuring = ThreadPoolExecutor(measuring, thread_name_prefix="gsdm-measuring")
        self._threads: set[threading.Thread] = set()

    def record(
        self, connection: sa.Connection, query: str, action: str, params: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Store a new operation as part of a transaction; `enqueue` it when that is committed."""
        operation = {
            "id": self._ids.new("op"),
            "query": query,
            "action": action,
            "params": dict(params or {}),
            "status": "pending",
            "error": None,
            "result": None,
            "created_s": time.time(),
            "finished_s": None,
        }
        connection.execute(operations.insert().values(**operation))
        return operation

    def enqueue(self, operation: dict[str, Any]) -> None:
        """Carry it out as soon as those before it of the same query are done; removing a query does not wait."""
        entry = (operation, contextvars.copy_context())
        with self._lock:
            if self.closed:
                return
            if operation["action"] == "delete":
                self._begin(self._perform, *entry)
                return
            queue = self._waiting.setdefault(operation["query"], deque())
            queue.append(entry)
            if len(queue) > 1:
                return
            if operation["action"] in MEASURING:
                self._measuring.submit(self._work, operation["query"])
            else:
                self._begin(self._work, operation["query"])

    def _begin(self, work: Callable[..., None], *args: Any) -> None:
        """In a thread of its own: one that waits, for hosts or for windows to flow out, keeps nobody else waiting."""

        def whole() -> None:
            try:
                work(*args)
            finally:
                with self._lock:
                    self._threads.discard(thread)

        thread = threading.Thread(target=whole, name="gsdm-operation", daemon=True)
        self._threads.add(thread)
        thread.start()

    def perform(self, operation: dict[str, Any]) -> None:
        """Carry it out now, in this thread: it is a part of another operation."""
        self._carry(operation)

    @property
    def closed(self) -> bool:
        """Whether the coordinator is ending: what fails now is carried out again after the next start."""
        return self._closing.is_set()

    def unfinished(self, query: str | None = None) -> list[dict[str, Any]]:
        """Operations that were promised and are not done, in the order in which they were."""
        statement = sa.select(operations).where(operations.c.status.in_(("pending", "running")))
        if query is not None:
            statement = statement.where(operations.c.query == query)
        return self._store.rows(statement.order_by(operations.c.created_s))

    def others(self, query: str, operation: Mapping[str, Any] | None) -> bool:
        """Whether something else than this operation was promised of a query, and is not done."""
        own = operation["id"] if operation is not None else None
        return any(one["id"] != own for one in self.unfinished(query))

    def finish(
        self, operation_id: str, error: Mapping[str, Any] | None = None, result: Mapping[str, Any] | None = None
    ) -> None:
        """Store the outcome."""
        with self._store.begin() as connection:
            connection.execute(
                operations.update()
                .where(operations.c.id == operation_id)
                .values(status="failed" if error else "succeeded", error=error, result=result, finished_s=time.time())
            )

    def forget_old(self) -> None:
        """Remove what finished long ago."""
        kept = sa.select(operations.c.id).order_by(operations.c.created_s.desc()).limit(KEPT)
        with self._store.begin() as connection:
            connection.execute(
                operations.delete().where(operations.c.finished_s.is_not(None), operations.c.id.not_in(kept))
            )

    def stop(self) -> None:
        """Begin nothing more; what is not done is carried out after the next start."""
        with self._lock:
            self._closing.set()
        self._measuring.shutdown(wait=False, cancel_futures=True)

    def view(self, operation_id: str) -> dict[str, Any]:
        """One operation as people see it."""
        row = self._store.row(sa.select(operations).where(operations.c.id == operation_id))
        if row is None:
            raise errors.Problem("not-found", f"there is no operation {operation_id!r:.60}")
        return as_document(row)

    def page(
        self, limit: int, before_s: float | None, query: str | None = None, status: str | None = None
    ) -> list[dict[str, Any]]:
        """Operations, the newest first, from before a time on."""
        rows = self._store.rows(newest(operations, limit, before_s, query=query, status=status))
        return [as_document(row) for row in rows]

    def close(self) -> None:
        """Stop, and wait for what is under way."""
        self.stop()
        self._measuring.shutdown(wait=True)
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join()

    def _work(self, query: str) -> None:
        while True:
            with self._lock:
                entry = self._waiting[query][0]
            self._perform(*entry)
            with self._lock:
                self._waiting[query].popleft()
                if not self._waiting[query] or self.closed:
                    del self._waiting[query]
                    return

    def _perform(self, operation: dict[str, Any], context: contextvars.Context) -> None:
        context.run(self._carry, operation)

    def _carry(self, operation: dict[str, Any]) -> None:
        described = {"operation": operation["id"], "query": operation["query"], "action": operation["action"]}
        try:
            with self._store.begin() as connection:
                connection.execute(
                    operations.update().where(operations.c.id == operation["id"]).values(status="running")
                )
            result = self._carry_out(operation)
        except Exception as error:
            if self.closed:
                return
            problem = errors.problem_of(error)
            if problem.kind == "internal":
                _log.error("operation failed unexpectedly", exc_info=error, extra=described)
            else:
                _log.info("operation failed", extra={**described, "reason": str(error)})
            self._finish(described, errors.document(problem, f"/v1/queries/{operation['query']}"))
        else:
            _log.info("operation succeeded", extra=described)
            self._finish(described, result=result)

    def _finish(
        self,
        described: Mapping[str, Any],
        error: Mapping[str, Any] | None = None,
        result: Mapping[str, Any] | None = None,
    ) -> None:
        """Store the outcome as soon as the database takes it: its disk may be full for a while."""
        while True:
            try:
                self.finish(described["operation"], error, result)
                return
            except sa.exc.OperationalError as failure:
                reason = str(failure.orig)
                _log.error("an operation's outcome cannot be stored yet", extra={**described, "reason": reason})
            if self._closing.wait(RETRY_S):
                return  # it is carried out again after the next start


def as_document(row: Mapping[str, Any]) -> dict[str, Any]:
    """An operation as people see it."""
    named = {key: row[key] for key in ("id", "query", "action", "params", "status", "error", "result")}
    return {**named, "created": row["created_s"], "finished": row["finished_s"]}
