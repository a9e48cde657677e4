"""Interface ``log``: a result stream kept on disk, for any number of readers at their own pace.

A `ResultLog` is a folder: ``type.json`` (the stream type), files ``<seq of the first window>.log``, and
``start.json`` (what was before the oldest of them). Windows are numbered ``seq`` = 0, 1, 2, … for the life of the log.
The oldest files are deleted when there is more than ``keep_bytes``; a reader that wants what is gone is told how many
windows it missed. Readers never hold up the writer: they take nothing from it but the moment in which they find out
where to read.

How frames lie in a file is in `log_frames`, what becomes of a damaged type in `log_type`, what the log must remember of
deleted files in `log_start`. Every frame is checked when it is read. Windows of damaged frames, or of files that are
missing, are gaps: readers are told how many windows they miss there, and it is logged and counted.

What was appended is in the kernel's page cache, so it outlives the process, however that dies; a frame that a killed
writer left torn is cut off when the log is next opened. (It may not outlive a machine that loses its power.)

Options of the sink: ``log``, a `ResultLog`, a function that makes one for a stream type, or a path; ``resume``, whether
`ResultLog.resume` is called when the sink is first opened (not by default: only who starts a query knows whether it
goes on with what the log has).
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from gsdm_grid.errors import ChannelError, QueryError
from gsdm_grid.interfaces import InterfaceContext, StreamInterface, interfaces
from gsdm_grid.model import NO_TIME_MARK, PhysicalWindow, StreamPosition, StreamType, as_array, cut
from gsdm_grid.storage.log_file import LogFile, files_of
from gsdm_grid.storage.log_frames import Frame, Gap, block_of, frame_of
from gsdm_grid.storage.log_start import LogStart, start_of, write_start
from gsdm_grid.storage.log_type import type_of

KEEP_BYTES = 256 << 20
SEGMENT_BYTES = 16 << 20

LogState = Literal["idle", "writing", "paused", "ended", "closed", "removed"]
"""``idle``: nobody has written since the log was opened, or the writer is gone without a word."""

_MAX_GATHER = 512
_log = logging.getLogger(__name__)


class Reading(NamedTuple):
    """What a reader got: blocks without gaps, with the seq of their first window, and what it missed before."""

    missed: int
    """Windows that are not kept any more, or cannot be read."""
    blocks: list[tuple[int, PhysicalWindow]]
    next: int
    """Where to read on."""


class ResultLog:
    """One result stream on disk. Made by the coordinator; one thread appends, any thread reads. Not pickled.

    Opening a folder that has a log goes on with it; ``stream_type`` None takes the type that it has.
    """

    def __init__(
        self,
        path: str | Path,
        stream_type: StreamType | None = None,
        *,
        keep_bytes: int = KEEP_BYTES,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self.path = Path(path)
        self._files = [LogFile(path, int(path.stem), path.stat().st_size) for path in files_of(self.path)]
        self.type = type_of(self.path, stream_type, self._windows_fit)
        self.keep_bytes = keep_bytes
        self.lost = 0
        """Windows that were found to be damaged, or missing, since the log was opened."""
        self._segment_bytes = min(segment_bytes, max(keep_bytes // 4, 1))
        self._changed = threading.Condition()
        self._state: LogState = "idle"
        self._listeners: tuple[Callable[[], None], ...] = ()
        self._handle: int | None = None
        self._writing = threading.Lock()  # of who uses the handle: others may end the log under its writer
        self._gaps: list[tuple[int, int]] = []  # windows counted as lost
        if not self._files:
            self._files = [self._new_file(0)]
        self._next = self._mend(self._files[-1])
        self._bytes = sum(file.size for file in self._files)
        self._start = start_of(self.path)
        self._position = self._position_before(self._next)

    @property
    def first(self) -> int:
        """Seq of the oldest window that is kept."""
        return self._files[0].first

    @property
    def next(self) -> int:
        """Seq that the next window will get: all before it are, or were, here."""
        return self._next

    @property
    def kept_bytes(self) -> int:
        """Bytes on disk."""
        return self._bytes

    @property
    def last_ordinal(self) -> int | None:
        """Ordinal of the last window; None in a log that never had one."""
        return self._position.ordinal

    @property
    def last_count(self) -> int:
        """How many windows at the end of the log have the last ordinal, kept or not."""
        return self._position.count

    @property
    def duplicates(self) -> int:
        """Windows that came again after `resume` and were left out."""
        return self._position.duplicates

    @property
    def state(self) -> LogState:
        """What readers may expect; see `LogState`."""
        return self._state

    # ------------------------------------------------------------------ writing

    def begin(self) -> None:
        """A run writes from now on."""
        self._become("writing")

    def end(self, final: bool) -> None:
        """The run is over: for good, or until it is resumed. Not kept on disk."""
        if self._state not in ("closed", "removed"):
            self._become("ended" if final else "paused")

    def abandon(self) -> None:
        """The writer is gone without having said that the run is over."""
        if self._state == "writing":
            self._become("idle")

    def resume(self) -> None:
        """The writer begins again at, or before, what is here already: leave out what comes a second time.

        Windows before the last ordinal are left out, and as many with the last ordinal as there are. Nothing is, once
        a greater one came.
        """
        self._position.expect_duplicates()

    def append(self, block: PhysicalWindow) -> None:
        """Add windows. Never waits for readers; `ChannelError` if the disk takes no more."""
        block = self._position.without_duplicates(block)
        if not len(block):
            return
        with self._writing:
            self._append(block)
        self.notify()

    def _append(self, block: PhysicalWindow) -> None:
        pieces, size = frame_of(block.stamped(time_mark=NO_TIME_MARK), self._next)
        file = self._files[-1]
        if file.size and file.size + size > self._segment_bytes:
            self._close_file()
            file = self._new_file(self._next, StreamPosition(self._position.ordinal, self._position.count))
        self._write(file, pieces, size)
        with self._changed:
            if file is not self._files[-1]:
                self._files.append(file)
            file.note(self._next, file.size)
            file.size += size
            self._bytes += size
            self._next += len(block)
            self._position.advance(block)
            self._changed.notify_all()
        self._delete_oldest()

    def _delete_oldest(self) -> None:
        """Delete the oldest files while there is more than is to be kept."""
        excess, count = self._bytes - self.keep_bytes, 0
        while excess > 0 and count < len(self._files) - 1:
            excess -= self._files[count].size
            count += 1
        if not count:
            return
        try:
            self._keep_start(self._files[count])
        except OSError as error:  # it is tried again after the next block
            _log.warning("result log %s cannot delete what is no longer kept: %s", self.path, error)
            return
        with self._changed:
            retired, self._files = self._files[:count], self._files[count:]
            self._bytes -= sum(file.size for file in retired)
        for file in retired:
            file.path.unlink(missing_ok=True)

    def _keep_start(self, file: LogFile) -> None:
        """Keep on disk how far the stream was before a file: those before it are about to be deleted."""
        position = file.position or self._position_before(file.first)
        if position.ordinal is None:  # nothing before it can be read
            return
        start = LogStart(file.first, position.ordinal, position.count)
        write_start(self.path, start)
        self._start = start

    def _write(self, file: LogFile, pieces: list[Any], size: int) -> None:
        if self._state in ("closed", "removed"):
            raise ChannelError(f"result log {str(self.path)!r} is {self._state}")
        try:
            if self._handle is None:
                self._handle = os.open(file.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
                os.lseek(self._handle, file.size, os.SEEK_SET)
            try:
                _write_all(self._handle, pieces, size)
            except OSError:
                os.ftruncate(self._handle, file.size)
                self._close_file()
                if not file.size:
                    file.path.unlink()
                raise
        except OSError as error:
            raise ChannelError(f"result log {str(self.path)!r} cannot be written: {error}") from error

    # ------------------------------------------------------------------ reading

    def read(self, seq: int, max_windows: int = 1024, max_bytes: int = 8 << 20) -> Reading:
        """Windows from ``seq`` on, at least one if there is one. Blocks are cut to begin there; a gap ends the reading.

        Blocks are views of what was read: they stay valid whatever happens to the log.
        """
        if seq < 0:
            raise QueryError(f"windows of a result log are numbered from 0: there is no window {seq}")
        blocks: list[tuple[int, PhysicalWindow]] = []
        at, windows, room = seq, max_windows, max_bytes
        for item in self._items(seq):
            if isinstance(item, Gap):
                if blocks:
                    break
                at = item.next
                continue
            part = _cut(block_of(self.type, item), at - item.seq, windows, room)
            blocks.append((at, part))
            at += len(part)
            windows -= len(part)
            room -= part.nbytes
            if at < item.next or windows <= 0 or room <= 0:
                break
        missed = (blocks[0][0] if blocks else at) - seq
        return Reading(missed, blocks, at)

    def wait(self, seq: int, timeout_s: float | None = None) -> bool:
        """Wait until there is a window ``seq``, or until nobody writes; says whether there is."""
        with self._changed:
            self._changed.wait_for(lambda: self._next > seq or self._state not in ("idle", "writing"), timeout_s)
            return self._next > seq

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call the listener after every append and change of state, in the writer's thread: it must be quick.

        Returns how to stop that.
        """
        with self._changed:
            self._listeners = (*self._listeners, listener)

        def cancel() -> None:
            with self._changed:
                self._listeners = tuple(one for one in self._listeners if one is not listener)

        return cancel

    def notify(self) -> None:
        """Let readers look again, at the log and at whatever else they watch."""
        for listener in self._listeners:
            listener()

    def _items(self, at: int) -> Iterator[Frame | Gap]:
        """Frames and gaps from the window ``at`` on, up to the last that is there when they are asked for."""
        while True:
            with self._changed:
                first = self.first
                if first <= at:
                    if at >= self._next:
                        return
                    place = bisect_right(self._files, at, key=lambda one: one.first)
                    file = self._files[place - 1]
                    following = self._next if place == len(self._files) else self._files[place].first
                    size = file.size
            if at < first:  # retired
                yield Gap(at, first, 0, 0)
                at = first
                continue
            try:
                for item in file.read(at, size, following):
                    if isinstance(item, Gap):
                        self._report(file, item)
                    yield item
                    at = item.next
            except FileNotFoundError:  # retired since we looked, or all is removed; else it is lost
                if self._state == "removed":
                    return
                with self._changed:
                    lost = file in self._files
                if lost:
                    gap = Gap(at, following, 0, size)
                    self._report(file, gap)
                    yield gap
                    at = following
            except OSError as error:
                raise ChannelError(f"result log {str(self.path)!r} cannot be read: {error}") from error

    def _report(self, file: LogFile, gap: Gap) -> None:
        """Log and count windows that are lost, once."""
        with self._changed:
            known = [(first, end) for first, end in self._gaps if end > self.first]
            lost = gap.next - gap.seq
            lost -= sum(max(min(end, gap.next) - max(first, gap.seq), 0) for first, end in known)
            if not lost:
                return
            apart = [(first, end) for first, end in known if end < gap.seq or gap.next < first]
            near = [one for one in known if one not in apart]
            whole = (min([gap.seq, *(first for first, _ in near)]), max([gap.next, *(end for _, end in near)]))
            self._gaps = [*apart, whole]
            self.lost += lost
        _log.warning(
            "%d windows of a result log are lost, %d to %d: bytes %d to %d of %s are damaged or missing",
            *(gap.next - gap.seq, gap.seq, gap.next - 1, gap.start, gap.end, file.path),
        )

    # ------------------------------------------------------------------ the folder

    def close(self) -> None:
        """Let go of the file; what is logged stays. Readers find the log closed. May be called twice."""
        if self._state not in ("closed", "removed"):
            self._become("closed")
        with self._writing:
            self._close_file()

    def remove(self) -> None:
        """Close the log and delete it."""
        self._become("removed")
        with self._writing:
            self._close_file()
        shutil.rmtree(self.path, ignore_errors=True)

    def _become(self, state: LogState) -> None:
        with self._changed:
            if self._state == "removed" or (self._state == "closed" and state != "removed"):
                raise ChannelError(f"result log {str(self.path)!r} is {self._state}")
            self._state = state
            self._changed.notify_all()
        self.notify()

    def _close_file(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _new_file(self, first: int, position: StreamPosition | None = None) -> LogFile:
        return LogFile(self.path / f"{first:020d}.log", first, position=position)

    def _windows_fit(self, stream_type: StreamType) -> bool:
        """Whether the first frame that can be read holds windows that can be of a type."""
        frame = next((frame for file in self._files if (frame := file.first_frame()) is not None), None)
        try:
            return frame is None or len(block_of(stream_type, frame)) > 0
        except ChannelError:
            return False

    def _mend(self, file: LogFile) -> int:
        """Cut off what was not completely written at the end; returns the seq after the last whole frame."""
        if not file.size:
            return file.first
        scan = file.scan()
        for gap in scan.gaps:
            self._report(file, gap)
        if scan.size < file.size:
            _log.warning(
                "the end of a result log is not whole: bytes %d to %d of %s are cut off, after window %d",
                *(scan.size, file.size, file.path, scan.next - 1),
            )
            os.truncate(file.path, scan.size)
            file.size = scan.size
        return scan.next

    def _position_before(self, end: int) -> StreamPosition:
        """The ordinal of the last window before ``end`` and how many windows have it, from what is on disk."""
        start = self._start if self._start is not None and self._start.seq <= end else None
        begin = self.first if start is None else max(self.first, start.seq)
        last: int | None = None
        stop = since = end
        step = 1
        while stop > begin:
            at = max(stop - step, begin)
            for seq, block in reversed(self._blocks(at, stop)):
                places = as_array(block.ordinals)
                last = int(places[-1]) if last is None else last
                others = np.flatnonzero(places != last)
                same = len(places) - (int(others[-1]) + 1 if len(others) else 0)
                if same:
                    since = seq + len(places) - same
                if same < len(places):
                    return StreamPosition(last, end - since)
            stop, step = at, min(step * 4, 4096)
        if start is not None and last in (None, start.ordinal):
            unread = last is None  # nothing behind the start can be read
            return StreamPosition(start.ordinal, start.windows + (0 if unread else end - start.seq))
        return StreamPosition(last, end - since)

    def _blocks(self, start: int, stop: int) -> list[tuple[int, PhysicalWindow]]:
        """All that can be read of some windows."""
        blocks: list[tuple[int, PhysicalWindow]] = []
        while start < stop:
            reading = self.read(start, stop - start, 1 << 62)
            blocks += reading.blocks
            start = reading.next
        return [(seq, block) for seq, block in blocks if seq < stop]


class ResultLogSink(StreamInterface):
    """Appends results to a `ResultLog`; see the module for options. A log that it was given is not closed by it."""

    known_options: ClassVar[frozenset[str] | None] = frozenset({"log", "resume"})

    local: ClassVar[bool] = True
    sink_option: ClassVar[str] = "log"

    def __init__(self, stream_type: StreamType, options: Mapping[str, Any]) -> None:
        super().__init__(stream_type, options)
        given = options.get("log")
        if not (isinstance(given, ResultLog | str | Path) or callable(given)):
            raise QueryError(f"interface 'log' needs option 'log': a path, or what makes a ResultLog; got {given!r}")
        self.log: ResultLog | None = None

    def open(self, context: InterfaceContext) -> None:
        """See `StreamInterface`."""
        super().open(context)
        if self.log is None:
            given = self.options["log"]
            if isinstance(given, str | Path):
                self.log = ResultLog(given, self.stream_type)
            else:
                self.log = given if isinstance(given, ResultLog) else given(self.stream_type)
            if self.options.get("resume", False):
                self.log.resume()
        self.log.begin()

    def insert(self, block: PhysicalWindow) -> None:
        """See `StreamInterface`."""
        if self.log is None:
            raise ChannelError("interface 'log' is not open")
        self.log.append(block)

    def finish(self) -> None:
        """See `StreamInterface`: readers learn that there will be no more."""
        if self.log is not None:
            self.log.end(final=True)

    def pause(self) -> None:
        """See `StreamInterface`: readers learn that the run has stopped."""
        if self.log is not None:
            self.log.end(final=False)

    def close(self) -> None:
        """See `StreamInterface`."""
        if self.log is None:
            return
        self.log.abandon()
        if isinstance(self.options["log"], str | Path):
            self.log.close()
            self.log = None

    def statistics(self) -> dict[str, int | float]:
        """What is kept, how many windows came a second time and were left out, and how many were damaged."""
        log = self.log
        if log is None:
            return {}
        first = log.first
        return {
            "kept_windows": log.next - first,
            "kept_bytes": log.kept_bytes,
            "first": first,
            "next": log.next,
            "duplicates": log.duplicates,
            "lost": log.lost,
        }


def _write_all(handle: int, pieces: list[Any], size: int) -> None:
    """Write the pieces one after the other; a full disk may take only some of them."""
    written = os.writev(handle, pieces[:_MAX_GATHER])
    if written == size:
        return
    left = [memoryview(piece) for piece in pieces]
    while True:
        while left and written >= len(left[0]):
            written -= len(left.pop(0))
        if not left:
            return
        left[0] = left[0][written:]
        written = os.writev(handle, left[:_MAX_GATHER])


def _cut(block: PhysicalWindow, skip: int, windows: int, room: int) -> PhysicalWindow:
    """The windows after ``skip`` that fit, at least one."""
    each = max(block.nbytes // len(block), 1)
    count = max(min(windows, room // each, len(block) - skip), 1)
    return block if count == len(block) else cut(block, skip, skip + count)


interfaces.add("log", ResultLogSink)
