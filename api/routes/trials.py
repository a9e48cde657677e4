"""Trial runs over REST."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from api.errors import Problem, responses
from api.http import Limit, Operator, Viewer, parse_body
from api.optimization import TrialOrder
from api.routes.operations import OfQuery, ShortCursor, newest_first, time_of
from api.routes.queries import BODY
from api.schemas import MOST_WINDOWS, TrialDocument, TrialPage
from api.services import WithServices

COMMON = ("unauthorized", "forbidden", "invalid-request", "not-ready")
router = APIRouter(prefix="/v1/trials", tags=["trials"])
OptimizationId = Annotated[str | None, Query(max_length=48, description="The search that asks for it.")]


@router.get("", responses=responses(*COMMON))
def list_trials(
    services: WithServices,
    _token: Viewer,
    limit: Limit = 100,
    cursor: ShortCursor = None,
    query: OfQuery = None,
    optimization: OptimizationId = None,
) -> TrialPage:
    """Trials, the newest first."""
    found = services.trials.page(limit + 1, time_of(cursor), query, optimization)
    return TrialPage.model_validate(newest_first(found, limit))


@router.post(
    "",
    status_code=202,
    responses=responses(*COMMON, *BODY, "idempotency-conflict", "not-found"),
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
    optimization: OptimizationId = None,
    key: Annotated[str | None, Query(max_length=160, description="As what the search asks for it.")] = None,
    latency: Annotated[bool, Query(description="Measure latency too, in a second run at half the rate.")] = False,
) -> TrialDocument:
    """Run a specification over some windows, and keep what it cost.

    A trial that a search asks for is run once: whoever submits its key again gets the same trial.
    """
    specification = await parse_body(request)
    if not isinstance(specification, dict):
        raise Problem("invalid-specification", "expected a mapping")
    if (optimization is None) != (key is None):
        raise Problem("invalid-request", "optimization and key go together")
    if optimization is not None and key is not None:
        await run_in_threadpool(services.optimizations.check_key, optimization, key)
    order = TrialOrder(specification, count, optimization, key, latency)
    trial, operation = await run_in_threadpool(services.trials.submit, order, token.id, token.role)
    response.headers["Location"] = f"/v1/operations/{operation['id']}"
    return TrialDocument.model_validate(trial)


@router.get("/{trial}", responses=responses(*COMMON, "not-found"))
def get_trial(trial: str, services: WithServices, _token: Viewer) -> TrialDocument:
    """One trial."""
    return TrialDocument.model_validate(services.trials.view(trial))


@router.delete("/{trial}", status_code=204, responses=responses(*COMMON, "not-found"))
def remove_trial(trial: str, services: WithServices, _token: Operator) -> Response:
    """Cancel a trial if it runs, and forget it."""
    services.trials.remove(trial)
    return Response(status_code=204)
