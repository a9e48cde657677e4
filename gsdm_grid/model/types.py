"""Stream types: the named schema of the windows of a stream.

A stream type has a name, a parent (subtypes inherit attributes) and attributes: scalars, strings, timestamps
and vectors of numbers, of fixed or varying length. The root type ``Stream`` has one attribute, ``ts``. How
windows of a type are stored is the business of `physical`; how they travel, of `wire`.

Timestamps are integer nanoseconds (since the Unix epoch, or since whatever the source calls zero): they
compare exactly, which joins and window borders need. `seconds` converts.
"""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from gsdm_grid.errors import SchemaError, UnknownAttribute, UnknownName

if TYPE_CHECKING:
    from gsdm_grid.model.logical import LogicalWindow
    from gsdm_grid.model.physical import PhysicalWindow

NANOSECONDS = 1_000_000_000
_ALIASES = {
    "int": "int64",
    "integer": "int64",
    "float": "float64",
    "real": "float64",
    "complex": "complex128",
    "timeval": "timestamp",
    "charstring": "string",
}
"""Other names of types, those of the papers among them; whether letters are capital does not matter."""
_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_NUMBERS = ("bool", *_INTEGERS, "float16", "float32", "float64", "complex64", "complex128")
_ALLOWED = (
    "int8…int64, uint8…uint64, float16…float64, complex64/128, bool, timestamp, string, "
    "or 'vector of …' / 'vector[n] of …'"
)
_VECTOR = re.compile(r"vector(?:\[(?P<shape>[\d,\s]+)\])?\s+of\s+(?P<item>\w+)")
_SHAPE = re.compile(r"\s*\d{1,9}\s*(?:,\s*\d{1,9}\s*)*(?:,\s*)?")  # no two \s* meet: that takes quadratic time
_LONGEST = 200
# What windows have beside their attributes: an attribute of such a name could not be read.
_PLACE = ("halo", "mark", "marked_as", "ordinals", "placed", "stamped", "tells", "time_mark")
_MAKERS = ("as_type", "concat", "dense_parts", "empty", "from_arrow", "pack", "replace", "select", "to_arrow")
_RESERVED = {"columns", "nbytes", "type", "values", *_PLACE, *_MAKERS}


def seconds(value: float) -> int:
    """A timestamp, or a span, of this many seconds.

    >>> seconds(1.5)
    1500000000
    """
    return round(value * NANOSECONDS)


