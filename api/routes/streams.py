"""Stream interfaces, and registered sources and sinks, over REST."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Path, Request, Response

from api.errors import responses
from api.http import Limit, Operator, PageCursor, Token, Viewer, page, parse_body_as, request_body
from api.registry import (
    SourceOrSink,
    delete_stream,
    get_stream,
    list_streams,
    post_stream,
)
from api.schemas import (
    InterfaceDocument,
    InterfacePage,
    PostedSink,
    PostedSource,
    StreamDocument,
    StreamPage,
)
from api.services import Services, WithServices
from gsdm_grid.ids import NAME
from gsdm_grid.interfaces import StreamInterface, interfaces
from gsdm_grid.spec import shared_unless_told

COMMON = ("unauthorized", "forbidden", "invalid-request")
POSTED: dict[int | str, dict[str, Any]] = {
    **responses(*COMMON, "name-taken", "idempotency-conflict", "too-large", "unsupported-media-type"),
    **responses("invalid-specification", "unknown-name", "type-mismatch", "invalid-request"),
    200: {"model": StreamDocument, "description": "The same was there already"},
}
router = APIRouter(prefix="/v1", tags=["streams"])
StreamName = Annotated[str, Path(pattern=NAME)]


@router.get("/interfaces", responses=responses(*COMMON))
def list_interfaces(_token: Viewer, limit: Limit = 100, cursor: PageCursor = None) -> InterfacePage:
    """Stream interfaces by name, with their options."""
    shown = [_described(name, interfaces.get(name)) for name in interfaces.names()]
    return InterfacePage(**page(shown, lambda one: one.name, limit, cursor))


@router.get("/sources", responses=responses(*COMMON))
def list_sources(services: WithServices, _token: Viewer, limit: Limit = 100, cursor: PageCursor = None) -> StreamPage:
    """Registered sources by name."""
    return _page(services, "source", limit, cursor)


@router.post("/sources", status_code=201, openapi_extra=request_body(PostedSource), responses=POSTED)
async def create_source(
    request: Request, response: Response, services: WithServices, token: Operator
) -> StreamDocument:
    """Register where an input stream comes from."""
    given = await parse_body_as(request, PostedSource)
    return await _post(response, services, "source", given.model_dump(exclude_none=True), token)


@router.get("/sources/{name}", responses=responses(*COMMON, "not-found"))
def get_source(name: StreamName, services: WithServices, _token: Viewer) -> StreamDocument:
    """One source."""
    return _shown(get_stream(services.store, "source", name))


@router.delete("/sources/{name}", status_code=204, responses=responses(*COMMON, "not-found", "in-use"))
def remove_source(name: StreamName, services: WithServices, _token: Operator) -> None:
    """Remove a source that no query uses."""
    delete_stream(services.store, "source", name, services.uses)


@router.get("/sinks", responses=responses(*COMMON))
def list_sinks(services: WithServices, _token: Viewer, limit: Limit = 100, cursor: PageCursor = None) -> StreamPage:
    """Registered sinks by name."""
    return _page(services, "sink", limit, cursor)


@router.post("/sinks", status_code=201, openapi_extra=request_body(PostedSink), responses=POSTED)
async def create_sink(request: Request, response: Response, services: WithServices, token: Operator) -> StreamDocument:
    """Register where a result stream goes."""
    given = await parse_body_as(request, PostedSink)
    return await _post(response, services, "sink", given.model_dump(exclude_none=True), token)


@router.get("/sinks/{name}", responses=responses(*COMMON, "not-found"))
def get_sink(name: StreamName, services: WithServices, _token: Viewer) -> StreamDocument:
    """One sink."""
    return _shown(get_stream(services.store, "sink", name))


@router.delete("/sinks/{name}", status_code=204, responses=responses(*COMMON, "not-found", "in-use"))
def remove_sink(name: StreamName, services: WithServices, _token: Operator) -> None:
    """Remove a sink that no query uses."""
    delete_stream(services.store, "sink", name, services.uses)


async def _post(
    response: Response, services: Services, kind: SourceOrSink, document: Mapping[str, Any], token: Token
) -> StreamDocument:
    folders, allowed = services.settings.data_folders, services.settings.allowed_modules
    made, new = await to_thread.run_sync(post_stream, services.store, kind, document, token.role, folders, allowed)
    response.status_code = 201 if new else 200
    response.headers["Location"] = f"/v1/{kind}s/{made['name']}"
    return _shown(made)


def _page(services: Services, kind: SourceOrSink, limit: int, cursor: str | None) -> StreamPage:
    shown = [_shown(row) for row in list_streams(services.store, kind)]
    return StreamPage(**page(shown, lambda one: one.name, limit, cursor))


def _shown(row: Mapping[str, Any]) -> StreamDocument:
    shared = row["kind"] == "source" and shared_unless_told(row["document"])
    shown = {"type": None, **row["document"], "shared": shared, "created": row["created_s"]}
    return StreamDocument.model_validate(shown)


def _described(name: str, interface: type[StreamInterface]) -> InterfaceDocument:
    known = interface.known_options
    return InterfaceDocument(
        name=name,
        options=None if known is None else sorted(known),
        type=interface.accepts.name,
        source=interface.next is not StreamInterface.next,
        sink=interface.insert is not StreamInterface.insert,
        local=interface.local,
        replayable=bool(interface.replayable),
        doc=inspect.getdoc(interface) or "",
    )
