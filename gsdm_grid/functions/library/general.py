"""Functions over streams of any type: sampling, arrival time, aggregates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from gsdm_grid.errors import QueryError
from gsdm_grid.functions import (
    StreamView,
    Traits,
    current_window,
    same_lengths,
    sliding_window,
    sqf,
    time_window,
    window_distribute,
)
from gsdm_grid.model import STREAM, AttributeType, Ragged, StreamType, SystemClock

AGGREGATES: Mapping[str, Any] = {"mean": np.mean, "sum": np.sum, "min": np.min, "max": np.max}


@sqf(STREAM, whole=True, lengths=same_lengths, traits=Traits(relays=True))
def identity(s: StreamView) -> Any:
    """Windows as they are; relays are made of it."""
    return current_window(s)


@sqf(STREAM, strategies=(window_distribute("overlap_part", size="$n", step="$n"),), lengths=same_lengths)
def sample(s: StreamView, n: int, seed: int = 0) -> Any:
    """One window out of each ``n``, chosen at random, yet the same whenever asked again (thesis 3.3.3)."""
    windows = sliding_window(s, n, n)
    return windows[int(np.random.default_rng([seed, s.ordinal]).integers(n))]


@sqf(STREAM, whole=True, strategies=(), lengths=same_lengths, traits=Traits(keeps_time=False))
def timestamp_it(s: StreamView) -> Any:
    """The windows with the time of their arrival here as timestamp. In one place only: elsewhere it is another time."""
    v: Any = current_window(s)
    return v.replace(ts=np.full(len(v), SystemClock().now_ns()))


def _aggregate_type(inputs: Sequence[StreamType], params: Mapping[str, Any]) -> StreamType:
    return aggregated(inputs[0], params.get("how", "mean"))


@lru_cache(256)
def aggregated(given: StreamType, how: str) -> StreamType:
    """Type of aggregates: means of integers are floating point, sums of integers are 64 bits wide."""
    if how not in AGGREGATES:
        raise QueryError(f"aggregate: unknown aggregate {how!r}; known: {', '.join(AGGREGATES)}")
    kinds = {name: _aggregated_kind(kind, how) for name, kind in given.attributes.items()}
    if kinds == given.attributes:
        return given
    return StreamType(f"{given.name}{how.capitalize()}", kinds, STREAM)


def _aggregated_kind(kind: AttributeType, how: str) -> AttributeType:
    if _is_taken(kind) or kind.numpy.kind not in "iub" or how in ("min", "max"):
        return kind
    if how == "mean":
        return AttributeType("float64", kind.shape)
    return AttributeType("uint64" if kind.numpy.kind == "u" else "int64", kind.shape)


def _is_taken(kind: AttributeType) -> bool:
    """Whether an aggregate takes the value of its first window: text and times are no quantities."""
    return kind.dtype in ("string", "timestamp")


def _aggregate(windows: Any, how: str) -> Any:
    result = aggregated(windows.type, how)
    reduced: dict[str, Any] = {}
    for name, kind in result.attributes.items():
        column = windows[name]
        if _is_taken(kind):
            reduced[name] = column[0]
        elif isinstance(column, Ragged):
            raise QueryError(f"aggregate: attribute {name!r} has vectors of different lengths in one window")
        else:
            reduced[name] = np.asarray(AGGREGATES[how](column, axis=0)).astype(kind.numpy)
    return result.window(**reduced)


@sqf(
    STREAM,
    returns=_aggregate_type,
    strategies=(window_distribute("overlap_part", size="$size", step="$step"),),
    lengths=same_lengths,
)
def aggregate(s: StreamView, size: int, step: int | None = None, how: str = "mean") -> Any:
    """Elementwise mean, sum, min or max over ``size`` windows, every ``step`` windows (default: jumping).

    The result has the timestamps and strings of the first window.
    """
    return _aggregate(sliding_window(s, size, step or size), how)


@sqf(
    STREAM,
    returns=_aggregate_type,
    strategies=(window_distribute("time_overlap_part", span="$span"),),
    lengths=same_lengths,
    traits=Traits(keeps_time=True),
)
def time_aggregate(s: StreamView, span: float, how: str = "mean") -> Any:
    """Elementwise mean, sum, min or max over the last ``span`` seconds, at each window."""
    windows = time_window(s, span)
    return _aggregate(windows, how).replace(ts=windows.ts[-1])
