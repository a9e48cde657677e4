"""Shared memory between working nodes on one machine: payload is written once and read in place.

A producer has one `Ring` per channel, a file in the machine's shared memory. Regions are taken and given back in the
order of the stream, so a ring it is; it wraps as early as it can, so that the bytes in use stay in the caches.
A consumer maps the file and views the columns in place (`MappedRing`); it tells when the last view of a block has died.
So whoever hands a block on as it came need not copy it: the next one can view the same place (`MappedRing.places`).
Files are named after the process that made them, so what a crashed process left is found and removed (`sweep`).
"""

from __future__ import annotations

import mmap
import os
import re
import secrets
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gsdm_grid.errors import ChannelError
from gsdm_grid.model import Array

FOLDER = Path("/dev/shm")
ALIGNMENT = 64
_NAME = re.compile(r"^gsdm-(\d+)-(\d+)-[0-9a-f]+$")


def available() -> bool:
    """Whether this machine has the folder for shared memory, and lets us write there."""
    return os.access(FOLDER, os.W_OK)


class Ring:
    """The producer's end: a file of ``capacity`` bytes, used as a ring. Bound to the engine's thread."""

    def __init__(self, capacity: int) -> None:
        self.name = f"gsdm-{os.getpid()}-{_start_ticks(os.getpid())}-{secrets.token_hex(6)}"
        self.capacity = capacity
        path = FOLDER / self.name
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        try:
            os.ftruncate(handle, capacity)
            self._map = mmap.mmap(handle, capacity)
        finally:
            os.close(handle)
        self._bytes = np.frombuffer(self._map, np.uint8)
        self._taken: deque[tuple[int, int]] = deque()  # (begin, end) in the order of the stream
        self._head = 0
        self._remove = weakref.finalize(self, _unlink, path)

    def write(self, arrays: Sequence[Array]) -> list[tuple[int, int]] | None:
        """Copy the arrays in, each at an aligned place; returns (offset, bytes) of each, None if there is no room."""
        sizes = [array.nbytes for array in arrays]
        begin = self._take(sum(_aligned(size) for size in sizes))
        if begin is None:
            return None
        places = []
        at = begin
        for array, size in zip(arrays, sizes, strict=True):
            target = self._bytes[at : at + size].view(array.dtype).reshape(array.shape)
            np.copyto(target, array)
            places.append((at, size))
            at += _aligned(size)
        return places

    def read(self, places: Sequence[tuple[int, int]]) -> list[Array]:
        """Copies of what is at these places, as bytes."""
        return [self._bytes[offset : offset + size].copy() for offset, size in places]

    def free(self, regions: int) -> None:
        """Give back the oldest regions."""
        for _ in range(min(regions, len(self._taken))):
            self._taken.popleft()

    @property
    def taken(self) -> int:
        """Number of regions in use."""
        return len(self._taken)

    def close(self) -> None:
        """Remove the file; consumers that have mapped it may read on."""
        self._remove()

    def fits(self, size: int) -> bool:
        """Whether there is room for another ``size`` bytes now."""
        return self._place(size) is not None

    def _take(self, size: int) -> int | None:
        begin = self._place(size)
        if begin is not None:
            self._head = begin + size
            self._taken.append((begin, self._head))
        return begin

    def _place(self, size: int) -> int | None:
        """Where the next region goes: behind the last one, or at the start again as soon as all that is in use fits."""
        if not self._taken:
            return 0 if size <= self.capacity else None
        tail = self._taken[0][0]
        if self._head <= tail:  # wrapped: free from head to tail
            return self._head if self._head + size <= tail else None
        in_use = self._head - tail
        if tail >= 2 * (in_use + size) or (self._head + size > self.capacity and size <= tail):
            return 0
        return self._head if self._head + size <= self.capacity else None


class MappedRing:
    """The consumer's end: a producer's ring, mapped for reading."""

    def __init__(self, name: str) -> None:
        if not _NAME.match(name):
            raise ChannelError(f"not the name of a shared memory ring: {name!r}")
        try:
            with open(FOLDER / name, "rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise ChannelError(f"shared memory ring {name!r} cannot be opened: {error}") from error
        self._begin = _address(np.frombuffer(self._map, np.uint8))

    def places(self, arrays: Sequence[Array]) -> list[tuple[int, int]] | None:
        """(offset, bytes) of arrays that all lie in this ring, each in one piece; None if they do not.

        They stay there for as long as somebody keeps them.
        """
        made = []
        for array in arrays:
            at = _address(array) - self._begin
            if at < 0 or at + array.nbytes > len(self._map) or not array.flags.c_contiguous or not array.nbytes:
                return None
            made.append((at, array.nbytes))
        return made

    def view(self, places: Sequence[Sequence[int]], died: Callable[[], None]) -> list[Any]:
        """Buffers at these places; ``died`` is called once nothing refers to any of them any more."""
        if not places:
            died()
            return []
        begin = min(int(offset) for offset, _ in places)
        end = max(int(offset) + int(size) for offset, size in places)
        if begin < 0 or end > len(self._map):
            raise ChannelError("a place outside the shared memory ring")
        base = np.frombuffer(self._map, np.uint8, end - begin, begin)
        weakref.finalize(base, died).atexit = False
        return [base[offset - begin : offset - begin + size] for offset, size in places]


def sweep() -> int:
    """Remove rings of processes that no longer live; returns how many."""
    removed = 0
    for path in FOLDER.glob("gsdm-*") if FOLDER.is_dir() else ():
        match = _NAME.match(path.name)
        if match and _start_ticks(int(match[1])) != int(match[2]):
            _unlink(path)
            removed += 1
    return removed


def _start_ticks(pid: int) -> int:
    """When a process started, in clock ticks since boot; 0 if there is no such process. Tells reused pids apart."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(text.rpartition(")")[2].split()[19])


def _address(array: Array) -> int:
    begin: int = array.__array_interface__["data"][0]
    return begin


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _unlink(path: Path) -> None:
    path.unlink(missing_ok=True)
