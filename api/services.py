"""What routes get at: the services behind the application, made in `api.wiring`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, cast

from fastapi import Depends
from starlette.requests import HTTPConnection

if TYPE_CHECKING:
    from api.http import Tokens
    from api.operations import Operations
    from api.optimization import Optimizations, PlanAdoption, Segments, Trials
    from api.queries import Coordinator, DesiredState, LiveFigures, QueryViews, ResultLogs, ServiceGrid
    from api.registry import Bundles, Uses
    from api.settings import ServiceSettings
    from api.store import Store


@dataclass(kw_only=True)
class Services:
    """Everything that requests are served with. One per application."""

    settings: ServiceSettings
    store: Store
    tokens: Tokens
    bundles: Bundles
    uses: Uses
    """Says which query uses something that was registered."""
    coordinator: Coordinator
    desired: DesiredState
    views: QueryViews
    figures: LiveFigures
    logs: ResultLogs
    grid: ServiceGrid
    operations: Operations
    trials: Trials
    segments: Segments
    optimizations: Optimizations
    plan_adoption: PlanAdoption


def services_of(connection: HTTPConnection) -> Services:
    """The services of the application that got this request."""
    return cast(Services, connection.app.state.services)


WithServices = Annotated[Services, Depends(services_of)]
