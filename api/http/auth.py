"""Who may do what: bearer tokens with roles.

A token's secret is shown once, when it is made; only its digest is stored. Nobody is trusted for where they come from.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import threading
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import sqlalchemy as sa
from anyio import to_thread
from fastapi import Depends
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.requests import HTTPConnection
from starlette.websockets import WebSocket

from api.errors import Problem
from api.services import services_of
from api.store import Store, tokens
from gsdm_grid.model import Clock, SystemClock

Role = Literal["viewer", "operator", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
"""Each role may do what those before it may."""

REMEMBERED_S = 5.0
"""How long a token is trusted without asking the store: a token revoked elsewhere works this much longer at most."""
REMEMBERED_TOKENS = 1024
SUBPROTOCOL = "gsdm.bearer."
FIRST_TOKEN = "admin"
_SECRET = re.compile(r"gsdm_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")


@dataclass(frozen=True)
class Token:
    """Somebody's token, without its secret. Immutable."""

    id: str
    name: str
    role: Role
    created_s: float = 0.0
    expires_s: float | None = None

    def may(self, role: Role) -> bool:
        """Whether the token may do what this role may."""
        return ROLES.index(self.role) >= ROLES.index(role)


class Tokens:
    """The tokens of a store. Thread-safe."""

    def __init__(self, store: Store, clock: Clock | None = None) -> None:
        self._store = store
        self._clock = clock or SystemClock()
        self._remembered: dict[str, tuple[Token, float]] = {}
        self._lock = threading.Lock()

    def create(self, name: str, role: Role, expires_s: float | None = None) -> tuple[Token, str]:
        """A new token and its secret, which nobody will see again. ``expires_s``: when it ends (Unix time)."""
        token, secret = self._made(name, role, expires_s)
        try:
            with self._store.begin() as connection:
                connection.execute(tokens.insert().values(**vars(token), digest=digest(secret)))
        except sa.exc.IntegrityError:
            raise Problem("name-taken", f"there is a token named {name!r} already") from None
        return token, secret

    def list(self) -> list[Token]:
        """All tokens, by name."""
        return [_token(row) for row in self._store.rows(sa.select(tokens).order_by(tokens.c.name))]

    def revoke(self, token_id: str) -> None:
        """Take a token back. The last admin's token stays: else nobody could make others."""
        other = tokens.alias()
        lasting = sa.or_(other.c.expires_s.is_(None), other.c.expires_s > self._now_s())
        another_admin = sa.exists().where(other.c.role == "admin", other.c.id != tokens.c.id, lasting)
        with self._store.begin() as connection:
            if connection.dialect.name != "sqlite":  # SQLite has one writer at a time anyway
                connection.execute(sa.select(tokens.c.id).where(tokens.c.role == "admin").with_for_update())
            removed = connection.execute(
                tokens.delete().where(tokens.c.id == token_id, sa.or_(tokens.c.role != "admin", another_admin))
            )
        with self._lock:
            self._remembered = {k: kept for k, kept in self._remembered.items() if kept[0].id != token_id}
        if removed.rowcount:
            return
        if self._store.row(sa.select(tokens.c.id).where(tokens.c.id == token_id)) is None:
            raise Problem("not-found", f"there is no token with id {token_id!r}")
        raise Problem("in-use", "this is the last admin's token: make another one first")

    def lasting(self, token_ids: Collection[str]) -> set[str]:
        """Those of some tokens that are still valid. Asks the store, so that it knows of what others revoked."""
        not_expired = sa.or_(tokens.c.expires_s.is_(None), tokens.c.expires_s > self._now_s())
        rows = self._store.rows(sa.select(tokens.c.id).where(tokens.c.id.in_(token_ids), not_expired))
        return {str(row["id"]) for row in rows}

    def remembered(self, secret: str) -> Token | None:
        """The token of a secret that was authenticated a moment ago. Never blocks."""
        with self._lock:
            token, until_s = self._remembered.get(digest(secret), (None, 0.0))
        if token is None or self._clock.monotonic_s() >= until_s or self._expired(token):
            return None
        return token

    def authenticate(self, secret: str) -> Token:
        """The token of a secret, or the problem ``unauthorized``. May ask the store."""
        if (known := self.remembered(secret)) is not None:
            return known
        shape = _SECRET.fullmatch(secret)
        row = self._store.row(sa.select(tokens).where(tokens.c.id == shape[1])) if shape else None
        made = digest(secret)
        if row is None or not hmac.compare_digest(str(row["digest"]), made):
            raise Problem("unauthorized", "the token is not known here, or was revoked")
        token = _token(row)
        if self._expired(token):
            raise Problem("unauthorized", "the token has expired")
        with self._lock:
            if len(self._remembered) >= REMEMBERED_TOKENS:
                self._remembered.clear()
            self._remembered[made] = (token, self._clock.monotonic_s() + REMEMBERED_S)
        return token

    def first_start(self, home: Path) -> str | None:
        """Where no token exists, make an admin's, write it to ``home/admin.token`` and return its secret.

        The token counts only once its file is written: killed in between, the next start makes another one.
        """
        if self._store.row(sa.select(tokens.c.id)) is not None:
            return None
        token, secret = self._made(FIRST_TOKEN, "admin", None)
        try:
            with self._store.begin() as connection:
                connection.execute(tokens.insert().values(**vars(token), digest=digest(secret)))
                _write_private(home / "admin.token", secret + "\n")
        except sa.exc.IntegrityError:  # another process was first
            return None
        return secret

    def _made(self, name: str, role: Role, expires_s: float | None) -> tuple[Token, str]:
        token_id = secrets.token_hex(6)
        return Token(token_id, name, role, self._now_s(), expires_s), f"gsdm_{token_id}_{secrets.token_urlsafe(32)}"

    def _expired(self, token: Token) -> bool:
        return token.expires_s is not None and token.expires_s <= self._now_s()

    def _now_s(self) -> float:
        return self._clock.now_ns() / 1e9


