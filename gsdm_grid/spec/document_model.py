"""What all models of documents have in common: they are strict, and say what is wrong in our words.

A model describes a part of a document: its members, their bounds, what they are for. REST describes itself by the same
models. Bounds are written once, as pydantic fields, and what is said of a value that does not fit is made of them.
`checked` is the one place where errors of pydantic become errors of ours: the first of them, with its place in the
document, what came, and what is allowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from numbers import Integral
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    Tag,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError, core_schema

from gsdm_grid.errors import FlowError, QueryError, UnknownName
from gsdm_grid.ids import NAME

T = TypeVar("T")

# -- what is wrong ----------------------------------------------------------------------------------------------------

OUR_ERRORS = REASON, MISFIT, UNKNOWN = "reason", "misfit", "unknown_name"
"""Types of our own errors: with a reason of their own; with the reason that a type names; a name nobody registered."""


def wrong(reason: str, member: str | None = None) -> PydanticCustomError:
    """What a validator raises: the reason, and the member of its model that it is about."""
    return PydanticCustomError(REASON, "{reason}", {"reason": reason, "member": member})


def kind_of(value: Any) -> str:
    """What came, if its value does not matter."""
    return "nothing" if value is None else type(value).__name__


@dataclass(frozen=True)
class Reason:
    """Metadata of a type: what is said of a value that does not fit; the type's bounds are added.

    >>> checked(Annotated[int, Field(ge=1, le=8), Reason("must be a whole number")], 9, "degree")
    Traceback (most recent call last):
        ...
    gsdm_grid.errors.FlowError: degree: must be a whole number from 1 to 8, got 9
    """

    text: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        text = f"{self.text}{_bounds(schema)}"
        return core_schema.custom_error_schema(schema, custom_error_type=MISFIT, custom_error_message=text)


@dataclass(frozen=True)
class NameOf:
    """Metadata of a text: one of these names. Another one is an `UnknownName`, which says what is similar and known."""

    kind: str
    names: tuple[str, ...]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        known = sorted(self.names)
        return core_schema.custom_error_schema(
            core_schema.literal_schema(known),
            custom_error_type=UNKNOWN,
            custom_error_message="unknown {kind}",
            custom_error_context={"kind": self.kind, "known": known},
        )


def _bounds(schema: Mapping[str, Any]) -> str:
    while "schema" in schema:
        schema = schema["schema"]
    least, most = schema.get("ge"), schema.get("le", schema["lt"] - 1 if "lt" in schema else None)
    if least is None:
        return ""
    return f" of at least {least:g}" if most is None else f" from {_number(least)} to {_number(most)}"


def _number(value: float) -> str:
    if isinstance(value, int) and value > 2**40 and (value + 1).bit_count() == 1:
        return f"2**{value.bit_length()} - 1"
    return f"{value:g}".replace("e+0", "e") if isinstance(value, float) else str(value)


# -- models -----------------------------------------------------------------------------------------------------------


class DocumentModel(BaseModel):
    """A part of a document. Immutable. Other members than its own are refused, with those that are allowed."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    refusal: ClassVar[str] = "has no member"
    """What is said of a member that it does not have."""

    @model_validator(mode="before")
    @classmethod
    def _known_members(cls, value: Any) -> Any:
        """What is needed but missing counts as nothing: then it is said what it should be."""
        if isinstance(value, cls):
            return value
        members = mapping(value)
        unknown = next((name for name in members if name not in cls.model_fields), None)
        if unknown is not None:
            raise wrong(f"{cls.refusal} {unknown!r:.80}; allowed: {', '.join(cls.model_fields)}")
        return {**{name: None for name, field in cls.model_fields.items() if field.is_required()}, **members}

    def given(self, name: str) -> bool:
        """Whether the document has this member, and it is not null."""
        return name in self.model_fields_set and getattr(self, name) is not None

    def only(self, *allowed: str) -> None:
        """Refuse other members than these, of a document that may have either these or others."""
        members = (name for name in type(self).model_fields if name in self.model_fields_set)
        other = next((name for name in members if name not in allowed), None)
        if other is not None:
            raise wrong(f"has no member {other!r}; allowed: {', '.join(allowed)}")


def mapping(value: Any) -> dict[str, Any]:
    """A mapping with text as keys."""
    if not isinstance(value, Mapping):
        raise wrong(f"expected a mapping, got {kind_of(value)}")
    key = next((key for key in value if not isinstance(key, str)), None)
    if key is not None:
        raise wrong(f"keys must be text, got {key!r:.40}")
    return dict(value)


