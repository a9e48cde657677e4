"""One file of a result log: an index of its frames, and reading from a window on. Frames are in `log_frames`."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gsdm_grid.model import StreamPosition
from gsdm_grid.storage.log_frames import Frame, Gap, frames

_INDEX_BYTES = 4 << 10  # one entry of the index for so many bytes; from there, readers go frame by frame


class Scan(NamedTuple):
    """What is in a file: where its last whole frame ends, the seq after that, and the gaps before it."""

    size: int
    next: int
    gaps: list[Gap]


class LogFile:
    """One file of the log. ``size`` counts its bytes. One thread appends to it, any thread reads.

    The index is made as frames are written; of files from before, when it is first needed. ``position`` is where the
    stream was before the file; None if the file is from before.
    """

    __slots__ = ("_offsets", "_seqs", "first", "path", "position", "size")

    def __init__(self, path: Path, first: int, size: int = 0, position: StreamPosition | None = None) -> None:
        self.path = path
        self.first = first
        self.size = size
        self.position = position
        self._seqs = array("q")
        self._offsets = array("q")

    def note(self, seq: int, offset: int) -> None:
        """A frame begins here. Readers may look at the same time: they look at ``_seqs`` first."""
        if not self._offsets or offset - self._offsets[-1] >= _INDEX_BYTES:
            self._offsets.append(offset)
            self._seqs.append(seq)

    def scan(self, following: int | None = None) -> Scan:
        """Find all whole frames, and make an index of them; ``following`` as in `frames`."""
        index, size, seq, gaps = LogFile(self.path, self.first), 0, self.first, []
        with self.path.open("rb", buffering=0) as file:
            for item in frames(file.fileno(), 0, self.size, self.first, following):
                if isinstance(item, Gap):
                    gaps.append(item)
                else:
                    index.note(item.seq, item.start)
                    size, seq = item.end, item.next
        self._offsets, self._seqs = index._offsets, index._seqs
        return Scan(size, seq, gaps)

    def first_frame(self) -> Frame | None:
        """The first whole frame; None if there is none."""
        with self.path.open("rb", buffering=0) as file:
            items = frames(file.fileno(), 0, self.size, self.first, None)
            return next((item for item in items if isinstance(item, Frame)), None)

    def read(self, seq: int, size: int, following: int) -> Iterator[Frame | Gap]:
        """Frames and gaps in the first ``size`` bytes, from the one that holds window ``seq`` up to ``following``."""
        if not self._seqs:
            self.scan(following)
        place = bisect_right(self._seqs, seq) - 1
        start, first = (self._offsets[place], self._seqs[place]) if place >= 0 else (0, self.first)
        with self.path.open("rb", buffering=0) as file:
            for item in frames(file.fileno(), start, size, first, following):
                if item.next > seq:
                    yield item


def files_of(folder: Path) -> list[Path]:
    """The files of a log, in the order of their windows."""
    return sorted(path for path in folder.glob("*.log") if path.stem.isdecimal())


def end_of(folder: Path) -> int:
    """How many windows a log has had, kept or not, by what is on disk; of a log that nobody writes to."""
    last = files_of(folder)[-1:]
    return LogFile(last[0], int(last[0].stem), last[0].stat().st_size).scan().next if last else 0
