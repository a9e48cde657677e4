"""Queries over REST: submit, look at, and drive through their life cycle."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from api.errors import Problem, responses
from api.http import Limit, Operator, Viewer, parse_body
from api.operations import as_document
from api.queries import etag
from api.schemas import (
    EXAMPLE,
    EventPage,
    OperationDocument,
    ParallelismDocument,
    QueryDocument,
    QueryPage,
    QueryState,
)
from api.services import Services, WithServices
from gsdm_grid.spec import Stop

COMMON = ("unauthorized", "forbidden", "not-found", "invalid-request", "not-ready")
router = APIRouter(prefix="/v1/queries", tags=["queries"])
IfMatch = Annotated[str | None, Header(alias="If-Match", description="Only if the query's ETag is this one.")]
SPECIFICATION: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The query's specification: see docs/coordinator.md, 'A specification'.",
        "content": {
            form: {"schema": {"$ref": "#/components/schemas/QuerySpecification"}, "example": EXAMPLE}
            for form in ("application/json", "application/yaml")
        },
    }
}
BODY = ("too-large", "unsupported-media-type", "unknown-name", "type-mismatch", "invalid-specification")
DRAWN = 256
"""Sites of a plan that still make a picture."""
ACTION = ("invalid-transition", "precondition-failed", "idempotency-conflict")


@router.get("", responses=responses(*COMMON))
def list_queries(
    services: WithServices,
    _token: Viewer,
    limit: Limit = 100,
    cursor: Annotated[str | None, Query(max_length=64, description="From the page before.")] = None,
    state: Annotated[QueryState | None, Query(description="Only queries in this state.")] = None,
    name: Annotated[str | None, Query(max_length=64, description="Only queries whose names begin so.")] = None,
) -> QueryPage:
    """Queries by name."""
    views = services.views.page(limit + 1, cursor, state, name)
    more = views[limit - 1]["name"] if len(views) > limit else None
    return QueryPage.model_validate({"items": views[:limit], "next": more})


@router.post(
    "",
    status_code=201,
    openapi_extra=SPECIFICATION,
    responses=responses(*COMMON, *BODY, "name-taken", "idempotency-conflict", "too-many"),
)
async def submit_query(request: Request, response: Response, services: WithServices, token: Operator) -> QueryDocument:
    """Check a specification and store it as a new query."""
    document = await parse_body(request)
    view = await run_in_threadpool(services.desired.submit, document, token.id, token.role)
    response.headers["Location"] = view["links"]["self"]
    return _shown(response, view)


@router.get("/{name}", responses=responses(*COMMON))
def get_query(
    name: str,
    response: Response,
    services: WithServices,
    _token: Viewer,
    if_none_match: Annotated[str | None, Header(alias="If-None-Match")] = None,
) -> Any:
    """A query: desired and actual state, since when, and why it failed."""
    view = services.views.view(name)
    if if_none_match is not None and if_none_match == etag(view["version"]):
        return Response(status_code=304, headers={"ETag": if_none_match})
    return _shown(response, view)


@router.put("/{name}", openapi_extra=SPECIFICATION, responses=responses(*COMMON, *BODY, *ACTION))
async def replace_query(
    name: str,
    request: Request,
    response: Response,
    services: WithServices,
    token: Operator,
    if_match: IfMatch = None,
) -> QueryDocument:
    """Give a query that is not installed another specification."""
    document = await parse_body(request)
    view = await run_in_threadpool(services.desired.replace, name, document, token.role, if_match)
    return _shown(response, view)


@router.delete("/{name}", status_code=202, responses=responses(*COMMON, *ACTION))
def remove_query(
    name: str, response: Response, services: WithServices, _token: Operator, if_match: IfMatch = None
) -> OperationDocument:
    """Remove a query with everything it runs on and everything kept of its results."""
    return _promised(response, services, name, "delete", {}, if_match)


@router.post("/{name}/compile", status_code=202, responses=responses(*COMMON, *ACTION))
def compile_query(
    name: str, response: Response, services: WithServices, _token: Operator, if_match: IfMatch = None
) -> OperationDocument:
    """Derive types, place sites: make the plan."""
    return _promised(response, services, name, "compile", {}, if_match)


@router.post("/{name}/install", status_code=202, responses=responses(*COMMON, *ACTION))
def install_query(
    name: str, response: Response, services: WithServices, _token: Operator, if_match: IfMatch = None
) -> OperationDocument:
    """Acquire hosts, start working nodes and install the plan on them."""
    return _promised(response, services, name, "install", {}, if_match)


@router.post("/{name}/activate", status_code=202, responses=responses(*COMMON, *ACTION, "invalid-specification"))
def activate_query(
    name: str,
    response: Response,
    services: WithServices,
    _token: Operator,
    stop: Stop | None = None,
    if_match: IfMatch = None,
) -> OperationDocument:
    """Start an installed query, or let it go on."""
    return _promised(response, services, name, "activate", _stop(stop), if_match)


@router.post("/{name}/run", status_code=202, responses=responses(*COMMON, *ACTION, "invalid-specification"))
def run_query(
    name: str,
    response: Response,
    services: WithServices,
    _token: Operator,
    stop: Stop | None = None,
    if_match: IfMatch = None,
) -> OperationDocument:
    """Compile and install if that has not been done, and activate."""
    return _promised(response, services, name, "run", _stop(stop), if_match)


@router.post("/{name}/deactivate", status_code=202, responses=responses(*COMMON, *ACTION))
def deactivate_query(
    name: str,
    response: Response,
    services: WithServices,
    _token: Operator,
    mode: Annotated[
        Literal["drain", "immediate"],
        Query(description="drain: what was read flows out. immediate: it is given up, and read again when resumed."),
    ] = "drain",
    if_match: IfMatch = None,
) -> OperationDocument:
    """Stop a query; it can be resumed."""
    return _promised(response, services, name, "deactivate", {"mode": mode}, if_match)


@router.patch(
    "/{name}/parallelism",
    status_code=202,
    responses=responses(*COMMON, *ACTION, "invalid-specification", "unknown-name", "type-mismatch"),
)
def scale_query(
    name: str,
    wanted: ParallelismDocument,
    response: Response,
    services: WithServices,
    _token: Operator,
    if_match: IfMatch = None,
) -> OperationDocument:
    """Change the degree of parallelism, also while the query runs: no window is lost, doubled or reordered."""
    return _promised(response, services, name, "scale", {"degree": wanted.degree}, if_match)


@router.get(
    "/{name}/graph",
    responses={
        200: {
            "description": "The data flow.",
            "content": {
                form: {"schema": {"type": "string"}} for form in ("text/plain", "text/vnd.graphviz", "image/svg+xml")
            }
            | {"application/json": {"schema": {"type": "object"}}},
        },
        **responses(*COMMON),
    },
    response_class=Response,
)
def get_graph(
    name: str,
    services: WithServices,
    _token: Viewer,
    form: Annotated[Literal["json", "dot", "mermaid", "text", "svg"], Query(alias="format")] = "json",
) -> Response:
    """The data flow of a query, as data, for Graphviz or Mermaid, as text, or as a picture."""
    import json

    if form == "svg":
        from gsdm_grid.reports import plan_svg

        plan = services.views.compiled(name)
        if len(plan.sites) > DRAWN:
            raise Problem("invalid-request", f"format: {len(plan.sites)} sites are too many for a picture; try dot")
        return Response(plan_svg(plan, name), media_type="image/svg+xml")
    flow = services.views.flow(name)
    if form == "json":
        return Response(json.dumps(flow.to_json()), media_type="application/json")
    drawn = {"dot": flow.to_dot, "mermaid": flow.to_mermaid, "text": flow.to_text}[form]()
    return Response(drawn, media_type="text/vnd.graphviz" if form == "dot" else "text/plain")


@router.get("/{name}/plan", responses=responses(*COMMON))
def get_plan(name: str, services: WithServices, _token: Viewer) -> dict[str, Any]:
    """The compiled plan: sites with their hosts and operators, and the streams between them."""
    return services.views.plan(name)


@router.get("/{name}/statistics", responses=responses(*COMMON))
def get_statistics(name: str, services: WithServices, _token: Viewer) -> dict[str, Any]:
    """The latest statistics of each site: times, operators, streams."""
    return services.figures.statistics(name)


@router.get("/{name}/events", responses=responses(*COMMON))
def get_events(name: str, services: WithServices, _token: Viewer, limit: Limit = 100) -> EventPage:
    """State changes, the newest first."""
    rows = services.views.events(name, limit)
    return EventPage.model_validate({"items": [{**row, "at": row["at_s"]} for row in rows]})


def _stop(stop: Stop | None) -> dict[str, Any]:
    condition = stop.to_json() if stop is not None else {}
    return {"stop": condition} if condition else {}


def _shown(response: Response, query: dict[str, Any]) -> QueryDocument:
    response.headers["ETag"] = etag(query["version"])
    return QueryDocument.model_validate(query)


def _promised(
    response: Response, services: Services, name: str, action: str, params: dict[str, Any], if_match: str | None
) -> OperationDocument:
    operation = services.desired.act(name, action, params, if_match)
    response.headers["Location"] = f"/v1/operations/{operation['id']}"
    return OperationDocument.model_validate(as_document(operation))