@dataclass(frozen=True)
class AttributeType:
    """Type of one attribute. Immutable, pickled, written as text (``vector[8192] of complex64``).

    ``shape`` is ``()`` for scalars and strings, a tuple for fixed shapes, None for vectors of varying length.
    """

    dtype: str
    shape: tuple[int, ...] | None = ()

    @staticmethod
    def parse(text: str) -> AttributeType:
        """Read the text form.

        >>> AttributeType.parse("vector of complex64")
        AttributeType(dtype='complex64', shape=None)
        """
        if len(text) > _LONGEST:
            raise SchemaError("?", None, _ALLOWED, f"{text[:40]!r}…")
        match = _VECTOR.fullmatch(text.strip())
        item = match["item"] if match else text.strip()
        item = _ALIASES.get(item.lower(), item)
        if item not in ("timestamp", "string"):
            try:
                item = np.dtype(item).name
            except (TypeError, ValueError, SyntaxError):
                item = ""
            if item not in _NUMBERS:
                raise SchemaError("?", None, _ALLOWED, repr(text))
        if match is None:
            return AttributeType(item)
        if item == "string":
            raise SchemaError("?", None, "a vector of numbers", repr(text))
        if match["shape"] is None:
            return AttributeType(item, None)
        shape: tuple[int, ...] = ()
        if _SHAPE.fullmatch(match["shape"]):
            shape = tuple(int(part) for part in match["shape"].split(",") if part.strip())
        if not shape or min(shape) < 1:
            raise SchemaError("?", None, "vector lengths of at least 1, separated by commas", repr(text))
        return AttributeType(item, shape)

    @cached_property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of stored values (timestamps are int64, strings UTF-8 bytes)."""
        return np.dtype({"timestamp": "int64", "string": "uint8"}.get(self.dtype, self.dtype))

    @property
    def is_string(self) -> bool:
        """Whether values are text."""
        return self.dtype == "string"

    @property
    def is_scalar(self) -> bool:
        """Whether a value is one number (or timestamp), not a vector and not a string."""
        return self.shape == () and not self.is_string

    @property
    def varies(self) -> bool:
        """Whether values may differ in length from window to window."""
        return self.shape is None or self.is_string

    def __str__(self) -> str:
        if self.shape == ():
            return self.dtype
        if self.shape is None:
            return f"vector of {self.dtype}"
        return f"vector[{','.join(map(str, self.shape))}] of {self.dtype}"


TIMESTAMP = AttributeType("timestamp")


@dataclass(frozen=True, eq=False)
class StreamType:
    """A named schema. Made by `create_stream_type`; immutable; compared by structure, so it may travel.

    ``attributes`` holds inherited attributes first, ``ts`` always being the first of all. Their order counts:
    constructors and the wire form go by it.
    """

    name: str
    attributes: Mapping[str, AttributeType]
    parent: StreamType | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", MappingProxyType(dict(self.attributes)))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, StreamType):
            return NotImplemented
        same_attributes = list(self.attributes.items()) == list(other.attributes.items())
        return self.name == other.name and same_attributes and self.parent == other.parent

    def __hash__(self) -> int:
        return hash((self.name, *self.attributes, self.parent))

    def __reduce__(self) -> tuple[Any, ...]:
        return (StreamType, (self.name, dict(self.attributes), self.parent))

    def window(self, *values: Any, **named: Any) -> LogicalWindow:
        """Construct one logical window: values in the order of the attributes, or by name. Checked.

        Vectors of the right dtype are not copied: whoever gives one away must not write to it any more.
        """
        from gsdm_grid.model.logical import construct

        return construct(self, values, named)

    def block(self, *values: Any, **named: Any) -> PhysicalWindow:
        """Construct a physical window from columns: arrays with one leading axis over the windows. Checked.

        Arrays of the right dtype are not copied: whoever gives one away must not write to it any more.
        """
        from gsdm_grid.model.physical import construct

        return construct(self, values, named)

    @cached_property
    def window_bytes(self) -> int | None:
        """Bytes of each window of the type; None where they differ from window to window."""
        kinds = self.attributes.values()
        if any(kind.varies for kind in kinds):
            return None
        return sum(kind.numpy.itemsize * math.prod(kind.shape or ()) for kind in kinds)

    def is_under(self, other: StreamType) -> bool:
        """Whether this is ``other`` or one of its subtypes."""
        at: StreamType | None = self
        while at is not None:
            if at == other:
                return True
            at = at.parent
        return False

    def attribute(self, name: str) -> AttributeType:
        """Type of the named attribute."""
        try:
            return self.attributes[name]
        except KeyError:
            raise UnknownAttribute(self.name, name, self.attributes) from None

    def bind(self, values: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """Match constructor arguments with attributes; every attribute needs exactly one value."""
        names = list(self.attributes)
        if len(values) > len(names):
            allowed = f"at most {len(names)} values ({', '.join(names)})"
            raise SchemaError(self.name, None, allowed, str(len(values)))
        bound = dict(zip(names, values, strict=False))
        for name, value in named.items():
            self.attribute(name)
            if name in bound:
                raise SchemaError(self.name, name, "one value", "two")
            bound[name] = value
        missing = [name for name in names if name not in bound]
        if missing:
            raise SchemaError(self.name, missing[0], str(self.attributes[missing[0]]), "nothing")
        return bound

    def to_json(self) -> dict[str, Any]:
        """The type and its parents as plain JSON."""
        inherited = self.parent.attributes if self.parent else {}
        own = {name: str(kind) for name, kind in self.attributes.items() if name not in inherited}
        return {"name": self.name, "attributes": own, "under": self.parent.to_json() if self.parent else None}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> StreamType:
        """Inverse of `to_json`; registers nothing."""
        try:
            name, attributes, under = data["name"], data["attributes"], data.get("under")
            if under is None and name == STREAM.name:
                return STREAM
            return _derive(name, attributes, STREAM if under is None else StreamType.from_json(under))
        except (KeyError, TypeError, AttributeError):
            raise SchemaError("?", None, "{name, attributes, under}", repr(data)[:200]) from None

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}: {kind}" for name, kind in self.attributes.items())
        return f"{self.name}({inner})"


STREAM = StreamType("Stream", {"ts": TIMESTAMP})


def _derive(name: str, attributes: Mapping[str, Any], parent: StreamType) -> StreamType:
    if not name.isidentifier():
        raise SchemaError(name, None, "a name made of letters, digits and underscores", repr(name))
    combined = dict(parent.attributes)
    for key, given in attributes.items():
        if not key.isidentifier() or keyword.iskeyword(key) or key.startswith("_") or key in _RESERVED:
            raise SchemaError(name, key, "a name that is an identifier and not reserved", repr(key))
        kind = _kind(name, key, given)
        if key in combined and combined[key] != kind:
            raise SchemaError(name, key, f"{combined[key]} as inherited from {parent.name!r}", str(kind))
        combined[key] = kind
    return StreamType(name, combined, parent)


def _kind(type_name: str, name: str, given: Any) -> AttributeType:
    """Type of an attribute from its text form, or from what NumPy takes as a dtype."""
    if isinstance(given, AttributeType):
        return given
    try:
        if isinstance(given, str):
            return AttributeType.parse(given)
        if given is not None:  # which NumPy takes for float64
            return AttributeType.parse("string" if given is str else np.dtype(given).name)
    except SchemaError as error:
        raise SchemaError(type_name, name, error.args[2], repr(given)) from None
    except TypeError:
        pass
    raise SchemaError(type_name, name, _ALLOWED, repr(given))


class TypeRegistry:
    """Stream types by name: one per process for people's convenience, others where isolation matters."""

    def __init__(self) -> None:
        self._types: dict[str, StreamType] = {STREAM.name: STREAM}

    def add(self, stream_type: StreamType) -> StreamType:
        """Register a type; the same name may come again only with the same structure."""
        known = self._types.get(stream_type.name)
        if known is not None and known != stream_type:
            before = f"the structure registered before, {known!r}"
            raise SchemaError(stream_type.name, None, before, repr(stream_type))
        self._types[stream_type.name] = stream_type
        return stream_type

    def get(self, name: str | StreamType) -> StreamType:
        """The type of this name."""
        if isinstance(name, StreamType):
            return name
        try:
            return self._types[name]
        except KeyError:
            raise UnknownName("stream type", name, self._types) from None

    def remove(self, name: str) -> None:
        """Forget a type; what uses it goes on."""
        self._types.pop(name, None)

    def names(self) -> list[str]:
        """All registered names, sorted."""
        return sorted(self._types)


