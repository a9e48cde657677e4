"""Interface ``log``: a result stream kept on disk, for any number of readers at their own pace.

A `ResultLog` is a folder: ``type.json`` (the stream type) and segment files ``<seq of the first window>.log``. Windows
are numbered ``seq`` = 0, 1, 2, … for the life of the log. The oldest segments are deleted when there is more than
``keep_bytes``; a reader that wants what is gone is told how many windows it missed. Readers never hold up the writer:
they take nothing from it but the moment in which they find out where to read.

A segment is a row of frames, each one block. Numbers are little-endian, everything begins at a multiple of 8 bytes::

    magic 4s "GSRL" | crc32 u32 of all that follows | bytes of payload u64 | seq of the first window u64 | windows u64
    u32 length of the wire header | u32 number of buffers | u64 length of each | wire header | the buffers

What was appended is in the kernel's page cache, so it outlives the process, however that dies; a frame that a killed
writer left torn is cut off when the log is next opened. (It may not outlive a machine that loses its power.)

Options of the sink: ``log``, a `ResultLog`, a function that makes one for a stream type, or a path; ``resume``, whether
`ResultLog.resume` is called when the sink is first opened (not by default: only who starts a query knows whether it
goes on with what the log has).
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import threading
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from gsdm_grid.channels.interface import InterfaceContext, StreamInterface, interfaces
from gsdm_grid.errors import ChannelError, QueryError, SchemaError
from gsdm_grid.model import PhysicalWindow, StreamType, as_array, wire

KEEP_BYTES = 256 << 20
SEGMENT_BYTES = 16 << 20

LogState = Literal["idle", "writing", "paused", "ended", "closed", "removed"]
"""``idle``: nobody has written since the log was opened, or the writer is gone without a word."""

_MAGIC = b"GSRL"
_FRAME = struct.Struct("<4sIQQQ")
_CHECKED = struct.Struct("<QQQ")
_PARTS = struct.Struct("<II")
_PADDING = bytes(8)
_JOIN_BYTES = 64 << 10  # below, one copy costs less than a long gather list
_READ_BYTES = 256 << 10
_INDEX_BYTES = 4 << 10  # one entry of a segment's index for so many bytes; from there, readers go frame by frame
_MAX_GATHER = 512
_TYPE_FILE = "type.json"


class Reading(NamedTuple):
    """What a reader got: blocks with the seq of their first window, and what it came too late for."""

    missed: int
    blocks: list[tuple[int, PhysicalWindow]]
    next: int
    """Where to read on."""


class _Segment:
    """One file of the log. ``size`` counts whole frames only.

    The index is made as frames are written; of files from before, which are checked then, when it is first needed.
    """

    __slots__ = ("first", "offsets", "path", "seqs", "size")

    def __init__(self, path: Path, first: int, size: int = 0) -> None:
        self.path = path
        self.first = first
        self.size = size
        self.seqs = array("q")
        self.offsets = array("q")

    def note(self, seq: int, offset: int) -> None:
        """A frame begins here. Readers may look at the same time: they look at ``seqs`` first."""
        if not self.offsets or offset - self.offsets[-1] >= _INDEX_BYTES:
            self.offsets.append(offset)
            self.seqs.append(seq)

    def offset_before(self, seq: int) -> int:
        """Beginning of a frame at or before this window."""
        if not self.seqs:
            found = _Segment(self.path, self.first, self.size)
            found.check()
            self.size, self.offsets, self.seqs = found.size, found.offsets, found.seqs
        return self.offsets[max(bisect_right(self.seqs, seq) - 1, 0)] if self.seqs else self.size

    def check(self) -> int:
        """Find all whole frames, which sets ``size``; returns the seq after the last."""
        seq, offset = self.first, 0
        with self.path.open("rb", buffering=0) as file:
            while offset + _FRAME.size <= self.size:
                head = os.pread(file.fileno(), _FRAME.size, offset)
                magic, crc, payload, first, count = _FRAME.unpack(head)
                end = offset + _FRAME.size + payload
                if magic != _MAGIC or first != seq or end > self.size:
                    break
                body = os.pread(file.fileno(), payload, offset + _FRAME.size)
                if zlib.crc32(body, zlib.crc32(head[8:])) != crc:
                    break
                self.note(seq, offset)
                seq, offset = seq + count, end
        self.size = offset
        return seq


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
        self.type = self._settle_type(stream_type)
        self.keep_bytes = keep_bytes
        self.duplicates = 0
        """Windows that came again after `resume` and were left out."""
        self._segment_bytes = min(segment_bytes, max(keep_bytes // 4, 1))
        self._changed = threading.Condition()
        self._state: LogState = "idle"
        self._listeners: tuple[Callable[[], None], ...] = ()
        self._file: int | None = None
        self._skip: tuple[int, int] | None = None  # windows with a smaller ordinal, and so many with this one
        self._last: tuple[int, int] | None = None
        self._segments = [_Segment(path, int(path.stem), path.stat().st_size) for path in self._files()]
        if not self._segments:
            self._segments = [self._segment(0)]
        self._next = self._mend(self._segments[-1])
        self._bytes = sum(segment.size for segment in self._segments)
        self._last = self._find_last()

    @property
    def first(self) -> int:
        """Seq of the oldest window that is kept."""
        return self._segments[0].first

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
        return None if self._last is None else self._last[0]

    @property
    def last_count(self) -> int:
        """How many windows at the end of the log have the last ordinal."""
        return 0 if self._last is None else self._last[1]

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
        self._skip = self._last

    def append(self, block: PhysicalWindow) -> None:
        """Add windows. Never waits for readers; `ChannelError` if the disk takes no more."""
        if self._skip is not None:
            block = self._without_duplicates(block)
        if not len(block):
            return
        pieces, size = _frame(block, self._next)
        segment = self._segments[-1]
        if segment.size and segment.size + size > self._segment_bytes:
            self._close_file()
            segment = self._segment(self._next)
        self._write(segment, pieces, size)
        retired: list[_Segment] = []
        with self._changed:
            if segment is not self._segments[-1]:
                self._segments.append(segment)
            segment.note(self._next, segment.size)
            segment.size += size
            self._bytes += size
            self._next += len(block)
            self._last = _last_after(self._last, block)
            while self._bytes > self.keep_bytes and len(self._segments) > 1:
                retired.append(self._segments.pop(0))
                self._bytes -= retired[-1].size
            self._changed.notify_all()
        for old in retired:
            old.path.unlink(missing_ok=True)
        self.notify()

    def _without_duplicates(self, block: PhysicalWindow) -> PhysicalWindow:
        assert self._skip is not None
        last, count = self._skip
        places = as_array(block.ordinals)
        before, after = (int(np.searchsorted(places, last, side)) for side in ("left", "right"))
        same = min(after - before, count)
        self._skip = None if after < len(block) else (last, count - same)
        self.duplicates += before + same
        return block[before + same :] if before + same else block

    def _write(self, segment: _Segment, pieces: list[Any], size: int) -> None:
        if self._state in ("closed", "removed"):
            raise ChannelError(f"result log {str(self.path)!r} is {self._state}")
        try:
            if self._file is None:
                self._file = os.open(segment.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
                os.lseek(self._file, segment.size, os.SEEK_SET)
            try:
                _write_all(self._file, pieces, size)
            except OSError:
                os.ftruncate(self._file, segment.size)
                self._close_file()
                if not segment.size:
                    segment.path.unlink()
                raise
        except OSError as error:
            raise ChannelError(f"result log {str(self.path)!r} cannot be written: {error}") from error

    # ------------------------------------------------------------------ reading

    def read(self, seq: int, max_windows: int = 1024, max_bytes: int = 8 << 20) -> Reading:
        """Windows from ``seq`` on, at least one if there is one. Blocks are cut to begin there.

        Blocks are views of what was read: they stay valid whatever happens to the log.
        """
        blocks: list[tuple[int, PhysicalWindow]] = []
        at, windows, room = seq, max_windows, max_bytes
        while windows > 0 and room > 0:
            with self._changed:
                if not blocks:
                    at = max(at, self.first)
                if not self.first <= at < self._next:
                    break
                place = bisect_right(self._segments, at, key=lambda one: one.first)
                segment = self._segments[place - 1]
                after = self._next if place == len(self._segments) else self._segments[place].first
                size = segment.size
            before = at
            try:
                for first, block in self._frames(segment, at, size):
                    part = _cut(block, at - first, windows, room)
                    blocks.append((at, part))
                    at += len(part)
                    windows -= len(part)
                    room -= part.nbytes
                    if windows <= 0 or room <= 0:
                        break
            except FileNotFoundError:  # retired since we looked, or all is removed
                if self._state == "removed":
                    break
                continue
            if at == before:  # the file was damaged: its other windows are lost
                if blocks:
                    break
                at = after
        missed = (blocks[0][0] if blocks else at) - seq
        return Reading(max(missed, 0), blocks, at)

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

    def _frames(self, segment: _Segment, seq: int, size: int) -> Iterator[tuple[int, PhysicalWindow]]:
        """Blocks of a segment, beginning with the one that holds a window; with the seq of their first."""
        offset = segment.offset_before(seq)
        size = min(size, segment.size)
        with segment.path.open("rb", buffering=0) as file:
            chunk, start = memoryview(b""), offset
            while offset < size:
                inside = offset - start
                if len(chunk) - inside < _FRAME.size:
                    chunk, start, inside = _read(file.fileno(), offset, _READ_BYTES, size), offset, 0
                magic, _, payload, first, count = _FRAME.unpack_from(chunk, inside)
                assert magic == _MAGIC, f"{segment.path} at byte {offset}"
                if first + count > seq:
                    if len(chunk) - inside < _FRAME.size + payload:
                        wanted = max(_FRAME.size + payload, _READ_BYTES)
                        chunk, start, inside = _read(file.fileno(), offset, wanted, size), offset, 0
                    body = chunk[inside + _FRAME.size : inside + _FRAME.size + payload]
                    yield first, _block(self.type, body)
                offset += _FRAME.size + payload

    # ------------------------------------------------------------------ the folder

    def close(self) -> None:
        """Let go of the file; what is logged stays. Readers find the log closed. May be called twice."""
        if self._state not in ("closed", "removed"):
            self._become("closed")
        self._close_file()

    def remove(self) -> None:
        """Close the log and delete it."""
        self._become("removed")
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
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _segment(self, first: int) -> _Segment:
        return _Segment(self.path / f"{first:020d}.log", first)

    def _files(self) -> list[Path]:
        return sorted(path for path in self.path.glob("*.log") if path.stem.isdecimal())

    def _settle_type(self, given: StreamType | None) -> StreamType:
        file = self.path / _TYPE_FILE
        try:
            kept = StreamType.from_json(json.loads(file.read_text()))
        except FileNotFoundError:
            if given is None:
                raise ChannelError(f"there is no result log in {str(self.path)!r}") from None
            self.path.mkdir(parents=True, exist_ok=True)
            scratch = file.with_suffix(".part")
            scratch.write_text(json.dumps(given.to_json()))
            scratch.replace(file)
            return given
        if given is not None and given != kept:
            raise SchemaError(given.name, None, f"the type that the log in {str(self.path)!r} has, {kept}", repr(given))
        return given or kept

    def _mend(self, segment: _Segment) -> int:
        """Cut off what was not completely written at the end; returns the seq after the last whole frame."""
        if not segment.size:
            return segment.first
        there = segment.size
        seq = segment.check()
        if segment.size < there:
            os.truncate(segment.path, segment.size)
        return seq

    def _find_last(self) -> tuple[int, int] | None:
        """The last ordinal and how many windows have it, from what is on disk."""
        found: tuple[int, int] | None = None
        seq = self._next
        step = 1
        while seq > self.first:
            start = max(seq - step, self.first)
            for _, block in reversed(self.read(start, seq - start, 1 << 62).blocks):
                places = as_array(block.ordinals)
                found = found or (int(places[-1]), 0)
                same = _trailing(places, found[0])
                found = (found[0], found[1] + same)
                if same < len(places):
                    return found
            seq, step = start, min(step * 4, 4096)
        return found


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
        """What is kept, and how many windows came a second time and were left out."""
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
        }


def _frame(block: PhysicalWindow, seq: int) -> tuple[list[Any], int]:
    """Pieces of a block's frame, and their size together. Large columns are not copied."""
    header, arrays = wire.describe(block)
    buffers = [np.ascontiguousarray(each).reshape(-1).view(np.uint8) for each in arrays]
    lengths = [len(buffer) for buffer in buffers]
    front = _PARTS.pack(len(header), len(buffers)) + struct.pack(f"<{len(buffers)}Q", *lengths) + header
    pieces: list[Any] = [front, _PADDING[: -len(front) % 8]]
    for buffer in buffers:
        pieces += [buffer, _PADDING[: -len(buffer) % 8]]
    pieces = [piece for piece in pieces if len(piece)]
    payload = sum(map(len, pieces))
    if payload <= _JOIN_BYTES:
        pieces = [b"".join(pieces)]
    checked = _CHECKED.pack(payload, seq, len(block))
    crc = zlib.crc32(checked)
    for piece in pieces:
        crc = zlib.crc32(piece, crc)
    pieces[0] = _MAGIC + struct.pack("<I", crc) + checked + pieces[0]
    return pieces, payload + _FRAME.size


