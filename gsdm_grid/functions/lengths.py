"""Lengths of vectors that are known before a query runs, and how functions change them.

A source may know how long the vectors of all its windows are, by attribute, and a stream type may fix them. The
compiler follows them through the data flow by the rules that functions declare (``@sqf(…, lengths=rule)``), so that a
degree which does not divide a vector is refused before anything runs. A function without a rule ends what is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gsdm_grid.errors import FlowError
from gsdm_grid.model import StreamType

Lengths = Mapping[str, int]
LengthRule = Callable[[Sequence[Lengths], Mapping[str, Any]], Lengths]
"""From the known lengths of each input and the parameters to those of the result; a `FlowError` refuses them."""


def fixed_lengths(stream_type: StreamType) -> dict[str, int]:
    """Lengths that a stream type fixes."""
    return {name: kind.shape[-1] for name, kind in stream_type.attributes.items() if kind.shape}


def same_lengths(inputs: Sequence[Lengths], params: Mapping[str, Any]) -> Lengths:  # noqa: ARG001
    """The result has the lengths that all inputs have."""
    first, *others = inputs
    return {name: length for name, length in first.items() if all(one.get(name) == length for one in others)}


def added_lengths(inputs: Sequence[Lengths], params: Mapping[str, Any]) -> Lengths:  # noqa: ARG001
    """The result has the vectors of all inputs one after the other, or interleaved."""
    return {name: sum(one[name] for one in inputs) for name in inputs[0] if all(name in one for one in inputs)}


def equal_parts(function: str, *vectors: str) -> LengthRule:
    """The rule of a partitioning function that takes one of ``n`` equal parts of these vectors (default: of all).

    >>> equal_parts("halves", "x")([{"x": 8, "y": 3}], {"n": 2, "i": 0})
    {'x': 4, 'y': 3}
    """

    def rule(inputs: Sequence[Lengths], params: Mapping[str, Any]) -> Lengths:
        ways = degree_of(params, function)
        return {
            name: check_divides(length, ways, function) // ways if name in vectors or not vectors else length
            for name, length in inputs[0].items()
        }

    return rule


def degree_of(params: Mapping[str, Any], function: str) -> int:
    """The parameter ``n`` of a partitioning function, checked."""
    ways = params["n"]
    if not isinstance(ways, int) or ways < 1:
        raise FlowError(function, f"parameter 'n' must be a whole number of at least 1, got {ways!r:.40}")
    return ways


def check_divides(length: int, ways: int, function: str) -> int:
    """The length, unless it cannot be divided in so many equal parts."""
    if length % ways:
        raise FlowError(function, f"a window of {length} samples cannot be split in {ways} equal parts")
    return length
