"""The window router: hands whole physical windows on to one of several streams, without looking inside.

Which one, is decided by a hash of the window's first ordinal: evenly and at random, so that no period in the stream can
load one output, yet again the same for a window that comes again. Its cost does not depend on the size of windows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gsdm_grid.expressions import mixed
from gsdm_grid.model import PhysicalWindow, StreamType
from gsdm_grid.operators.base import Blocks, StreamOperator


class WindowRouter(StreamOperator):
    """Routes to ``ways`` result streams; ``below`` is how many ways the routers above have chosen among."""

    def __init__(self, stream_type: StreamType, ways: int, below: int = 1) -> None:
        self._type, self._ways, self._below = stream_type, ways, below
        self._per_output = [0] * ways

    def push(self, port: int, block: PhysicalWindow) -> Blocks:  # noqa: ARG002
        """See `StreamOperator`. The other streams learn that the window is not theirs."""
        made = [PhysicalWindow.empty(self._type, block.mark, time_mark=block.time_mark)] * self._ways
        if len(block):
            number = route_of(int(block.ordinals[0]), self._below, self._ways)
            made[number] = block
            self._per_output[number] += 1
        return made

    def statistics(self) -> dict[str, Any]:
        """See `StreamOperator`: physical windows by output."""
        return {"per_output": list(self._per_output)}


def route_of(ordinal: int, below: int, ways: int) -> int:
    """Output for the physical window that begins with this ordinal."""
    return int(mixed(np.array([ordinal + 1]).astype(np.uint64))[0]) // below % ways
