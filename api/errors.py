"""Errors as RFC 9457 problem documents. The only place that knows which error is which HTTP status.

No stack trace of ours goes to clients: what we did not expect is logged with the request's id, and the client gets
that id. Of a user's function that raised, the lines of that function do go to clients, as ``trace``.
"""

from __future__ import annotations

import errno
import logging
import sqlite3
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Match

from api.logs import request_id
from gsdm_grid import errors

MEDIA_TYPE = "application/problem+json"
_log = logging.getLogger("gsdm.api")

STATUS: dict[str, tuple[int, str]] = {
    "unauthorized": (401, "A valid token is needed"),
    "forbidden": (403, "The token's role does not allow this"),
    "not-found": (404, "There is no such thing"),
    "method-not-allowed": (405, "This address does not take this method"),
    "not-acceptable": (406, "None of the accepted forms can be served"),
    "invalid-transition": (409, "The query's state does not allow this now"),
    "name-taken": (409, "The name is taken"),
    "in-use": (409, "Something still uses it"),
    "idempotency-conflict": (409, "The idempotency key was used for another request"),
    "precondition-failed": (412, "It has changed since"),
    "too-slow": (408, "The request took too long to arrive"),
    "malformed": (400, "This is not HTTP"),
    "too-large": (413, "The request is too large"),
    "unsupported-media-type": (415, "The body's form is not understood"),
    "unknown-name": (422, "A name that nobody registered"),
    "type-mismatch": (422, "Types do not fit together"),
    "invalid-specification": (422, "The specification is wrong"),
    "invalid-request": (422, "The request is wrong"),
    "function-failed": (422, "User code raised, or returned what it did not promise"),
    "unmet-requirement": (422, "A package that the code requires cannot be had"),
    "too-many": (429, "A limit is reached"),
    "internal": (500, "Our bug"),
    "no-resources": (503, "The grid cannot serve this now"),
    "node-lost": (503, "A working node was lost"),
    "crashed-while-starting": (503, "The coordinator died while this was being started"),
    "crashed-while-running": (503, "The coordinator died while this was running"),
    "not-ready": (503, "The coordinator is starting or stopping"),
    "storage-full": (507, "The coordinator's disk is full"),
}
"""HTTP status and title of each kind of problem."""


class Problem(Exception):
    """A problem that a route has found by itself; ``extras`` become members of the document."""

    def __init__(self, kind: str, detail: str, **extras: Any) -> None:
        super().__init__(kind, detail, extras)
        self.kind = kind
        self.detail = detail
        self.extras = extras

    def __str__(self) -> str:
        return self.detail


