"""Documents about queries, as OpenAPI describes them. The specification itself is checked by the coordination room."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

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


class StopDocument(BaseModel):
    """Stop condition of a run: a count of windows of each input stream, or seconds; neither: until stopped."""

    model_config = ConfigDict(extra="forbid")

    count: int | None = Field(None, ge=1, lt=2**62)
    time_s: float | None = Field(None, ge=0.001, le=1e9, allow_inf_nan=False)


class ParallelismDocument(BaseModel):
    """Degree of parallelism."""

    model_config = ConfigDict(extra="forbid")

    degree: int = Field(ge=1, le=1024)


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


_STREAM = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "type": {"anyOf": [{"type": "string"}, {"type": "object"}]},
        "interface": {"type": "string"},
        "options": {"type": "object"},
        "source": {"type": "string"},
        "segment": {"type": "string"},
        "shared": {"type": "boolean", "description": "Of an input: read once for all queries that run."},
    },
}
_AMOUNT = {"type": "number", "minimum": 0, "maximum": 1e9}
_NEEDS = {
    "type": "object",
    "properties": {
        "cpus": _AMOUNT,
        "memory_mb": _AMOUNT,
        "resources": {"type": "object", "additionalProperties": _AMOUNT},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "near": {"type": "string"},
        "pool": {"type": "string"},
    },
    "additionalProperties": False,
}
SPECIFICATION: dict[str, Any] = {
    "type": "object",
    "required": ["name", "inputs"],
    "properties": {
        "name": {"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9_.-]{0,62}$"},
        "inputs": {"type": "array", "minItems": 1, "items": {"anyOf": [{"type": "string"}, _STREAM]}},
        "flow": {"description": "A template call, nested as deep as wanted, or a function's name."},
        "function": {"type": "string", "description": "A single function, instead of a flow."},
        "params": {"description": "Parameters of the function."},
        "plan": {
            "description": "central, auto, {strategy, degree, shape, run}; of a pipe {fused: plan} or {stages: [plan]}."
        },
        "block_bytes": {"type": "integer", "minimum": 4096, "maximum": 1 << 28},
        "outputs": {"type": "array", "items": {"anyOf": [{"type": "string"}, _STREAM]}},
        "stop": {"$ref": "#/components/schemas/StopDocument"},
        "overload": {"enum": ["block", "drop_oldest", "sample"]},
        "placement": {"enum": ["grid", "processes", "ray", "spark", "threads"]},
        "schedule": {"type": "object"},
        "flush_s": {"type": "number", "minimum": 0, "maximum": 60},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "autoscale": {
            "type": "object",
            "properties": {"min": {"type": "integer", "minimum": 1}, "max": {"type": "integer", "minimum": 1}},
            "additionalProperties": False,
        },
        "resources": {
            "type": "object",
            "description": "What the hosts of its sites must have, and in which pool they are.",
            "properties": {
                "pool": {"type": "string"},
                "deadline_s": {"type": "number", "minimum": 0},
                "sites": {"type": "object", "additionalProperties": _NEEDS},
            },
            "additionalProperties": False,
        },
        "share": {"type": "boolean", "description": "Use sites of other such queries that begin in the same way."},
    },
    "additionalProperties": False,
}
"""For OpenAPI; `gsdm_grid.spec.specification` is what checks."""
