"""The wire form of a physical window: a small header and the raw buffers of its columns.

Both ends know the stream type from the plan, so the header holds only what differs from block to block: shapes,
ordinals, and the fields that `_FIELDS` names. Buffers are the columns' bytes in native order; a receiver views them in
place. `describe` leaves strided columns as they are: a writer into shared memory then copies each byte once.

`pack` puts header and buffers one behind the other, for whatever keeps or sends them in one piece: messages of the
interfaces `udp` and `tcp`, frames of a result log. Numbers are little-endian, header and buffers each begin at a
multiple of 8 bytes, and zeros fill the space up to the next::

    u32 length of the header | u32 number of buffers | u64 length of each buffer | header | the buffers

Channels send them as parts of one message, or leave the buffers in shared memory. Checksums, numbers of windows and
whatever else goes around a packed window are left to those who send or keep it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any

import msgpack
import numpy as np

from gsdm_grid.errors import ChannelError
from gsdm_grid.model.columns import Array, Column, Ragged, Text
from gsdm_grid.model.physical import NO_MARK, NO_TIME_MARK, Ordinals, PhysicalWindow
from gsdm_grid.model.types import AttributeType, StreamType

_DENSE, _RAGGED = 0, 1
_INT64 = range(-(1 << 63), 1 << 63)
_ALIGNMENT = 8
_PADDING = bytes(_ALIGNMENT)
_LENGTHS = struct.Struct("<II")
_MALFORMED = (
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    BufferError,
    msgpack.exceptions.UnpackException,
)


def _is_int64(value: Any) -> bool:
    return type(value) is int and value in _INT64


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_count_or_none(value: Any) -> bool:
    return value is None or (_is_count(value) and value in _INT64)


_FIELDS: tuple[tuple[str, Callable[[Any], bool], Any], ...] = (
    ("mark", _is_int64, NO_MARK),
    ("halo", _is_count_or_none, None),
    ("time_mark", _is_int64, NO_TIME_MARK),
)
"""What a header says of a physical window beside its layout and ordinals: attributes, which values they may have, and
which they have where a header does not say it.

