"""The member ``plan`` of a query's document: how its functions are parallelized, as `Candidate.to_json` writes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from gsdm_grid.errors import FlowError
from gsdm_grid.optimizer import CENTRAL, Candidate, Parallel
from gsdm_grid.spec.document_model import COMPOSED, PLAIN, DocumentModel, Reason, checked, plain_unless

AUTO = "auto"
_MAPPING = "a mapping with strategy and degree"
_AtLeastOne = Annotated[int, Field(ge=1), Reason("must be a whole number")]
Shape = Literal["flat", "tree"]


class ParallelDocument(DocumentModel):
    """One function by a strategy that it registered."""

    strategy: str
    degree: _AtLeastOne = 2
    shape: Annotated[Shape, Reason("must be flat or tree")] = Field(
        default="flat", description="A tree spreads partition and combine over two levels of sites."
    )
    run: _AtLeastOne = Field(default=1, description="Windows that round robin sends to one site in turn.")

    def parallel(self) -> Parallel:
        """As the optimizer has it."""
        return Parallel(self.strategy, self.degree, self.shape == "tree", self.run)


StagePlan = Annotated[
    Annotated[Literal["central"], Reason(f"must be central, or {_MAPPING}"), PLAIN]
    | Annotated[ParallelDocument, COMPOSED],
    plain_unless(),
]


class FusedDocument(DocumentModel):
    """All functions of a pipe together, on the same sites."""

    fused: StagePlan


class StagesDocument(DocumentModel):
    """Each function of a pipe by itself."""

    stages: list[StagePlan]


_FUSED, _STAGES = Tag(f"{PLAIN.tag}fused"), Tag(f"{PLAIN.tag}stages")


def _form(value: Any) -> str:
    if isinstance(value, FusedDocument) or (isinstance(value, Mapping) and "fused" in value):
        return _FUSED.tag
    if isinstance(value, StagesDocument) or (isinstance(value, Mapping) and "stages" in value):
        return _STAGES.tag
    return (COMPOSED if isinstance(value, Mapping | ParallelDocument) else PLAIN).tag


PlanDocument = Annotated[
    Annotated[Literal["central", "auto"], Reason(f"must be central, auto, or {_MAPPING}"), PLAIN]
    | Annotated[ParallelDocument, COMPOSED]
    | Annotated[FusedDocument, _FUSED]
    | Annotated[StagesDocument, _STAGES],
    Discriminator(_form),
]


def parse_plan(given: Any, stages: int, place: str = "plan") -> Candidate:
    """The inverse of `Candidate.to_json`, checked; ``stages`` is how many functions the work has."""
    if stages > 1 and given != CENTRAL and _form(given) not in (_FUSED.tag, _STAGES.tag):
        raise FlowError(place, f"is for one function, but there are {stages}: use 'stages' or 'fused'")
    plan = checked(PlanDocument, given, place)
    if isinstance(plan, FusedDocument):
        return Candidate((_stage(plan.fused),), fused=True)
    if not isinstance(plan, StagesDocument):
        return Candidate((_stage(plan),) * stages)
    if len(plan.stages) != stages:
        got = f"a list of {len(plan.stages)}"
        raise FlowError(f"{place}.stages", f"needs a list with a plan for each of {stages} stages, got {got}")
    return Candidate(tuple(map(_stage, plan.stages)))


def _stage(plan: str | ParallelDocument) -> Parallel | None:
    return plan.parallel() if isinstance(plan, ParallelDocument) else None
