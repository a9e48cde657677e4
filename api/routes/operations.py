"""Operations, plans, sites and resources over REST: what is going on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from fastapi.params import Depends as Dependency

from api.errors import Problem, responses
from api.http import Limit, require
from api.schemas import (
    OperationDocument,
    OperationPage,
    OperationStatus,
    PlanPage,
    SitePage,
)
from api.services import WithServices

COMMON = ("unauthorized", "forbidden", "invalid-request", "not-ready")
VIEWER: list[Dependency] = [Depends(require("viewer"))]
router = APIRouter(prefix="/v1", dependencies=VIEWER)
ShortCursor = Annotated[str | None, Query(max_length=64, description="From the page before.")]
OfQuery = Annotated[str | None, Query(max_length=64, description="Only of this query.")]


def time_of(cursor: str | None) -> float | None:
    """The time in a cursor of a list that begins with the newest."""
    try:
        return None if cursor is None else float.fromhex(cursor)
    except (ValueError, OverflowError):
        raise Problem("invalid-request", "cursor: is not one that a page gave") from None


def newest_first(documents: Sequence[Mapping[str, Any]], limit: int) -> dict[str, Any]:
    """A page of documents (one more than its limit, if there is another page) with the cursor of the next one."""
    more = float(documents[limit - 1]["created"]).hex() if len(documents) > limit else None
    return {"items": documents[:limit], "next": more}


@router.get("/operations", tags=["operations"], responses=responses(*COMMON))
def list_operations(
    services: WithServices,
    limit: Limit = 100,
    cursor: ShortCursor = None,
    query: OfQuery = None,
    status: OperationStatus | None = None,
) -> OperationPage:
    """Operations, the newest first."""
    documents = services.operations.page(limit + 1, time_of(cursor), query, status)
    return OperationPage.model_validate(newest_first(documents, limit))


@router.get("/operations/{operation}", tags=["operations"], responses=responses(*COMMON, "not-found"))
def get_operation(operation: str, services: WithServices) -> OperationDocument:
    """One operation: what became of it."""
    return OperationDocument.model_validate(services.operations.view(operation))


@router.get("/plans", tags=["queries"], responses=responses(*COMMON))
def list_plans(services: WithServices, limit: Limit = 100, cursor: ShortCursor = None) -> PlanPage:
    """Queries with a compiled plan: the number of sites by kind of host."""
    plans = services.views.plans(limit + 1, cursor)
    items = [
        {"query": name, "sites": len(plan["sites"]), "hosts": Counter(site["host"] for site in plan["sites"])}
        for name, plan in plans[:limit]
    ]
    return PlanPage(items=items, next=plans[limit - 1][0] if len(plans) > limit else None)


@router.get("/plans/{name}", tags=["queries"], responses=responses(*COMMON, "not-found"))
def get_plan(name: str, services: WithServices) -> dict[str, Any]:
    """The compiled plan of a query."""
    return services.views.plan(name)


@router.get("/sites", tags=["resources"], responses=responses(*COMMON))
def list_sites(
    services: WithServices,
    query: OfQuery = None,
    sort: Literal["utilization", "query"] = "query",
    limit: Limit = 100,
) -> SitePage:
    """Which queries run where, and which sites are the busiest."""
    sites = [site for site in services.figures.sites() if query is None or site["query"] == query]
    if sort == "utilization":
        sites.sort(key=lambda site: -site["utilization"])
    return SitePage.model_validate({"items": sites[:limit]})


@router.get("/resources", tags=["resources"], responses=responses(*COMMON))
def get_resources(services: WithServices) -> dict[str, Any]:
    """What each kind of host has, and how many sites run on it."""
    used = Counter(site["host"] for site in services.figures.sites())
    inventory = services.grid.current().inventory()
    pools = inventory.pop("pools")
    kinds = {
        kind: {**figures, "sites": used[kind] + (used["local"] if kind == "thread" else 0)}
        for kind, figures in inventory.items()
    }
    return {**kinds, "pools": pools}
