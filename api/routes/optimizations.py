"""Searches for plans over REST: all at once, or step by step for whoever drives them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from api.errors import responses
from api.http import Limit, Operator, Viewer, parse_body_as
from api.routes.operations import OfQuery, ShortCursor, newest_first, time_of
from api.routes.queries import BODY
from api.schemas import (
    CheckedOptimization,
    DriftPage,
    OptimizationDocument,
    OptimizationPage,
    PostedOptimization,
    PostedRound,
    PublicationDocument,
    TrialRequests,
)
from api.services import WithServices
from gsdm_grid.reports import report_html, report_png

COMMON = ("unauthorized", "forbidden", "invalid-request", "not-ready")
STEP = ("not-found", "invalid-transition", "idempotency-conflict")
router = APIRouter(tags=["optimizations"])
searches = APIRouter(prefix="/v1/optimizations")


def _body(model: type[PostedOptimization] | type[PostedRound]) -> dict[str, Any]:
    """For OpenAPI: a body whose model has parts that the document describes elsewhere."""
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {
        "requestBody": {
            "required": True,
            "content": {form: {"schema": schema} for form in ("application/json", "application/yaml")},
        }
    }


@searches.get("", responses=responses(*COMMON))
def list_optimizations(
    services: WithServices, _token: Viewer, limit: Limit = 100, cursor: ShortCursor = None, query: OfQuery = None
) -> OptimizationPage:
    """Searches, the newest first."""
    found = services.optimizations.page(limit + 1, time_of(cursor), query)
    return OptimizationPage.model_validate(newest_first(found, limit))


@searches.post(
    "",
    status_code=202,
    responses=responses(*COMMON, *BODY, "idempotency-conflict", "no-resources"),
    openapi_extra=_body(PostedOptimization),
)
async def submit_optimization(
    request: Request, response: Response, services: WithServices, token: Operator
) -> OptimizationDocument:
    """Search for the best plan: to the end here, or step by step by whoever asks (``driver: client``)."""
    given = (await parse_body_as(request, PostedOptimization)).model_dump(exclude_none=True)
    made, operation = await run_in_threadpool(services.optimizations.submit, given, token.id, token.role)
    response.headers["Location"] = (
        f"/v1/optimizations/{made['id']}" if operation is None else f"/v1/operations/{operation['id']}"
    )
    return OptimizationDocument.model_validate(made)


@router.post(
    "/v1/optimization-checks",
    responses=responses(*COMMON, *BODY, "no-resources"),
    openapi_extra=_body(PostedOptimization),
)
async def check_optimization(request: Request, services: WithServices, token: Operator) -> CheckedOptimization:
    """Whether a search can begin, with the same body: what cannot be optimized is refused, and nothing is begun."""
    given = (await parse_body_as(request, PostedOptimization)).model_dump(exclude_none=True)
    checked = await run_in_threadpool(services.optimizations.check, given, token.role)
    return CheckedOptimization.model_validate(checked)


@router.get("/v1/drift", responses=responses(*COMMON))
def list_drift(
    services: WithServices,
    _token: Viewer,
    threshold: Annotated[float, Query(ge=0, le=1000, description="Share of the trial's cost.")] = 0.25,
) -> DriftPage:
    """Running queries whose cost has drifted from their trial, or whose plan was chosen elsewhere."""
    return DriftPage.model_validate({"items": list(services.plan_adoption.drift(threshold))})


@searches.get("/{optimization}", responses=responses(*COMMON, "not-found"))
def get_optimization(optimization: str, services: WithServices, _token: Viewer) -> OptimizationDocument:
    """One search: how far it is, what was tried, and what was chosen."""
    return OptimizationDocument.model_validate(services.optimizations.view(optimization))


@searches.delete("/{optimization}", status_code=204, responses=responses(*COMMON, "not-found"))
def remove_optimization(optimization: str, services: WithServices, _token: Operator) -> Response:
    """Cancel a search if it is under way, and forget it with its trials."""
    services.optimizations.remove(optimization)
    return Response(status_code=204)


@searches.post(
    "/{optimization}/rounds",
    responses=responses(*COMMON, *STEP, "too-large", "unsupported-media-type"),
    openapi_extra=_body(PostedRound),
)
async def ask_for_round(optimization: str, request: Request, services: WithServices, _token: Operator) -> TrialRequests:
    """The trials of a round, to be run by whoever asks; none: the search is over. The same ones when asked again."""
    number = (await parse_body_as(request, PostedRound)).round
    found = await run_in_threadpool(services.optimizations.round, optimization, number)
    return TrialRequests.model_validate({"items": found})


@searches.post("/{optimization}/choice", responses=responses(*COMMON, *STEP, "invalid-specification"))
def choose(optimization: str, services: WithServices, _token: Operator) -> dict[str, Any]:
    """The best plan of those tried, the runner-up, the margin, and what was skipped and why."""
    return services.optimizations.choose(optimization)


@searches.post("/{optimization}/verification", responses=responses(*COMMON, *STEP))
def verify(optimization: str, services: WithServices, _token: Operator) -> TrialRequests:
    """Trials that run winner and runner-up again, in turn."""
    return TrialRequests.model_validate({"items": services.optimizations.verification(optimization)})


@searches.post("/{optimization}/publication", responses=responses(*COMMON, *STEP))
def publish(optimization: str, services: WithServices, _token: Operator) -> PublicationDocument:
    """Give the chosen plan to the queries that asked for it."""
    return PublicationDocument.model_validate({"items": services.optimizations.publish(optimization)})


@searches.get(
    "/{optimization}/report",
    response_class=Response,
    responses={
        200: {"description": "A page that needs nothing else.", "content": {"text/html": {}}},
        **responses(*COMMON, "not-found"),
    },
)
def get_report(optimization: str, services: WithServices, _token: Viewer) -> Response:
    """The report as a page: the plans, their costs by site, the choice."""
    return Response(report_html(services.optimizations.view(optimization)), media_type="text/html")


@searches.get(
    "/{optimization}/report.png",
    response_class=Response,
    responses={
        200: {"description": "The report's picture.", "content": {"image/png": {}}},
        **responses(*COMMON, "not-found"),
    },
)
def get_picture(optimization: str, services: WithServices, _token: Viewer) -> Response:
    """The report's picture: the cost of each plan by site."""
    return Response(report_png(services.optimizations.view(optimization)), media_type="image/png")


router.include_router(searches)
