"""Watching what runs functions in threads of the coordinator, so that the next start knows what may have ended it.

A mark is stored before a query is started, or a trial is run, and removed when the query has settled or the trial is
over. What the marks mean is in `api.operations.crashes`.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from api.operations import crashes
from api.store import Store, queries, trials

TRIALS = "trials/"
"""What the key of a trial begins with; a query's key is its name, which has no slash."""


class CrashWatch:
    """The marks of one coordinator. Thread-safe. ``deliveries`` gives how many windows each result log of a query has
    had.
    """

    def __init__(self, store: Store, deliveries: Callable[[str], Mapping[str, int]]) -> None:
        self._store = store
        self._deliveries = deliveries
        self._settles_s: dict[str, float] = {}  # when queries that were started will have run for long enough
        self._deaths: dict[str, int] = {}  # of the coordinator, that those which have not settled are suspected of
        self._turn = threading.Lock()  # of the suspects that are brought back one by one
        self._closing = False

    def begin(self) -> frozenset[str]:
        """After a start: keys of those that are not to be started by themselves again."""
        verdict = crashes.judge({**self._queries(), **self._trials()})
        self._deaths = dict(verdict.again)
        for key in verdict.blamed:
            self._mark(key, None)
        for key, deaths in verdict.again.items():
            self._mark(key, crashes.mark("queued", deaths))
        return verdict.blamed

    def _queries(self) -> dict[str, Mapping[str, Any]]:
        rows = self._store.rows(sa.select(queries.c.name, queries.c.state, queries.c.starting))
        return {
            row["name"]: crashes.with_progress(row["starting"], row["state"], self._deliveries(row["name"]))
            for row in rows
            if row["starting"]
        }

    def _trials(self) -> dict[str, Mapping[str, Any]]:
        rows = self._store.rows(sa.select(trials.c.id, trials.c.starting))
        return {f"{TRIALS}{row['id']}": row["starting"] for row in rows if row["starting"]}

    @contextlib.contextmanager
    def starting(self, name: str, watched: bool, one_by_one: bool, runs: Callable[[], bool]) -> Iterator[None]:
        """While a query is started, and for a while after, a death may be its doing; ``runs`` says if it does then.

        ``one_by_one``: one that is suspected of a death waits until no other suspect is being started.
        """
        deaths = self._deaths.get(name, 0)
        with self._turn if one_by_one and deaths else contextlib.nullcontext():
            if watched:
                self._mark(name, crashes.mark("starting", deaths, self._deliveries(name)))
            try:
                yield
            except BaseException:
                self.settled(name)
                raise
            if not runs() or not watched:
                self.settled(name)
                return
            self._mark(name, crashes.mark("running", deaths))
            self._settles_s[name] = time.monotonic() + crashes.SETTLED_S
            while one_by_one and len(self._deaths) > 1 and name in self._settles_s and not self._closing:
                time.sleep(0.1)

    @contextlib.contextmanager
    def running_trial(self, trial_id: str, watched: bool) -> Iterator[None]:
        """While a trial runs, a death may be its doing."""
        key = f"{TRIALS}{trial_id}"
        deaths = self._deaths.get(key, 0)
        with self._turn if deaths else contextlib.nullcontext():
            if watched:
                self._mark(key, crashes.mark("running", deaths))
            try:
                yield
            finally:
                self.settled(key)

    def is_settling(self, name: str) -> bool:
        """Whether a query was started a short while ago."""
        return name in self._settles_s

    def settled(self, key: str) -> None:
        """A query did not end the coordinator: it failed by itself, was stopped, or has run for a while."""
        if not self._closing:
            self._mark(key, None)  # first: if it cannot be stored, it is tried again
        self._settles_s.pop(key, None)
        self._deaths.pop(key, None)

    def look(self) -> Iterator[str]:
        """Queries that have run for long enough, to be `settled`."""
        now_s = time.monotonic()
        yield from [name for name, at_s in list(self._settles_s.items()) if now_s > at_s]

    def close(self) -> None:
        """Change no marks any more, and hold up nobody: what is under way is being ended."""
        self._closing = True

    def forget(self) -> None:
        """The coordinator has ended because it was asked to: that is no crash."""
        with self._store.begin() as connection:
            for table in (queries, trials):
                connection.execute(table.update().values(starting=None))

    def _mark(self, key: str, mark: Mapping[str, Any] | None) -> None:
        """Kept for the next start; it changes nothing that people see."""
        trial = key.startswith(TRIALS)
        table, column = (trials, trials.c.id) if trial else (queries, queries.c.name)
        with self._store.begin() as connection:
            connection.execute(table.update().where(column == key.removeprefix(TRIALS)).values(starting=mark))