def _mapping_or_nothing(value: Any) -> dict[str, Any] | None:
    """What is empty is nothing, also where it is no mapping: that has always been taken."""
    return mapping(value) if value else None


def _whole(value: Any) -> Any:
    """What is behind the point has always been left out here; ``1e6`` is a fraction to YAML. NumPy has integers too."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    return int(value) if isinstance(value, float) and math.isfinite(value) else value


MAPPING = BeforeValidator(mapping)
MAPPING_OR_NOTHING = BeforeValidator(_mapping_or_nothing)
WHOLE = BeforeValidator(_whole)

Name = Annotated[str, Field(pattern=NAME), Reason("must be a letter and up to 62 letters, digits, '_', '.' or '-'")]
"""A name of a query, stream, type or segment."""
Degree = Annotated[int, Field(ge=1, le=1024), Reason("must be a whole number")]
"""A degree of parallelism."""
BlockBytes = Annotated[int, Field(ge=1 << 12, le=1 << 28), WHOLE, Reason("must be a whole number")]
"""Size of physical windows."""

# -- one of two forms -------------------------------------------------------------------------------------------------

_TAG = "\0"
"""How tags of unions begin: no document has such a text, so they are told from members in the places of errors."""
PLAIN, COMPOSED = Tag(f"{_TAG}plain"), Tag(f"{_TAG}composed")


def composed_unless(plain: type) -> Discriminator:
    """Of a union whose parts are tagged ``PLAIN`` and ``COMPOSED``: which one a value is meant to be."""
    return Discriminator(lambda value: (PLAIN if isinstance(value, plain) else COMPOSED).tag)


def plain_unless(composed: type | tuple[type, ...] = (Mapping, BaseModel)) -> Discriminator:
    """The same, where whatever is no mapping is meant to be plain."""
    return Discriminator(lambda value: (COMPOSED if isinstance(value, composed) else PLAIN).tag)


@dataclass(frozen=True)
class ReadBy:
    """Metadata of a plain class: documents describe it by a model, which makes it. Its own objects are taken too."""

    model: Any
    convert: Callable[[Any], Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def read(value: Any, validate: Callable[[Any], Any]) -> Any:
            return value if isinstance(value, source) else self.convert(validate(value))

        return core_schema.no_info_wrap_validator_function(read, handler.generate_schema(self.model))


# -- checking ---------------------------------------------------------------------------------------------------------


def checked(shape: Any, value: Any, place: str = "", whole: str = "specification") -> Any:
    """A value of this type or model, or the error that says at which place it is wrong, and what is allowed there.

    ``place`` is where the value stands in its document; ``whole`` is what it is called if it is the document.
    """
    try:
        return _adapter(shape).validate_python(value, strict=True)
    except ValidationError as error:
        raise _translated(error, place, whole) from None


@cache
def _adapter(shape: Any) -> TypeAdapter[Any]:
    return TypeAdapter(shape)


def _translated(error: ValidationError, place: str, whole: str) -> QueryError:
    first = error.errors(include_url=False)[0]
    path = _path(place, steps_of(first))
    if first["type"] == UNKNOWN and isinstance(first["input"], str):
        return UnknownName(first["ctx"]["kind"], first["input"][:80], first["ctx"]["known"], path)
    return FlowError(path or whole, reason_of(first))


def steps_of(error: ErrorDetails) -> list[int | str]:
    """Where in its document something is wrong, without what only our unions know."""
    steps = [step for step in error["loc"] if not (isinstance(step, str) and step.startswith(_TAG))]
    if error["type"] == UNKNOWN and steps[-1:] == ["[key]"]:
        return steps[:-2]  # the name of a member: the reason has it
    member = error.get("ctx", {}).get("member") if error["type"] == REASON else None
    return steps if member is None else [*steps, member]


def reason_of(error: ErrorDetails) -> str:
    """What is wrong, in our words."""
    kind, message, value = error["type"], error["msg"], error["input"]
    if kind == UNKNOWN and isinstance(value, str):
        return str(UnknownName(error["ctx"]["kind"], value[:80], error["ctx"]["known"]))
    expected = {"list_type": "a list", "bool_type": "true or false", "string_type": "text", UNKNOWN: "text"}
    if kind in expected:
        return f"expected {expected[kind]}, got {kind_of(value)}"
    return message if kind == REASON else f"{message}, got {value!r:.80}"


def _path(place: str, steps: Iterable[int | str]) -> str:
    for step in steps:
        place += f"[{step}]" if isinstance(step, int) else f".{step}" if place else step
    return place
