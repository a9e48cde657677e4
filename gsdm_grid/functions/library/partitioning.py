"""Partitioning functions: each picks the windows of partition ``i`` out of ``n``.

They decide by the ordinals and values of windows only, never by arrival, so a restarted site decides as before.
The overlap partitions, for functions over sliding and time windows, are operators of the engine.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsdm_grid.errors import QueryError
from gsdm_grid.functions.sqf import sqf
from gsdm_grid.functions.windows import StreamView, current_window
from gsdm_grid.model import STREAM, Array, PhysicalWindow, Ragged, Text, as_array


@sqf(STREAM, whole=True, kind="partitioning")
def RRpart(s: StreamView, n: int, i: int, run: int = 1, stride: int = 1) -> Any:
    """Round robin (thesis 3.3.3): windows in turn to each of ``n`` partitions, ``run`` at a time.

    ``stride`` is the distance between neighbouring ordinals; the compiler sets it where partitions are nested.
    """
    v: Any = current_window(s)
    ordinals = v.ordinals
    if isinstance(ordinals, range) and run == 1 and ordinals.step == stride and ordinals.start % stride < stride:
        return v[(i - ordinals.start // stride) % n :: n]
    if isinstance(ordinals, range) and ordinals.step == stride:
        first, last = ordinals.start // stride // run, ordinals[-1] // stride // run
        if first == last:  # the whole block has one destination
            return v if first % n == i else v[:0]
    return v.select((as_array(ordinals) // (stride * run)) % n == i)


@sqf(STREAM, whole=True, kind="partitioning")
def hashpart(s: StreamView, n: int, i: int, key: str = "ts") -> Any:
    """By hash of the attribute ``key``: equal values always meet in the same partition."""
    v: Any = current_window(s)
    return v.select(hash_column(v, key) % np.uint64(n) == i)


def hash_column(block: PhysicalWindow, key: str) -> NDArray[np.uint64]:
    """A 64-bit hash per window that is the same in every process: of numbers by value, of text by its bytes."""
    column = block[key]
    if isinstance(column, Text):
        from zlib import crc32

        return _mix(np.fromiter((crc32(text.encode()) for text in column), np.uint64, len(column)))
    if isinstance(column, Ragged) or column.ndim != 1:
        raise QueryError(f"hashpart: attribute {key!r} of stream type {block.type.name!r} is a vector; a key is one value")
    return _mix(_bits(column))


def _bits(values: Array) -> NDArray[np.uint64]:
    if values.dtype.kind in "iub":
        return values.astype(np.int64).view(np.uint64)
    if values.dtype.kind == "c":
        raise QueryError("hashpart: a complex attribute cannot be a key")
    return (values.astype(np.float64) + 0.0).view(np.uint64)  # + 0.0: minus zero equals zero


def _mix(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of splitmix64 (Steele et al., 2014)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = bits ^ (bits >> np.uint64(31))
    return mixed


@sqf(STREAM, kind="partitioning", builtin="overlap_part")
def overlap_part(s: StreamView, n: int, i: int, size: int, step: int | None = None, chunk: int = 64) -> Any:
    """Round robin for functions over ``sliding_window(s, size, step)``: ``chunk`` results in turn to each partition.

    Each partition gets the windows that its results need, as separate segments (``step`` None: jumping windows).
    """
    raise NotImplementedError("executed by the operator of the same name")


@sqf(STREAM, kind="partitioning", builtin="time_overlap_part")
def time_overlap_part(s: StreamView, n: int, i: int, span: float, chunk: int = 64) -> Any:
    """Round robin for functions over ``time_window(s, span)``: ``chunk`` windows in turn, each with its history."""
    raise NotImplementedError("executed by the operator of the same name")
