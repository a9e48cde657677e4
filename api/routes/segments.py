"""Recorded segments over REST."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from api.errors import responses
from api.http import Limit, Operator, Viewer, parse_body_as, request_body
from api.routes.operations import ShortCursor, newest_first, time_of
from api.routes.queries import BODY
from api.schemas import PostedSegment, SegmentDocument, SegmentPage
from api.services import WithServices

COMMON = ("unauthorized", "forbidden", "invalid-request", "not-ready")
router = APIRouter(prefix="/v1/segments", tags=["optimizations"])


@router.get("", responses=responses(*COMMON))
def list_segments(
    services: WithServices, _token: Viewer, limit: Limit = 100, cursor: ShortCursor = None
) -> SegmentPage:
    """Recorded segments, the newest first."""
    found = services.segments.page(limit + 1, time_of(cursor))
    return SegmentPage.model_validate(newest_first(found, limit))


@router.post(
    "",
    status_code=202,
    responses=responses(*COMMON, *BODY, "name-taken", "idempotency-conflict"),
    openapi_extra=request_body(PostedSegment),
)
async def record_segment(
    request: Request, response: Response, services: WithServices, token: Operator
) -> SegmentDocument:
    """Record some windows of a source, for trials to read again and again."""
    given = await parse_body_as(request, PostedSegment)
    made, operation = await run_in_threadpool(
        services.segments.submit, given.source, given.windows, given.name, token.id, token.role
    )
    response.headers["Location"] = f"/v1/operations/{operation['id']}"
    return SegmentDocument.model_validate(made)


@router.get("/{segment}", responses=responses(*COMMON, "not-found"))
def get_segment(segment: str, services: WithServices, _token: Viewer) -> SegmentDocument:
    """One segment."""
    return SegmentDocument.model_validate(services.segments.view(segment))


@router.delete("/{segment}", status_code=204, responses=responses(*COMMON, "not-found"))
def remove_segment(segment: str, services: WithServices, _token: Operator) -> Response:
    """Forget a segment and its recording."""
    services.segments.remove(segment)
    return Response(status_code=204)
