"""Columns: how the values of one attribute of many windows lie in memory.

A column is a NumPy array whose first axis counts windows, or a `Ragged` where vectors differ in length (and
for text). Vectors of a varying-length type lie in a dense two-dimensional array whenever the windows at hand
happen to be equally long, which is nearly always: there is one fast case and one general case.

Columns are shared between windows, so nobody may write to one: their arrays are read-only views.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import index
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gsdm_grid.errors import InternalError, SchemaError
from gsdm_grid.model.types import AttributeType

Array = NDArray[Any]


class Ragged:
    """Vectors of different lengths, end to end: ``values[offsets[i]:offsets[i + 1]]`` is the i-th.

    Immutable, pickled.
    """

    __slots__ = ("offsets", "values")

    values: Array
    offsets: NDArray[np.int64]

    def __init__(self, values: Array, offsets: NDArray[np.int64]) -> None:
        object.__setattr__(self, "values", read_only(values))
        object.__setattr__(self, "offsets", read_only(offsets))

    def __setattr__(self, name: str, value: Any) -> None:
        raise TypeError(f"columns are immutable: {name!r} cannot be set")

    def __reduce__(self) -> tuple[Any, ...]:
        compact = self.compact()
        return (type(self), (compact.values, compact.offsets))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        """The vector at an integer; for a slice these rows, as a view where they lie together."""
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step == 1:
                return type(self)(self.values, self.offsets[start : max(stop, start) + 1])
            return self.take(np.arange(start, stop, step))
        row = index(key)
        if row < 0:
            row += len(self)
        if not 0 <= row < len(self):
            raise IndexError(f"row {key} of {len(self)}")
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    def take(self, rows: NDArray[np.intp]) -> Self:
        """The given rows, copied."""
        lengths = np.diff(self.offsets)[rows]
        offsets = offsets_of(lengths)
        places = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][rows] - offsets[:-1], lengths)
        return type(self)(self.values[places], offsets)

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
        """The string at an integer; for a slice these rows."""
        got = super().__getitem__(key)
        return got if isinstance(key, slice) else got.tobytes().decode()


Column = Array | Ragged


def row_slice(start: int, stop: int, count: int) -> slice:
    """The rows from ``start`` until before ``stop`` of ``count``; bounds outside are our bug.

    For bounds that were computed: a plain slice takes any, as Python does, and wrong ones give other rows.
    """
    if not 0 <= start <= stop <= count:
        raise outside(start, stop, count)
    return slice(start, stop)


def outside(start: int, stop: int, count: int) -> InternalError:
    """What is raised for bounds that are not among the rows."""
    return InternalError(f"cannot cut out rows {start} to {stop} of {count}")


def offsets_of(lengths: Any) -> NDArray[np.int64]:
    """Where vectors of these lengths begin and end when they lie end to end."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def read_only(array: Array) -> Array:
    """The array, or a view of it, that refuses to be written to: functions must not change what is shared."""
    if not array.flags.writeable:
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def concatenate(columns: Sequence[Column], kind: AttributeType) -> Column:
    """Columns of one attribute, one after the other."""
    if len(columns) == 1:
        return columns[0]
    if all(isinstance(column, np.ndarray) for column in columns):
        arrays: list[Array] = [column for column in columns if isinstance(column, np.ndarray) and len(column)]
        if len({array.shape[1:] for array in arrays}) <= 1:
            return np.concatenate(arrays) if arrays else np.asarray(columns[0])
    parts = [as_ragged(column).compact() for column in columns]
    offsets = offsets_of(np.concatenate([np.diff(part.offsets) for part in parts]))
    values = np.concatenate([part.values for part in parts])
    return Text(values, offsets) if kind.is_string else Ragged(values, offsets)


def as_ragged(column: Column) -> Ragged:
    """The column in its general form."""
    if isinstance(column, Ragged):
        return column
    count, length = column.shape
    return Ragged(np.ascontiguousarray(column).reshape(-1), np.arange(count + 1, dtype=np.int64) * length)


def as_dense(column: Ragged) -> Array:
    """Vectors that are equally long as a two-dimensional array; a view."""
    flat = column.compact()
    length = int(flat.offsets[1]) if len(flat) else 0
    return flat.values.reshape(len(flat), length)


def pack(values: Sequence[Any], kind: AttributeType) -> Column:
    """A column from the (already checked) values of single windows."""
    if kind.is_string:
        encoded = [value.encode() for value in values]
        offsets = offsets_of([len(item) for item in encoded])
        return Text(np.frombuffer(b"".join(encoded), np.uint8), offsets)
    if kind.shape == ():
        return np.array(values, kind.numpy)
    if not values:
        return empty(kind)
    if kind.shape is None:
        lengths = [len(value) for value in values]
        if min(lengths) != max(lengths):
            return Ragged(np.concatenate(values), offsets_of(lengths))
    return np.stack(values)