def _write_all(file: int, pieces: list[Any], size: int) -> None:
    """Write the pieces one after the other; a full disk may take only some of them."""
    written = os.writev(file, pieces[:_MAX_GATHER])
    if written == size:
        return
    left = [memoryview(piece) for piece in pieces]
    while True:
        while left and written >= len(left[0]):
            written -= len(left.pop(0))
        if not left:
            return
        left[0] = left[0][written:]
        written = os.writev(file, left[:_MAX_GATHER])


def _read(file: int, offset: int, wanted: int, size: int) -> memoryview:
    """Bytes of a segment, no more than what was completely written when we looked."""
    return memoryview(os.pread(file, min(wanted, size - offset), offset))


def _block(stream_type: StreamType, body: memoryview) -> PhysicalWindow:
    """The block in a frame's payload, its columns viewing it."""
    try:
        header_bytes, count = _PARTS.unpack_from(body)
        lengths = struct.unpack_from(f"<{count}Q", body, _PARTS.size)
    except struct.error as error:
        raise ChannelError(f"malformed frame in a result log: {error}") from None
    at = _PARTS.size + 8 * count
    header = bytes(body[at : at + header_bytes])
    at += header_bytes + -(at + header_bytes) % 8
    buffers = []
    for length in lengths:
        buffers.append(body[at : at + length])
        at += length + -length % 8
    return wire.rebuild(stream_type, header, buffers)


def _cut(block: PhysicalWindow, skip: int, windows: int, room: int) -> PhysicalWindow:
    """The windows after ``skip`` that fit, at least one."""
    each = max(block.nbytes // len(block), 1)
    count = min(windows, max(room // each, 1))
    return block if not skip and count >= len(block) else block[skip : skip + count]


def _trailing(places: Any, ordinal: int) -> int:
    """How many at the end are this ordinal."""
    others = np.flatnonzero(places != ordinal)
    return len(places) - (int(others[-1]) + 1 if len(others) else 0)


def _last_after(before: tuple[int, int] | None, block: PhysicalWindow) -> tuple[int, int]:
    """Last ordinal and how many have it, after a block was appended."""
    places = block.ordinals
    ordinal = int(places[-1])
    same = 1 if isinstance(places, range) else _trailing(places, ordinal)
    if same == len(block) and before is not None and before[0] == ordinal:
        return ordinal, before[1] + same
    return ordinal, same


interfaces.add("log", ResultLogSink)
