"""Whether the service lives and is ready, and its figures."""

from __future__ import annotations

import ipaddress
from typing import Annotated

import anyio
import sqlalchemy as sa
from anyio import to_thread
from fastapi import APIRouter, Depends, Request, Response
from fastapi.security import HTTPAuthorizationCredentials
from prometheus_client import CONTENT_TYPE_LATEST

from api.errors import Problem, responses
from api.http import bearer_of, require
from api.metrics import metrics_of
from api.schemas import Health
from api.services import Services, WithServices, services_of

READY_S = 2.0
"""How long the store may take to answer."""
_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip")
router = APIRouter(tags=["system"])


@router.get("/healthz")
async def health() -> Health:
    """That the service answers. Needs no token."""
    return Health(status="ok")


@router.get("/readyz", responses=responses("not-ready"))
async def readiness(services: WithServices) -> Health:
    """That the service can do its work: the store answers and the coordinator has started. Needs no token."""
    if not services.coordinator.ready:
        raise Problem("not-ready", "the coordinator is starting or stopping")
    with anyio.move_on_after(READY_S):
        try:
            await to_thread.run_sync(_ask, services, abandon_on_cancel=True)
        except sa.exc.SQLAlchemyError as error:
            raise Problem("not-ready", f"the store does not answer: {type(error).__name__}") from None
        return Health(status="ready")
    raise Problem("not-ready", f"the store did not answer within {READY_S:g} s")


async def _may_look(request: Request) -> None:
    """Figures are for viewers; a service on loopback shows them to its own machine, as scrapers want."""
    if bearer_of(request) is None and _is_local(request):
        return
    secret = bearer_of(request)
    credentials = None if secret is None else HTTPAuthorizationCredentials(scheme="Bearer", credentials=secret)
    await require("viewer")(request, credentials)


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **responses("unauthorized")},
)
async def metrics(request: Request, _allowed: Annotated[None, Depends(_may_look)]) -> Response:
    """Figures in the form that Prometheus reads."""
    text = await to_thread.run_sync(metrics_of(request.app).text)
    return Response(text, media_type=CONTENT_TYPE_LATEST)


def _ask(services: Services) -> None:
    services.store.row(sa.select(sa.literal(1)))


def _is_local(request: Request) -> bool:
    """Whether somebody on this machine asks a service that only this machine can reach, and not through a proxy."""
    hosts = (services_of(request).settings.host, request.client.host if request.client else "")
    return all(map(_is_loopback, hosts)) and not any(name in request.headers for name in _FORWARDED)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
