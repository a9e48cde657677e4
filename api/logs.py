"""Structured logs: one JSON object a line, with the id of the request that it belongs to."""

from __future__ import annotations

import json
import logging
import re
import secrets
import sys
import time
from contextvars import ContextVar
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from typing_extensions import override

FILE_BYTES, OLD_FILES = 10 << 20, 3
request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
_STANDARD = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


_SECRET = re.compile(r"(gsdm_[0-9a-f]{12}_)[A-Za-z0-9_-]{20,}")
_QUERY = re.compile(r"\?[^\s\"']*")


def new_request_id() -> str:
    """An id for a request that brought none."""
    return secrets.token_hex(8)


class JsonLines(logging.Formatter):
    """Records as JSON lines; ``extra`` fields become members."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, Any] = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _without_queries(record),
        }
        if (found := request_id.get()) is not None:
            told["request_id"] = found
        told |= {key: value for key, value in vars(record).items() if key not in _STANDARD and key[0] != "_"}
        if record.exc_info:
            told["trace"] = self.formatException(record.exc_info)
        return _SECRET.sub(r"\1…", json.dumps(told, default=str))


def _without_queries(record: logging.LogRecord) -> str:
    """The message; the web server's without query strings, where people put secrets."""
    text = record.getMessage()
    return _QUERY.sub("", text) if record.name.startswith("uvicorn") else text


class PlainLines(logging.Formatter):
    """Records as lines for people, who find ``more`` in another place."""

    def __init__(self, more: str) -> None:
        super().__init__()
        self._more = more

    @override
    def format(self, record: logging.LogRecord) -> str:
        text = f"{record.levelname.lower()}: {_without_queries(record)} (more in {self._more})"
        return _SECRET.sub(r"\1…", text)


def configure(level: str = "INFO", file: Path | None = None) -> None:
    """Send the logs of our packages and of the web server to standard error; or to a file.

    If they go to a file, people see warnings and errors on standard error, in plain words. The file is kept small.
    """
    shown = logging.StreamHandler(sys.stderr)
    handlers: list[logging.Handler] = [shown]
    if file is None:
        shown.setFormatter(JsonLines())
    else:
        shown.setFormatter(PlainLines(str(file)))
        shown.setLevel(logging.WARNING)
        written = RotatingFileHandler(file, maxBytes=FILE_BYTES, backupCount=OLD_FILES, encoding="utf-8", delay=True)
        written.setFormatter(JsonLines())
        handlers.append(written)
    for name in ("gsdm", "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers = handlers
        logger.propagate = False
        logger.setLevel(level.upper())