They are in the order in which `PhysicalWindow` takes them. New ones go to the end: a header of an earlier version,
which a result log may have, ends before them, and so does one that says nothing in them.
"""
_FIRST_FIELDS = 2
"""How many of them every header has."""
_values_of = attrgetter(*(name for name, _, _ in _FIELDS))


def describe(block: PhysicalWindow) -> tuple[bytes, list[Array]]:
    """Header and column arrays (not necessarily contiguous) of a block."""
    layout: list[Any] = []
    arrays: list[Array] = []
    for column in block.columns.values():
        if isinstance(column, Ragged):
            flat = column.compact()
            layout.append((_RAGGED, len(flat.values), len(flat.offsets)))
            arrays += [flat.values, flat.offsets]
        else:
            layout.append((_DENSE, column.shape))
            arrays.append(column)
    ordinals = block.ordinals
    if isinstance(ordinals, range):
        place: Any = (ordinals.start, ordinals.stop, ordinals.step)
    else:
        place = None
        arrays.append(ordinals)
    fields: Sequence[Any] = _values_of(block)
    if block.time_mark == NO_TIME_MARK:
        fields = fields[:_FIRST_FIELDS]
    header: bytes = msgpack.packb((layout, place, *fields))
    return header, arrays


def buffers_of(arrays: Sequence[Array]) -> list[Array]:
    """The bytes of each array. Strided arrays are copied, others viewed."""
    return [np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in arrays]


def rebuild(stream_type: StreamType, header: bytes | memoryview, buffers: Sequence[Any]) -> PhysicalWindow:
    """The block, its columns viewing the given buffers. Anything malformed is a `ChannelError`.

    A buffer may be longer than what is needed of it.
    """
    try:
        return _rebuild(stream_type, header, buffers)
    except _MALFORMED as error:
        raise _malformed(stream_type, error) from None


def pack(block: PhysicalWindow) -> list[Any]:
    """Header and buffers of a block in one piece, as pieces to be written or joined in this order.

    Columns are not copied, unless they are strided.
    """
    header, arrays = describe(block)
    buffers = buffers_of(arrays)
    lengths = struct.pack(f"<{len(buffers)}Q", *map(len, buffers))
    pieces: list[Any] = []
    for piece in (_LENGTHS.pack(len(header), len(buffers)) + lengths + header, *buffers):
        pieces += [piece, _PADDING[: -len(piece) % _ALIGNMENT]]
    return [piece for piece in pieces if len(piece)]


def unpack(stream_type: StreamType, packed: bytes | memoryview, windows: int) -> PhysicalWindow:
    """Inverse of `pack`, for a block of so many windows: its columns view ``packed``.

    Anything malformed, too short or too long is a `ChannelError`.
    """
    data = memoryview(packed)
    size, count = _LENGTHS.unpack_from(data) if len(data) >= _LENGTHS.size else (0, 0)
    start = _LENGTHS.size + 8 * count
    if start + size > len(data):
        raise _malformed(stream_type, f"it has {len(data)} bytes, its header and the lengths of its buffers more")
    lengths = struct.unpack_from(f"<{count}Q", data, _LENGTHS.size)
    header, at = data[start : start + size], _aligned(start + size)
    announced = at + sum(map(_aligned, lengths))
    if announced != len(data):
        raise _malformed(stream_type, f"{announced} bytes announced, {len(data)} present")
    buffers = []
    for length in lengths:
        buffers.append(data[at : at + length])
        at += _aligned(length)
    block = rebuild(stream_type, header, buffers)
    if len(block) != windows:
        raise _malformed(stream_type, f"{windows} windows announced, {len(block)} present")
    return block


def _malformed(stream_type: StreamType, fault: object) -> ChannelError:
    return ChannelError(f"malformed physical window of type {stream_type.name!r}: {fault}")


def _aligned(size: int) -> int:
    return size + -size % _ALIGNMENT


def _rebuild(stream_type: StreamType, header: bytes | memoryview, buffers: Sequence[Any]) -> PhysicalWindow:
    layout, place, *values = msgpack.unpackb(header)
    if len(values) != len(_FIELDS):
        values = _completed(values)
    for (name, is_allowed, _), value in zip(_FIELDS, values, strict=False):
        if not is_allowed(value):
            raise ValueError(f"{name} {value!r}")
    feed = iter(buffers)
    columns: dict[str, Column] = {
        name: _column(kind, entry, feed)
        for (name, kind), entry in zip(stream_type.attributes.items(), layout, strict=True)
    }
    count = len(columns["ts"])
    ordinals: Ordinals = _read(feed, np.int64, count) if place is None else range(*place)
    if {len(ordinals), *map(len, columns.values())} != {count}:
        raise ValueError("columns of different lengths")
    if place is not None and (place[2] < 1 or place[0] not in _INT64 or place[1] not in _INT64):
        raise ValueError(f"ordinals {place}")
    return PhysicalWindow(stream_type, columns, ordinals, *values)


def _completed(values: list[Any]) -> list[Any]:
    """The fields of a header of an earlier version, which had fewer."""
    if not 1 <= len(values) <= len(_FIELDS):
        raise ValueError(f"{len(values)} fields, where 1 to {len(_FIELDS)} are known")
    return values + [default for _, _, default in _FIELDS[len(values) :]]


def _column(kind: AttributeType, entry: Any, feed: Iterator[Any]) -> Column:
    if entry[0] == _RAGGED:
        if not kind.varies:
            raise ValueError(f"vectors of different lengths for {kind}")
        values, offsets = _read(feed, kind.numpy, entry[1]), _read(feed, np.int64, entry[2])
        if offsets[0] != 0 or offsets[-1] != len(values) or (offsets[1:] < offsets[:-1]).any():
            raise ValueError("offsets do not fit the values")
        return _text(values, offsets) if kind.is_string else Ragged(values, offsets)
    shape = tuple(entry[1])
    fits = len(shape) == 2 if kind.shape is None else shape[1:] == kind.shape
    if kind.is_string or not fits or not all(map(_is_count, shape)):
        raise ValueError(f"shape {shape} for {kind}")
    return _read(feed, kind.numpy, math.prod(shape)).reshape(shape)


def _read(feed: Iterator[Any], dtype: Any, count: Any) -> Array:
    """So many items of the next buffer."""
    buffer = next(feed, None)
    if buffer is None:
        raise ValueError("too few buffers")
    if not _is_count(count):
        raise ValueError(f"{count!r} items")
    return np.frombuffer(buffer, dtype, count) if count else np.empty(0, dtype)


def _text(values: Array, offsets: Array) -> Text:
    """Checked here once, so that reading a string cannot fail later."""
    values.tobytes().decode()
    starts = offsets[offsets < len(values)]
    if ((values[starts] & 0xC0) == 0x80).any():
        raise ValueError("a string begins inside a character")
    return Text(values, offsets)
