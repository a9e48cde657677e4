"""The wire form of a physical window: a small header and the raw buffers of its columns.

Both ends know the stream type from the plan, so the header holds only what differs from block to block: shapes,
ordinals, mark and halo. Buffers are the columns' bytes in native order; a receiver views them in place.
`describe` leaves strided columns as they are, so that a writer into shared memory copies each byte once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgpack
import numpy as np

from gsdm_grid.errors import ChannelError
from gsdm_grid.model.columns import Array, Column, Ragged, Text
from gsdm_grid.model.physical import PhysicalWindow
from gsdm_grid.model.types import StreamType

_DENSE, _RAGGED = 0, 1


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
    """The block, its columns viewing the given buffers. Anything malformed is a `ChannelError`."""
    try:
        return _rebuild(stream_type, header, list(buffers))
    except (ValueError, TypeError, IndexError, KeyError, OverflowError, msgpack.exceptions.UnpackException) as error:
        raise ChannelError(f"malformed physical window of type {stream_type.name!r}: {error}") from None


def _rebuild(stream_type: StreamType, header: bytes, buffers: list[Any]) -> PhysicalWindow:
    layout, place, mark, halo = msgpack.unpackb(header)
    feed = iter(buffers)
    made: dict[str, Column] = {}
    for (name, kind), entry in zip(stream_type.attributes.items(), layout, strict=True):
        if entry[0] == _RAGGED:
            values = np.frombuffer(next(feed), kind.numpy, entry[1]) if entry[1] else _skip(feed, kind.numpy)
            offsets = np.frombuffer(next(feed), np.int64, entry[2])
            if offsets[0] != 0 or offsets[-1] != len(values) or (np.diff(offsets) < 0).any():
                raise ValueError("offsets do not fit the values")
            made[name] = Text(values, offsets) if kind.is_string else Ragged(values, offsets)
        else:
            shape = tuple(entry[1])
            count = int(np.prod(shape, dtype=np.int64))
            flat = np.frombuffer(next(feed), kind.numpy, count) if count else _skip(feed, kind.numpy)
            made[name] = flat.reshape(shape)
    count = len(made["ts"])
    ordinals: Any = range(*place) if place is not None else np.frombuffer(next(feed), np.int64, count)
    if len(ordinals) != count or any(len(column) != count for column in made.values()):
        raise ValueError("columns of different lengths")
    return PhysicalWindow(stream_type, made, ordinals, int(mark), None if halo is None else int(halo))


def _skip(feed: Any, dtype: np.dtype[Any]) -> Array:
    next(feed)
    return np.empty(0, dtype)
