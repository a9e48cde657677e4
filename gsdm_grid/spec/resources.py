"""What a query's document says about the hosts of its sites, by role or by site."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from gsdm_grid.plan import NEAR, Demands, Needs
from gsdm_grid.spec.document_model import MAPPING_OR_NOTHING, DocumentModel, ReadBy, Reason, checked

Amount = Annotated[float, Field(ge=0, le=1e9), Reason("expected a number")]
SomeText = Annotated[str, Field(min_length=1), Reason("expected a text")]


class NeedsDocument(DocumentModel):
    """What the host of one site must have."""

    cpus: Amount = Field(default=1.0, description="Logical CPUs, of which a machine may have many.")
    memory_mb: Amount = 0.0
    resources: Annotated[dict[str, Amount] | None, MAPPING_OR_NOTHING] = Field(
        default=None, description="Amounts of custom resources."
    )
    labels: Annotated[dict[str, SomeText | None] | None, MAPPING_OR_NOTHING] = Field(
        default=None, description="Labels that its machine has."
    )
    near: SomeText | None = Field(default=None, description="What its machine is near to: the label ``near``.")
    pool: SomeText | None = None

    def needs(self) -> Needs:
        """As the plan has it."""
        labels = {name: text or "" for name, text in (self.labels or {}).items()}
        near = {NEAR: self.near} if self.near else {}
        return Needs(self.cpus, self.memory_mb, self.resources or {}, {**labels, **near}, self.pool)


class ResourcesDocument(DocumentModel):
    """What the hosts of a query's sites must have, in which pool they are, and how long to wait for them."""

    pool: SomeText | None = None
    deadline_s: Amount | None = None
    sites: Annotated[dict[str, NeedsDocument] | None, MAPPING_OR_NOTHING] = Field(
        default=None, description="Needs by role, or by site, which counts more."
    )

    def demands(self) -> Demands:
        """As the plan has it."""
        sites = {name: needs.needs() for name, needs in (self.sites or {}).items()}
        return Demands(self.pool, self.deadline_s, sites)


Resources = Annotated[Demands, ReadBy(ResourcesDocument, ResourcesDocument.demands)]


def parse_demands(given: Any, place: str = "resources") -> Demands:
    """What a document asks for; or where it is wrong, and what is allowed there."""
    demands: Demands = Demands() if given is None else checked(Resources, given, place)
    return demands