stream_types = TypeRegistry()


@overload
def create_stream_type(
    name: str,
    attributes: Mapping[str, Any],
    under: str | StreamType = STREAM,
    registry: TypeRegistry = stream_types,
) -> StreamType: ...


@overload
def create_stream_type(
    name: str,
    attributes: Sequence[str],
    types: Sequence[Any],
    under: str | StreamType = STREAM,
    registry: TypeRegistry = stream_types,
) -> StreamType: ...


def create_stream_type(name: str, attributes: Any, *rest: Any, **options: Any) -> StreamType:
    """Create and register a stream type under another one, whose attributes it inherits.

    ``attributes`` is a mapping of names to types, or the names alone, with their types in a second list, as in the
    thesis (3.2.2). Then follow ``under``, the parent (`STREAM` by default), and ``registry``.

    >>> Antenna = create_stream_type("Antenna", {"gain": "float32", "x": "vector of complex64"})
    >>> Antenna.window(ts=0, gain=2, x=[1, 1j]).gain
    np.float32(2.0)
    >>> create_stream_type("Antenna", ["gain", "x"], ["float32", "vector of complex64"]) == Antenna
    True
    """
    if isinstance(attributes, Mapping):
        if "types" in options:
            raise SchemaError(name, None, "a mapping says the types itself", "types beside it")
        return _create(name, attributes, *rest, **options)
    if not rest:
        rest = (options.pop("types", None),)
    return _create(name, _paired(name, attributes, rest[0]), *rest[1:], **options)


def _create(
    name: str, attributes: Mapping[str, Any], under: str | StreamType = STREAM, registry: TypeRegistry = stream_types
) -> StreamType:
    return registry.add(_derive(name, attributes, registry.get(under)))


def _paired(type_name: str, names: Any, types: Any) -> dict[str, Any]:
    """The mapping that a list of attribute names and one of their types stand for."""
    for values, expected in (
        (names, "a mapping of attributes, or a list of their names and one of their types"),
        (types, "a list of types"),
    ):
        if isinstance(values, str) or not isinstance(values, Sequence):
            raise SchemaError(type_name, None, expected, repr(values))
    if len(names) != len(types):
        counts = " and ".join(
            f"{count} {word}{'' if count == 1 else 's'}" for count, word in ((len(names), "name"), (len(types), "type"))
        )
        raise SchemaError(type_name, None, "as many types as attribute names", counts)
    attributes: dict[str, Any] = {}
    for name, kind in zip(names, types, strict=True):
        if not isinstance(name, str):
            raise SchemaError(type_name, None, "attribute names that are text", repr(name))
        if name in attributes:
            raise SchemaError(type_name, name, "one type", "two")
        attributes[name] = kind
    return attributes
