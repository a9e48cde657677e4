"""Trial runs over REST."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from api.auth import Operator, Viewer
from api.dependencies import WithServices
from api.documents import parse_body
from api.errors import Problem, responses
from api.paging import Limit
from api.query_schemas import OperationStatus
from api.query_schemas import Problem as ProblemDocument
from api.routes.operations import Cursor, Name, time_of
from api.routes.queries import BODY

COMMON = ("unauthorized", "forbidden", "invalid-request", "not-ready")
router = APIRouter(prefix="/v1/trials", tags=["trials"])
MOST_WINDOWS = 10_000_000


class TrialDocument(BaseModel):
    """A trial run: what was run over how many windows, and what each site spent."""

    id: str
    query: str
    specification: dict[str, Any]
    count: int
    status: OperationStatus
    error: ProblemDocument | None
    result: dict[str, Any] | None = Field(description="Cost, rates, and the CPU time of each site.")
    created: float


class TrialPage(BaseModel):
    """Some trials, the newest first."""

    items: list[TrialDocument]
    next: str | None


@router.get("", responses=responses(*COMMON))
def list_trials(
    services: WithServices, _token: Viewer, limit: Limit = 100, cursor: Cursor = None, query: Name = None
) -> TrialPage:
    """Trials, the newest first."""
    found = services.trials.page(limit + 1, time_of(cursor), query)
    more = float(found[limit - 1]["created"]).hex() if len(found) > limit else None
    return TrialPage.model_validate({"items": found[:limit], "next": more})


@router.post(
    "",
    status_code=202,
    responses=responses(*COMMON, *BODY, "idempotency-conflict"),
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "A specification; its outputs are not written, its stop condition is the count.",
            "content": {
                form: {"schema": {"$ref": "#/components/schemas/QuerySpecification"}}
                for form in ("application/json", "application/yaml")
            },
        }
    },
)
async def submit_trial(
    request: Request,
    response: Response,
    services: WithServices,
    token: Operator,
    count: Annotated[int, Query(ge=1, le=MOST_WINDOWS, description="Windows of each input stream.")] = 1000,
) -> TrialDocument:
    """Run a specification over some windows, and keep what it cost."""
    given = await parse_body(request)
    if not isinstance(given, dict):
        raise Problem("invalid-specification", "expected a mapping")
    made, operation = await run_in_threadpool(services.trials.submit, given, count, token.id, token.role)
    response.headers["Location"] = f"/v1/operations/{operation['id']}"
    return TrialDocument.model_validate(made)


@router.get("/{trial}", responses=responses(*COMMON, "not-found"))
def get_trial(trial: str, services: WithServices, _token: Viewer) -> TrialDocument:
    """One trial."""
    return TrialDocument.model_validate(services.trials.view(trial))


@router.delete("/{trial}", status_code=204, responses=responses(*COMMON, "not-found"))
def remove_trial(trial: str, services: WithServices, _token: Operator) -> Response:
    """Cancel a trial if it runs, and forget it."""
    services.trials.remove(trial)
    return Response(status_code=204)
