"""Memory for results that is used again: fresh memory costs a page fault every four kilobytes, more than copying does.

An arena lends stretches of bytes. A stretch is free again when the last array that views it has died, wherever that
was: in this thread once a block has been written to a channel, or in the thread of a consumer that it was handed to.
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

ALIGNMENT = 64
KEPT = 4


class Arena:
    """Lends memory to one operator. Stretches may be given back from any thread; at most `KEPT` are kept."""

    def __init__(self) -> None:
        self._free: deque[bytearray] = deque(maxlen=KEPT)

    def take(self, size: int) -> Stretch:
        """A stretch of at least ``size`` bytes."""
        try:
            memory = self._free.popleft()
        except IndexError:
            memory = bytearray()
        if len(memory) < size:
            memory = bytearray(size + size // 8)
        return Stretch(memory, self._free)


class Stretch:
    """Borrowed memory, out of which arrays are cut one after the other."""

    def __init__(self, memory: bytearray, free: deque[bytearray]) -> None:
        self._bytes = np.frombuffer(memory, np.uint8)
        self._at = 0
        weakref.finalize(self._bytes, free.append, memory).atexit = False

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """An uninitialised array of this shape."""
        size = int(np.prod(shape)) * dtype.itemsize
        made = self._bytes[self._at : self._at + size].view(dtype).reshape(shape)
        self._at += aligned(size)
        return made


def aligned(size: int) -> int:
    """The size, rounded up so that the next array begins at a cache line."""
    return -(-size // ALIGNMENT) * ALIGNMENT
