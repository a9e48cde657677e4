"""Partitioning functions: each picks the windows of partition ``i`` out of ``n``.

They decide by the ordinals and values of windows only, never by arrival: a restarted site decides as before.
The overlap partitions, for functions over sliding and time windows, are operators of the engine.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsdm_grid.errors import SchemaError
from gsdm_grid.expressions import hash_values
from gsdm_grid.functions import (
    StreamView,
    Traits,
    current_window,
    same_lengths,
    sqf,
)
from gsdm_grid.model import STREAM, PhysicalWindow, Ragged, Text, as_array, cut


@sqf(STREAM, whole=True, kind="partitioning", lengths=same_lengths, traits=Traits(deals_in_turn=True))
def RRpart(s: StreamView, n: int, i: int, run: int = 1, stride: int = 1) -> Any:
    """Round robin (thesis 3.3.3): windows in turn to each of ``n`` partitions, ``run`` at a time.

    ``stride`` is the distance between neighbouring ordinals; the compiler sets it where partitions nest.
    """
    v: Any = current_window(s)
    ordinals, turn = v.ordinals, stride * run
    if isinstance(ordinals, range):
        if run == 1 and ordinals.step == stride:
            return v[(i - ordinals.start // stride) % n :: n]
        if ordinals.start // turn == ordinals[-1] // turn:  # the whole block has one destination
            return v if ordinals.start // turn % n == i else v[:0]
    mine = np.flatnonzero(as_array(ordinals) // turn % n == i)
    if len(mine) and mine[-1] - mine[0] == len(mine) - 1:  # one run: a view, not a copy
        return cut(v, int(mine[0]), int(mine[-1]) + 1)
    return v.select(mine)


@sqf(STREAM, whole=True, kind="partitioning", lengths=same_lengths)
def hashpart(s: StreamView, n: int, i: int, key: str = "ts") -> Any:
    """By hash of the attribute ``key``: equal values always meet in the same partition."""
    v: Any = current_window(s)
    return v.select(hash_column(v, key) % np.uint64(n) == i)


def hash_column(block: PhysicalWindow, key: str) -> NDArray[np.uint64]:
    """A 64-bit hash per window, the same in every process: of numbers by value, of text by its bytes."""
    column = block[key]
    if not isinstance(column, Text) and (isinstance(column, Ragged) or column.ndim != 1 or column.dtype.kind == "c"):
        kind = str(block.type.attribute(key))
        raise SchemaError(block.type.name, key, "one real number or a string, to hash by", kind)
    return hash_values(column)


@sqf(
    STREAM,
    kind="partitioning",
    builtin="overlap_part",
    uses_neighbours=True,
    lengths=same_lengths,
    traits=Traits(overlaps=True),
)
def overlap_part(s: StreamView, n: int, i: int, size: int, step: int | None = None, chunk: int = 64) -> Any:
    """Round robin for functions over ``sliding_window(s, size, step)``: ``chunk`` results in turn to each.

    A partition gets the windows that its results need, as separate segments (``step`` None: jumping windows).
    """
    raise NotImplementedError("executed by the operator of the same name")


@sqf(
    STREAM,
    kind="partitioning",
    builtin="time_overlap_part",
    uses_neighbours=True,
    lengths=same_lengths,
    traits=Traits(overlaps=True),
)
def time_overlap_part(s: StreamView, n: int, i: int, span: float, chunk: int = 64) -> Any:
    """Round robin for functions over ``time_window(s, span)``: ``chunk`` windows in turn, with history."""
    raise NotImplementedError("executed by the operator of the same name")
