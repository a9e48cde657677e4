"""Routing and broadcasting functions of splitstream: which output a tuple goes to, and whether it goes to all.

A routing function ``rfn`` gives each tuple the number of an output, or nothing; a broadcasting function ``bfn`` says
which tuples go to all outputs, and goes before ``rfn``. Tuples are logical windows. Each of the two may be

* an expression over the attributes, as text: ``"xway"``, ``"kind == 2"`` (see `expressions`), in which ``w`` is the
  number of outputs;
* a function over columns: it gets a whole physical window (and ``w``, if it has such a parameter) and returns an array
  with a value for each tuple;
* a function over single tuples in plain Python, marked by `per_tuple`: slow, and the statistics say so;
* a function registered with ``@sqf(kind="routing")``, over columns if ``whole=True``, by itself, by name, or with
  parameters: ``{"function": "by_area", "params": {"size": 8}}``.

What ``rfn`` may return: whole numbers from 0 to w - 1, also as floats (2.0) and truth values; ``None``, NaN, masked
values and `OMIT` for nothing. Anything else is a `FunctionError` that names the tuple: other numbers, also negative
ones, and fractions. ``bfn`` returns truth values; ``None``, NaN and masked values are false. What a function raises
fails the query; the error names the tuple that makes it raise. What ``rfn`` says of broadcast tuples does not count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsdm_grid.errors import FlowError, FunctionError
from gsdm_grid.functions.route_functions import (
    Evaluator,
    Route,
    Values,
    evaluator,
    route_value,
    tuple_text,
)
from gsdm_grid.model import PhysicalWindow, StreamType

OMIT = -(1 << 31)
"""What a routing function over columns of integers may return for a tuple that goes nowhere."""


@dataclass(frozen=True)
class Decision:
    """What becomes of the tuples of a block: the number of an output, negative for none; ``broadcast`` to all of them.

    ``broadcast`` goes before ``outputs``; None where nothing is broadcast.
    """

    outputs: NDArray[Any]
    broadcast: NDArray[np.bool_] | None = None


class Routing:
    """A routing and a broadcasting function, checked against a stream type: decides about the tuples of blocks.

    ``total`` is the number of outputs that ``rfn`` goes by. A node of a tree has ``ways`` outputs of its own and sends
    a tuple to (output / ``below``) mod ``ways``, where ``below`` is the cumulative fanout of the levels above (equation
    2 of the paper). Bound to one thread.
    """

    def __init__(
        self,
        rfn: Any,
        bfn: Any,
        stream_type: StreamType,
        total: int,
        below: int = 1,
        ways: int | None = None,
        vertex: str = "split",
    ) -> None:
        if rfn is None and bfn is None:
            raise FlowError(vertex, "needs a routing function, a broadcasting function, or both")
        self._vertex, self._total, self._below = vertex, total, below
        self._ways = ways if ways is not None and (below > 1 or ways < total) else None
        self._rfn = None if rfn is None else evaluator(rfn, "rfn", stream_type, total, vertex)
        self._bfn = None if bfn is None else evaluator(bfn, "bfn", stream_type, total, vertex)

    @property
    def slow(self) -> list[str]:
        """Names of the functions that are called tuple by tuple."""
        return [one.name for one in (self._rfn, self._bfn) if one is not None and one.slow]

    def __call__(self, block: PhysicalWindow) -> Decision:
        """What becomes of each tuple of a block."""
        broadcast = None if self._bfn is None else self._truths(self._bfn, block)
        if self._rfn is None:
            return Decision(np.full(len(block), -1, np.int8), broadcast)
        outputs = self._numbers(self._rfn, block, broadcast)
        if self._ways is not None:
            signed = outputs.astype(np.int64) if outputs.dtype.kind == "u" else outputs
            outputs = np.where(signed < 0, -1, signed // self._below % self._ways)
        return Decision(outputs, broadcast)

    def _truths(self, bfn: Evaluator, block: PhysicalWindow) -> NDArray[np.bool_]:
        values, present = bfn.values(block, None)
        if values.dtype.kind in "Of":
            values, present = _without_missing(values, present)
        if values.dtype.kind == "O":
            wrong = np.array([not isinstance(value, bool | np.bool_) for value in values], bool)
            self._refuse_first(bfn, block, values, wrong if present is None else wrong & present)
            values = values.astype(bool)
        if values.dtype != bool:
            missing_only = present is not None and not present.any()
            if not missing_only:
                row = 0 if present is None else int(np.flatnonzero(present)[0])
                self._refuse(bfn, block, row, f"returned {values[row]!r}, which is no truth value")
            values = np.zeros(len(block), bool)
        return values if present is None else values & present

    def _numbers(self, rfn: Evaluator, block: PhysicalWindow, broadcast: NDArray[np.bool_] | None) -> NDArray[Any]:
        """Outputs of the tuples, -1 for none, after checking them."""
        values, present = rfn.values(block, broadcast)
        if values.dtype.kind in "Of":
            values, present = _without_missing(values, present)
        if values.dtype.kind not in "biu":
            values = self._whole(rfn, block, values, present, broadcast)
        if values.dtype == bool:
            values = values.astype(np.int8)
        low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
        in_range = low >= 0 and high < self._total
        if in_range and present is None:
            return values
        routed = values != OMIT if low <= OMIT else np.ones(len(values), bool)
        if present is not None:
            routed &= present
        if not in_range:
            if broadcast is not None:
                routed &= ~broadcast
            wrong = routed & ((values < 0) | (values >= self._total))
            if wrong.any():
                row = int(np.flatnonzero(wrong)[0])
                self._refuse(rfn, block, row, f"output {values[row]} is outside 0…{self._total - 1}")
        return np.where(routed, values.astype(np.int64) if values.dtype.kind == "u" else values, -1)

    def _whole(
        self,
        rfn: Evaluator,
        block: PhysicalWindow,
        values: NDArray[Any],
        present: NDArray[np.bool_] | None,
        broadcast: NDArray[np.bool_] | None,
    ) -> NDArray[np.int64]:
        """Numbers that came as floats or as Python objects, which must be whole where they count."""
        counts = np.ones(len(values), bool) if present is None else present.copy()
        if broadcast is not None:
            counts &= ~broadcast
        made = np.full(len(values), -1, np.int64)
        if values.dtype.kind == "f":
            wrong = counts & ~((np.trunc(values) == values) & (np.abs(values) < 2.0**62))
            self._refuse_first(rfn, block, values, wrong)
            made[counts] = values[counts]
            return made
        wrong = np.array([yes and not _is_whole(value) for yes, value in zip(counts, values, strict=True)], bool)
        self._refuse_first(rfn, block, values, wrong)
        made[counts] = [max(-(1 << 62), min(int(value), 1 << 62)) for value in values[counts]]
        return made

    def _refuse_first(
        self, function: Evaluator, block: PhysicalWindow, values: NDArray[Any], wrong: NDArray[np.bool_]
    ) -> None:
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            expected = "output number" if function is self._rfn else "truth value"
            self._refuse(function, block, row, f"returned {values[row]!r:.80}, which is no {expected}")

    def _refuse(self, function: Evaluator, block: PhysicalWindow, row: int, reason: str) -> None:
        raise FunctionError(self._vertex, function.name, f"{tuple_text(block, row)}: {reason}")


def routing(
    rfn: Route, bfn: Route, stream_type: StreamType, total: int, below: int = 1, ways: int | None = None
) -> Routing:
    """Check functions, as people give them, against a stream type; see `Routing`."""
    return Routing(route_value(rfn, "rfn"), route_value(bfn, "bfn"), stream_type, total, below, ways)


def _without_missing(values: NDArray[Any], present: NDArray[np.bool_] | None) -> Values:
    """Where there is a value: not where it is None or NaN."""
    if values.dtype.kind == "f":
        there = ~np.isnan(values)
    else:
        there = np.array([value is not None and not _is_nan(value) for value in values], bool)
    if there.all():
        return values, present
    return values, there if present is None else there & present


def _is_nan(value: Any) -> bool:
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def _is_whole(value: Any) -> bool:
    if isinstance(value, float | np.floating):
        return bool(np.isfinite(value)) and float(value).is_integer()
    return isinstance(value, int | np.integer | np.bool_)
