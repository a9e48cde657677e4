"""A query as one plain document (JSON or YAML): what people submit, and what is kept of a query.

`QuerySpecification` is the only description of its members and their bounds: the coordinator and the command line parse
with it, OpenAPI is made of it, and a query that is made in Python has its options checked by a part of it. What the
names in it stand for is the business of `gsdm_grid.spec.resolution`.
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from gsdm_grid.engine import Schedule
from gsdm_grid.interfaces import POLICIES as OVERLOAD_POLICIES
from gsdm_grid.plan import POLICIES as PLACEMENTS
from gsdm_grid.plan import Demands
from gsdm_grid.spec.document_model import (
    MAPPING_OR_NOTHING,
    WHOLE,
    BlockBytes,
    Degree,
    DocumentModel,
    Name,
    NameOf,
    ReadBy,
    Reason,
    checked,
    wrong,
)
from gsdm_grid.spec.plan_member import PlanDocument
from gsdm_grid.spec.resources import Resources
from gsdm_grid.spec.stream_members import InputMember, OutputMember

Placement = Annotated[str, NameOf("placement", tuple(PLACEMENTS))]
Overload = Annotated[str, NameOf("overload policy", OVERLOAD_POLICIES)]


class Stop(DocumentModel):
    """Stop condition of a run: a count of windows of each input stream, or seconds; neither: until stopped."""

    count: Annotated[int, Field(ge=1, lt=2**62), Reason("must be a whole number")] | None = None
    time_s: Annotated[float, Field(ge=0.001, le=1e9), Reason("must be a number")] | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if self.count is not None and self.time_s is not None:
            raise wrong("count or time_s, not both")
        return self

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return self.model_dump(exclude_none=True)


class ScheduleDocument(DocumentModel):
    """Fixed-length scheduling periods, in each of which sources deliver so many windows at most."""

    refusal = "unknown option"
    period_s: Annotated[float, Field(gt=0, allow_inf_nan=False), Reason("must be a number greater than zero")] | None
    repetition: Annotated[int, Field(ge=1), WHOLE, Reason("must be a whole number")] | None

    @model_validator(mode="after")
    def _both(self) -> Self:
        if (self.period_s is None) != (self.repetition is None):
            raise wrong("a fixed-length period needs both period_s and repetition")
        return self

    def schedule(self) -> Schedule:
        """As working nodes have it."""
        return Schedule(self.period_s, self.repetition)


class Autoscale(DocumentModel):
    """Least and most compute sites of a query whose degree of parallelism follows its load."""

    min: Degree = 1
    max: Degree = 8

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.min > self.max:
            raise wrong(f"min is {self.min}, but max is {self.max}")
        return self


def _nonempty(value: Any) -> Any:
    if value == []:
        raise wrong("a query needs at least one input stream")
    return value


class QueryStreams(DocumentModel):
    """The members that name a query and say its streams."""

    name: Name
    inputs: Annotated[list[InputMember], Field(min_length=1), BeforeValidator(_nonempty)]
    outputs: list[OutputMember] | None = Field(default=None, description="Nothing: the result is kept.")


class QueryFlow(DocumentModel):
    """The members that say what a query computes."""

    flow: Any = Field(default=None, description="A template call, nested as deep as wanted, or a function's name.")
    function: str | None = Field(default=None, description="A single function, instead of a flow.")
    params: Any = Field(default=None, description="Parameters of the function.")
    plan: PlanDocument = Field(
        default="central", description="How the function, or a pipe of functions, is parallelized."
    )

    @model_validator(mode="after")
    def _flow_or_function(self) -> Self:
        if self.given("flow") == self.given("function"):
            raise wrong("needs either a flow (a template call), or a function with its params and plan")
        if self.given("flow") and self.given("params"):
            raise wrong("goes with a function, not with a flow", "params")
        return self


class QueryOptions(DocumentModel):
    """The members that say how a query runs; in Python they are options of `cq`."""

    block_bytes: BlockBytes | None = Field(
        default=None, description="Size of physical windows, if not the installation's."
    )
    placement: Placement | None = Field(default=None, description="Kinds of hosts, if not the coordinator's.")
    schedule: Annotated[
        Annotated[Schedule, ReadBy(ScheduleDocument, ScheduleDocument.schedule)] | None, MAPPING_OR_NOTHING
    ] = None
    flush_s: Annotated[float, Field(ge=0, le=60), Reason("must be a number")] | None = Field(
        default=None, description="How long windows may wait for others."
    )
    resources: Resources | None = Field(default=None, description="What the hosts of its sites must have.")
    share: bool = Field(default=False, description="Use sites of other such queries that begin in the same way.")

    @property
    def demands(self) -> Demands:
        """What the hosts of its sites must have."""
        return self.resources or Demands()


class QuerySpecification(QueryOptions, QueryFlow, QueryStreams):
    """What a query is: its streams, what it computes, and how it runs."""

    stop: Stop | None = None
    overload: Overload | None = Field(
        default=None,
        description="What sources do that cannot wait when the query is too slow; also those that are shared.",
    )
    labels: Annotated[dict[str, str] | None, MAPPING_OR_NOTHING] = Field(default=None, description="For people.")
    autoscale: Autoscale | None = None

    @model_validator(mode="after")
    def _alone_if_it_scales(self) -> Self:
        if self.share and self.autoscale is not None:
            reason = "does not go with autoscale: sites that others use too cannot follow one query's load"
            raise wrong(reason, "share")
        return self


def parse_stop(given: Any, place: str = "stop") -> Stop:
    """``{"count": n}``, ``{"time_s": s}``, or nothing."""
    stop: Stop = Stop() if given is None else checked(Stop, given, place)
    return stop


def query_options(**members: Any) -> QueryOptions:
    """Options of a query that is made in Python, checked like those of a document."""
    options: QueryOptions = checked(QueryOptions, members, whole="query")
    return options
