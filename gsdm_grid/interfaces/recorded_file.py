"""Arrays that lie in a file, of which some rows are read at a time, each time into memory of their own.

Recordings are larger than memory, and others may write to their files while they are played. Rows could be views of a
mapped file, which saves a copy. But if the file becomes shorter, whoever looks at such a view, at once or long after in
another thread or process, is ended by the operating system (SIGBUS), and no check beforehand prevents that. So rows are
read: a file that is too short is an error here, and what was read stays as it was. The copy costs less than it seems:
views of a mapped file cost page faults instead, which `gsdm_grid.engine.freed_memory` avoids where memory is used
again.
"""

from __future__ import annotations

import math
import os
import weakref
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsdm_grid.errors import QueryError
from gsdm_grid.model import Array, Ragged, Text


class RecordedFile:
    """A file to read from at any place. It is open as long as somebody knows it, also if it is replaced meanwhile."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._handle)

    def read(self, start: int, count: int) -> NDArray[np.uint8]:
        """These bytes; a `QueryError` that names the file if it has no such bytes any more."""
        into = np.empty(count, np.uint8)
        view, done = into.data, 0
        while done < count:
            try:
                more = os.preadv(self._handle, [view[done:]], start + done)
            except OSError as error:
                raise QueryError(f"recording {str(self.path)!r} cannot be read: {error}") from error
            if not more:
                raise QueryError(
                    f"recording {str(self.path)!r} has become shorter while it was played: "
                    f"bytes {start + done} to {start + count} are missing"
                )
            done += more
        return into


class FileArray:
    """An array in a file, as NumPy would map it. Slices of its rows, without steps, are arrays in memory."""

    def __init__(
        self, file: RecordedFile, offset: int, dtype: np.dtype[Any], shape: tuple[int, ...], order: str
    ) -> None:
        self.dtype = dtype
        self.shape = shape
        self._file = file
        self._offset = offset
        self._rest = shape[1:]
        self._by_columns = order == "F" and len(shape) > 1

    @staticmethod
    def of(mapped: np.memmap[Any, Any]) -> FileArray:
        """The array that was mapped, of which nothing has been looked at."""
        order = "C" if mapped.flags.c_contiguous else "F"
        return FileArray(RecordedFile(Path(mapped.filename or "")), mapped.offset, mapped.dtype, mapped.shape, order)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Array:
        start, stop, _ = rows.indices(len(self))
        count = max(stop - start, 0)
        if self._by_columns:
            return self._columns(start, count)
        width = self.dtype.itemsize * math.prod(self._rest)
        return self._file.read(self._offset + start * width, count * width).view(self.dtype).reshape(count, *self._rest)

    def _columns(self, start: int, count: int) -> Array:
        """Rows of an array whose columns lie one behind the other."""
        size, places = self.dtype.itemsize, math.prod(self._rest)
        into = np.empty((places, count), self.dtype)
        for place in range(places):
            first = self._offset + (place * len(self) + start) * size
            into[place] = self._file.read(first, count * size).view(self.dtype)
        return into.reshape(*reversed(self._rest), count).T


class FileField:
    """One field of the records of a structured array."""

    def __init__(self, records: FileArray, name: str) -> None:
        self.records = records
        self.name = name

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, rows: slice) -> Array:
        field: Array = self.records[rows][self.name]
        return field


class FileRagged:
    """Vectors of different lengths, or texts, whose values lie in a file. Slices are in memory, as `Ragged`."""

    def __init__(self, values: FileArray, offsets: NDArray[np.int64], kind: type[Ragged | Text]) -> None:
        self._values = values
        self._offsets = offsets
        self._kind = kind

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, rows: slice) -> Ragged:
        start, stop, _ = rows.indices(len(self))
        bounds = self._offsets[start : max(stop, start) + 1]
        return self._kind(self._values[int(bounds[0]) : int(bounds[-1])], bounds - bounds[0])
