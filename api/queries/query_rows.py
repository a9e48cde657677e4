"""What is stored of queries: their rows, and the events of their states.

Only here is it known how that lies in the database. Every change of a row gives it a new version, so that a client
which saw another one is told so.
"""

from __future__ import annotations

import contextlib
import difflib
import threading
import time
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from api.errors import Problem
from api.store import Store, events, queries
from gsdm_grid.spec import references


class QueryRows:
    """The rows of queries. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.lock = threading.RLock()
        """Held from looking at a query until it is changed: else another thread may change or remove it in between."""

    def row(self, name: str, if_match: str | None = None) -> dict[str, Any]:
        """The row of a query. Refuses if there is none, or if it is of another version than ``if_match``."""
        row = self._store.row(sa.select(queries).where(queries.c.name == name))
        if row is None:
            raise self._missing(name)
        if if_match is not None and if_match not in ("*", etag(row["version"])):
            raise Problem(
                "precondition-failed", f"query {name!r} has changed: it is {etag(row['version'])}, not {if_match:.60}"
            )
        return row

    def _missing(self, name: str) -> Problem:
        similar = difflib.get_close_matches(name, [row["name"] for row in self.columns_of_all("name")], n=3)
        hint = f"; did you mean {' or '.join(map(repr, similar))}?" if similar else ""
        return Problem("not-found", f"there is no query {name!r:.80}{hint}", did_you_mean=similar)

    def columns(self, name: str, *columns: str) -> dict[str, Any] | None:
        """Some columns of a query; None if there is no such query."""
        return self._store.row(sa.select(*(queries.c[column] for column in columns)).where(queries.c.name == name))

    def columns_of_all(self, *columns: str) -> list[dict[str, Any]]:
        """Some columns of all queries."""
        return self._store.rows(sa.select(*(queries.c[column] for column in columns)))

    def all(self) -> list[dict[str, Any]]:
        """The rows of all queries."""
        return self._store.rows(sa.select(queries))

    def page(
        self, limit: int, after: str | None, state: str | None = None, prefix: str | None = None
    ) -> list[dict[str, Any]]:
        """Rows by name, from the one after ``after`` on; of queries in a state, or whose names begin with a prefix."""
        statement = sa.select(queries).order_by(queries.c.name).limit(limit)
        if after is not None:
            statement = statement.where(queries.c.name > after)
        if state is not None:
            statement = statement.where(queries.c.state == state)
        if prefix is not None:
            statement = statement.where(queries.c.name.startswith(prefix, autoescape=True))
        return self._store.rows(statement)

    def plans(self, limit: int, after: str | None) -> list[tuple[str, dict[str, Any]]]:
        """Names and plans of compiled queries, by name."""
        statement = sa.select(queries.c.name, queries.c.plan).order_by(queries.c.name).limit(limit)
        statement = statement.where(queries.c.name > (after or ""), queries.c.state != "specified")
        return [(row["name"], row["plan"]) for row in self._store.rows(statement) if row["plan"]]

    def events(self, name: str, limit: int) -> list[dict[str, Any]]:
        """State changes of a query, the newest first."""
        self.row(name)
        return self._store.rows(
            sa.select(events).where(events.c.query == name).order_by(events.c.id.desc()).limit(limit)
        )

    def using(self, kind: references.Kind, name: str) -> str | None:
        """Name of a query whose specification names this source, sink, stream type, function or interface."""
        for row in self.columns_of_all("name", "specification"):
            if name in references.names(row["specification"], kind):
                return str(row["name"])
        return None

    def add(self, name: str, specification: Any, token_id: str, limit: int) -> dict[str, Any]:
        """Store a new query; gives its row. Refused if the name is taken, or the token has ``limit`` already."""
        now_s = time.time()
        row = {
            "name": name,
            "specification": specification,
            "desired": "specified",
            "state": "specified",
            "since_s": now_s,
            "error": None,
            "plan": None,
            "run": None,
            "version": 1,
            "token_id": token_id,
            "created_s": now_s,
            "failure": None,
            "starting": None,
        }
        with self.lock:
            held = self._store.row(
                sa.select(sa.func.count()).where(queries.c.token_id == token_id).select_from(queries)
            )
            if held and next(iter(held.values())) >= limit:
                raise Problem("too-many", f"this token has {limit} queries, which is the limit: remove some")
            try:
                with self._store.begin() as connection:
                    connection.execute(queries.insert().values(**row))
                    connection.execute(_event(name, "specified", None))
            except sa.exc.IntegrityError:
                taken = f"there is a query named {name!r} already: remove it, or choose another name"
                raise Problem("name-taken", taken, name=name) from None
        return row

    def transaction(self) -> contextlib.AbstractContextManager[sa.Connection]:
        """In which a query and what is promised of it are changed together."""
        return self._store.begin()

    def change(self, connection: sa.Connection, name: str, values: Mapping[str, Any]) -> None:
        """Change columns of a query, as part of a transaction."""
        statement = queries.update().where(queries.c.name == name)
        connection.execute(statement.values(**values, version=queries.c.version + 1))

    def note(self, connection: sa.Connection, name: str, state: str, detail: str | None) -> None:
        """Add to the events of a query, as part of a transaction."""
        connection.execute(_event(name, state, detail))

    def update(self, name: str, **values: Any) -> None:
        """Change columns of a query."""
        with self._store.begin() as connection:
            self.change(connection, name, values)

    def update_with_event(self, name: str, values: Mapping[str, Any], state: str, detail: str | None) -> None:
        """Change columns of a query, and say in its events which state it is in since then, and why."""
        with self._store.begin() as connection:
            self.change(connection, name, values)
            self.note(connection, name, state, detail)

    def remove(self, name: str) -> None:
        """Remove a query and its events."""
        with self._store.begin() as connection:
            connection.execute(queries.delete().where(queries.c.name == name))
            connection.execute(events.delete().where(events.c.query == name))


def etag(version: int) -> str:
    """The entity tag of a version of a query."""
    return f'"{version}"'


def _event(name: str, state: str, detail: str | None) -> sa.Insert:
    return events.insert().values(query=name, at_s=time.time(), state=state, detail=detail)
