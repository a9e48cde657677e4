"""Tokens over REST: for admins."""

from __future__ import annotations

import time
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Path, Request

from api.errors import responses
from api.http import Admin, Limit, PageCursor, Token, Viewer, page, parse_body_as, request_body
from api.schemas import NewTokenDocument, PostedToken, TokenDocument, TokenPage
from api.services import WithServices

COMMON = ("unauthorized", "forbidden", "invalid-request")
router = APIRouter(prefix="/v1", tags=["tokens"])
TokenId = Annotated[str, Path(pattern=r"^[0-9a-f]{1,32}$")]


@router.get("/tokens", responses=responses(*COMMON))
def list_tokens(services: WithServices, _token: Admin, limit: Limit = 100, cursor: PageCursor = None) -> TokenPage:
    """Tokens by name, without their secrets."""
    shown = [TokenDocument.model_validate(_shown(token)) for token in services.tokens.list()]
    return TokenPage(**page(shown, lambda one: one.name, limit, cursor))


@router.get("/own-token", responses=responses("unauthorized", "forbidden", "invalid-request"))
def get_own_token(token: Viewer) -> TokenDocument:
    """The token that this request shows: what it is called, and what it may do."""
    return TokenDocument.model_validate(_shown(token))


@router.post(
    "/tokens",
    status_code=201,
    openapi_extra=request_body(PostedToken),
    responses=responses(*COMMON, "name-taken", "too-large", "unsupported-media-type"),
)
async def create_token(request: Request, services: WithServices, _token: Admin) -> NewTokenDocument:
    """Make a token. Its secret is in this answer and nowhere else; so `Idempotency-Key` has no effect here."""
    given = await parse_body_as(request, PostedToken)
    expires_s = None if given.lifetime_s is None else time.time() + given.lifetime_s
    made, secret = await to_thread.run_sync(services.tokens.create, given.name, given.role, expires_s)
    return NewTokenDocument.model_validate({**_shown(made), "token": secret})


@router.delete("/tokens/{token_id}", status_code=204, responses=responses(*COMMON, "not-found", "in-use"))
def revoke_token(token_id: TokenId, services: WithServices, _token: Admin) -> None:
    """Take a token back. The last admin's stays."""
    services.tokens.revoke(token_id)


def _shown(token: Token) -> dict[str, object]:
    return {
        "id": token.id,
        "name": token.name,
        "role": token.role,
        "created": token.created_s,
        "expires": token.expires_s,
    }
