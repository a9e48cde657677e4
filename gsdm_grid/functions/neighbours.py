"""Whether a function uses windows beside its current one, where its author does not say.

The answer is only the default of a declaration (``@sqf(uses_neighbours=…)``): code that calls a window function through
an alias or a helper looks as if it did not. The engine holds every function to its declaration while it runs, so a
wrong default is an error, never a wrong result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

from gsdm_grid.functions.strategies import Strategy

OVERLAPPING = ("overlap_part", "time_overlap_part")
"""Partitions that count windows, for functions over sliding and time windows."""
WINDOW_FUNCTIONS = frozenset({"sliding_window", "time_window"})
"""Window functions that give other windows than the current one."""


def seems_to_use_neighbours(code: Callable[..., Any], strategies: Sequence[Strategy]) -> bool:
    """Whether a function names such a window function, or has a strategy that is made for them."""
    overlaps = any(strategy.partition in OVERLAPPING for strategy in strategies)
    return overlaps or bool(_names(code) & WINDOW_FUNCTIONS)


def _names(code: Any) -> set[str]:
    """Names that a Python function, and those inside it, refer to."""
    while hasattr(code, "func"):  # functools.partial
        code = code.func
    waiting, names = [getattr(code, "__code__", None)], set[str]()
    while waiting:
        one = waiting.pop()
        if isinstance(one, CodeType):
            names |= {*one.co_names, *one.co_freevars}
            waiting += one.co_consts
    return names
