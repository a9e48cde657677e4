"""Windows as JSON, for people and plots: plain values, long vectors down-sampled.

A window is ``{"seq": …, "ordinal": …, "values": {attribute: value, …}}``. A value is

* a number, a string or a truth value; ``{"re": …, "im": …}`` for a complex number;
* a list for a vector, ``{"re": […], "im": […]}`` for a complex one;
* ``{"minmax": […], "length": n}`` for a vector of n numbers, longer than asked for: the smallest and the greatest of
  each of many equal parts, in their order, so that no peak is lost; ``{"magnitude": […], "length": n}`` for a complex
  one, made so of its magnitudes; with ``parts``, ``{"re": […], "im": […], "length": n}``: the samples of those
  magnitudes;
* ``{"length": n}`` for a vector if no points were asked for.

What JSON has no number for (not-a-number, infinities) is null. Timestamps are integer nanoseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import orjson

from gsdm_grid.model import STREAM, Array, AttributeType, Column, PhysicalWindow, Ragged, StreamType, as_array, as_dense
from gsdm_grid.storage import ResultLog

NumberedBlocks = Sequence[tuple[int, PhysicalWindow]]
_VIEW_NUMBERS = 2_000_000
_EVENT_NUMBERS = 50_000


def projected(stream_type: StreamType, attributes: Iterable[str] | None) -> StreamType:
    """The type with only some attributes, and ``ts``; `UnknownAttribute` for one that it does not have."""
    if attributes is None:
        return stream_type
    wanted = {"ts", *attributes}
    for name in wanted:
        stream_type.attribute(name)
    kept = {name: kind for name, kind in stream_type.attributes.items() if name in wanted}
    return StreamType(stream_type.name, kept, STREAM)


def windows_of(blocks: NumberedBlocks, shown: StreamType, points: int, parts: bool = False) -> list[dict[str, Any]]:
    """The windows of blocks, for `to_json`. ``parts``: complex vectors that are reduced keep both parts."""
    windows: list[dict[str, Any]] = []
    names = tuple(shown.attributes)
    for seq, block in blocks:
        columns = [_values(block.columns[name], kind, points, parts) for name, kind in shown.attributes.items()]
        ordinals = as_array(block.ordinals).tolist()
        windows += [
            {"seq": seq + row, "ordinal": ordinals[row], "values": dict(zip(names, values, strict=True))}
            for row, values in enumerate(zip(*columns, strict=True))
        ]
    return windows


def missed_view(first: int, following: int) -> dict[str, int]:
    """Windows that cannot be read any more, from ``first`` until before ``following``."""
    return {"missed": following - first, "from": first, "to": following - 1}


def last_view(
    log: ResultLog, shown: StreamType, start: int, last: int, points: int, read_bytes: int, parts: bool = False
) -> dict[str, Any]:
    """The last windows of a log, none before ``start``, for `to_json`. ``points`` are fewer where it would be huge."""
    end = log.next
    at = max(end - last, log.first, start)
    points = min(points, max(_VIEW_NUMBERS // max((end - at) * vectors_in(shown) * (1 + parts), 1), 2))
    windows: list[dict[str, Any]] = []
    missed: list[dict[str, int]] = []
    while at < end:
        reading = log.read(at, end - at, read_bytes)
        if reading.missed:
            missed.append(missed_view(at, at + reading.missed))
        if reading.next == at:  # the log is gone
            break
        windows += windows_of(reading.blocks, shown, points, parts)
        at = reading.next
    return {
        "type": shown.to_json(),
        "first": log.first,
        "next": end,
        "state": log.state,
        "points": points,
        "missed": missed,
        "windows": windows,
    }


def windows_per_event(shown: StreamType, points: int, wanted: int) -> int:
    """How many windows one event may hold."""
    numbers = vectors_in(shown) * min(points, 10_000) + len(shown.attributes)
    return max(min(wanted, _EVENT_NUMBERS // numbers), 1)


def vectors_in(shown: StreamType) -> int:
    """How many attributes are vectors."""
    return sum(kind.shape != () for kind in shown.attributes.values())


def to_json(document: Any) -> bytes:
    """As JSON, NumPy arrays included."""
    return orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)


def decimate(vectors: Array, points: int) -> Array:
    """Each row of numbers reduced to at most so many: the least and the greatest of equal parts, in their order.

    >>> decimate(np.array([[0, 1, 5, 2, -3, 0, 0, 4]]), 4)
    array([[ 0,  5, -3,  4]])
    """
    return np.take_along_axis(vectors, _extremes(vectors, points), 1)


def _extremes(vectors: Array, points: int) -> Array:
    """For each row, the places of the least and the greatest of equal parts, in their order."""
    count, length = vectors.shape
    size = -(-length // max(points // 2, 1))
    parts = -(-length // size)
    if parts * size > length:
        rest = np.repeat(vectors[:, -1:], parts * size - length, axis=1)
        vectors = np.concatenate([vectors, rest], axis=1)
    boxes = vectors.reshape(count, parts, size)
    low = high = boxes
    if vectors.dtype.kind == "f" and (unknown := np.isnan(boxes)).any():
        low, high = np.where(unknown, np.inf, boxes), np.where(unknown, -np.inf, boxes)
    places = np.sort(np.stack([low.argmin(2), high.argmax(2)], axis=-1), axis=-1)
    places = places + (np.arange(parts) * size)[:, None]
    chosen: Array = np.minimum(places, length - 1).reshape(count, -1)[:, : max(points, 1)]
    return chosen


def _values(column: Column, kind: AttributeType, points: int, parts: bool) -> list[Any]:
    """One value for each window."""
    if kind.is_string:
        return list(column)
    if isinstance(column, Ragged):
        if len(np.unique(np.diff(column.offsets))) > 1:
            return [_vectors(row[None], points, parts)[0] for row in column]
        column = as_dense(column)
    if column.ndim == 1:
        return _complex(column.real.tolist(), column.imag.tolist()) if kind.numpy.kind == "c" else column.tolist()
    return _vectors(column, points, parts)


def _vectors(column: Array, points: int, parts: bool) -> list[Any]:
    """One value for each row; the first axis counts windows."""
    count, is_complex = len(column), column.dtype.kind == "c"
    length = column[0].size if count else 0
    if not points:
        return [{"length": length}] * count
    if length > points:
        flat = column.reshape(count, length)
        if is_complex and parts:
            samples = np.take_along_axis(flat, _extremes(np.abs(flat), points), 1)
            return [{**pair, "length": length} for pair in _complex_vectors(samples)]
        reduced = np.ascontiguousarray(decimate(np.abs(flat) if is_complex else flat, points))
        form = "magnitude" if is_complex else "minmax"
        return [{form: row, "length": length} for row in reduced]
    if is_complex:
        return _complex_vectors(column)
    return list(np.ascontiguousarray(column))


def _complex_vectors(column: Array) -> list[Any]:
    return _complex(np.ascontiguousarray(column.real), np.ascontiguousarray(column.imag))


def _complex(real: Iterable[Any], imaginary: Iterable[Any]) -> list[Any]:
    return [{"re": re, "im": im} for re, im in zip(real, imaginary, strict=True)]
