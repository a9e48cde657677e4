"""The splitter: one stream into several, by a routing and a broadcasting function, in one pass over its columns.

Each tuple goes to one output, to all of them, or nowhere. Per physical window the tuples are counted by output, which
gives the borders of the outputs in one common buffer, and every column is gathered into its buffer once; a result is a
slice of it. Nothing is done tuple by tuple in Python. What the functions say of a block is made elsewhere (`Decide`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsdm_grid.model import Column, PhysicalWindow, Ragged, StreamType
from gsdm_grid.operators.arena import Arena, aligned
from gsdm_grid.operators.base import Blocks, StreamOperator

HOT_SHARE = 1.5  # times the mean, from which the fullest output is called hot
HOT_SIGMAS = 4.0  # beyond what chance explains


@dataclass(frozen=True)
class Decision:
    """What becomes of the tuples of a block: the number of an output, negative for none; ``broadcast`` to all of them.

    ``broadcast`` goes before ``outputs``; None where nothing is broadcast.
    """

    outputs: NDArray[Any]
    broadcast: NDArray[np.bool_] | None = None


Decide = Callable[[PhysicalWindow], Decision]


def scatter(
    outputs: NDArray[Any], broadcast: NDArray[np.bool_] | None, ways: int
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Tuple numbers, output by output, each in the order of the stream; and the ``ways + 1`` borders of the outputs.

    >>> rows, borders = scatter(np.array([1, 0, -1, 1]), np.array([False, False, True, False]), 2)
    >>> rows.tolist(), borders.tolist()
    ([1, 2, 0, 2, 3], [0, 2, 5])
    """
    codes = outputs.astype(np.uint8 if ways < 256 else np.uint16)  # which NumPy sorts by counting
    nowhere = outputs < 0
    if broadcast is not None:
        nowhere |= broadcast
    codes[nowhere] = ways
    counts = np.bincount(codes, minlength=ways + 1)
    routed = np.argsort(codes, kind="stable")[: len(codes) - counts[ways]]
    to_all = np.empty(0, np.intp) if broadcast is None else np.flatnonzero(broadcast)
    borders = np.zeros(ways + 1, np.int64)
    np.cumsum(counts[:ways] + len(to_all), out=borders[1:])
    if broadcast is None or not len(to_all):
        return routed, borders
    # A routed tuple moves back by the broadcast tuples of the outputs before its own, and by those before it.
    places = np.arange(len(routed)) + np.repeat(np.arange(ways) * len(to_all), counts[:ways])
    places += np.cumsum(broadcast, dtype=np.int64)[routed]
    rows = np.empty(borders[-1], np.intp)
    free = np.ones(len(rows), bool)
    rows[places] = routed
    free[places] = False
    rows[free] = np.tile(to_all, ways)
    return rows, borders


class Splitter(StreamOperator):
    """Splits into ``ways`` result streams. Holds nothing from block to block but counters."""

    def __init__(self, stream_type: StreamType, ways: int, decide: Decide, notes: dict[str, Any] | None = None) -> None:
        self._type = stream_type
        self._ways = ways
        self._decide = decide
        self._notes = dict(notes or {})
        self._arena = Arena()
        self._tuples = self._broadcast = 0
        self._per_output = np.zeros(ways, np.int64)

    def push(self, port: int, block: PhysicalWindow) -> Blocks:  # noqa: ARG002
        """See `StreamOperator`."""
        mark = block.mark
        if block.halo:
            block = block[block.halo :]
        if not len(block):
            return [PhysicalWindow.empty(self._type, mark)] * self._ways
        decision = self._decide(block)
        rows, borders = scatter(decision.outputs, decision.broadcast, self._ways)
        self._count(len(block), decision.broadcast, borders)
        whole = block if _is_all(rows, len(block)) else self._gathered(block, rows)
        return whole.cut(borders.tolist(), mark)

    def statistics(self) -> dict[str, Any]:
        """Tuples in all, by what became of them (with the shares o, r and b), and by output; the hot output if any."""
        routed = int(self._per_output.sum()) - self._ways * self._broadcast
        omitted = self._tuples - routed - self._broadcast
        share = 1 / self._tuples if self._tuples else 0.0
        return {
            "tuples": self._tuples,
            "omitted": omitted,
            "routed": routed,
            "broadcast": self._broadcast,
            "o": omitted * share,
            "r": routed * share,
            "b": self._broadcast * share,
            "per_output": self._per_output.tolist(),
            "hot": hot_output(self._per_output),
            **self._notes,
        }

    def _count(self, tuples: int, broadcast: NDArray[np.bool_] | None, borders: NDArray[np.int64]) -> None:
        self._tuples += tuples
        self._broadcast += 0 if broadcast is None else int(np.count_nonzero(broadcast))
        self._per_output += np.diff(borders)

    def _gathered(self, block: PhysicalWindow, rows: NDArray[np.intp]) -> PhysicalWindow:
        """These tuples of a block, in this order, in memory that is used again."""
        count = len(rows)
        arrays = [column for column in block.columns.values() if not isinstance(column, Ragged)]
        needed = sum(aligned(count * math.prod(array.shape[1:]) * array.itemsize) for array in arrays)
        stretch = self._arena.take(needed + aligned(8 * count))

        def taken(column: Column) -> Column:
            if isinstance(column, Ragged):
                return column.take(rows)
            into = stretch.array((count, *column.shape[1:]), column.dtype)
            return np.take(column, rows, axis=0, out=into, mode="clip")  # in range: and this mode does not buffer

        made = {name: taken(column) for name, column in block.columns.items()}
        ordinals = block.ordinals
        places = stretch.array((count,), np.dtype(np.int64))
        if isinstance(ordinals, range):
            np.multiply(rows, ordinals.step, out=places)
            places += ordinals.start
        else:
            np.take(ordinals, rows, out=places, mode="clip")
        return PhysicalWindow(block.type, made, places)


def hot_output(per_output: NDArray[np.int64]) -> dict[str, Any] | None:
    """The output that gets far more than its share, and how much; None if they are about even."""
    mean, most = float(per_output.mean()), int(per_output.max())
    if len(per_output) < 2 or most <= HOT_SHARE * mean or most - mean <= HOT_SIGMAS * math.sqrt(mean):
        return None
    return {"output": int(per_output.argmax()), "share": most / int(per_output.sum())}


def _is_all(rows: NDArray[np.intp], count: int) -> bool:
    """Whether the tuples stay as they are: then the block is cut without copying."""
    return len(rows) == count and int(rows[0]) == 0 and int(rows[-1]) == count - 1 and bool((np.diff(rows) == 1).all())
