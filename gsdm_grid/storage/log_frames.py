"""Frames of a result log: how a block lies in a file, and how whole frames are found again behind damaged bytes.

A file is a row of frames, each one block. Numbers are little-endian, everything begins at a multiple of 8 bytes::

    magic 4s "GSRL" | crc32 u32 of all that follows | bytes of payload u64 | seq of the first window u64 | windows u64
    the block, packed as `gsdm_grid.model.wire` says

A frame counts as whole if its checksum fits and its windows come after those before it. Where there is none, the magic
is searched for from there on, up to the next whole frame.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from gsdm_grid.model import PhysicalWindow, StreamType, wire

_MAGIC = b"GSRL"
_HEAD = struct.Struct("<4sIQQQ")
_CHECKED = struct.Struct("<QQQ")
_JOIN_BYTES = 64 << 10  # below, one copy costs less than a long gather list
_READ_BYTES = 256 << 10


class Frame(NamedTuple):
    """A whole frame: the bytes from ``start`` to ``end`` of its file."""

    seq: int
    """Of the first window."""
    next: int
    """Seq after the last window."""
    start: int
    end: int
    body: memoryview


class Gap(NamedTuple):
    """Windows that were logged and cannot be read, and the bytes of the file in which they should be.

    No bytes, if they are missing altogether.
    """

    seq: int
    next: int
    start: int
    end: int


def frame_of(block: PhysicalWindow, seq: int) -> tuple[list[Any], int]:
    """Pieces of a block's frame, and their size together. Large columns are not copied."""
    pieces = wire.pack(block)
    payload = sum(map(len, pieces))
    if payload <= _JOIN_BYTES:
        pieces = [b"".join(pieces)]
    checked = _CHECKED.pack(payload, seq, len(block))
    crc = zlib.crc32(checked)
    for piece in pieces:
        crc = zlib.crc32(piece, crc)
    pieces[0] = _MAGIC + struct.pack("<I", crc) + checked + pieces[0]
    return pieces, payload + _HEAD.size


def block_of(stream_type: StreamType, frame: Frame) -> PhysicalWindow:
    """The block in a frame, its columns viewing the frame's bytes."""
    return wire.unpack(stream_type, frame.body, frame.next - frame.seq)


def frames(file: int, start: int, size: int, seq: int, following: int | None) -> Iterator[Frame | Gap]:
    """Whole frames of a file, in order, and the gaps between them.

    Begins at byte ``start``, where the frame with window ``seq`` should be; ends at byte ``size``. ``following`` is the
    seq after the last window that the file should have. None if nobody knows: then there is no gap at the end.
    """
    bytes_of = _FileBytes(file, size)
    while start < size:
        frame = _frame_at(bytes_of, start, seq, following) or _next_frame(bytes_of, start, seq, following)
        if frame is None:
            break
        if frame.seq > seq:
            yield Gap(seq, frame.seq, start, frame.start)
        yield frame
        start, seq = frame.end, frame.next
    if following is not None and seq < following:
        yield Gap(seq, following, min(start, size), size)


def _frame_at(bytes_of: _FileBytes, start: int, seq: int, following: int | None) -> Frame | None:
    """The whole frame that begins here, if there is one."""
    head = bytes_of.get(start, _HEAD.size)
    if len(head) < _HEAD.size:
        return None
    magic, crc, payload, first, count = _HEAD.unpack(head)
    end = start + _HEAD.size + payload
    if magic != _MAGIC or first < seq or not count or end > bytes_of.size:
        return None
    if following is not None and first + count > following:
        return None
    whole = bytes_of.get(start, _HEAD.size + payload)
    if len(whole) < _HEAD.size + payload or zlib.crc32(whole[8:]) != crc:
        return None
    return Frame(first, first + count, start, end, whole[_HEAD.size :])


def _next_frame(bytes_of: _FileBytes, start: int, seq: int, following: int | None) -> Frame | None:
    """The first whole frame that begins behind ``start``. All that is left of the file is looked through."""
    rest = bytes_of.get(start, bytes_of.size - start).tobytes()
    at = 0
    while (at := rest.find(_MAGIC, at + 1)) >= 0:
        frame = _frame_at(bytes_of, start + at, seq, following)
        if frame is not None:
            return frame
    return None


class _FileBytes:
    """The first bytes of a file, read in large chunks."""

    __slots__ = ("_chunk", "_file", "_start", "size")

    def __init__(self, file: int, size: int) -> None:
        self.size = size
        self._file = file
        self._start = 0
        self._chunk = memoryview(b"")

    def get(self, start: int, count: int) -> memoryview:
        """These bytes; fewer if the file ends before."""
        inside = start - self._start
        if not 0 <= inside <= inside + count <= len(self._chunk):
            most = min(max(count, _READ_BYTES), self.size - start)
            self._chunk, self._start, inside = memoryview(os.pread(self._file, most, start)), start, 0
        return self._chunk[inside : inside + count]
