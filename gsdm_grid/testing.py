"""What tests of queries and stream interfaces need: a clock that stands still until it is told, direct application, and
patience.

Shipped as product, so that people can test their own functions and interfaces in the same way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from typing_extensions import override

from gsdm_grid.functions import NeedMore, StreamFunction, StreamView, functions
from gsdm_grid.model import Clock, PhysicalWindow

Found = TypeVar("Found")
LOOK_S = 0.01


class FakeClock(Clock):
    """A clock whose time, in seconds, is set by the test."""

    def __init__(self, start_s: float = 100.0) -> None:
        self.s = start_s

    @override
    def now_ns(self) -> int:
        return round(self.s * 1e9)

    @override
    def monotonic_s(self) -> float:
        return self.s


def apply(function: str | StreamFunction, block: PhysicalWindow, **params: Any) -> list[Any]:
    """What a transforming function returns, execution by execution, over the windows of one block.

    >>> from gsdm_grid import Radio
    >>> import numpy as np
    >>> ones = np.ones((2, 4), np.complex64)
    >>> [spectra] = apply("fft3", Radio.block(ts=[0, 1], x=ones, y=ones, z=ones))
    >>> spectra.x[0].real.tolist()
    [4.0, 0.0, 0.0, 0.0]
    """
    found = functions.get(function)
    view = StreamView(block.type, found.whole, None if found.uses_neighbours else found.name)
    view.feed(block)
    bound = found.bind(params)
    if found.init is not None:
        bound["state"] = found.init(**bound)
    results: list[Any] = []
    while True:
        try:
            made = found.code(view, **bound)
        except NeedMore:
            return results
        view.advance()
        is_window = made is None or not isinstance(made, Iterable) or isinstance(made, PhysicalWindow)
        results.append(made if is_window else list(made))


def eventually(look: Callable[[], Found], holds: Callable[[Found], object] = bool, timeout_s: float = 60.0) -> Found:
    """Look until what is found holds; gives it. `AssertionError` with what was found last, if it takes too long.

    >>> numbers = iter(range(10))
    >>> eventually(lambda: next(numbers), lambda number: number > 3)
    4
    """
    deadline_s = time.monotonic() + timeout_s
    while not holds(found := look()):
        if time.monotonic() >= deadline_s:
            raise AssertionError(f"not within {timeout_s:g} s; last found: {found!r}")
        time.sleep(LOOK_S)
    return found
