"""Interface ``recorder``: a sink that writes what `player` replays, window for window.

Options: ``path``, ending in ``.npy`` (one structured array, grows in place and is valid after every block;
vectors must keep their length and there is no text) or ``.npz`` (one array per attribute, complete after
``close``; vectors may vary in length). A recording that was paused goes on; ``append`` goes on with a file
of an earlier query as well.
"""

from __future__ import annotations

import io
import os
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np

from gsdm_grid.errors import ChannelError, QueryError, SchemaError
from gsdm_grid.interfaces.interface import (
    InterfaceContext,
    StreamInterface,
    interfaces,
    path_in,
)
from gsdm_grid.interfaces.player import OFFSETS, PlayerSource
from gsdm_grid.model import Array, AttributeType, PhysicalWindow, Ragged, StreamType, as_ragged


class _NpyFile:
    """A structured array on disk that grows at its end. The header is rewritten after the rows it counts.

    Rows that it does not count are what a recorder left that was killed, or whose disk was full: they are written over.
    """

    def __init__(self, path: Path, stream_type: StreamType, append: bool) -> None:
        self._type = stream_type
        self._count = 0
        self._begin = 0  # of the rows
        self._dtype: np.dtype[Any] | None = None
        for name, kind in stream_type.attributes.items():
            if kind.is_string:
                raise QueryError(f"interface 'recorder': attribute {name!r} is text, which needs a '.npz' file")
        if append and path.exists():
            self._go_on(path)
        if self._count == 0:
            self._dtype = None
        self._file: IO[bytes] = path.open("r+b" if self._count else "w+b")

    def _go_on(self, path: Path) -> None:
        """Find out how many rows there are, and of what."""
        try:
            with path.open("rb") as file:
                if np.lib.format.read_magic(file) != (1, 0):
                    raise ValueError("it has another version")
                (self._count,), _, self._dtype = np.lib.format.read_array_header_1_0(file)
                self._begin, size = file.tell(), os.fstat(file.fileno()).st_size
            if self._dtype.names != tuple(self._type.attributes):
                raise ValueError(f"it holds {self._dtype}")
            if len(self._header()) != self._begin:
                raise ValueError("its header has no room for more rows")
            if size < self._end:
                raise ValueError(f"its end is missing: {size} of {self._end} bytes are there")
        except ValueError as error:
            place = f"{str(path)!r}, as a recording of type {self._type.name!r}"
            raise QueryError(f"interface 'recorder' cannot go on with {place}: {error}") from error

    @property
    def _end(self) -> int:
        """Byte after the rows that are counted."""
        return self._begin + self._count * (self._dtype.itemsize if self._dtype is not None else 0)

    def write(self, block: PhysicalWindow) -> None:
        fields = [(name, kind.numpy, self._shape(name, block)) for name, kind in self._type.attributes.items()]
        dtype = np.dtype(fields, align=True)
        if self._dtype is None:
            self._dtype = dtype
            self._write_header()
        elif dtype != self._dtype:
            raise SchemaError(self._type.name, None, f"vectors as in the blocks before, {self._dtype}", str(dtype))
        rows = np.zeros(len(block), dtype)
        for name, column in block.columns.items():
            rows[name] = column
        self._file.seek(self._end)
        self._file.write(rows.tobytes())
        self._file.truncate()
        self._file.flush()
        self._count += len(block)
        self._write_header()

    def _shape(self, name: str, block: PhysicalWindow) -> tuple[int, ...]:
        column = block.columns[name]
        if isinstance(column, Ragged):
            raise SchemaError(self._type.name, name, "vectors of one length, or a '.npz' file", "different lengths")
        return column.shape[1:]

    def _header(self) -> bytes:
        """As long for any number of rows: NumPy leaves room in it for the first axis to grow."""
        descr = np.lib.format.dtype_to_descr(self._dtype)  # type: ignore[arg-type]
        written = io.BytesIO()
        np.lib.format.write_array_header_1_0(written, {"descr": descr, "fortran_order": False, "shape": (self._count,)})
        return written.getvalue()

    def _write_header(self) -> None:
        header = self._header()
        self._begin = len(header)
        self._file.seek(0)
        self._file.write(header)
        self._file.flush()

    def close(self) -> None:
        if self._dtype is None:
            self.write(PhysicalWindow.empty(self._type))
        self._file.close()