def digest(secret: str) -> str:
    """What is stored of a secret. Secrets are random and long: they need no salt and no slow hash."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def _token(row: dict[str, Any]) -> Token:
    return Token(row["id"], row["name"], row["role"], row["created_s"], row["expires_s"])


def _write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, at no moment otherwise, and that is never half written."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


_bearer = HTTPBearer(auto_error=False, scheme_name="token", description="A token made by `gsdm token create`.")


@cache
def require(role: Role) -> Callable[..., Awaitable[Token]]:
    """A dependency that lets only this role, or a higher one, pass; gives the token."""

    async def authorized(
        connection: HTTPConnection, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
    ) -> Token:
        return await _authorize(connection, credentials.credentials if credentials else None, role)

    return authorized


Viewer = Annotated[Token, Depends(require("viewer"))]
Operator = Annotated[Token, Depends(require("operator"))]
Admin = Annotated[Token, Depends(require("admin"))]


async def authenticate_websocket(websocket: WebSocket, role: Role = "viewer") -> Token:
    """The token of a WebSocket that is not accepted yet; raise on, and it is denied with the problem.

    Browsers cannot set headers: they offer the subprotocol ``gsdm.bearer.TOKEN`` instead. See `subprotocol_of`.
    """
    secret = bearer_of(websocket)
    if secret is None:
        offered = (one for one in websocket.scope.get("subprotocols", ()) if one.startswith(SUBPROTOCOL))
        secret = next((one.removeprefix(SUBPROTOCOL) for one in offered), None)
    return await _authorize(websocket, secret, role)


def subprotocol_of(websocket: WebSocket) -> str | None:
    """What to accept a WebSocket with: an offered subprotocol, one that is not a token if there is one."""
    offered = list(websocket.scope.get("subprotocols", ()))
    return next((one for one in offered if not one.startswith(SUBPROTOCOL)), offered[0] if offered else None)


def bearer_of(connection: HTTPConnection) -> str | None:
    """The secret in a request's header, if there is one."""
    scheme, _, secret = connection.headers.get("authorization", "").partition(" ")
    return secret.strip() or None if scheme.lower() == "bearer" else None


async def _authorize(connection: HTTPConnection, secret: str | None, role: Role) -> Token:
    if secret is None:
        raise Problem("unauthorized", "send a token: Authorization: Bearer TOKEN")
    token = await authenticated(services_of(connection).tokens, secret)
    connection.state.token = token
    if not token.may(role):
        raise Problem(
            "forbidden", f"token {token.name!r} is a {token.role}'s; this needs {role}", role=token.role, needed=role
        )
    return token


async def authenticated(known: Tokens, secret: str) -> Token:
    """`Tokens.authenticate` without blocking the event loop."""
    token = known.remembered(secret)
    return token if token is not None else await to_thread.run_sync(known.authenticate, secret)
