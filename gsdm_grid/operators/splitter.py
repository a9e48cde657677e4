"""The splitter: one stream into several, by a routing and a broadcasting function, in one pass over its columns.

Each tuple goes to one output, to all of them, or nowhere. Per physical window the tuples are counted by output, which
gives the borders of the outputs in one common buffer, and every column is gathered into its buffer once; a result is a
slice of it. That is compiled (`split_kernel`). What the functions say of a block is made elsewhere (`Decide`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsdm_grid.functions import Decision
from gsdm_grid.model import Column, PhysicalWindow, Ragged, StreamType, cut, cut_at
from gsdm_grid.operators.base import Blocks, StreamOperator

HOT_SHARE = 1.5  # times the mean, from which the fullest output is called hot
HOT_SIGMAS = 4.0  # beyond what chance explains
Decide = Callable[[PhysicalWindow], Decision]


class Splitter(StreamOperator):
    """Splits into ``ways`` result streams. Holds nothing from block to block but counters."""

    def __init__(self, stream_type: StreamType, ways: int, decide: Decide, notes: dict[str, Any] | None = None) -> None:
        self._type = stream_type
        self._ways = ways
        self._decide = decide
        self._notes = dict(notes or {})
        self._tuples = self._broadcast = 0
        self._per_output = np.zeros(ways, np.int64)
        self._kernel = load_kernel(stream_type)

    def push(self, port: int, block: PhysicalWindow) -> Blocks:  # noqa: ARG002
        """See `StreamOperator`."""
        mark, time_mark = block.mark, block.time_mark
        if block.halo:
            block = cut(block, block.halo)
        if not len(block):
            return [PhysicalWindow.empty(self._type, mark, time_mark=time_mark)] * self._ways
        decision = self._decide(block)
        if decision.broadcast is not None and decision.broadcast.all():  # the same for all: no need for copies
            self._count(len(block), decision.broadcast, np.arange(self._ways + 1) * len(block))
            return [block.stamped(mark=mark, time_mark=time_mark)] * self._ways
        rows, borders = self._kernel.scatter(decision.outputs, decision.broadcast, self._ways)
        self._count(len(block), decision.broadcast, borders)
        whole = block if _is_all(rows, len(block)) else self._gathered(block, rows)
        return cut_at(whole, borders.tolist(), mark, time_mark)

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

    def _gathered(self, block: PhysicalWindow, rows: NDArray[np.uint32]) -> PhysicalWindow:
        """These tuples of a block, in this order: a buffer for each column, of which the results are slices."""
        kernel, ordinals = self._kernel, block.ordinals
        made: dict[str, Column] = {
            name: column.take(rows.astype(np.intp)) if isinstance(column, Ragged) else kernel.gather(column, rows)
            for name, column in block.columns.items()
        }
        if isinstance(ordinals, range):
            return PhysicalWindow(block.type, made, kernel.gather_range(ordinals.start, ordinals.step, rows))
        return PhysicalWindow(block.type, made, kernel.gather(ordinals, rows))

    def _count(self, tuples: int, broadcast: NDArray[np.bool_] | None, borders: NDArray[np.intp]) -> None:
        self._tuples += tuples
        self._broadcast += 0 if broadcast is None else int(np.count_nonzero(broadcast))
        self._per_output += np.diff(borders)


def load_kernel(stream_type: StreamType) -> ModuleType:
    """The compiled kernel, ready for streams of a type. It takes a second to load, so only splitters do."""
    from gsdm_grid.operators import split_kernel

    nothing = np.zeros(0, np.int32)
    rows, _ = split_kernel.scatter(nothing, None, 1)
    for column in PhysicalWindow.empty(stream_type).columns.values():
        if not isinstance(column, Ragged):
            split_kernel.gather(column, rows)
    split_kernel.gather_range(0, 1, rows)
    return split_kernel


def hot_output(per_output: NDArray[np.int64]) -> dict[str, Any] | None:
    """The output that gets far more than its share, and how much; None if they are about even."""
    mean, most = float(per_output.mean()), int(per_output.max())
    if len(per_output) < 2 or most <= HOT_SHARE * mean or most - mean <= HOT_SIGMAS * math.sqrt(mean):
        return None
    return {"output": int(per_output.argmax()), "share": most / int(per_output.sum())}


def _is_all(rows: NDArray[np.uint32], count: int) -> bool:
    """Whether the tuples stay as they are: then the block is cut without copying."""
    return len(rows) == count and int(rows[0]) == 0 and int(rows[-1]) == count - 1 and bool((np.diff(rows) == 1).all())
