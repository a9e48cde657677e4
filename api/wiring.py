"""The composition root: the one place that names concrete classes together and makes the application of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.concurrency import run_in_threadpool

from api import errors
from api.http import IdempotencyMiddleware, RequestMiddleware, Tokens, protect_home
from api.operations import CrashWatch, Operations
from api.optimization import (
    ChosenPlans,
    OptimizationContext,
    OptimizationDriver,
    Optimizations,
    PlanAdoption,
    Segments,
    Trials,
)
from api.queries import (
    Autoscaler,
    Coordinator,
    DesiredState,
    IdleHosts,
    LiveFigures,
    LiveQueries,
    Measurements,
    OperationDispatch,
    QueryRecovery,
    QueryRows,
    QuerySteps,
    QueryViews,
    ResultLogs,
    Rewiring,
    ServiceGrid,
    Specifications,
    StateRecorder,
    StepOperations,
    TrialRecovery,
    running_and_scaling,
)
from api.registry import Bundles, Packages, StreamDocuments, in_processes, load_types
from api.routes import (
    functions,
    operations,
    optimizations,
    pages,
    queries,
    results,
    segments,
    streams,
    system,
    tokens,
    trials,
    types,
)
from api.schemas import optimization_schemas, query_schemas
from api.services import Services
from api.settings import ServiceSettings
from api.store import Store
from gsdm_grid import __version__
from gsdm_grid.hosts import HostPool
from gsdm_grid.plan import HostKind
from gsdm_grid.spec import QuerySpecification

ROUTERS = (
    queries,
    results,
    operations,
    trials,
    segments,
    optimizations,
    types,
    functions,
    streams,
    tokens,
    system,
    pages,
)


def make_services(settings: ServiceSettings, pools: Mapping[HostKind, HostPool] | None = None) -> Services:
    """Everything behind the application. Opens the database; starts nothing yet. For ``pools`` see `ServiceGrid`."""
    protect_home(settings)
    store = Store(settings.database_url)
    rows = QueryRows(store)
    grid = ServiceGrid(settings, pools)
    operations = Operations(store, lambda operation: dispatch.carry_out(operation))  # noqa: PLW0108 - it is made below

    streams = StreamDocuments(store, settings.data_folders, settings.allowed_modules)
    segments = Segments(store, operations, settings.home / "segments", streams.source, grid.current)
    chosen_plans = ChosenPlans(store, streams.source, segments, settings.placement)
    specifications = Specifications(settings, rows, streams, segments, chosen_plans.find)

    logs = ResultLogs(settings.home / "results", settings.result_bytes, rows, specifications)
    watch = CrashWatch(store, logs.deliveries)
    states = StateRecorder(rows, operations, watch, settings.grid.restarts)
    live = LiveQueries(grid, rows, specifications, logs, states)
    views = QueryViews(rows, specifications, grid, settings.placement)
    desired = DesiredState(rows, specifications, operations, live, views, settings.limits.queries_per_token)

    trials = Trials(store, operations, specifications.checked, grid.current, watch)
    plan_adoption = PlanAdoption(store, chosen_plans, grid.current, desired.act)
    context = OptimizationContext(specifications.checked, streams.source, grid.current, settings.trial_share)
    optimizations = Optimizations(store, operations, trials, segments, context, plan_adoption.adopt)
    driver = OptimizationDriver(optimizations, operations, trials, segments)

    steps = QuerySteps(rows, specifications, logs, live, states)
    rewiring = Rewiring(rows, specifications, live, states, steps)
    step_operations = StepOperations(live, steps, rewiring, states, watch)
    measurements = Measurements(trials, segments, driver)
    dispatch = OperationDispatch(rows, operations, states, step_operations, measurements)

    coordinator = Coordinator(
        home=settings.home,
        grid=grid,
        logs=logs,
        operations=operations,
        watch=watch,
        states=states,
        recovery=QueryRecovery(rows, specifications, operations, watch, TrialRecovery(trials, driver)),
        idle_hosts=IdleHosts(grid, rows, operations, desired.act),
        autoscaler=Autoscaler(partial(running_and_scaling, grid, specifications, operations), desired.scale),
    )
    bundles = Bundles(
        store,
        settings.home / "bundles",
        rows.using,
        Packages(settings.home / "packages"),
        try_imports=in_processes(settings.limits.bundle_import_s),
    )
    return Services(
        settings=settings,
        store=store,
        tokens=Tokens(store),
        bundles=bundles,
        uses=rows.using,
        coordinator=coordinator,
        desired=desired,
        views=views,
        figures=LiveFigures(rows, grid),
        logs=logs,
        grid=grid,
        operations=operations,
        trials=trials,
        segments=segments,
        optimizations=optimizations,
        plan_adoption=plan_adoption,
    )


def make_app(settings: ServiceSettings) -> FastAPI:
    """The application; it starts its services when it is served, and ends them with it."""
    services = make_services(settings)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        try:
            await run_in_threadpool(_start, services)
        except BaseException as error:
            app.state.start_failure = error
            await run_in_threadpool(_close, services)
            raise
        yield
        await run_in_threadpool(_close, services)

    app = FastAPI(
        title="GSDM-grid coordinator",
        version=__version__,
        description="Continuous queries over high-volume numerical streams.",
        lifespan=lifespan,
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
    )
    app.state.services = services
    errors.install(app)
    for room in ROUTERS:
        app.include_router(room.router)
    app.add_middleware(IdempotencyMiddleware, services=services)
    app.add_middleware(RequestMiddleware, services=services)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


def _start(services: Services) -> None:
    load_types(services.store)
    services.bundles.load_all()
    load_types(services.store)  # those under types that bundles define
    services.coordinator.start()


def _close(services: Services) -> None:
    services.coordinator.close()
    services.store.close()


def _openapi(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, with the schemas that routes refer to by name."""
    if app.openapi_schema is None:
        openapi = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        schemas = openapi.setdefault("components", {}).setdefault("schemas", {})
        schemas["Problem"] = query_schemas.Problem.model_json_schema()
        posted_models = (QuerySpecification, optimization_schemas.PostedOptimization, optimization_schemas.PostedRound)
        for posted in posted_models:
            described = posted.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas |= {**described.pop("$defs", {}), posted.__name__: described}
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        for path in openapi["paths"].values():
            for operation in path.values():
                _as_problem(operation["responses"])
        app.openapi_schema = openapi
    return app.openapi_schema


def _as_problem(answers: dict[str, Any]) -> None:
    """FastAPI documents its own form of 422 where a route does not: ours is a problem document."""
    form = answers.get("422", {}).get("content", {}).get("application/json", {})
    if form.get("schema", {}).get("$ref", "").endswith("HTTPValidationError"):
        answers["422"] = errors.responses("invalid-request")[422]
