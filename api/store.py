"""The metadata store: what people registered, every query with its state, operations, tokens. SQLite or PostgreSQL.

Tables only, and the few things that must be one transaction; what they mean is the business of those who use them.
Every write is durable before it is answered, so a coordinator that is killed at any moment finds what it had said.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic.util import CommandError
from sqlalchemy import event

from gsdm_grid.errors import ResourceError

metadata = sa.MetaData()
MIGRATIONS = Path(__file__).parent / "migrations"

queries = sa.Table(
    "queries",
    metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("specification", sa.JSON, nullable=False),
    sa.Column("desired", sa.String(16), nullable=False),
    sa.Column("state", sa.String(16), nullable=False, index=True),
    sa.Column("since_s", sa.Float, nullable=False),
    sa.Column("error", sa.JSON),
    sa.Column("plan", sa.JSON),
    sa.Column("run", sa.JSON),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("token_id", sa.String(32), nullable=False, index=True),
    sa.Column("created_s", sa.Float, nullable=False),
    sa.Column("failure", sa.JSON),
    sa.Column("starting", sa.JSON),
)
"""``run``: how it was last activated and from which place of its inputs (see `api.queries`); ``failure``: the
last of what was asked of it, with ``error``; ``starting``: it is watched (for both, see `api.operations`)."""

events = sa.Table(
    "events",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("query", sa.String(64), nullable=False, index=True),
    sa.Column("at_s", sa.Float, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("detail", sa.Text),
)

operations = sa.Table(
    "operations",
    metadata,
    sa.Column("id", sa.String(48), primary_key=True),
    sa.Column("query", sa.String(64), nullable=False, index=True),
    sa.Column("action", sa.String(16), nullable=False),
    sa.Column("params", sa.JSON, nullable=False),
    sa.Column("status", sa.String(16), nullable=False, index=True),
    sa.Column("error", sa.JSON),
    sa.Column("result", sa.JSON),
    sa.Column("created_s", sa.Float, nullable=False),
    sa.Column("finished_s", sa.Float),
)

tokens = sa.Table(
    "tokens",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("name", sa.String(64), nullable=False, unique=True),
    sa.Column("role", sa.String(16), nullable=False),
    sa.Column("digest", sa.String(64), nullable=False, unique=True),
    sa.Column("created_s", sa.Float, nullable=False),
    sa.Column("expires_s", sa.Float),
)

types = sa.Table(
    "types",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("name", sa.String(64), nullable=False, unique=True),
    sa.Column("document", sa.JSON, nullable=False),
    sa.Column("created_s", sa.Float, nullable=False),
)

streams = sa.Table(
    "streams",
    metadata,
    sa.Column("kind", sa.String(8), primary_key=True),
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("document", sa.JSON, nullable=False),
    sa.Column("created_s", sa.Float, nullable=False),
)
"""Registered sources (``kind`` source) and sinks (``kind`` sink)."""

bundles = sa.Table(
    "bundles",
    metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("version", sa.Integer, primary_key=True),
    sa.Column("media_type", sa.String(64), nullable=False),
    sa.Column("content", sa.LargeBinary, nullable=False),
    sa.Column("functions", sa.JSON, nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("token_id", sa.String(32), nullable=False),
    sa.Column("created_s", sa.Float, nullable=False),
    sa.Column("packages", sa.JSON),
)
"""``packages``: what its requirements became (see `api.registry.packages`); null if it has none."""

trials = sa.Table(
    "trials",
    metadata,
    sa.Column("id", sa.String(48), primary_key=True),
    sa.Column("query", sa.String(64), nullable=False, index=True),
    sa.Column("specification", sa.JSON, nullable=False),
    sa.Column("count", sa.BigInteger, nullable=False),
    sa.Column("result", sa.JSON),
    sa.Column("token_id", sa.String(32), nullable=False),
    sa.Column("created_s", sa.Float, nullable=False, index=True),
    sa.Column("failure", sa.JSON),
    sa.Column("optimization", sa.String(48), index=True),
    sa.Column("key", sa.String(160)),
    sa.Column("latency", sa.Boolean),
    sa.Column("starting", sa.JSON),
)
"""``optimization`` and ``key``: the search that asked for it, and as what; ``latency``: whether it is measured too;
``starting``: it is watched (see `api.operations`)."""

segments = sa.Table(
    "segments",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("source", sa.JSON, nullable=False),
    sa.Column("windows", sa.BigInteger, nullable=False),
    sa.Column("recorded", sa.JSON),
    sa.Column("token_id", sa.String(32), nullable=False),
    sa.Column("created_s", sa.Float, nullable=False, index=True),
)
"""Recorded parts of streams; ``recorded`` says what was recorded once that is done."""

optimizations = sa.Table(
    "optimizations",
    metadata,
    sa.Column("id", sa.String(48), primary_key=True),
    sa.Column("query", sa.String(64), nullable=False, index=True),
    sa.Column("request", sa.JSON, nullable=False),
    sa.Column("settled", sa.JSON, nullable=False),
    sa.Column("work", sa.String(32), nullable=False, index=True),
    sa.Column("status", sa.String(16), nullable=False, index=True),
    sa.Column("rounds", sa.Integer, nullable=False),
    sa.Column("choice", sa.JSON),
    sa.Column("published", sa.JSON),
    sa.Column("published_s", sa.Float),
    sa.Column("error", sa.JSON),
    sa.Column("machine", sa.JSON, nullable=False),
    sa.Column("token_id", sa.String(32), nullable=False),
    sa.Column("created_s", sa.Float, nullable=False, index=True),
    sa.Column("finished_s", sa.Float),
)
"""Searches for plans: what was asked, what follows from it (``settled``), how far they are, and what they chose."""

idempotency = sa.Table(
    "idempotency",
    metadata,
    sa.Column("key", sa.String(320), primary_key=True),
    sa.Column("fingerprint", sa.String(64), nullable=False),
    sa.Column("status", sa.Integer),
    sa.Column("headers", sa.JSON),
    sa.Column("body", sa.LargeBinary),
    sa.Column("created_s", sa.Float, nullable=False),
)
"""Answers to requests that carried an ``Idempotency-Key``; ``status`` is null while the request is being served."""


def newest(table: sa.Table, limit: int, before_s: float | None, **columns: str | None) -> sa.Select[Any]:
    """Rows of a table, the newest first, of those that were made before a time; ``columns`` have these values."""
    statement = sa.select(table).order_by(table.c.created_s.desc()).limit(limit)
    if before_s is not None:
        statement = statement.where(table.c.created_s < before_s)
    for name, value in columns.items():
        if value is not None:
            statement = statement.where(table.c[name] == value)
    return statement


class Store:
    """One database. Thread-safe. Made at start, which also brings the schema up to date."""

    def __init__(self, url: str) -> None:
        self.engine = _engine(url)
        try:
            migrate(self.engine)
        except (sa.exc.SQLAlchemyError, CommandError) as error:
            self.engine.dispose()
            shown = sa.make_url(url).render_as_string(hide_password=True)
            reason = getattr(error, "orig", None) or error
            raise ResourceError(
                f"the database {shown} cannot be opened ({reason}): put back a copy of it, or choose another with "
                "--home or --database"
            ) from error

    @contextmanager
    def begin(self) -> Iterator[sa.Connection]:
        """A transaction; committed at the end, rolled back if something is raised."""
        with self.engine.begin() as connection:
            yield connection

    def rows(self, statement: sa.Select[Any]) -> list[dict[str, Any]]:
        """The rows of a query."""
        with self.engine.connect() as connection:
            return [dict(row) for row in connection.execute(statement).mappings()]

    def row(self, statement: sa.Select[Any]) -> dict[str, Any] | None:
        """The first row of a query."""
        rows = self.rows(statement.limit(1))
        return rows[0] if rows else None

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def migrate(engine: sa.Engine) -> None:
    """Bring the schema up to date."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _engine(url: str) -> sa.Engine:
    if not url.startswith("sqlite"):
        return sa.create_engine(url, pool_pre_ping=True)
    engine = sa.create_engine(url, connect_args={"timeout": 30})

    @event.listens_for(engine, "connect")
    def _configure(connection: sqlite3.Connection, _record: Any) -> None:
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=30000"):
            connection.execute(f"PRAGMA {pragma}")

    return engine
