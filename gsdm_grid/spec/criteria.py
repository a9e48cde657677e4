"""What a search for the best plan is to reach, as a request says it."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from gsdm_grid.optimizer import FIGURES, LARGER_IS_BETTER, Criteria
from gsdm_grid.spec.document_model import (
    MAPPING,
    MAPPING_OR_NOTHING,
    DocumentModel,
    NameOf,
    Reason,
    checked,
    wrong,
)

Figure = Annotated[str, NameOf("figure", FIGURES)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False), Reason("must be a number")]


class CriteriaDocument(DocumentModel):
    """What makes one plan better than another: one goal, and bounds. Nothing: the least cost of the busiest site."""

    minimize: Figure | None = None
    maximize: Figure | None = None
    weights: Annotated[dict[Figure, Amount], MAPPING] | None = Field(
        default=None, description="Instead of one figure, the sum of some, weighted."
    )
    subject_to: Annotated[dict[Figure, Amount] | None, MAPPING_OR_NOTHING] = Field(
        default=None, description="Bounds: at most so much; at least so much of what is better larger."
    )

    @model_validator(mode="after")
    def _one_goal(self) -> Self:
        goals = [name for name in ("minimize", "maximize", "weights") if self.given(name)]
        if len(goals) > 1:
            raise wrong(f"has {' and '.join(goals)}: one goal is enough")
        if self.weights is not None and not sum(self.weights.values()) > 0:
            raise wrong("needs at least one figure with a weight greater than zero", "weights")
        if self.minimize in LARGER_IS_BETTER:
            raise wrong(f"{self.minimize} is a figure to maximize", "minimize")
        if self.maximize is not None and self.maximize not in LARGER_IS_BETTER:
            raise wrong(f"{self.maximize} is a figure to minimize", "maximize")
        return self

    def criteria(self) -> Criteria:
        """As the optimizer has it."""
        figure = self.minimize or self.maximize
        weights = {figure: 1.0} if figure is not None else self.weights
        bounds = self.subject_to or {}
        return Criteria(subject_to=bounds) if weights is None else Criteria(weights, bounds)


def parse_criteria(given: Any, place: str = "criteria") -> Criteria:
    """``{"minimize": name}``, ``{"maximize": name}`` or ``{"weights": {name: weight}}``, with ``subject_to`` if wanted.

    >>> parse_criteria({"maximize": "throughput", "subject_to": {"hosts": 6}}).hosts
    6
    """
    document: CriteriaDocument = checked(CriteriaDocument, {} if given is None else given, place)
    return document.criteria()
