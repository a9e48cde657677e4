"""Documents about trials, segments and optimizations, as OpenAPI describes them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from api.schemas.query_schemas import OperationStatus, Problem
from gsdm_grid.optimizer import Method, SearchOptions
from gsdm_grid.spec import BlockBytes, CriteriaDocument, Degree, Name, Placement, Shape

MOST_WINDOWS = 10_000_000
OptimizationStatus = Literal["searching", "chosen", "verifying", "verified", "published", "failed"]
Count = Annotated[int, Field(ge=1, le=MOST_WINDOWS)]


class _Posted(BaseModel):
    model_config = ConfigDict(extra="forbid")


class TrialDocument(BaseModel):
    """A trial run: what was run over how many windows, and what each site spent."""

    id: str
    query: str
    specification: dict[str, Any]
    count: int
    status: OperationStatus
    error: Problem | None
    result: dict[str, Any] | None = Field(description="Cost, rates, and the CPU time of each site.")
    optimization: str | None = Field(description="The search that asked for it.")
    key: str | None = Field(description="As what it asked for it.")
    created: float


class TrialPage(BaseModel):
    """Some trials, the newest first."""

    items: list[TrialDocument]
    next: str | None


class PostedSegment(_Posted):
    """A part of a stream that is to be recorded."""

    source: str | dict[str, Any] = Field(
        description="Name of a registered source, or a stream with type and interface."
    )
    windows: Count
    name: Name | None = Field(None, description="What to call it; else it gets an id.")


class SegmentDocument(BaseModel):
    """A recorded part of a stream."""

    id: str
    source: dict[str, Any]
    windows: int
    bytes: int | None
    digest: str | None = Field(description="SHA-256 of the recording.")
    status: OperationStatus
    error: Problem | None
    created: float


class SegmentPage(BaseModel):
    """Some segments, the newest first."""

    items: list[SegmentDocument]
    next: str | None


class PostedSearch(_Posted):
    """How to search, and among which plans."""

    method: Method = SearchOptions.method
    most: Degree | None = Field(None, description="Largest degree; else what the pool allows, at most 8.")
    degrees: list[Annotated[int, Field(ge=2, le=1024)]] | None = Field(None, max_length=64)
    strategies: list[Annotated[str, Field(max_length=160)]] | None = Field(None, max_length=64)
    shapes: list[Shape] | None = Field(None, max_length=2)
    runs: list[Annotated[int, Field(ge=1, le=1_000_000)]] | None = Field(None, max_length=16)
    block_bytes: list[BlockBytes | None] | None = Field(None, max_length=16)
    threshold: float = Field(
        SearchOptions.threshold, ge=0, lt=1, description="Least gain for which more sites are tried."
    )
    short: float = Field(SearchOptions.short, gt=0, le=1, description="Share of the windows in the first trials.")
    finalists: int = Field(SearchOptions.finalists, ge=1, le=16)
    repeats: int = Field(
        SearchOptions.repeats, ge=1, le=16, description="How often winner and runner-up are run again."
    )


class PostedOptimization(_Posted):
    """A plan that is wanted: for a specification, or for a function over inputs."""

    specification: dict[str, Any] | None = None
    function: Annotated[str, Field(max_length=160)] | None = None
    params: Any = None
    inputs: list[str | dict[str, Any]] | None = Field(None, max_length=64)
    segment: str | list[str] | None = Field(None, description="Recorded segments to read instead of the inputs.")
    count: Count = Field(SearchOptions.count, description="Windows of the longest trials.")
    pool: Placement | None = Field(None, description="Placement; else the coordinator's.")
    search: PostedSearch | None = None
    criteria: CriteriaDocument | None = Field(
        None, examples=[{"maximize": "throughput", "subject_to": {"hosts": 6, "p99_ms": 50}}]
    )
    driver: Literal["coordinator", "client"] = "coordinator"
    publish_to: list[Name] | None = Field(None, max_length=1000)


class CheckedOptimization(BaseModel):
    """What a search would choose from."""

    query: str
    functions: list[str] = Field(description="The functions whose plan is left open, in their order.")
    plans: int = Field(description="How many plans there are, sizes of physical windows not counted.")


class PostedRound(_Posted):
    """Which round is asked for."""

    round: int = Field(ge=0, le=1000)


class TrialRequestDocument(BaseModel):
    """A trial that a search asks for."""

    key: str
    label: str
    specification: dict[str, Any]
    count: int
    round: int
    predicted: float | None = Field(description="CPU seconds per window of the busiest site, by the cost model.")
    latency: bool


class TrialRequests(BaseModel):
    """The trials of a round, or of the verification; none: the search is over."""

    items: list[TrialRequestDocument]


class OptimizationDocument(BaseModel):
    """A search for the best plan."""

    id: str
    query: str
    status: OptimizationStatus
    rounds: int
    request: dict[str, Any]
    trials: list[TrialRequestDocument]
    choice: dict[str, Any] | None = Field(
        description="Winner, runner-up, margin, noise, a summary in a sentence, all plans that were tried, and others."
    )
    verified: bool | None = Field(
        description="Whether the chosen plan was the better one of the two that were run again."
    )
    published: list[dict[str, Any]] | None
    stale: list[str] = Field(description="Why the choice does not hold here any more.")
    machine: dict[str, Any]
    error: Problem | None
    created: float
    finished: float | None
    links: dict[str, str]


class OptimizationPage(BaseModel):
    """Some optimizations, the newest first; without their trials."""

    items: list[OptimizationDocument]
    next: str | None


class PublicationDocument(BaseModel):
    """The queries that a plan was given to, with the operation that does it, or why not."""

    items: list[dict[str, Any]]


class DriftDocument(BaseModel):
    """A running query that costs other than the trial which its plan was chosen by."""

    query: str
    optimization: str
    chosen_cost_s: float
    measured_cost_s: float
    drift: float
    windows: int
    stale: list[str]


class DriftPage(BaseModel):
    """Queries that have drifted."""

    items: list[DriftDocument]
