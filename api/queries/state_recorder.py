"""Every state change of a query is stored, in order, by one thread: whoever changes a state waits for no database."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from queue import Empty, SimpleQueue
from typing import Any

import sqlalchemy as sa

from api.operations import CrashWatch, Operations
from api.queries.query_rows import QueryRows
from api.queries.state_changes import RUNNING, Comebacks, StateChange
from gsdm_grid.coordination import ContinuousQuery

_log = logging.getLogger("gsdm.coordinator")
LOOK_S = 1.0
"""How often the thread looks for queries that have settled."""
SETTLE_S = 60.0
"""How long others wait at most until what has changed is stored."""
_Report = tuple[ContinuousQuery, str, float, Exception | None]


class StateRecorder:
    """The thread that stores states. One per coordinator. ``restarts``: see `Comebacks`."""

    def __init__(self, rows: QueryRows, operations: Operations, watch: CrashWatch, restarts: int) -> None:
        self._rows = rows
        self._operations = operations
        self._watch = watch
        self._comebacks = Comebacks(restarts)
        self._queue: SimpleQueue[_Report | threading.Event | None] = SimpleQueue()
        self._running: dict[str, bool] = {}
        self._activations: dict[str, Mapping[str, Any]] = {}
        self._frozen = threading.Event()
        self._unstored = threading.Event()  # a state change waits until the database has room for it
        self._thread = threading.Thread(target=self._work, name="gsdm-states", daemon=True)

    def start(self) -> None:
        """Begin to store states."""
        self._thread.start()

    def on_change(self, query: ContinuousQuery) -> None:
        """A query's state has changed. Called by any thread, must not block."""
        if not self._frozen.is_set() and query.state not in ("specified", "dropped"):
            self._queue.put((query, query.state, query.since_s, query.error))

    def activated_by(self, name: str, operation: Mapping[str, Any]) -> None:
        """If the query fails from now on, it is this operation that has failed."""
        self._activations[name] = operation

    def settle(self) -> None:
        """Wait until all state changes so far are stored, or the database has no room for them."""
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            stored, until_s = threading.Event(), time.monotonic() + SETTLE_S
            self._queue.put(stored)
            while not stored.wait(0.1) and not self._unstored.is_set() and time.monotonic() < until_s:
                pass

    def forget(self, name: str) -> None:
        """A query is removed."""
        self._running.pop(name, None)
        self._activations.pop(name, None)
        self._comebacks.forget(name)

    def freeze(self) -> None:
        """What changes from now on is the coordinator's own end: it is not stored, so the next start brings it back."""
        self._frozen.set()

    def close(self) -> None:
        """Store what has changed until now, and end."""
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join(10)

    def _work(self) -> None:
        while True:
            for name in self._watch.look():
                try:
                    self._watch.settled(name)
                except sa.exc.SQLAlchemyError as failure:  # it is tried again after the next change, or look
                    details = {"query": name, "reason": str(failure)}
                    _log.error("it could not be stored that a query has settled", extra=details)
            try:
                change = self._queue.get(timeout=LOOK_S)
            except Empty:
                continue
            if change is None:
                return
            if isinstance(change, threading.Event):
                change.set()
                continue
            try:
                self._record_when_possible(*change)
            except Exception:
                _log.exception("a state change could not be stored", extra={"query": change[0].id, "state": change[1]})

    def _record_when_possible(
        self, query: ContinuousQuery, state: str, since_s: float, error: Exception | None
    ) -> None:
        """Store a state change as soon as the database takes it: its disk may be full for a while. Later ones wait."""
        try:
            while True:
                try:
                    self._record(query, state, since_s, error)
                    return
                except sa.exc.OperationalError as failure:
                    if self._frozen.is_set():
                        raise
                    details = {"query": query.id, "state": state, "reason": str(failure.orig)}
                    _log.error("a state change cannot be stored yet", extra=details)
                self._unstored.set()
                self._frozen.wait(LOOK_S)
        finally:
            self._unstored.clear()

    def _record(self, query: ContinuousQuery, state: str, since_s: float, error: Exception | None) -> None:
        """Store a state change, and what follows from it. Changes nothing else if it cannot be stored."""
        name = query.id
        ran, runs = self._running.get(name, False), state in RUNNING
        row = self._rows.columns(name, "run", "desired", "state")
        if row is None:
            self._running[name] = runs
            return
        is_over = ran and not runs
        plan = query.plan.to_json() if state == "compiled" and query.plan is not None else None
        change = StateChange(name, state, since_s, error, plan, query.positions() if is_over else None)
        if change.lost_hosts(row["desired"]) and self._may_come_back(name):
            self._bring_back(change)
            self._running[name] = runs
            return
        if self._watch.is_settling(name) and not runs:
            self._watch.settled(name)
        activation = self._activations.get(name)
        is_last = (error is not None or is_over) and not self._operations.others(name, activation)
        values = change.values_after(row, activation, is_last)
        reason = str(error) if error else None
        if state == row["state"]:
            self._rows.update(name, **values)
        else:
            self._rows.update_with_event(name, values, state, reason)
        self._running[name] = runs
        _log.info("state changed", extra={"query": name, "state": state, "reason": reason})

    def _may_come_back(self, name: str) -> bool:
        return self._comebacks.may_try(name, time.monotonic()) and not self._frozen.is_set()

    def _bring_back(self, change: StateChange) -> None:
        """What a query ran on is gone: it begins again after its last kept window, as after a crash of ours."""
        with self._rows.transaction() as connection:
            self._rows.change(connection, change.query, change.values())
            self._rows.note(connection, change.query, change.state, f"{change.error}; it is brought back")
            operation = self._operations.record(connection, change.query, "recover")
        self._comebacks.count(change.query, time.monotonic())
        _log.warning("query is brought back", extra={"query": change.query, "reason": str(change.error)})
        self._operations.enqueue({**operation, "resumed": True})
