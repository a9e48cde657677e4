"""Functions over streams of any type: sampling, arrival time, aggregates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gsdm_grid.errors import QueryError
from gsdm_grid.functions.sqf import sqf
from gsdm_grid.functions.strategies import window_distribute
from gsdm_grid.functions.windows import StreamView, current_window, sliding_window, time_window
from gsdm_grid.model import STREAM, Array, AttributeType, Ragged, StreamType, SystemClock

AGGREGATES: Mapping[str, Any] = {"mean": np.mean, "sum": np.sum, "min": np.min, "max": np.max}


@sqf(STREAM, whole=True)
def identity(s: StreamView) -> Any:
    """Windows as they are; relays are made of it."""
    return current_window(s)


@sqf(STREAM, strategies=(window_distribute("overlap_part", size="$n", step="$n"),))
def sample(s: StreamView, n: int, seed: int = 0) -> Any:
    """One window out of each ``n``, chosen at random (thesis 3.3.3). Random, yet the same whenever it is asked again."""
    windows = sliding_window(s, n, n)
    return windows[int(np.random.default_rng([seed, s.ordinal]).integers(n))]


@sqf(STREAM, whole=True)
def timestamp_it(s: StreamView) -> Any:
    """The windows with the time of their arrival here as timestamp."""
    v: Any = current_window(s)
    return v.replace(ts=np.full(len(v), SystemClock().now_ns()))


def _aggregate_type(inputs: Sequence[StreamType], params: Mapping[str, Any]) -> StreamType:
    """Means of integers are floating point; everything else keeps its type."""
    how = params.get("how", "mean")
    if how not in AGGREGATES:
        raise QueryError(f"aggregate: unknown aggregate {how!r}; known: {', '.join(AGGREGATES)}")
    given = inputs[0]
    if how != "mean" or all(kind.numpy.kind not in "iub" or name == "ts" for name, kind in given.attributes.items()):
        return given
    mean = {
        name: AttributeType("float64", kind.shape) if kind.numpy.kind in "iub" and kind.dtype != "timestamp" else kind
        for name, kind in given.attributes.items()
        if not kind.is_string or given.attributes[name] is kind
    }
    return StreamType(f"{given.name}Mean", mean, STREAM)


def _aggregate(windows: Any, how: str) -> Any:
    result = _aggregate_type([windows.type], {"how": how})
    reduced: dict[str, Any] = {}
    for name, kind in result.attributes.items():
        column = windows[name]
        if name == "ts" or kind.is_string:
            reduced[name] = column[0]
        elif isinstance(column, Ragged):
            raise QueryError(f"aggregate: attribute {name!r} has vectors of different lengths in one window")
        else:
            reduced[name] = _reduce(column, how, kind)
    return result.window(**reduced)


def _reduce(column: Array, how: str, kind: AttributeType) -> Any:
    return np.asarray(AGGREGATES[how](column, axis=0)).astype(kind.numpy)


@sqf(STREAM, returns=_aggregate_type, strategies=(window_distribute("overlap_part", size="$size", step="$step"),))
def aggregate(s: StreamView, size: int, step: int | None = None, how: str = "mean") -> Any:
    """Elementwise mean, sum, min or max over ``size`` windows, every ``step`` windows (default: jumping).

    The result has the timestamp of the first window; strings are taken from it too.
    """
    return _aggregate(sliding_window(s, size, step or size), how)


@sqf(STREAM, returns=_aggregate_type, strategies=(window_distribute("time_overlap_part", span="$span"),))
def time_aggregate(s: StreamView, span: float, how: str = "mean") -> Any:
    """Elementwise mean, sum, min or max over the last ``span`` seconds, at each window."""
    windows = time_window(s, span)
    return _aggregate(windows, how).replace(ts=windows.ts[-1])
