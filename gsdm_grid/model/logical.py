"""Logical windows: one stream element, as a stream query function sees it.

A logical window has its stream type and one value per attribute, read as attributes (``w.ts``, ``w.x``). It
is immutable and its vectors refuse to be written to. Many of them lie together in a physical window.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from gsdm_grid.errors import UnknownAttribute
from gsdm_grid.model import columns
from gsdm_grid.model.types import StreamType


class LogicalWindow:
    """One stream element. Made by ``SomeType.window(…)`` or by indexing a physical window."""

    __slots__ = ("_values", "type")

    type: StreamType
    _values: dict[str, Any]

    def __init__(self, stream_type: StreamType, values: dict[str, Any]) -> None:
        object.__setattr__(self, "type", stream_type)
        object.__setattr__(self, "_values", values)

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            if name.startswith("__"):
                raise AttributeError(name) from None
            raise UnknownAttribute(self.type.name, name, self.type.attributes) from None

    def __getitem__(self, name: str) -> Any:
        """The value of an attribute, as a block gives its column."""
        return getattr(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        raise TypeError(f"windows are immutable: use replace({name}=…) to make a changed one")

    def values(self) -> Mapping[str, Any]:
        """Attribute values by name."""
        return MappingProxyType(self._values)

    def replace(self, **changes: Any) -> LogicalWindow:
        """A window of the same type with some attributes changed. Checked."""
        return construct(self.type, (), {**self._values, **changes})

    def as_type(self, stream_type: StreamType, **values: Any) -> LogicalWindow:
        """A window of another type: attributes that both have are kept unless given."""
        kept = {name: self._values[name] for name in stream_type.attributes if name in self._values}
        return construct(stream_type, (), {**kept, **values})

    def __reduce__(self) -> tuple[Any, ...]:
        return (construct, (self.type, (), self._values))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LogicalWindow):
            return NotImplemented
        return self.type == other.type and all(
            np.array_equal(self._values[name], other._values[name]) for name in self.type.attributes
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        parts = []
        for name, value in self._values.items():
            if isinstance(value, np.ndarray):
                parts.append(f"{name}=<{value.dtype} {'×'.join(map(str, value.shape))}>")
            else:
                parts.append(f"{name}={value!r}" if isinstance(value, str) else f"{name}={value}")
        return f"{self.type.name}({', '.join(parts)})"


def construct(stream_type: StreamType, values: tuple[Any, ...], named: Mapping[str, Any]) -> LogicalWindow:
    """Check the values against the type and make the window."""
    bound = stream_type.bind(values, named)
    checked = {
        name: columns.check_value(stream_type.name, name, kind, bound[name])
        for name, kind in stream_type.attributes.items()
    }
    return LogicalWindow(stream_type, checked)
