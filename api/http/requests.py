"""What every request goes through: an id, a limit on its body, a line in the log, figures, and safe headers.

Plain ASGI, outermost: so even what fails unexpectedly is answered with a problem document, an id and these headers.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.errors import Problem, problem_of, response
from api.logs import new_request_id, request_id
from api.metrics import metrics_of
from api.services import Services
from api.settings import ServiceLimits

_access = logging.getLogger("gsdm.access")
_log = logging.getLogger("gsdm.api")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)
_QUIET = ("/healthz", "/readyz", "/metrics")
_BUNDLES = "/v1/bundles/"
_SAFE = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class TooLarge(HTTPException):
    """Raised out of reading a body that is longer than allowed; goes through FastAPI as it is."""

    def __init__(self, limit: int) -> None:
        super().__init__(413, f"the body is larger than {limit} bytes")


class RequestMiddleware:
    """See the module. Add it last, so that it is outermost."""

    def __init__(self, app: ASGIApp, services: Services) -> None:
        self._app = app
        self._limits = services.settings.limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        scope.setdefault("state", {})
        token = request_id.set(given if _REQUEST_ID.fullmatch(given) else new_request_id())
        try:
            await _Exchange(self._app, scope, headers, receive, send, _body_limit(scope, self._limits)).run()
        finally:
            request_id.reset(token)


class _Exchange:
    """One request and its answer."""

    def __init__(
        self, app: ASGIApp, scope: Scope, headers: Headers, receive: Receive, send: Send, body_limit: int
    ) -> None:
        self._app, self._scope, self._headers = app, scope, headers
        self._receive, self._send = receive, send
        self._is_http = scope["type"] == "http"
        self._limit = body_limit
        self._received = self._sent = 0
        self._status: int | None = None

    async def run(self) -> None:
        started_s = time.perf_counter()
        metrics = metrics_of(self._scope["app"]) if self._is_http else None
        if metrics is not None:
            metrics.begun()
        try:
            await self._serve()
        finally:
            spent_s = time.perf_counter() - started_s
            if metrics is not None:
                route = getattr(self._scope.get("route"), "path", None)
                metrics.done(self._scope["method"], route, self._status or 500, spent_s)
            self._tell(spent_s)

    async def _serve(self) -> None:
        try:
            length = self._headers.get("content-length", "")
            if self._is_http and length.isascii() and length.isdigit() and int(length[:20]) > self._limit:
                raise TooLarge(self._limit)
            await self._app(self._scope, self._counted, self._marked)
        except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # SystemExit too: what somebody's code raises does not end the service
            if self._status is not None:
                _log.error("failed while answering", exc_info=error, extra={"path": self._path})
                raise RuntimeError(f"failed while answering: {type(error).__name__}") from error
            await self._answer(error)

    async def _answer(self, error: BaseException) -> None:
        problem = Problem("too-large", error.detail) if isinstance(error, TooLarge) else problem_of(error)
        if problem.kind in ("internal", "storage-full"):
            _log.error("unexpected error", exc_info=error, extra={"path": self._path})
        await response(problem, self._path)(self._scope, self._receive, self._marked)

    async def _counted(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._received += len(message.get("body", b""))
            if self._received > self._limit:
                raise TooLarge(self._limit)
        return message

    async def _marked(self, message: Message) -> None:
        kind = message["type"]
        if kind in ("http.response.start", "websocket.http.response.start", "websocket.accept"):
            self._status = message.get("status", 101)
            headers = MutableHeaders(scope=message)
            headers["X-Request-Id"] = request_id.get() or ""
            for name, value in _SAFE.items():
                if kind != "websocket.accept":
                    headers.setdefault(name, value)
        elif kind == "websocket.close" and self._status is None:
            self._status = 403
        elif kind.endswith("response.body"):
            self._sent += len(message.get("body", b""))
        await self._send(message)

    @property
    def _path(self) -> str:
        return str(self._scope["path"])[:512]

    def _tell(self, spent_s: float) -> None:
        """The line in the log. Never holds headers or the query string, where people put secrets."""
        client, token = self._scope.get("client"), self._scope["state"].get("token")
        told: dict[str, Any] = {
            "method": self._scope.get("method", "WEBSOCKET"),
            "path": self._path,
            "status": self._status,
            "duration_s": round(spent_s, 6),
            "received_bytes": self._received,
            "sent_bytes": self._sent,
            "client": client[0] if client else None,
            "token": token.id if token is not None else None,
        }
        traceparent = self._headers.get("traceparent", "")
        if _TRACEPARENT.fullmatch(traceparent):
            told["traceparent"] = traceparent
        _access.log(logging.DEBUG if self._path in _QUIET else logging.INFO, "request", extra=told)


def _body_limit(scope: Scope, limits: ServiceLimits) -> int:
    uploads = scope["type"] == "http" and scope["method"] == "PUT" and scope["path"].startswith(_BUNDLES)
    return limits.bundle_bytes if uploads else limits.body_bytes
