"""The wire form of a physical window: a small header and the raw buffers of its columns.

Both ends know the stream type from the plan, so the header holds only what differs from block to block:
shapes, ordinals, mark and halo. Buffers are the columns' bytes in native order; a receiver views them in
place. `describe` leaves strided columns as they are: a writer into shared memory then copies each byte once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import msgpack
import numpy as np

from gsdm_grid.errors import ChannelError
from gsdm_grid.model.columns import Array, Column, Ragged, Text
from gsdm_grid.model.physical import Ordinals, PhysicalWindow
from gsdm_grid.model.types import AttributeType, StreamType

_DENSE, _RAGGED = 0, 1
_INT64 = range(-(1 << 63), 1 << 63)
_MALFORMED = (
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    BufferError,
    msgpack.exceptions.UnpackException,
)


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
    header: bytes = msgpack.packb((layout, place, block.mark, block.halo))
    return header, arrays


def rebuild(stream_type: StreamType, header: bytes, buffers: Sequence[Any]) -> PhysicalWindow:
    """The block, its columns viewing the given buffers. Anything malformed is a `ChannelError`.

    A buffer may be longer than what is needed of it.
    """
    try:
        return _rebuild(stream_type, header, buffers)
    except _MALFORMED as error:
        raise ChannelError(f"malformed physical window of type {stream_type.name!r}: {error}") from None


def _rebuild(stream_type: StreamType, header: bytes, buffers: Sequence[Any]) -> PhysicalWindow:
    layout, place, mark, halo = msgpack.unpackb(header)
    feed = iter(buffers)
    made: dict[str, Column] = {
        name: _column(kind, entry, feed)
        for (name, kind), entry in zip(stream_type.attributes.items(), layout, strict=True)
    }
    count = len(made["ts"])
    ordinals: Ordinals = _read(feed, np.int64, count) if place is None else range(*place)
    if len(ordinals) != count or any(len(column) != count for column in made.values()):
        raise ValueError("columns of different lengths")
    if place is not None and (place[2] < 1 or place[0] not in _INT64 or place[1] not in _INT64):
        raise ValueError(f"ordinals {place}")
    if type(mark) is not int or mark not in _INT64:
        raise ValueError(f"mark {mark!r}")
    if halo is not None and (type(halo) is not int or not 0 <= halo < _INT64.stop):
        raise ValueError(f"halo {halo!r}")
    return PhysicalWindow(stream_type, made, ordinals, mark, halo)


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
    if kind.is_string or not fits or any(type(size) is not int or size < 0 for size in shape):
        raise ValueError(f"shape {shape} for {kind}")
    return _read(feed, kind.numpy, math.prod(shape)).reshape(shape)


def _read(feed: Iterator[Any], dtype: Any, count: Any) -> Array:
    """So many items of the next buffer."""
    buffer = next(feed, None)
    if buffer is None:
        raise ValueError("too few buffers")
    if type(count) is not int or count < 0:
        raise ValueError(f"{count!r} items")
    return np.frombuffer(buffer, dtype, count) if count else np.empty(0, dtype)


def _text(values: Array, offsets: Array) -> Text:
    """Checked here once, so that reading a string cannot fail later."""
    values.tobytes().decode()
    starts = offsets[offsets < len(values)]
    if ((values[starts] & 0xC0) == 0x80).any():
        raise ValueError("a string begins inside a character")
    return Text(values, offsets)
