"""``Idempotency-Key``: a POST that is sent again with the same key is answered as the first time, and not done again.

Keys belong to a token, a method and a path, and are kept for a day. What did not get a lasting answer (5xx, limits) may
be tried again. A request that a killed coordinator was serving is served anew when it is sent again.

New tokens are never kept, since their answer holds a secret; a repeated request finds the name taken.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

import anyio
import sqlalchemy as sa
from anyio import to_thread
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.errors import Problem, response
from api.http.auth import authenticated, bearer_of, digest
from api.services import Services
from api.store import Store, idempotency
from gsdm_grid.model import Clock, SystemClock

KEPT_S = 24 * 3600.0
SWEEP_S = 600.0
WAIT_S = 2.0
"""How long a repeated request waits for the first one's answer."""
MAX_ANSWER = 1 << 20
_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_NOT_KEPT = (401, 403, 408, 413, 429)
_SECRET_ANSWERS = ("/v1/tokens",)
_STREAMS = ("text/event-stream", "application/vnd.apache.arrow.stream", "application/octet-stream")


class IdempotencyMiddleware:
    """See the module. One per application; its requests share one event loop."""

    def __init__(self, app: ASGIApp, services: Services, clock: Clock | None = None) -> None:
        self._app = app
        self._services = services
        self._clock = clock or SystemClock()
        self._started_s = self._now_s()
        self._swept_s = 0.0
        self._served: dict[str, anyio.Event] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        given = Headers(scope=scope).get("idempotency-key") if scope["type"] == "http" else None
        if given is None or scope["method"] != "POST" or scope["path"] in _SECRET_ANSWERS:
            await self._app(scope, receive, send)
            return
        secret = bearer_of(HTTPConnection(scope))
        try:
            await authenticated(self._services.tokens, secret or "")
        except Problem:  # the route will say so; strangers leave nothing in the store
            await self._app(scope, receive, send)
            return
        if not _KEY.fullmatch(given):
            problem = Problem("invalid-request", "Idempotency-Key must be 1 to 255 visible ASCII characters")
            await response(problem, scope["path"])(scope, receive, send)
            return
        body = await _body(receive)
        if body is None:
            return
        owner = hashlib.sha256(f"{digest(secret or '')}\n{scope['method']}\n{scope['path']}".encode()).hexdigest()
        fingerprint = hashlib.sha256(scope.get("query_string", b"") + b"\0" + body).hexdigest()
        request = _Replayed(body, receive)
        await self._answer(_Entry(self._services.store, f"{owner}:{given}", fingerprint), scope, request, send)

    async def _answer(self, entry: _Entry, scope: Scope, receive: Receive, send: Send) -> None:
        found = await self._claim(entry)
        if found is None:
            await self._serve(entry, scope, receive, send)
        elif found["fingerprint"] != entry.fingerprint:
            problem = Problem("idempotency-conflict", "this key was sent with another request: use a new one")
            await response(problem, scope["path"])(scope, receive, send)
        elif found["status"] is not None:
            await _send_again(found, send)
        else:
            problem = Problem("idempotency-conflict", "the first request with this key is still being served")
            await response(problem, scope["path"], {"Retry-After": "1"})(scope, receive, send)

    async def _claim(self, entry: _Entry) -> dict[str, Any] | None:
        """None once the key is ours; else what is stored of it, after waiting a while for the first one's answer."""
        deadline_s = self._clock.monotonic_s() + WAIT_S
        while True:
            found = await to_thread.run_sync(entry.claim, self._now_s(), self._started_s)
            if found is None or found["status"] is not None or found["fingerprint"] != entry.fingerprint:
                return found
            rest_s = deadline_s - self._clock.monotonic_s()
            if rest_s <= 0:
                return found
            with anyio.move_on_after(min(rest_s, 0.5)):
                first = self._served.get(entry.key)
                await (first.wait() if first is not None else anyio.sleep(0.05))

    async def _serve(self, entry: _Entry, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request; its answer is stored before it is sent."""
        served = self._served[entry.key] = anyio.Event()
        answer = _Answer(send, entry)
        try:
            await self._app(scope, receive, answer.take)
        finally:
            with anyio.CancelScope(shield=True):
                if not answer.stored:
                    await to_thread.run_sync(entry.release)
                if self._now_s() - self._swept_s > SWEEP_S:
                    self._swept_s = self._now_s()
                    await to_thread.run_sync(entry.sweep, self._now_s())
            del self._served[entry.key]
            served.set()

    def _now_s(self) -> float:
        return self._clock.now_ns() / 1e9


class _Entry:
    """A key's row in the store. Its methods block."""

    def __init__(self, store: Store, key: str, fingerprint: str) -> None:
        self._store = store
        self.key = key
        self.fingerprint = fingerprint
        self._row = idempotency.c.key == key

    def claim(self, now_s: float, started_s: float) -> dict[str, Any] | None:
        """Take the key: None if it is ours now, else what is stored of it.

        Too old ones are taken over, and so are those that were being served when the process before this one ended.
        """
        mine = {"key": self.key, "fingerprint": self.fingerprint, "created_s": now_s}
        nothing = {"status": None, "headers": None, "body": None}
        left_over = sa.and_(idempotency.c.status.is_(None), idempotency.c.created_s < started_s)
        try:
            with self._store.begin() as connection:
                taken = connection.execute(
                    idempotency.update()
                    .where(self._row, sa.or_(left_over, idempotency.c.created_s < now_s - KEPT_S))
                    .values(**mine, **nothing)
                )
                if not taken.rowcount:
                    connection.execute(idempotency.insert().values(**mine))
            return None
        except sa.exc.IntegrityError:
            found = self._store.row(sa.select(idempotency).where(self._row))
            return found if found is not None else self.claim(now_s, started_s)

    def keep(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        """Store the answer."""
        told = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in headers]
        with self._store.begin() as connection:
            connection.execute(idempotency.update().where(self._row).values(status=status, headers=told, body=body))

    def release(self) -> None:
        """Give the key back: the request may be sent again."""
        with self._store.begin() as connection:
            connection.execute(idempotency.delete().where(self._row, idempotency.c.status.is_(None)))

    def sweep(self, now_s: float) -> None:
        """Remove what is too old, of all keys."""
        with self._store.begin() as connection:
            connection.execute(idempotency.delete().where(idempotency.c.created_s < now_s - KEPT_S))


class _Answer:
    """Holds an answer back until it is whole and stored; passes on what is too large, or is a stream."""

    def __init__(self, send: Send, entry: _Entry) -> None:
        self.stored = False
        self._send = send
        self._entry = entry
        self._start: Message | None = None
        self._body = bytearray()
        self._passes = False

    async def take(self, message: Message) -> None:
        if self._passes:
            await self._send(message)
        elif message["type"] == "http.response.start":
            self._start = message
            media_type = Headers(raw=message.get("headers", [])).get("content-type", "")
            if media_type.startswith(_STREAMS) or message["status"] >= 500 or message["status"] in _NOT_KEPT:
                await self._pass_on()
        elif message["type"] == "http.response.body":
            self._body += message.get("body", b"")
            ended = not message.get("more_body", False)
            if ended and len(self._body) <= MAX_ANSWER:
                await self._keep()
            if ended or len(self._body) > MAX_ANSWER:
                await self._pass_on(ended)
        else:
            await self._send(message)

    async def _keep(self) -> None:
        start = self._start or {}
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(
                self._entry.keep, start["status"], list(start.get("headers", [])), bytes(self._body)
            )
        self.stored = True

    async def _pass_on(self, ended: bool | None = None) -> None:
        self._passes = True
        if self._start is not None:
            await self._send(self._start)
        if ended is not None:
            await self._send({"type": "http.response.body", "body": bytes(self._body), "more_body": not ended})


async def _send_again(found: dict[str, Any], send: Send) -> None:
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in found["headers"]]
    start = {"type": "http.response.start", "status": found["status"], "headers": raw}
    MutableHeaders(scope=start)["Idempotent-Replay"] = "true"
    await send(start)
    await send({"type": "http.response.body", "body": found["body"]})


async def _body(receive: Receive) -> bytes | None:
    """The whole body, which `api.http.requests` keeps from being too large; None if the client is gone."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if not message.get("more_body", False):
            return bytes(body)


class _Replayed:
    """Gives a body that was read already, and then what really comes."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._message: Message | None = {"type": "http.request", "body": body, "more_body": False}
        self._receive = receive

    async def __call__(self) -> Message:
        message, self._message = self._message, None
        return message if message is not None else await self._receive()
