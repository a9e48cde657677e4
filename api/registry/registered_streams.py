"""Sources and sinks that people registered, to be named in query specifications."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import sqlalchemy as sa

from api.errors import Problem
from api.http import Role
from api.registry.allowed_code import check_stream
from api.registry.stream_types import Uses
from api.store import Store, streams
from gsdm_grid.errors import FlowError
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
        row = get_stream(store, kind, name)
        if row["document"] != dict(document):
            raise Problem("name-taken", f"there is another {kind} {name!r}: remove it first") from None
        return row, False
    return get_stream(store, kind, name), True


def get_stream(store: Store, kind: SourceOrSink, name: str) -> dict[str, Any]:
    """One source or sink."""
    row = store.row(sa.select(streams).where(streams.c.kind == kind, streams.c.name == name))
    if row is None:
        raise Problem("not-found", f"there is no {kind} {name!r}")
    return row


def list_streams(store: Store, kind: SourceOrSink) -> list[dict[str, Any]]:
    """All sources or sinks, by name."""
    return store.rows(sa.select(streams).where(streams.c.kind == kind).order_by(streams.c.name))


class StreamDocuments:
    """What specifications mean by the names of registered sources and sinks. Thread-safe.

    A document is checked whenever it is used: it may have been registered when other code and files were allowed.
    """

    def __init__(self, store: Store, folders: Sequence[Path], allowed: Sequence[str]) -> None:
        self._store = store
        self._folders = folders
        self._allowed = allowed

    def registered(self, kind: str, name: str) -> Mapping[str, Any]:
        """The document of a registered source or sink."""
        row = self._store.row(sa.select(streams.c.document).where(streams.c.kind == kind, streams.c.name == name))
        if row is None:
            raise FlowError(kind, f"there is no registered {kind} {name!r:.80}")
        document: Mapping[str, Any] = row["document"]
        check_stream(document, f"{kind} {name!r}", "admin", self._folders, self._allowed)
        return document

    def source(self, described: Any, role: str) -> Mapping[str, Any]:
        """The document of a source, from its registered name or as it is; checked for a role."""
        if isinstance(described, str):
            return self.registered("source", described)
        if not isinstance(described, Mapping):
            raise FlowError("source", f"expected the name of a source or a mapping, got {type(described).__name__}")
        check_stream(described, "source", cast(Role, role), self._folders, self._allowed)
        return {name: value for name, value in described.items() if name in ("type", "interface", "options", "order")}


def delete_stream(store: Store, kind: SourceOrSink, name: str, uses: Uses) -> None:
    """Remove a source or sink that no query uses."""
    get_stream(store, kind, name)
    if (query := uses(kind, name)) is not None:
        raise Problem("in-use", f"query {query!r} uses {kind} {name!r}: remove it first", query=query)
    with store.begin() as connection:
        connection.execute(streams.delete().where(streams.c.kind == kind, streams.c.name == name))
