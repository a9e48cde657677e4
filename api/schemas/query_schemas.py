"""Documents about queries, as OpenAPI describes them; their specification is `gsdm_grid.spec.QuerySpecification`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from gsdm_grid.spec import Degree

QueryState = Literal["specified", "compiled", "installed", "active", "stopping", "failed"]
OperationStatus = Literal["pending", "running", "succeeded", "failed"]
EXAMPLE: dict[str, Any] = {
    "name": "fft3",
    "inputs": [{"type": "Radio", "interface": "synthetic_radio", "options": {"window": 1024, "rate": 200}}],
    "flow": {"template": "PCC", "args": [2, "RRpart", "fft3", {}, "S-Merge"]},
    "stop": {"count": 1000},
}


class Problem(BaseModel):
    """RFC 9457 problem document; kinds of problems add members of their own."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(examples=["urn:gsdm:problem:invalid-transition"])
    title: str
    status: int
    detail: str
    instance: str | None = None
    request_id: str | None = None


class FailureDocument(BaseModel):
    """Which action on a query failed; the query's ``error`` says why."""

    action: str
    operation: str | None
    at: float = Field(description="When, in seconds since 1970.")


class StreamTotals(BaseModel):
    """What was counted of an input or result stream of a query."""

    windows: int
    bytes: int
    dropped: dict[str, int] = Field(description="Windows that its interface dropped, by reason.")


class TotalsDocument(BaseModel):
    """What a query has counted in all runs since it was first run by this coordinator."""

    read: dict[str, StreamTotals] = Field(description="By input stream.")
    delivered: dict[str, StreamTotals] = Field(description="By result stream.")
    dropped: dict[str, int] = Field(description="Windows that merges and joins dropped, by reason.")


class QueryDocument(BaseModel):
    """A query: its specification, desired and actual state."""

    name: str
    specification: dict[str, Any]
    desired: str
    state: QueryState
    since: float = Field(description="When the state was reached, in seconds since 1970.")
    error: Problem | None = Field(description="Why it failed, or why what was last asked of it failed.")
    failure: FailureDocument | None = Field(description="What failed, and when; null if nothing did.")
    waiting: str | None = Field(description="Why it waits for hosts.")
    warnings: list[str] = Field(default=[], description="What its author should know about where it runs.")
    created: float
    version: int
    allowed: list[str] = Field(description="Actions that the state allows.")
    shared: dict[str, dict[str, Any]] = Field(
        description="Input streams that are read through a part shared with others: the part, and with whom."
    )
    totals: TotalsDocument | None = Field(
        description="What it has read, delivered and dropped; null if the coordinator has not run it since it started. "
        "These go on when the query is scaled, where the statistics of its sites begin anew."
    )
    links: dict[str, str]


class QueryPage(BaseModel):
    """Some queries, by name; ``next`` is the cursor of the following page."""

    items: list[QueryDocument]
    next: str | None


class OperationDocument(BaseModel):
    """An action that takes time."""

    id: str
    query: str
    action: str
    params: dict[str, Any]
    status: OperationStatus
    error: Problem | None
    result: dict[str, Any] | None = Field(description="What it gave, such as how long a stream stood still.")
    created: float
    finished: float | None


class OperationPage(BaseModel):
    """Some operations, the newest first."""

    items: list[OperationDocument]
    next: str | None


class ParallelismDocument(BaseModel):
    """Degree of parallelism."""

    model_config = ConfigDict(extra="forbid")

    degree: Degree


class EventDocument(BaseModel):
    """A state that a query has reached."""

    at: float
    state: str
    detail: str | None


class EventPage(BaseModel):
    """State changes, the newest first."""

    items: list[EventDocument]


class SiteDocument(BaseModel):
    """A site at work."""

    query: str
    site: str
    role: str
    host: str
    functions: list[str]
    utilization: float
    machine: str | None = None
    pid: int | None = None


class SitePage(BaseModel):
    """Sites at work."""

    items: list[SiteDocument]


class PlanPage(BaseModel):
    """Names of the queries that have a compiled plan, with the number of sites by kind of host."""

    items: list[dict[str, Any]]
    next: str | None
