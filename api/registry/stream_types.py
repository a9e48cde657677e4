"""Stream types that people posted or that bundles brought: kept in the store, known to the process's registry."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import sqlalchemy as sa

from api.errors import Problem
from api.store import Store, streams, types
from gsdm_grid.errors import GsdmError
from gsdm_grid.functions import StreamFunction, functions
from gsdm_grid.model import STREAM, StreamType, TypeRegistry, create_stream_type, stream_types
from gsdm_grid.spec import Kind

_log = logging.getLogger("gsdm.types")
_lock = threading.Lock()  # the registry is the process's

Uses = Callable[[Kind, str], str | None]
"""Name of a query that uses something, by the thing's kind and name."""


def load_types(store: Store) -> None:
    """Make the stored types known, at start. Safe to call again, as for types under those that bundles brought."""
    for row in store.rows(sa.select(types).order_by(types.c.number)):
        try:
            stream_types.add(_made(row["document"]))
        except GsdmError as error:
            _log.error("stream type cannot be made", extra={"type": row["name"], "reason": str(error)})


def post_type(store: Store, document: Mapping[str, Any]) -> tuple[StreamType, bool]:
    """Store and register a type; gives it, and whether it is new. The same may be posted again."""
    made = _made(document)
    with _lock:
        if made.name in stream_types.names():
            if stream_types.get(made.name) == made:
                return made, False
            raise Problem("name-taken", f"there is another stream type {made.name!r}: {stream_types.get(made.name)!r}")
        row = {"name": made.name, "document": dict(document), "created_s": time.time()}
        try:
            with store.begin() as connection:
                connection.execute(types.insert().values(**row))
        except sa.exc.IntegrityError:
            raise Problem("name-taken", f"there is another stream type {made.name!r}, which cannot be made") from None
        return stream_types.add(made), True


def delete_type(store: Store, name: str, uses: Uses) -> None:
    """Remove a posted type that nothing uses."""
    with _lock:
        if store.row(sa.select(types.c.name).where(types.c.name == name)) is None:
            if name in stream_types.names():
                raise Problem("in-use", f"stream type {name!r} is built in, or part of a bundle")
            raise Problem("not-found", f"there is no stream type {name!r}")
        if (user := _user(store, name, uses)) is not None:
            raise Problem("in-use", f"{user} uses stream type {name!r}", user=user)
        with store.begin() as connection:
            connection.execute(types.delete().where(types.c.name == name))
        forget_type(name)


def posted(store: Store) -> set[str]:
    """Names of the types that people posted."""
    return {row["name"] for row in store.rows(sa.select(types.c.name))}


def registered_user(store: Store, name: str, uses: Uses, kind: Literal["type", "interface"] = "type") -> str | None:
    """A query, source or sink that uses a type or an interface, in words."""
    if (query := uses(kind, name)) is not None:
        return f"query {query!r}"
    for row in store.rows(sa.select(streams)):
        if row["document"].get(kind) == name:
            return f"{row['kind']} {row['name']!r}"
    return None


def _user(store: Store, name: str, uses: Uses) -> str | None:
    """Something that uses a type, in words."""
    if (found := registered_user(store, name, uses)) is not None:
        return found
    for other in map(stream_types.get, stream_types.names()):
        if other.parent is not None and other.parent.name == name:
            return f"stream type {other.name!r}"
    for function in _functions():
        output = function.output if isinstance(function.output, StreamType) else STREAM
        if name in (function.input.name, output.name):
            return f"function {function.name!r}"
    return None


@contextmanager
def types_apart(names: set[str]) -> Iterator[set[str]]:
    """While code is imported: types that an earlier version of it brought may come otherwise; gives those it brings.

    If the import fails, everything is as it was.
    """
    with _lock:
        before = {name: stream_types.get(name) for name in stream_types.names()}
        for name in names:
            forget_type(name)
        brought: set[str] = set()
        try:
            yield brought
        except BaseException:
            for name in stream_types.names():
                forget_type(name)
            for kept in before.values():
                stream_types.add(kept)
            raise
        after = set(stream_types.names())
        brought |= after - (before.keys() - names)
        for name in names - after:  # earlier versions of the functions still use them
            stream_types.add(before[name])
            brought.add(name)


def forget_type(name: str) -> None:
    """Take a type out of the process's registry; what uses it goes on."""
    if name != STREAM.name:
        stream_types.remove(name)


def _made(document: Mapping[str, Any]) -> StreamType:
    """The type that a document describes, registered nowhere."""
    parent = stream_types.get(document.get("under") or STREAM.name)
    return create_stream_type(document["name"], document["attributes"], parent, TypeRegistry())


def _functions() -> Iterator[StreamFunction]:
    for name in functions.names():
        try:
            yield functions.get(name)
        except GsdmError:  # an installed package that does not work
            continue
