"""Stream types over REST."""

from __future__ import annotations

from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Path, Request, Response

from api.errors import Problem, responses
from api.http import Limit, Operator, PageCursor, Viewer, page, parse_body_as, request_body
from api.registry import (
    delete_type,
    load_types,
    post_type,
    posted,
)
from api.schemas import TYPE_NAME, PostedType, TypeDocument, TypePage
from api.services import WithServices
from gsdm_grid.model import StreamType, stream_types

__all__ = ["load_types", "router"]
COMMON = ("unauthorized", "forbidden", "invalid-request")
router = APIRouter(prefix="/v1/types", tags=["types"])
TypeName = Annotated[str, Path(pattern=TYPE_NAME)]


@router.get("", responses=responses(*COMMON))
def list_types(services: WithServices, _token: Viewer, limit: Limit = 100, cursor: PageCursor = None) -> TypePage:
    """Stream types by name."""
    own = posted(services.store)
    shown = [_shown(stream_types.get(name), own) for name in stream_types.names()]
    return TypePage(**page(shown, lambda one: one.name, limit, cursor))


@router.post(
    "",
    status_code=201,
    openapi_extra=request_body(PostedType),
    responses={
        **responses(*COMMON, "name-taken", "idempotency-conflict", "too-large", "unsupported-media-type"),
        **responses("type-mismatch", "unknown-name", "invalid-request"),
        200: {"model": TypeDocument, "description": "The same type was there already"},
    },
)
async def create_type(request: Request, response: Response, services: WithServices, _token: Operator) -> TypeDocument:
    """Create a stream type under another one, whose attributes it inherits."""
    given = await parse_body_as(request, PostedType)
    made, new = await to_thread.run_sync(post_type, services.store, given.model_dump())
    response.status_code = 201 if new else 200
    response.headers["Location"] = f"/v1/types/{made.name}"
    return _shown(made, await to_thread.run_sync(posted, services.store))


@router.get("/{name}", responses=responses(*COMMON, "not-found"))
def get_type(name: TypeName, services: WithServices, _token: Viewer) -> TypeDocument:
    """One stream type."""
    if name not in stream_types.names():
        raise Problem("not-found", f"there is no stream type {name!r}")
    return _shown(stream_types.get(name), posted(services.store))


@router.delete("/{name}", status_code=204, responses=responses(*COMMON, "not-found", "in-use"))
def remove_type(name: TypeName, services: WithServices, _token: Operator) -> None:
    """Remove a stream type that was posted and that nothing uses."""
    delete_type(services.store, name, services.uses)


def _shown(made: StreamType, own: set[str]) -> TypeDocument:
    inherited = {name: str(kind) for name, kind in made.parent.attributes.items()} if made.parent else {}
    return TypeDocument(
        name=made.name,
        under=made.parent.name if made.parent else None,
        attributes={name: str(kind) for name, kind in made.attributes.items() if name not in inherited},
        inherited=inherited,
        builtin=made.name not in own,
    )
