"""Segments: recorded parts of streams, kept by the coordinator, over which plans are tried again and again.

A segment is recorded through the stream interfaces that every query uses: a tap opens the source, lets so many windows
pass into a recorder, and closes it. Any query may read a segment instead of a source (``{"segment": id}``).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from api.errors import Problem
from api.operations import Operations
from api.store import Store, newest
from api.store import segments as table
from gsdm_grid import Grid
from gsdm_grid.errors import FlowError, QueryError
from gsdm_grid.flow import central
from gsdm_grid.ids import IdFactory
from gsdm_grid.spec import Name, RegisteredStream, checked, parse_stream

RECORD_S = 600.0
"""How long a recording may take."""

Resolved = Callable[[Any, str], Mapping[str, Any]]
"""The document of a source that is given by its registered name or as a document, checked for a role."""


class Segments:
    """Records segments and finds them. Thread-safe."""

    def __init__(
        self, store: Store, operations: Operations, folder: Path, source: Resolved, grid: Callable[[], Grid]
    ) -> None:
        self._store = store
        self._operations = operations
        self._folder = folder
        self._source = source
        self._grid = grid
        self._ids = IdFactory()

    def submit(
        self, source: Any, windows: int, name: str | None, token_id: str, role: str
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Promise to record ``windows`` windows of a source; gives the segment and its operation."""
        row = self.record_row(source, windows, name, token_id, role)
        with self._store.begin() as connection:
            operation = self._operations.record(connection, row["id"], "record")
        self._operations.enqueue(operation)
        return self.view(row["id"]), operation

    def record_row(self, source: Any, windows: int, name: str | None, token_id: str, role: str) -> dict[str, Any]:
        """Store a segment that is not recorded yet."""
        document = self._source(source, role)
        parse_stream(document, "tap", "source", source=True)
        row = {
            "id": checked(Name, name, "name") if name is not None else self._ids.new("segment"),
            "source": dict(document),
            "windows": windows,
            "recorded": None,
            "token_id": token_id,
            "created_s": time.time(),
        }
        try:
            with self._store.begin() as connection:
                connection.execute(table.insert().values(**row))
        except sa.exc.IntegrityError:
            raise Problem("name-taken", f"there is a segment {row['id']!r} already", name=row["id"]) from None
        return row

    def carry_out(self, segment_id: str) -> None:
        """Record a segment."""
        row = self._row(segment_id)
        if row["recorded"] is not None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._path(segment_id)
        document = self._source(row["source"], "admin")  # who may submit it was checked when it was submitted
        source = parse_stream(document, "tap", "source", source=True)
        sink = RegisteredStream("recorded", "recorder", None, {"path": str(path)})
        query = self._grid().cq(central("identity"), [source], [sink], f"record-{segment_id}", placement="processes")
        try:
            query.run(count=row["windows"]).wait(RECORD_S)
            statistics = query.refresh()
        finally:
            query.drop()
        (read,) = [site["streams"]["tap"] for site in statistics.values() if "tap" in site["streams"]]
        if read["windows"] < row["windows"]:
            path.unlink(missing_ok=True)
            raise QueryError(
                f"segment {segment_id!r}: the stream ended after {read['windows']} of {row['windows']} windows: "
                "ask for fewer, or for another source"
            )
        recorded = {"windows": read["windows"], "bytes": read["bytes"], "digest": _digest(path)}
        with self._store.begin() as connection:
            connection.execute(table.update().where(table.c.id == segment_id).values(recorded=recorded))

    def view(self, segment_id: str) -> dict[str, Any]:
        """A segment as people see it."""
        return self._shown(self._row(segment_id))

    def page(self, limit: int, before_s: float | None) -> list[dict[str, Any]]:
        """Segments, the newest first."""
        return [self._shown(row) for row in self._store.rows(newest(table, limit, before_s))]

    def remove(self, segment_id: str) -> None:
        """Forget a segment and its recording."""
        self._row(segment_id)
        running = self._grid().queries.get(f"record-{segment_id}")
        if running is not None:
            running.drop()
        with self._store.begin() as connection:
            connection.execute(table.delete().where(table.c.id == segment_id))
        self._path(segment_id).unlink(missing_ok=True)

    def document(self, segment_id: str) -> dict[str, Any]:
        """A recorded segment as the document of an input stream."""
        source = self.recorded(segment_id)["source"]
        arrival = {"order": "arrival"} if source.get("order") == "arrival" else {}  # else it was sorted when recorded
        options = {"path": str(self._path(segment_id))}
        return {"type": source["type"], "interface": "player", "options": options, **arrival}

    def exists(self, segment_id: str) -> bool:
        """Whether there is a segment of this id, recorded or not."""
        return self._store.row(sa.select(table.c.id).where(table.c.id == segment_id)) is not None

    def recorded(self, segment_id: str) -> dict[str, Any]:
        """The row of a segment that has been recorded; says if there is none, or if it is not ready."""
        row = self._store.row(sa.select(table).where(table.c.id == segment_id))
        if row is None:
            raise FlowError("segment", f"there is no segment {segment_id!r:.80}: record one (POST /v1/segments)")
        if row["recorded"] is None:
            status = self._shown(row)["status"]
            raise FlowError("segment", f"{segment_id!r} has not been recorded: its recording is {status}")
        return row

    def _path(self, segment_id: str) -> Path:
        return self._folder / f"{segment_id}.npz"

    def _row(self, segment_id: str) -> dict[str, Any]:
        row = self._store.row(sa.select(table).where(table.c.id == segment_id))
        if row is None:
            raise Problem("not-found", f"there is no segment {segment_id!r:.80}")
        return row

    def _shown(self, row: Mapping[str, Any]) -> dict[str, Any]:
        operations = self._operations.page(1, None, row["id"])
        recorded = row["recorded"] or {}
        return {
            "id": row["id"],
            "source": row["source"],
            "windows": row["windows"],
            "bytes": recorded.get("bytes"),
            "digest": recorded.get("digest"),
            "status": "succeeded" if recorded else operations[0]["status"] if operations else "pending",
            "error": operations[0]["error"] if operations and not recorded else None,
            "created": row["created_s"],
        }


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