def problem_of(error: BaseException) -> Problem:
    """The problem behind an error."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, errors.InvalidTransition):
        query, action, state, allowed = error.args
        return Problem("invalid-transition", str(error), query=query, action=action, state=state, allowed=list(allowed))
    if isinstance(error, errors.UnknownName):
        thing, name, known, place = error.args
        extras = {"thing": thing, "name": name, "known": list(known)[:50], "did_you_mean": list(error.similar)}
        return Problem("unknown-name", str(error), **extras, **({"path": place} if place else {}))
    if isinstance(error, errors.SchemaError):
        stream_type, attribute, expected, got = error.args
        extras = {"stream_type": stream_type, "attribute": attribute, "expected": expected, "got": got}
        return Problem("type-mismatch", str(error), **extras)
    if isinstance(error, errors.FlowError):
        kind = "type-mismatch" if isinstance(error.__cause__, errors.SchemaError) else "invalid-specification"
        return Problem(kind, str(error), path=error.args[0])
    if isinstance(error, errors.FunctionError):
        vertex, function, cause, trace = error.args
        extras = {"vertex": vertex, "function": function, "cause": cause, **({"trace": trace} if trace else {})}
        return Problem("function-failed", str(error), **extras)
    if isinstance(error, errors.NodeLost):
        return Problem("node-lost", str(error), node=error.args[0])
    if isinstance(error, errors.QueryError | errors.PlanError):
        return Problem("invalid-specification", str(error))
    if isinstance(error, errors.ResourceError | errors.ChannelError):
        return Problem("no-resources", str(error))
    if is_storage_full(error):
        return Problem(
            "storage-full",
            "the coordinator's disk, or its database, is full: nothing was stored; try again when there is room",
        )
    return Problem("internal", "something went wrong here; the log has the details under this request id")


_SQLITE_FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE)
"""SQLite tells only ENOSPC as full; a quota, or a limit of file sizes, is an input/output error to it."""


def is_storage_full(error: BaseException) -> bool:
    """Whether an error, or what caused it, says that there is no room left to write to."""
    seen: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in seen:
        seen.append(at)
        if isinstance(at, OSError) and at.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return True
        if isinstance(at, sqlite3.Error) and getattr(at, "sqlite_errorcode", None) in _SQLITE_FULL:
            return True
        if isinstance(at, sa.exc.DBAPIError):
            if getattr(at.orig, "sqlstate", None) == "53100":  # PostgreSQL's disk_full
                return True
            at = at.orig
        else:
            at = at.__cause__ or at.__context__
    return False


def document(problem: Problem, instance: str | None = None) -> dict[str, Any]:
    """The problem as JSON."""
    status, title = STATUS[problem.kind]
    made: dict[str, Any] = {
        "type": f"urn:gsdm:problem:{problem.kind}",
        "title": title,
        "status": status,
        "detail": problem.detail,
        "request_id": request_id.get(),
    }
    if instance is not None:
        made["instance"] = instance
    return {**problem.extras, **made}


def response(problem: Problem, instance: str | None = None, headers: Mapping[str, str] | None = None) -> Response:
    """The problem as an HTTP response."""
    told = dict(headers or {})
    if problem.kind == "unauthorized":
        told["WWW-Authenticate"] = 'Bearer realm="gsdm"'
    if problem.kind in ("too-many", "not-ready"):
        told.setdefault("Retry-After", "1")
    return JSONResponse(document(problem, instance), STATUS[problem.kind][0], told, media_type=MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Answer all errors of an application with problem documents."""
    app.add_exception_handler(Problem, _on_error)
    app.add_exception_handler(errors.GsdmError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_invalid_request)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(Exception, _on_error)


async def _on_error(request: Request, error: Exception) -> Response:
    problem = problem_of(error)
    if problem.kind in ("internal", "storage-full"):
        _log.error("unexpected error", exc_info=error, extra={"path": request.url.path})
    return response(problem, request.url.path)


async def _on_invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = [{"path": ".".join(str(step) for step in one["loc"]), "reason": one["msg"]} for one in error.errors()[:20]]
    detail = "; ".join(f"{one['path']}: {one['reason']}" for one in found[:3])
    return response(Problem("invalid-request", detail, errors=found), request.url.path)


_HTTP_KINDS = {
    401: "unauthorized",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    406: "not-acceptable",
    413: "too-large",
    415: "unsupported-media-type",
    429: "too-many",
}


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = _HTTP_KINDS.get(error.status_code, "invalid-request" if error.status_code < 500 else "internal")
    headers = dict(error.headers or {})
    if kind == "method-not-allowed":
        headers["Allow"] = ", ".join(_methods(request))
    return response(Problem(kind, str(error.detail)), request.url.path, headers)


def _methods(request: Request) -> list[str]:
    """Methods that any route takes at the request's address."""
    found = (route for route in request.app.routes if route.matches(request.scope)[0] != Match.NONE)
    return sorted({method for route in found for method in getattr(route, "methods", None) or ()})


def responses(*kinds: str) -> dict[int | str, dict[str, Any]]:
    """For OpenAPI: the problems that a route may answer with."""
    by_status: dict[int | str, list[str]] = {}
    for kind in kinds:
        by_status.setdefault(STATUS[kind][0], []).append(kind)
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        status: {"description": "; ".join(STATUS[kind][1] for kind in of), "content": {MEDIA_TYPE: {"schema": schema}}}
        for status, of in by_status.items()
    }