@lru_cache(256)
def empty(kind: AttributeType) -> Column:
    """A column of no windows."""
    if kind.is_string:
        return Text(np.empty(0, np.uint8), np.zeros(1, np.int64))
    return read_only(np.empty((0, *((0,) if kind.shape is None else kind.shape)), kind.numpy))


def check_value(type_name: str, name: str, kind: AttributeType, value: Any) -> Any:
    """One value of one window, as it will be stored, or a `SchemaError` that says what is wrong."""
    if kind.is_string:
        if not isinstance(value, str) or not _encodable(value):
            raise SchemaError(type_name, name, "a string", _describe(value))
        return str(value)
    array = _to_array(type_name, name, kind, value)
    fits = array.ndim == 1 if kind.shape is None else array.shape == kind.shape
    if not fits:
        raise SchemaError(type_name, name, str(kind), _describe(array))
    return array[()] if kind.shape == () else read_only(array)


def check_column(type_name: str, name: str, kind: AttributeType, value: Any) -> Column:
    """A column of many windows, as it will be stored, or a `SchemaError`."""
    if isinstance(value, Ragged):
        if not kind.varies or kind.is_string != isinstance(value, Text):
            raise SchemaError(type_name, name, str(kind), "vectors of different lengths")
        if value.values.dtype == kind.numpy:
            return value
        return Ragged(_to_array(type_name, name, kind, value.values), value.offsets)
    if kind.is_string or (kind.shape is None and not isinstance(value, np.ndarray)):
        if isinstance(value, str) or not hasattr(value, "__iter__"):
            raise SchemaError(type_name, name, f"a column of {kind}", _describe(value))
        return pack([check_value(type_name, name, kind, item) for item in value], kind)
    array = _to_array(type_name, name, kind, value)
    fits = array.ndim == 2 if kind.shape is None else array.ndim > 0 and array.shape[1:] == kind.shape
    if not fits:
        raise SchemaError(type_name, name, f"a column of {kind} (first axis: windows)", _describe(array))
    return read_only(array)


def _to_array(type_name: str, name: str, kind: AttributeType, value: Any) -> Array:
    try:
        array = np.asarray(value)
    except (ValueError, TypeError):
        raise SchemaError(type_name, name, str(kind), "values of different lengths") from None
    if not array.size and not isinstance(value, np.ndarray):
        return array.astype(kind.numpy)  # nothing has no dtype, though NumPy says float64
    if kind.dtype == "timestamp":
        array = _to_nanoseconds(type_name, name, array)
    if array.dtype == kind.numpy:
        return array
    if array.dtype == np.float64 and kind.numpy == np.uint64:
        array = _large_integers(value, array)
    if array.dtype.kind in "iu" and kind.numpy.kind in "iu":
        limits = np.iinfo(kind.numpy)
        if array.size and (array.min() < limits.min or array.max() > limits.max):
            expected = f"{kind} ({limits.min}…{limits.max})"
            raise SchemaError(type_name, name, expected, f"{array.min()}…{array.max()}")
    elif not np.can_cast(array.dtype, kind.numpy, "same_kind"):
        raise SchemaError(type_name, name, str(kind), _describe(array))
    return array.astype(kind.numpy)


def _large_integers(value: Any, array: Array) -> Array:
    """NumPy makes floats of lists that hold both small integers and such as only uint64 holds."""
    exact = np.asarray(value, object)
    if not all(type(item) is int and 0 <= item < 1 << 64 for item in exact.flat):
        return array
    return exact.astype(np.uint64)


def _to_nanoseconds(type_name: str, name: str, array: Array) -> Array:
    if array.dtype.kind in "iu":
        return array
    if array.dtype.kind == "M":
        exact = array.astype("datetime64[ns]")
        if np.array_equal(exact.astype(array.dtype), array):  # not so for NaT and beyond the year 2262
            return exact.astype(np.int64)
    elif array.dtype == object and array.size and all(hasattr(item, "timestamp") for item in array.flat):
        times = [round(item.timestamp() * 1_000_000) * 1000 for item in array.flat]
        return np.array(times, np.int64).reshape(array.shape)
    expected = "a timestamp: integer nanoseconds (see seconds()), datetime64 or datetime"
    raise SchemaError(type_name, name, expected, _describe(array))


def _encodable(text: str) -> bool:
    """Whether UTF-8 can hold the text; lone surrogates it cannot."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _describe(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.ndim:
        return f"{value.dtype} of shape {value.shape}"
    if isinstance(value, np.ndarray):
        value = value[()]
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '…'}"
