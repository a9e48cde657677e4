"""Structured logs: one JSON object a line, with the id of the request that it belongs to."""

from __future__ import annotations

import json
import logging
import re
import secrets
import sys
import time
from contextvars import ContextVar
from typing import Any, TextIO

from typing_extensions import override

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


def configure(level: str = "INFO", stream: TextIO | None = None) -> None:
    """Send the logs of our packages and of the web server to a stream (standard error unless told otherwise)."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("gsdm", "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(level.upper())
