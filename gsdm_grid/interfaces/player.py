"""Interface ``player``: replays recorded segments, and what every source of recordings shares.

Options of ``player``: ``path`` to a ``.npz`` (arrays named like the attributes, first axis windows; vectors
of different lengths and text end to end, with a second array ``<attribute>.offsets``) or a ``.npy``
(structured, fields named like the attributes; or plain, for a type with one attribute beside ``ts``). For
files without ``ts``: ``start_ts`` and ``interval_ns``. Files are read piece by piece unless compressed.

Options of every source of recordings: ``repeat``, how many times or ``"forever"`` (timestamps go on rising);
``rate``, windows per second, or ``realtime``, as the timestamps say; ``stamp``: timestamps are the wall-clock times at
which windows are due at the rate, for measuring latency. `recorder` writes what is played here.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from gsdm_grid.errors import QueryError, SchemaError
from gsdm_grid.interfaces.interface import (
    EndOfStream,
    InterfaceContext,
    StreamInterface,
    interfaces,
    path_in,
)
from gsdm_grid.interfaces.pacing import Pacer
from gsdm_grid.interfaces.recorded_file import FileArray, FileField, FileRagged, RecordedFile
from gsdm_grid.model import NANOSECONDS, Array, PhysicalWindow, Ragged, StreamType, Text, check_column, cut, row_slice

OFFSETS = ".offsets"
"""What follows the name of an attribute in the name of the array that holds its offsets (see `Ragged`)."""


class Recording(Protocol):
    """A finite sequence of windows that can be read from any place."""

    @property
    def windows(self) -> int:
        """How many there are."""

    @property
    def period_ns(self) -> int:
        """How far timestamps have moved when it starts again: more than from the first to the last."""

    def read(self, start: int, stop: int) -> PhysicalWindow:
        """Windows from ``start``, at least one and not beyond ``stop``."""


class RecordedSource(StreamInterface):
    """Base of the sources that replay recordings. Reopened, it goes on where it was."""

    source_option: ClassVar[str] = "path"

    replayable: bool = True
    interface_name: ClassVar[str] = "player"

    def __init__(self, stream_type: StreamType, options: Mapping[str, Any]) -> None:
        super().__init__(stream_type, options)
        if not isinstance(options.get("path"), str | Path):
            raise QueryError(f"interface {self.interface_name!r} needs option 'path'; got {options.get('path')!r}")
        self.path = Path(options["path"])
        repeat = options.get("repeat", 1)
        if repeat != "forever" and not (isinstance(repeat, int) and repeat >= 1):
            raise QueryError(
                f"interface {self.interface_name!r}, option 'repeat': 1, 2, … or 'forever'; got {repeat!r}"
            )
        self._repeat: int | None = None if repeat == "forever" else repeat
        self._rate = positive(self.interface_name, options, "rate")
        self._realtime = bool(options.get("realtime", False))
        if self._rate and self._realtime:
            raise QueryError(f"interface {self.interface_name!r}: give 'rate' or 'realtime', not both")
        self._stamp = bool(options.get("stamp", False))
        if self._stamp and not self._rate:
            raise QueryError(f"interface {self.interface_name!r}: 'stamp' needs a 'rate'")
        self._recording: Recording | None = None
        self._pacer: Pacer | None = None
        self._position = 0
        self._ahead: PhysicalWindow | None = None  # windows that were read and are not due yet

    def load(self) -> Recording:
        """Open the recording; a `QueryError` if it cannot be read as this stream type."""
        raise NotImplementedError

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[Path]:
        """See `StreamInterface`."""
        return path_in(options)

    def open(self, context: InterfaceContext) -> None:
        """See `StreamInterface`."""
        super().open(context)
        self._pacer = Pacer(context.clock, self._rate) if self._rate or self._realtime else None
        self.prepare()

    def prepare(self) -> None:
        """Load the recording when the source is opened, so that ``next`` need not."""
        self._recording = self.load()

    def next(self, limit: int) -> PhysicalWindow | None:
        """See `StreamInterface`. None while the next window is not due."""
        if self._recording is None:
            self._recording = self.load()
        recording = self._recording
        end = None if self._repeat is None else self._repeat * recording.windows
        if recording.windows == 0 or (end is not None and self._position >= end):
            raise EndOfStream
        if self._pacer is not None:
            limit = self._pacer.allowed(limit)
            if limit == 0:
                return None
        block = self._read(recording, limit) if self._ahead is None else self._ahead
        if self._pacer is not None and self._realtime:
            due = min(self._pacer.allowed_by_ts(block.ts), limit)
            self._ahead = cut(block, due) if due < len(block) else None
            if due == 0:
                return None
            block = PhysicalWindow(block.type, cut(block, 0, due).columns)
        if self._pacer is not None and self._stamp:
            block = block.replace(ts=self._pacer.stamps(len(block)))
        if self._pacer is not None:
            self._pacer.passed(len(block))
        self._position += len(block)
        return block

    def _read(self, recording: Recording, limit: int) -> PhysicalWindow:
        turn, row = divmod(self._position, recording.windows)
        block = recording.read(row, min(row + limit, recording.windows))
        return block.replace(ts=block.ts + turn * recording.period_ns) if turn else block

    def seek(self, ordinal: int) -> None:
        """See `StreamInterface`."""
        self._position = ordinal
        self._ahead = None
        if self._pacer is not None:
            self._pacer = Pacer(self.context.clock, self._rate)

    def due_s(self) -> float | None:
        """See `StreamInterface`."""
        return self._pacer.due_s if self._pacer is not None else None

    def close(self) -> None:
        """See `StreamInterface`."""
        self._recording = self._ahead = None


class _Arrays:
    """A recording whose columns are arrays in memory or in files."""

    def __init__(self, stream_type: StreamType, columns: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        self._type = stream_type
        self._columns = columns
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) > 1:
            raise SchemaError(stream_type.name, None, "arrays of equally many windows", str(lengths))
        self.windows = next(iter(lengths.values()), 0)
        self._start = int(options.get("start_ts", 0))
        interval = int(options.get("interval_ns", 0)) or round(NANOSECONDS / float(options.get("rate") or 1))
        self._interval = max(interval, 1)
        self.period_ns = self.windows * self._interval
        if "ts" in columns and self.windows:
            kind = stream_type.attributes["ts"]
            ends = np.concatenate([columns["ts"][:1], columns["ts"][-1:]])
            first, last = map(int, check_column(stream_type.name, "ts", kind, ends))
            step = int(options.get("interval_ns", 0))
            if not step:
                step = (last - first) // (self.windows - 1) if self.windows > 1 else self._interval
            self.period_ns = last - first + max(step, 1)

    def read(self, start: int, stop: int) -> PhysicalWindow:
        """See `Recording`."""
        rows = row_slice(start, stop, self.windows)
        records: dict[FileArray, Array] = {}  # read once, for all their fields
        columns = {}
        for name, column in self._columns.items():
            if isinstance(column, FileField):
                if column.records not in records:
                    records[column.records] = column.records[rows]
                columns[name] = _aligned(records[column.records][column.name])
            else:
                columns[name] = _aligned(column[rows])
        if "ts" not in columns:
            columns["ts"] = self._start + np.arange(start, stop, dtype=np.int64) * self._interval
        return self._type.block(**columns)


class PlayerSource(RecordedSource):
    """Replays ``.npz`` and ``.npy`` files; see the module for options."""

    known_options: ClassVar[frozenset[str] | None] = frozenset(
        {"interval_ns", "path", "rate", "realtime", "repeat", "stamp", "start_ts"}
    )

    def load(self) -> Recording:
        """See `RecordedSource`."""
        readers = {".npz": _read_npz, ".npy": _read_npy}
        if self.path.suffix not in readers:
            raise QueryError(f"interface 'player' reads {' and '.join(readers)} files; got {str(self.path)!r}")
        try:
            columns = readers[self.path.suffix](self.path, self.stream_type)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise QueryError(f"interface 'player' cannot read {str(self.path)!r}: {error}") from error
        for name, kind in self.stream_type.attributes.items():
            if name in columns:
                check_column(self.stream_type.name, name, kind, columns[name][:0])
            elif name != "ts":
                raise SchemaError(self.stream_type.name, name, str(kind), f"nothing in {str(self.path)!r}")
        return _Arrays(self.stream_type, columns, self.options)


def _read_npy(path: Path, stream_type: StreamType) -> dict[str, Any]:
    array = FileArray.of(np.load(path, mmap_mode="r", allow_pickle=False))
    if array.dtype.names is not None:
        if len(array.shape) != 1:
            raise ValueError(f"a structured array must have one axis, this has shape {array.shape}")
        return {name: FileField(array, name) for name in stream_type.attributes if name in array.dtype.names}
    names = [name for name in stream_type.attributes if name != "ts"]
    if len(names) != 1 or not array.shape:
        raise ValueError(f"a plain array holds one attribute beside 'ts', type {stream_type.name!r} has {names}")
    return {names[0]: array}


def _read_npz(path: Path, stream_type: StreamType) -> dict[str, Any]:
    made: dict[str, Any] = {}
    with zipfile.ZipFile(path) as members, np.load(path, allow_pickle=False) as archive:

        def array(name: str) -> Array | FileArray:
            stored = _stored_member(path, members, f"{name}.npy")
            return archive[name] if stored is None else stored

        for name, kind in stream_type.attributes.items():
            if name + OFFSETS in archive:
                values, offsets = array(name), np.array(array(name + OFFSETS)[:], np.int64)
                if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(values) or (np.diff(offsets) < 0).any():
                    raise ValueError(f"array '{name}{OFFSETS}' does not fit the values")
                of = Text if kind.is_string else Ragged
                made[name] = FileRagged(values, offsets, of) if isinstance(values, FileArray) else of(values, offsets)
            elif name in archive:
                made[name] = array(name)
    return made


def _stored_member(path: Path, members: zipfile.ZipFile, name: str) -> FileArray | None:
    """A stored (not compressed) array inside the archive, read where it lies; None if it must be read as a whole."""
    if name not in members.namelist():
        return None
    info = members.getinfo(name)
    if info.compress_type != zipfile.ZIP_STORED or info.file_size < 1 << 20:
        return None
    with path.open("rb") as file:
        file.seek(info.header_offset + 26)
        file.seek(info.header_offset + 30 + sum(np.frombuffer(file.read(4), "<u2").tolist()))
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            return None
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(file)
        if dtype.hasobject or 0 in shape:
            return None
        return FileArray(RecordedFile(path), file.tell(), dtype, shape, "F" if fortran else "C")


def _aligned(column: Any) -> Any:
    return column if isinstance(column, Ragged) or column.flags.aligned else np.array(column)


def positive(interface: str, options: Mapping[str, Any], name: str) -> float | None:
    """An option that is a positive number, if it is given."""
    value = options.get(name)
    if value is None:
        return None
    if not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise QueryError(f"interface {interface!r}, option {name!r}: expected a positive number; got {value!r}")
    return float(value)


interfaces.add("player", PlayerSource)
