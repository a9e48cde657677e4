"""Columns: how the values of one attribute of many windows lie in memory.

A column is a NumPy array whose first axis counts windows, or a `Ragged` where vectors differ in length (and
for text). Vectors of a varying-length type lie in a dense two-dimensional array whenever the windows at hand
happen to be equally long, which is nearly always: there is one fast case and one general case.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gsdm_grid.errors import SchemaError
from gsdm_grid.model.types import AttributeType

Array = NDArray[Any]


class Ragged:
    """Vectors of different lengths, end to end: ``values[offsets[i]:offsets[i + 1]]`` is the i-th. Immutable."""

    __slots__ = ("offsets", "values")

    def __init__(self, values: Array, offsets: NDArray[np.int64]) -> None:
        self.values = values
        self.offsets = offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[Array]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step == 1:
                return type(self)(self.values, self.offsets[start : max(stop, start) + 1])
            return self.take(np.arange(start, stop, step))
        key = int(key)
        if key < 0:
            key += len(self)
        return self.values[self.offsets[key] : self.offsets[key + 1]]

    def take(self, rows: NDArray[np.intp]) -> Self:
        """The given rows, copied."""
        lengths = np.diff(self.offsets)[rows]
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        index = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][rows] - offsets[:-1], lengths)
        return type(self)(self.values[index], offsets)

    def compact(self) -> Self:
        """The same rows with offsets from zero and no values outside them; a view where possible."""
        if self.offsets[0] == 0:
            return type(self)(self.values[: self.offsets[-1]], self.offsets)
        return type(self)(self.values[self.offsets[0] : self.offsets[-1]], self.offsets - self.offsets[0])

    @property
    def nbytes(self) -> int:
        """Bytes of the values and offsets of these rows."""
        return int(self.offsets[-1] - self.offsets[0]) * self.values.itemsize + self.offsets.nbytes


class Text(Ragged):
    """Strings as UTF-8, end to end; an item is a `str`."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        got = super().__getitem__(key)
        return got if isinstance(key, slice) else got.tobytes().decode()


Column = Array | Ragged


def read_only(array: Array) -> Array:
    """A view of the array that refuses to be written to: windows are shared, functions must not change them."""
    view = array.view()
    view.flags.writeable = False
    return view


def take(column: Column, rows: Any) -> Column:
    """Rows of a column: a view for slices, a copy for index arrays."""
    if isinstance(rows, slice):
        got: Column = column[rows]
        return got
    return column.take(rows) if isinstance(column, Ragged) else column[rows]


def concatenate(columns: Sequence[Column], kind: AttributeType) -> Column:
    """Columns of one attribute, one after the other."""
    if len(columns) == 1:
        return columns[0]
    if all(isinstance(column, np.ndarray) for column in columns):
        arrays: list[Array] = [column for column in columns if isinstance(column, np.ndarray) and len(column)]
        if len({array.shape[1:] for array in arrays}) <= 1:
            return np.concatenate(arrays) if arrays else np.asarray(columns[0])
    parts = [as_ragged(column).compact() for column in columns]
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    values = np.concatenate([part.values for part in parts])
    return Text(values, offsets) if kind.is_string else Ragged(values, offsets)


def as_ragged(column: Column) -> Ragged:
    """The column in its general form."""
    if isinstance(column, Ragged):
        return column
    count, length = column.shape[0], column.shape[1] if column.ndim > 1 else 1
    return Ragged(np.ascontiguousarray(column).reshape(-1), np.arange(count + 1, dtype=np.int64) * length)


def pack(values: Sequence[Any], kind: AttributeType) -> Column:
    """A column from the (already checked) values of single windows."""
    if kind.is_string:
        encoded = [value.encode() for value in values]
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(item) for item in encoded], out=offsets[1:])
        return Text(np.frombuffer(b"".join(encoded), np.uint8), offsets)
    if kind.shape is None and len({len(value) for value in values}) > 1:
        offsets = np.zeros(len(values) + 1, np.int64)
        np.cumsum([len(value) for value in values], out=offsets[1:])
        return Ragged(np.concatenate(values), offsets)
    if kind.shape == ():
        return np.array(values, kind.numpy)
    return np.stack(values) if values else empty(kind)  # type: ignore[return-value]


