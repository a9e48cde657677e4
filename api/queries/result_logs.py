"""Logs of result streams that the coordinator keeps: opened once, shared by the query and all readers."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from api.errors import Problem
from api.queries.query_rows import QueryRows
from api.queries.specifications import Specifications
from gsdm_grid.storage import ResultLog, end_of


class ResultLogs:
    """The open logs of all queries, each in a folder below ``folder``. Thread-safe."""

    def __init__(self, folder: Path, keep_bytes: int, rows: QueryRows, specifications: Specifications) -> None:
        self._folder = folder
        self._keep_bytes = keep_bytes
        self._rows = rows
        self._specifications = specifications
        self._logs: dict[tuple[str, str], ResultLog] = {}

    def kept(self, name: str, stream: str | None) -> ResultLog:
        """What is kept of a result stream, else of a query's first; it is there from when the query is submitted."""
        streams = self._specifications.of(self._rows.row(name)).kept
        if not streams:
            raise Problem("not-found", f"query {name!r} keeps no results here: its result streams go elsewhere")
        kept = stream or streams[0]
        if kept not in streams:
            known = ", ".join(streams)
            raise Problem("not-found", f"query {name!r} keeps no result stream {kept!r}; kept: {known}")
        with self._rows.lock:
            if (name, kept) in self._logs:
                return self._logs[name, kept]
        return self.open(name, kept, self._specifications.plan_of(self._rows.row(name)).stream(kept).type)

    def open(self, name: str, stream: str, stream_type: Any) -> ResultLog:
        """The log of a result stream; a new one if there is none."""
        with self._rows.lock:
            if (name, stream) not in self._logs:
                self._rows.row(name)  # it may have been removed while it was being installed
                path = self._folder_of(name) / stream
                self._logs[name, stream] = ResultLog(path, stream_type, keep_bytes=self._keep_bytes)
            return self._logs[name, stream]

    def deliveries(self, name: str) -> dict[str, int]:
        """How many windows each result log of a query has had."""
        with self._rows.lock:
            logs = {stream: log for (query, stream), log in self._logs.items() if query == name}
        folders = {path.name: path for path in self._folder_of(name).glob("*") if path.is_dir()}
        return {stream: logs[stream].next if stream in logs else end_of(path) for stream, path in folders.items()}

    def remove(self, name: str) -> None:
        """Remove all that was kept of a query's results."""
        with self._rows.lock:
            for key in [key for key in self._logs if key[0] == name]:
                self._logs.pop(key).remove()
            shutil.rmtree(self._folder_of(name), ignore_errors=True)

    def close(self) -> None:
        """Close all logs; what they hold stays."""
        with self._rows.lock:
            for log in self._logs.values():
                log.close()

    def _folder_of(self, name: str) -> Path:
        return self._folder / name
