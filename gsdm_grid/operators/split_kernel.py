"""The splitter's kernel, compiled: tuples in the order of their outputs, and columns gathered in that order.

Both loops run without Python's lock. They are compiled at first use and kept on disk where that can be written to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gsdm_grid.model import read_only

_UNSIGNED = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}
_NOBODY = read_only(np.zeros(0, bool))


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    try:
        made: Callable[..., Any] = njit(cache=True, nogil=True)(function)
    except RuntimeError:  # there is nowhere to keep compiled code
        made = njit(nogil=True)(function)
    return made


def scatter(
    outputs: NDArray[Any], broadcast: NDArray[np.bool_] | None, ways: int
) -> tuple[NDArray[np.uint32], NDArray[np.intp]]:
    """Tuple numbers, output by output, each in the order of the stream; and the ``ways + 1`` borders of the outputs.

    >>> rows, borders = scatter(np.array([1, 0, -1, 1]), np.array([False, False, True, False]), 2)
    >>> rows.tolist(), borders.tolist()
    ([1, 2, 0, 2, 3], [0, 2, 5])
    """
    outputs = read_only(outputs.astype(np.int32, copy=False))  # one type of array to compile for
    broadcast = _NOBODY if broadcast is None else read_only(broadcast)
    counts = np.zeros(ways, np.intp)
    counts += _count(outputs, broadcast, counts)
    borders = np.concatenate(([0], np.cumsum(counts)))
    rows = np.empty(borders[ways], np.uint32)
    _place(outputs, broadcast, borders[:-1].copy(), rows)
    return rows, borders


def gather(column: NDArray[Any], rows: NDArray[np.uint32]) -> NDArray[Any]:
    """These rows of a column. They must be there: nothing is checked."""
    unsigned = _UNSIGNED.get(column.itemsize)
    if column.ndim > 1 or unsigned is None or not column.flags.c_contiguous:
        return column.take(rows, axis=0, mode="clip")  # copies whole rows, or is rare
    made = np.empty(len(rows), unsigned)
    _gather(read_only(column.view(unsigned)), rows, made)
    return made.view(column.dtype)


def gather_range(start: int, step: int, rows: NDArray[np.uint32]) -> NDArray[np.int64]:
    """These members of a range without end."""
    made = np.empty(len(rows), np.int64)
    _gather_range(start, step, rows, made)
    return made


@_compiled
def _count(outputs: Any, broadcast: Any, counts: Any) -> int:
    """Add up the tuples of each output; gives the number of those that go to all."""
    to_all = 0
    for row in range(len(outputs)):
        if len(broadcast) and broadcast[row]:
            to_all += 1
        elif outputs[row] >= 0:
            counts[outputs[row]] += 1
    return to_all


@_compiled
def _place(outputs: Any, broadcast: Any, places: Any, rows: Any) -> None:
    """Put the number of each tuple at the next place of its output."""
    for row in range(len(outputs)):
        if len(broadcast) and broadcast[row]:
            for output in range(len(places)):
                rows[places[output]] = row
                places[output] += 1
        elif outputs[row] >= 0:
            rows[places[outputs[row]]] = row
            places[outputs[row]] += 1


@_compiled
def _gather(source: Any, rows: Any, made: Any) -> None:
    for at in range(len(rows)):
        made[at] = source[rows[at]]


@_compiled
def _gather_range(start: int, step: int, rows: Any, made: Any) -> None:
    for at in range(len(rows)):
        made[at] = start + step * np.int64(rows[at])
