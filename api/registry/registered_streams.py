"""Sources and sinks that people registered, to be named in query specifications."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sa

from api.errors import Problem
from api.http import Role
from api.registry.allowed_code import check_stream
from api.registry.stream_types import Uses
from api.store import Store, streams
from gsdm_grid.spec import parse_stream

SourceOrSink = Literal["source", "sink"]


def post_stream(
    store: Store,
    kind: SourceOrSink,
    document: Mapping[str, Any],
    role: Role,
    folders: Sequence[Path] = (),
    allowed: Sequence[str] = (),
) -> tuple[dict[str, Any], bool]:
    """Check and store a source or sink; gives it, and whether it is new. The same may be posted again."""
    name = document["name"]
    check_stream(document, kind, role, folders, allowed)
    parse_stream(document, name, kind, source=kind == "source")
    try:
        with store.begin() as connection:
            values = {"kind": kind, "name": name, "document": dict(document), "created_s": time.time()}
            connection.execute(streams.insert().values(**values))
    except sa.exc.IntegrityError:
        found = get_stream(store, kind, name)
        if found["document"] != dict(document):
            raise Problem("name-taken", f"there is another {kind} {name!r}: remove it first") from None
        return found, False
    return get_stream(store, kind, name), True


def get_stream(store: Store, kind: SourceOrSink, name: str) -> dict[str, Any]:
    """One source or sink."""
    found = store.row(sa.select(streams).where(streams.c.kind == kind, streams.c.name == name))
    if found is None:
        raise Problem("not-found", f"there is no {kind} {name!r}")
    return found


def list_streams(store: Store, kind: SourceOrSink) -> list[dict[str, Any]]:
    """All sources or sinks, by name."""
    return store.rows(sa.select(streams).where(streams.c.kind == kind).order_by(streams.c.name))


def delete_stream(store: Store, kind: SourceOrSink, name: str, uses: Uses) -> None:
    """Remove a source or sink that no query uses."""
    get_stream(store, kind, name)
    if (query := uses(kind, name)) is not None:
        raise Problem("in-use", f"query {query!r} uses {kind} {name!r}: remove it first", query=query)
    with store.begin() as connection:
        connection.execute(streams.delete().where(streams.c.kind == kind, streams.c.name == name))