class _NpzFile:
    """Columns spooled to nameless files beside the target, and put together when it is closed."""

    def __init__(self, path: Path, stream_type: StreamType, append: bool) -> None:
        self._path = path
        self._type = stream_type
        self._count = 0
        self._lengths: dict[str, list[Array]] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._spools: dict[str, IO[bytes]] = {}
        recording = PlayerSource(stream_type, {"path": path}).load() if append and path.exists() else None
        for name in stream_type.attributes:
            self._lengths[name] = []
            self._spools[name] = tempfile.TemporaryFile(dir=path.parent)  # noqa: SIM115  # closed by close
        if recording is not None:
            for start in range(0, recording.windows, 1024):
                self.write(recording.read(start, min(start + 1024, recording.windows)))

    def write(self, block: PhysicalWindow) -> None:
        for name, kind in self._type.attributes.items():
            column = block.columns[name]
            if kind.varies:
                ragged = as_ragged(column).compact()
                self._lengths[name].append(np.diff(ragged.offsets))
                column = ragged.values
            self._spools[name].write(np.ascontiguousarray(column).tobytes())
        self._count += len(block)

    def close(self) -> None:
        scratch = self._path.with_name(self._path.name + ".part")
        try:
            with zipfile.ZipFile(scratch, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
                for name, kind in self._type.attributes.items():
                    self._close_column(archive, name, kind)
            scratch.replace(self._path)
        finally:
            scratch.unlink(missing_ok=True)
            for spool in self._spools.values():
                spool.close()

    def _close_column(self, archive: zipfile.ZipFile, name: str, kind: AttributeType) -> None:
        shape = (self._count, *(kind.shape or ()))
        if kind.varies:
            lengths = np.concatenate([np.zeros(0, np.int64), *self._lengths[name]])
            if kind.is_string or len(set(lengths.tolist())) > 1:
                offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
                shape = (int(offsets[-1]),)
                with archive.open(f"{name}{OFFSETS}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, offsets, allow_pickle=False)
            else:
                shape = (self._count, int(lengths[0]) if len(lengths) else 0)
        spool = self._spools[name]
        with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
            descr = np.lib.format.dtype_to_descr(kind.numpy)
            np.lib.format.write_array_header_1_0(member, {"descr": descr, "fortran_order": False, "shape": shape})
            spool.seek(0)
            shutil.copyfileobj(spool, member, 1 << 20)


class RecorderSink(StreamInterface):
    """Writes windows to a file; see the module for options."""

    known_options: ClassVar[frozenset[str] | None] = frozenset({"append", "path"})

    sink_option: ClassVar[str] = "path"

    def __init__(self, stream_type: StreamType, options: Mapping[str, Any]) -> None:
        super().__init__(stream_type, options)
        if not isinstance(options.get("path"), str | Path):
            raise QueryError(f"interface 'recorder' needs option 'path'; got {options.get('path')!r}")
        self.path = Path(options["path"])
        if self.path.suffix not in (".npy", ".npz"):
            raise QueryError(f"interface 'recorder' writes .npy and .npz files; got {str(self.path)!r}")
        self._append = bool(options.get("append", False))
        self._file: _NpyFile | _NpzFile | None = None
        self._windows = 0

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[Path]:
        """See `StreamInterface`."""
        return path_in(options)

    def open(self, context: InterfaceContext) -> None:
        """See `StreamInterface`. The first time it starts the file anew unless told to append."""
        super().open(context)
        maker = _NpyFile if self.path.suffix == ".npy" else _NpzFile
        try:
            self._file = maker(self.path, self.stream_type, self._append)
        except OSError as error:
            raise ChannelError(f"interface 'recorder' cannot write {str(self.path)!r}: {error}") from error
        self._append = True

    def insert(self, block: PhysicalWindow) -> None:
        """See `StreamInterface`."""
        if self._file is None:
            raise ChannelError(f"interface 'recorder' is closed: {str(self.path)!r}")
        if len(block):
            try:
                self._file.write(block)
            except OSError as error:
                raise ChannelError(f"interface 'recorder' cannot write {str(self.path)!r}: {error}") from error
            self._windows += len(block)

    def close(self) -> None:
        """See `StreamInterface`. Afterwards the file can be played."""
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError as error:
                raise ChannelError(f"interface 'recorder' cannot write {str(self.path)!r}: {error}") from error

    def statistics(self) -> dict[str, int | float]:
        """Number of windows written."""
        return {"windows": self._windows}


interfaces.add("recorder", RecorderSink)