def empty(kind: AttributeType) -> Column:
    """A column of no windows."""
    if kind.is_string:
        return Text(np.empty(0, np.uint8), np.zeros(1, np.int64))
    return np.empty((0, *((0,) if kind.shape is None else kind.shape)), kind.numpy)


def check_value(type_name: str, name: str, kind: AttributeType, value: Any) -> Any:
    """One value of one window, as it will be stored, or a `SchemaError` that says what is wrong."""
    if kind.is_string:
        if not isinstance(value, str):
            raise SchemaError(type_name, name, "a string", _describe(value))
        return value
    array = _to_array(type_name, name, kind, value)
    expected = kind.shape if kind.shape is not None else array.shape[:1]
    if array.shape != expected or (kind.shape is None and array.ndim != 1):
        raise SchemaError(type_name, name, str(kind), _describe(array))
    return array[()] if kind.shape == () else read_only(array)


def check_column(type_name: str, name: str, kind: AttributeType, value: Any) -> Column:
    """A column of many windows, as it will be stored, or a `SchemaError`."""
    if isinstance(value, Ragged):
        if not kind.varies or (kind.is_string != isinstance(value, Text)):
            raise SchemaError(type_name, name, str(kind), "vectors of different lengths")
        _check_dtype(type_name, name, kind, value.values)
        return value
    if kind.is_string or (kind.shape is None and not isinstance(value, np.ndarray)):
        return pack([check_value(type_name, name, kind, item) for item in value], kind)
    array = _to_array(type_name, name, kind, value)
    fits = array.ndim == 2 if kind.shape is None else array.shape[1:] == kind.shape
    if array.ndim == 0 or not fits:
        raise SchemaError(type_name, name, f"a column of {kind} (first axis: windows)", _describe(array))
    return read_only(array)


def _to_array(type_name: str, name: str, kind: AttributeType, value: Any) -> Array:
    if kind.dtype == "timestamp":
        return _to_timestamps(type_name, name, value)
    try:
        array = np.asarray(value)
    except ValueError:
        raise SchemaError(type_name, name, str(kind), "values of different lengths") from None
    _check_dtype(type_name, name, kind, array)
    if array.dtype == kind.numpy:
        return array
    if array.dtype.kind in "iu" and kind.numpy.kind in "iu" and array.size:
        limits = np.iinfo(kind.numpy)
        if array.min() < limits.min or array.max() > limits.max:
            raise SchemaError(type_name, name, f"{kind} ({limits.min}…{limits.max})", f"{array.min()}…{array.max()}")
    return array.astype(kind.numpy)


def _check_dtype(type_name: str, name: str, kind: AttributeType, array: Array) -> None:
    integers = array.dtype.kind in "iu" and kind.numpy.kind in "iu"
    if array.dtype != kind.numpy and not integers and not np.can_cast(array.dtype, kind.numpy, "same_kind"):
        raise SchemaError(type_name, name, str(kind), _describe(array))


def _to_timestamps(type_name: str, name: str, value: Any) -> Array:
    array = np.asarray(value)
    if array.dtype.kind in "iu":
        return array.astype(np.int64, copy=False)
    if array.dtype.kind == "M":
        return array.astype("datetime64[ns]").astype(np.int64)
    if hasattr(value, "timestamp"):
        return np.asarray(round(value.timestamp() * 1_000_000) * 1000, np.int64)
    raise SchemaError(type_name, name, "a timestamp: integer nanoseconds (see seconds()), datetime64 or datetime",
                      _describe(value))


def _describe(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {value.shape}" if value.ndim else f"{value.dtype} {value}"
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '…'}"
