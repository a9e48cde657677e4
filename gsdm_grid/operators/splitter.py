"""The splitter: one stream into several, by a routing and a broadcasting function, in one pass over its columns.

Each tuple goes to one output, to all of them, or nowhere. Per physical window the tuples are counted by output, which
gives the borders of the outputs in one common buffer, and every column is gathered into its buffer once; a result is a
slice of it. Nothing is done tuple by tuple in Python. What the functions say of a block is made elsewhere (`Decide`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gsdm_grid.functions import Decision
from gsdm_grid.model import Column, PhysicalWindow, Ragged, StreamType, cut_at
from gsdm_grid.operators.base import Blocks, StreamOperator

HOT_SHARE = 1.5  # times the mean, from which the fullest output is called hot
HOT_SIGMAS = 4.0  # beyond what chance explains
_IN_RANGE: Literal["clip"] = "clip"  # row numbers are; this mode of `take` does not check them again
Decide = Callable[[PhysicalWindow], Decision]


def scatter(
    outputs: NDArray[Any], broadcast: NDArray[np.bool_] | None, ways: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Tuple numbers, output by output, each in the order of the stream; and the ``ways + 1`` borders of the outputs.

    >>> rows, borders = scatter(np.array([1, 0, -1, 1]), np.array([False, False, True, False]), 2)
    >>> rows.tolist(), borders.tolist()
    ([1, 2, 0, 2, 3], [0, 2, 5])
    """
    codes = outputs.astype(np.uint8 if ways < 256 else np.uint16)  # which NumPy sorts by counting
    codes[outputs < 0] = ways  # sorted behind all outputs
    if broadcast is None or not broadcast.any():
        order = np.argsort(codes, kind="stable")
        borders = np.searchsorted(codes.take(order, mode=_IN_RANGE), np.arange(ways + 1))
        return order[: borders[ways]], borders
    rows, copies = _repeated(np.flatnonzero(broadcast), len(codes), ways)
    codes = codes.take(rows, mode=_IN_RANGE)
    codes[copies] = np.arange(ways)
    order = np.argsort(codes, kind="stable")
    borders = np.searchsorted(codes.take(order, mode=_IN_RANGE), np.arange(ways + 1))
    return rows.take(order[: borders[ways]], mode=_IN_RANGE), borders


def _repeated(chosen: NDArray[np.intp], count: int, times: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The numbers below ``count``, the chosen ones repeated; and where the copies of each are, a row of places each."""
    first = chosen + np.arange(len(chosen)) * (times - 1)
    total = count + len(chosen) * (times - 1)
    before = np.diff(first + times, prepend=0, append=total)
    rows = np.arange(total)
    rows -= np.repeat(np.arange(len(chosen) + 1) * (times - 1), before)
    copies = first[:, None] + np.arange(times)
    rows[copies] = chosen[:, None]
    return rows, copies


class Splitter(StreamOperator):
    """Splits into ``ways`` result streams. Holds nothing from block to block but counters."""

    def __init__(self, stream_type: StreamType, ways: int, decide: Decide, notes: dict[str, Any] | None = None) -> None:
        self._type = stream_type
        self._ways = ways
        self._decide = decide
        self._notes = dict(notes or {})
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
        if decision.broadcast is not None and decision.broadcast.all():  # the same for all: no need for copies
            self._count(len(block), decision.broadcast, np.arange(self._ways + 1) * len(block))
            return [block.stamped(mark=mark)] * self._ways
        rows, borders = scatter(decision.outputs, decision.broadcast, self._ways)
        self._count(len(block), decision.broadcast, borders)
        whole = block if _is_all(rows, len(block)) else gathered(block, rows)
        return cut_at(whole, borders.tolist(), mark)

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

    def _count(self, tuples: int, broadcast: NDArray[np.bool_] | None, borders: NDArray[np.intp]) -> None:
        self._tuples += tuples
        self._broadcast += 0 if broadcast is None else int(np.count_nonzero(broadcast))
        self._per_output += np.diff(borders)


def gathered(block: PhysicalWindow, rows: NDArray[np.intp]) -> PhysicalWindow:
    """These tuples of a block, in this order: a buffer for each column, of which the results are slices."""
    made: dict[str, Column] = {
        name: column.take(rows) if isinstance(column, Ragged) else column.take(rows, axis=0, mode=_IN_RANGE)
        for name, column in block.columns.items()
    }
    ordinals = block.ordinals
    if not isinstance(ordinals, range):
        return PhysicalWindow(block.type, made, ordinals.take(rows, mode=_IN_RANGE))
    places = rows if ordinals.step == 1 else rows * ordinals.step
    return PhysicalWindow(block.type, made, places + ordinals.start)


def hot_output(per_output: NDArray[np.int64]) -> dict[str, Any] | None:
    """The output that gets far more than its share, and how much; None if they are about even."""
    mean, most = float(per_output.mean()), int(per_output.max())
    if len(per_output) < 2 or most <= HOT_SHARE * mean or most - mean <= HOT_SIGMAS * math.sqrt(mean):
        return None
    return {"output": int(per_output.argmax()), "share": most / int(per_output.sum())}


def _is_all(rows: NDArray[np.intp], count: int) -> bool:
    """Whether the tuples stay as they are: then the block is cut without copying."""
    return len(rows) == count and int(rows[0]) == 0 and int(rows[-1]) == count - 1 and bool((np.diff(rows) == 1).all())
