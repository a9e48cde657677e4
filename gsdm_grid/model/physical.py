"""Physical windows: a columnar block of consecutive logical windows, the unit that moves.

Beside its columns a physical window carries what the data flow needs to keep its promises:

* ``ordinals`` — the place of each logical window in the stream it came from. Partitioning scatters windows,
  functions transform them, merging puts them back in the order of their ordinals; a receiver that sees an
  ordinal for the second time after a crash drops it. A `range` where they are regular, else an array.
* ``mark`` — no later window of this stream has an ordinal at or below the mark. A filter that lets nothing
  through still moves the mark, so a merge never waits for windows that cannot come.
* ``halo`` — None for a continuing stream. A number starts a new segment: what came before is no context for
  window functions, and the first ``halo`` windows are context only. It lets functions over sliding and time
  windows run in parallel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gsdm_grid.errors import SchemaError, UnknownName
from gsdm_grid.model import columns
from gsdm_grid.model.columns import Column, Ragged
from gsdm_grid.model.logical import LogicalWindow
from gsdm_grid.model.types import StreamType

if TYPE_CHECKING:
    import pyarrow

Ordinals = range | NDArray[np.int64]
NO_MARK = -1


class PhysicalWindow:
    """A block of logical windows of one type. Immutable; columns may be views into shared memory.

    Attributes of the stream type are read as columns (``block.x`` has one leading axis over the windows).
    """

    __slots__ = ("_mark", "_ordinals", "columns", "halo", "type")

    def __init__(
        self,
        stream_type: StreamType,
        values: Mapping[str, Column],
        ordinals: Ordinals | None = None,
        mark: int = NO_MARK,
        halo: int | None = None,
    ) -> None:
        self.type = stream_type
        self.columns = values
        self._ordinals = ordinals
        self._mark = mark
        self.halo = halo

    def __len__(self) -> int:
        return len(self.columns["ts"])

    def __iter__(self) -> Iterator[LogicalWindow]:
        return (self[i] for i in range(len(self)))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self.columns[name]
        except KeyError:
            raise UnknownName(f"attribute of stream type {self.type.name!r}", name, self.type.attributes) from None

    def __getitem__(self, key: Any) -> Any:
        """A logical window for an integer, a view of some windows for a slice, a column for a name."""
        if isinstance(key, str):
            return getattr(self, key)
        if isinstance(key, slice):
            return self.select(key)
        row = int(key)
        return LogicalWindow(self.type, {name: column[row] for name, column in self.columns.items()})

    @property
    def placed(self) -> bool:
        """Whether the windows know their place in a stream; freshly constructed blocks do not yet."""
        return self._ordinals is not None

    @property
    def ordinals(self) -> Ordinals:
        """Place of each window in its stream; counted from zero for a block that has not been placed."""
        return range(len(self)) if self._ordinals is None else self._ordinals

    @property
    def mark(self) -> int:
        """No later window of this stream has an ordinal at or below this."""
        return max(self._mark, int(self.ordinals[-1])) if len(self.ordinals) else self._mark

    @property
    def nbytes(self) -> int:
        """Bytes of all columns."""
        return sum(column.nbytes for column in self.columns.values())

    def select(self, rows: slice | NDArray[Any]) -> PhysicalWindow:
        """Some of the windows, with their ordinals and without mark: a view for slices, else a copy."""
        if not isinstance(rows, slice):
            rows = np.flatnonzero(rows) if rows.dtype == bool else rows
        taken = {name: columns.take(column, rows) for name, column in self.columns.items()}
        ordinals = self.ordinals
        if isinstance(ordinals, range) and not isinstance(rows, slice):
            ordinals = ordinals.start + rows.astype(np.int64) * ordinals.step
        else:
            ordinals = ordinals[rows]  # type: ignore[index]
        return PhysicalWindow(self.type, taken, ordinals)

    def stamped(
        self, ordinals: Ordinals | None = None, mark: int | None = None, halo: int | None = None
    ) -> PhysicalWindow:
        """The same windows with other ordinals, mark or halo. No copy."""
        return PhysicalWindow(
            self.type,
            self.columns,
            self._ordinals if ordinals is None else ordinals,
            self._mark if mark is None else mark,
            halo,
        )

    def replace(self, **changes: Any) -> PhysicalWindow:
        """The same windows with some columns changed. Checked."""
        return self.as_type(self.type, **changes)

    def as_type(self, stream_type: StreamType, **values: Any) -> PhysicalWindow:
        """Windows of another type at the same places: columns that both types have are kept unless given."""
        made: dict[str, Column] = {}
        for name, kind in stream_type.attributes.items():
            if name in values:
                made[name] = columns.check_column(stream_type.name, name, kind, values[name])
            elif name in self.columns and self.type.attributes[name] == kind:
                made[name] = self.columns[name]
            else:
                raise SchemaError(stream_type.name, name, str(kind), "nothing")
            if len(made[name]) != len(self):
                raise SchemaError(stream_type.name, name, f"{len(self)} windows", str(len(made[name])))
        for name in values:
            stream_type.attribute(name)
        return PhysicalWindow(stream_type, made, self._ordinals, self._mark, self.halo)

    def to_arrow(self) -> pyarrow.RecordBatch:
        """As an Arrow record batch, payload not copied; see `arrow`."""
        from gsdm_grid.model import arrow

        return arrow.to_arrow(self)

    @staticmethod
    def from_arrow(batch: pyarrow.RecordBatch, stream_type: StreamType | None = None) -> PhysicalWindow:
        """From an Arrow record batch, payload not copied where Arrow allows; see `arrow`."""
        from gsdm_grid.model import arrow

        return arrow.from_arrow(batch, stream_type)

    @staticmethod
    def pack(
        stream_type: StreamType, windows: Sequence[LogicalWindow], ordinals: Ordinals | None = None, mark: int = NO_MARK
    ) -> PhysicalWindow:
        """Pack (already checked) logical windows."""
        if not windows:
            return PhysicalWindow.empty(stream_type, mark)
        packed = {
            name: columns.pack([window.values()[name] for window in windows], kind)
            for name, kind in stream_type.attributes.items()
        }
        return PhysicalWindow(stream_type, packed, ordinals, mark)

    @staticmethod
    def empty(stream_type: StreamType, mark: int = NO_MARK, halo: int | None = None) -> PhysicalWindow:
        """No windows; useful for its mark."""
        made = {name: columns.empty(kind) for name, kind in stream_type.attributes.items()}
        return PhysicalWindow(stream_type, made, range(0), mark, halo)

    @staticmethod
    def concat(blocks: Sequence[PhysicalWindow]) -> PhysicalWindow:
        """Blocks of one type, one after the other. The result takes the last mark and the first halo."""
        if len(blocks) == 1:
            return blocks[0]
        first = blocks[0]
        joined = {
            name: columns.concatenate([block.columns[name] for block in blocks], kind)
            for name, kind in first.type.attributes.items()
        }
        return PhysicalWindow(
            first.type, joined, join_ordinals([b.ordinals for b in blocks]), max(b.mark for b in blocks), first.halo
        )

    def __reduce__(self) -> tuple[Any, ...]:
        compact = {
            name: column.compact() if isinstance(column, Ragged) else np.ascontiguousarray(column)
            for name, column in self.columns.items()
        }
        return (PhysicalWindow, (self.type, compact, self._ordinals, self._mark, self.halo))

    def __repr__(self) -> str:
        return f"<{len(self)} × {self.type.name}, {self.nbytes} bytes, mark {self.mark}>"


def join_ordinals(parts: Sequence[Ordinals]) -> Ordinals:
    """Ordinals one after the other, kept as a range where that is what they are."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return range(0)
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    if isinstance(first, range):
        step = first.step if len(first) > 1 else int(parts[1][0]) - first.start
        expected = first.start
        for part in parts:
            regular = isinstance(part, range) and part.start == expected and (len(part) == 1 or part.step == step)
            if not regular or step < 1:
                break
            expected += step * len(part)
        else:
            return range(first.start, expected, step)
    return np.concatenate([as_array(part) for part in parts])


def as_array(ordinals: Ordinals) -> NDArray[np.int64]:
    """Ordinals as an array."""
    if isinstance(ordinals, range):
        return np.arange(ordinals.start, ordinals.stop, ordinals.step, dtype=np.int64)
    return ordinals


def construct(stream_type: StreamType, values: tuple[Any, ...], named: Mapping[str, Any]) -> PhysicalWindow:
    """Check columns against the type and make the block."""
    bound = stream_type.bind(values, named)
    made: dict[str, Column] = {}
    for name, kind in stream_type.attributes.items():
        made[name] = columns.check_column(stream_type.name, name, kind, bound[name])
        if len(made[name]) != len(made["ts"]):
            raise SchemaError(stream_type.name, name, f"{len(made['ts'])} windows, as in 'ts'", str(len(made[name])))
    return PhysicalWindow(stream_type, made)
