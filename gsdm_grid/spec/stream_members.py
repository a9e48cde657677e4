"""Input and result streams as a query's document says them; also as they are registered under a name."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BeforeValidator, Field, model_validator

from gsdm_grid.plan import ARRIVAL, ORDERED, Late, StreamOrder
from gsdm_grid.spec.document_model import (
    COMPOSED,
    MAPPING,
    MAPPING_OR_NOTHING,
    PLAIN,
    DocumentModel,
    Name,
    ReadBy,
    Reason,
    checked,
    composed_unless,
    plain_unless,
)

# -- order of time ----------------------------------------------------------------------------------------------------


class OrderDocument(DocumentModel):
    """How much earlier than one before it a window may be, and what becomes of what is earlier still."""

    refusal = "unknown member"
    within: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False), Reason("expected a number of seconds")] = 0.0
    late: Annotated[Late, Reason(f"expected one of {', '.join(get_args(Late))}")] = "fail"


OrderMember = Annotated[
    Annotated[
        Literal["ordered", "arrival"],
        Reason("expected 'ordered', 'arrival' or {within: SECONDS, late: …}"),
        PLAIN,
    ]
    | Annotated[OrderDocument, COMPOSED],
    plain_unless(),
]


def _order(member: str | OrderDocument) -> StreamOrder:
    if isinstance(member, OrderDocument):
        return StreamOrder(member.within, member.late)
    return ARRIVAL if member == "arrival" else ORDERED


Order = Annotated[StreamOrder, ReadBy(OrderMember, _order)]


def parse_order(given: Any, place: str = "order") -> StreamOrder:
    """``"ordered"``, ``"arrival"``, or ``{"within": seconds, "late": "fail" or "drop"}``.

    >>> parse_order({"within": 2.0, "late": "drop"})
    StreamOrder(within_s=2.0, late='drop')
    """
    order: StreamOrder = checked(Order, given, place)
    return order


# -- streams ----------------------------------------------------------------------------------------------------------


class InlineType(DocumentModel):
    """A stream type of the query's own."""

    name: Name
    under: str = Field(default="Stream", description="The type whose attributes it inherits.")
    attributes: Annotated[dict[str, str], MAPPING]


TypeMember = Annotated[Annotated[str, PLAIN] | Annotated[InlineType, COMPOSED], composed_unless(str)]
Options = Annotated[dict[str, Any] | None, MAPPING_OR_NOTHING]
Flag = Annotated[bool | None, BeforeValidator(lambda value: value or None, json_schema_input_type=bool | None)]


class InputDocument(DocumentModel):
    """An input stream: type and interface with its options; or the name of a source, or of a recorded segment."""

    name: Name | None = None
    source: str | None = Field(default=None, description="Name of a registered source.")
    segment: str | None = Field(default=None, description="Id of a recorded segment.")
    repeat: Any = Field(default=1, description="How often a segment is played: a number, or forever.")
    type: TypeMember | None = None
    interface: str | None = None
    options: Options = None
    shared: Flag = Field(default=None, description="Read once for all queries that run.")
    order: Order | None = Field(default=None, description="In which order of time its windows come.")

    @model_validator(mode="after")
    def _one_of_three(self) -> Self:
        if self.segment is not None:
            self.only("name", "segment", "repeat")
        elif self.source is not None:
            self.only("name", "source")
        else:
            self.only("name", "type", "interface", "options", "shared", "order")
        return self


class OutputDocument(DocumentModel):
    """A result stream: interface with its options; or the name of a sink; or only a name, and its windows are kept."""

    name: Name | None = None
    sink: str | None = Field(default=None, description="Name of a registered sink.")
    type: TypeMember | None = Field(default=None, description="What its windows are taken as; derived if not given.")
    interface: str | None = None
    options: Options = None

    @model_validator(mode="after")
    def _one_of_three(self) -> Self:
        if self.sink is not None:
            self.only("name", "sink")
        elif self.interface is None:
            self.only("name", "type")
        return self


InputMember = Annotated[
    InputDocument,
    BeforeValidator(
        lambda value: {"source": value} if isinstance(value, str) else value,
        json_schema_input_type=str | InputDocument,
    ),
]
OutputMember = Annotated[
    OutputDocument,
    BeforeValidator(
        lambda value: {"sink": value} if isinstance(value, str) else value,
        json_schema_input_type=str | OutputDocument,
    ),
]
