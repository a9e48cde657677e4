"""Physical windows: a columnar block of consecutive logical windows, the unit that moves.

Beside its columns a physical window carries what the data flow needs to keep its promises:

* ``ordinals`` — the place of each logical window in the stream it came from. Partitioning scatters windows,
  functions transform them, merging puts them back in the order of their ordinals; a receiver that sees an
  ordinal for the second time after a crash drops it. A `range` where they are regular, else an array.
* ``mark`` — no later window of this stream has an ordinal at or below the mark. A filter that lets nothing
  through still moves the mark, so a merge never waits for windows that cannot come.
* ``time_mark`` — no later window of this stream has a timestamp at or before it. Sources make it, every operator passes
  it on, and what holds windows back holds it back; so merges of different sources are exact, and a silent or filtered
  stream holds nobody up. Context before a segment (``halo``) does not count: it came before.
* ``halo`` — None for a continuing stream. A number starts a new segment: what came before is no context for
  window functions, and the first ``halo`` windows are context only. It lets functions over sliding and time
  windows run in parallel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from operator import index
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gsdm_grid.errors import SchemaError, UnknownAttribute
from gsdm_grid.model import columns
from gsdm_grid.model.columns import Array, Column, Ragged, Text, outside, read_only, row_slice
from gsdm_grid.model.logical import LogicalWindow
from gsdm_grid.model.types import StreamType

if TYPE_CHECKING:
    import pyarrow

Ordinals = range | NDArray[np.int64]
NO_MARK = -1
NO_TIME_MARK: int = np.iinfo(np.int64).min
_put = object.__setattr__


class PhysicalWindow:
    """A block of logical windows of one type. Immutable; columns may be views into shared memory.

    Attributes of the stream type are read as columns (``block.x`` has one leading axis over the windows).
    """

    __slots__ = ("_mark", "_ordinals", "columns", "halo", "time_mark", "type")

    type: StreamType
    columns: Mapping[str, Column]
    halo: int | None
    time_mark: int
    _ordinals: Ordinals | None
    _mark: int

    def __init__(
        self,
        stream_type: StreamType,
        values: Mapping[str, Column],
        ordinals: Ordinals | None = None,
        mark: int = NO_MARK,
        halo: int | None = None,
        time_mark: int = NO_TIME_MARK,
    ) -> None:
        frozen = {n: c if isinstance(c, Ragged) else read_only(c) for n, c in values.items()}
        halo = halo if halo is None else int(halo)
        self._fill(stream_type, MappingProxyType(frozen), ordinals, int(mark), halo, int(time_mark))

    def _fill(
        self,
        stream_type: StreamType,
        frozen: Mapping[str, Column],
        ordinals: Ordinals | None,
        mark: int,
        halo: int | None,
        time_mark: int,
    ) -> None:
        _put(self, "type", stream_type)
        _put(self, "columns", frozen)
        _put(self, "_ordinals", read_only(ordinals) if isinstance(ordinals, np.ndarray) else ordinals)
        _put(self, "_mark", mark)
        _put(self, "halo", halo)
        _put(self, "time_mark", time_mark)

    @staticmethod
    def _of_frozen(
        stream_type: StreamType,
        frozen: Mapping[str, Column],
        ordinals: Ordinals | None,
        mark: int = NO_MARK,
        halo: int | None = None,
        time_mark: int = NO_TIME_MARK,
    ) -> PhysicalWindow:
        """A block of columns that are known to be read-only; views of blocks are made in great number."""
        block = PhysicalWindow.__new__(PhysicalWindow)
        block._fill(stream_type, frozen, ordinals, mark, halo, time_mark)
        return block

    def __setattr__(self, name: str, value: Any) -> None:
        raise TypeError(f"windows are immutable: use replace({name}=…) to make a changed block")

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
            raise UnknownAttribute(self.type.name, name, self.type.attributes) from None

    def __getitem__(self, key: Any) -> Any:
        """A logical window for an integer, a view of some windows for a slice, a column for a name."""
        if isinstance(key, str):
            self.type.attribute(key)
            return self.columns[key]
        if isinstance(key, slice):
            return self.select(key)
        row = index(key)
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
        ordinals = self.ordinals
        return max(self._mark, int(ordinals[-1])) if len(ordinals) else self._mark

    @property
    def tells(self) -> bool:
        """Whether it has windows or marks: else there is no need to pass it on."""
        return len(self) > 0 or self._mark > NO_MARK or self.time_mark > NO_TIME_MARK

    @property
    def nbytes(self) -> int:
        """Bytes of all columns."""
        each = self.type.window_bytes
        return sum(column.nbytes for column in self.columns.values()) if each is None else each * len(self)

    def select(self, rows: slice | Array) -> PhysicalWindow:
        """Some of the windows, with their ordinals, without marks and halo: a view for slices, else a copy.

        Windows that have no place in a stream get none by being selected.
        """
        places = self._ordinals
        if isinstance(rows, slice):
            cut = {name: column[rows] for name, column in self.columns.items()}
            kept = None if places is None else places[rows]
            return PhysicalWindow._of_frozen(self.type, MappingProxyType(cut), kept)
        rows = _row_numbers(rows, len(self))
        taken = {
            name: column.take(rows) if isinstance(column, Ragged) else column[rows]
            for name, column in self.columns.items()
        }
        return PhysicalWindow(self.type, taken, None if places is None else _ordinals_at(places, rows))

    def dense_parts(self) -> list[PhysicalWindow]:
        """Views of consecutive windows whose vectors are equally long, each column hence an array (or text).

        Nearly always that is the whole block as it is. `concat` puts the parts together again.
        """
        ragged = {n: c for n, c in self.columns.items() if isinstance(c, Ragged) and not isinstance(c, Text)}
        if not ragged:
            return [self]
        changes = [np.flatnonzero(np.diff(column.offsets, 2)) + 1 for column in ragged.values()]
        bounds = [0, *np.unique(np.concatenate(changes)).tolist(), len(self)]
        parts = []
        for start, stop in pairwise(bounds):
            cut = {name: column[start:stop] for name, column in self.columns.items()}
            cut |= {name: columns.as_dense(column[start:stop]) for name, column in ragged.items()}
            ordinals = self.ordinals[start:stop] if self.placed else None
            mark = self._mark if stop == len(self) else NO_MARK
            time_mark = self.time_mark if stop == len(self) else NO_TIME_MARK
            parts.append(PhysicalWindow(self.type, cut, ordinals, mark, None if start else self.halo, time_mark))
        return parts

    def stamped(
        self,
        ordinals: Ordinals | None = None,
        mark: int | None = None,
        halo: int | None = None,
        time_mark: int | None = None,
    ) -> PhysicalWindow:
        """The same windows with other ordinals, marks or halo. No copy.

        Ordinals and marks are kept where none are given. A halo is not: it belongs to the start of a segment.
        """
        mark = self._mark if mark is None else int(mark)
        time_mark = self.time_mark if time_mark is None else int(time_mark)
        if ordinals is None and halo is self.halo is None and mark == self._mark and time_mark == self.time_mark:
            return self
        ordinals = self._ordinals if ordinals is None else ordinals
        halo = halo if halo is None else int(halo)
        return PhysicalWindow._of_frozen(self.type, self.columns, ordinals, mark, halo, time_mark)

    def marked_as(self, other: PhysicalWindow) -> PhysicalWindow:
        """The same windows with the marks of another block, of which these are all or the last. No copy."""
        return self.stamped(mark=other.mark, time_mark=other.time_mark)

    def replace(self, **changes: Any) -> PhysicalWindow:
        """The same windows with some columns changed. Checked."""
        return self.as_type(self.type, **changes)

    def as_type(self, stream_type: StreamType, **values: Any) -> PhysicalWindow:
        """Windows of another type at the same places: columns that both types have are kept unless given."""
        made: dict[str, Column] = {}
        for name, kind in stream_type.attributes.items():
            if name in values:
                made[name] = columns.check_column(stream_type.name, name, kind, values[name])
            elif name not in self.columns:
                raise SchemaError(stream_type.name, name, str(kind), "nothing")
            elif self.type.attributes[name] == kind:
                made[name] = self.columns[name]
            else:
                made[name] = columns.check_column(stream_type.name, name, kind, self.columns[name])
            if len(made[name]) != len(self):
                raise SchemaError(stream_type.name, name, f"{len(self)} windows", str(len(made[name])))
        for name in values:
            stream_type.attribute(name)
        return PhysicalWindow(stream_type, made, self._ordinals, self._mark, self.halo, self.time_mark)

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
        stream_type: StreamType,
        windows: Sequence[LogicalWindow],
        ordinals: Ordinals | None = None,
        mark: int = NO_MARK,
    ) -> PhysicalWindow:
        """Pack (already checked) logical windows."""
        if not windows:
            return PhysicalWindow.empty(stream_type, mark)
        rows = [window.values() for window in windows]
        packed = {
            name: columns.pack([row[name] for row in rows], kind) for name, kind in stream_type.attributes.items()
        }
        return PhysicalWindow(stream_type, packed, ordinals, mark)

    @staticmethod
    def empty(
        stream_type: StreamType, mark: int = NO_MARK, halo: int | None = None, time_mark: int = NO_TIME_MARK
    ) -> PhysicalWindow:
        """No windows; useful for its marks."""
        made = {name: columns.empty(kind) for name, kind in stream_type.attributes.items()}
        return PhysicalWindow(stream_type, made, range(0), mark, halo, time_mark)

    @staticmethod
    def concat(blocks: Sequence[PhysicalWindow]) -> PhysicalWindow:
        """Blocks of one type, one after the other. The result takes the greatest marks and the first halo."""
        if len(blocks) == 1:
            return blocks[0]
        first = blocks[0]
        joined = {
            name: columns.concatenate([block.columns[name] for block in blocks], kind)
            for name, kind in first.type.attributes.items()
        }
        placed = any(block.placed and len(block) for block in blocks)
        ordinals = join_ordinals([block.ordinals for block in blocks]) if placed else None
        mark = max(block.mark if block.placed else block._mark for block in blocks)
        time_mark = max(block.time_mark for block in blocks)
        return PhysicalWindow(first.type, joined, ordinals, mark, first.halo, time_mark)

    def __reduce__(self) -> tuple[Any, ...]:
        return (PhysicalWindow, (self.type, dict(self.columns), self._ordinals, self._mark, self.halo, self.time_mark))

    def __repr__(self) -> str:
        return f"<{len(self)} × {self.type.name}, {self.nbytes} bytes, mark {self.mark}>"


def cut(block: PhysicalWindow, start: int, stop: int | None = None) -> PhysicalWindow:
    """The windows from ``start`` until before ``stop``, as `PhysicalWindow.select`; bounds outside are our bug.

    For bounds that were computed: ``block[start:stop]`` takes any, as Python does, and wrong ones give other windows.
    """
    count = len(block)
    rows, places = row_slice(start, count if stop is None else stop, count), block._ordinals
    columns = {name: column[rows] for name, column in block.columns.items()}
    ordinals = None if places is None else places[rows]
    return PhysicalWindow._of_frozen(block.type, MappingProxyType(columns), ordinals)


def whole_ordinals(block: PhysicalWindow, limit: int) -> int:
    """How many windows, at most ``limit`` if possible, can be cut off the front of a block without parting an ordinal.

    Windows of one ordinal move together: once a block has come, its consumer takes all windows of its last ordinal for
    seen. So if the first ordinal has more windows than the limit, all of them are cut off. ``limit`` is at least 1.
    """
    ordinals = block.ordinals
    if limit >= len(block) or isinstance(ordinals, range):
        return min(limit, len(block))
    begin, end = (int(np.searchsorted(ordinals, ordinals[limit], side)) for side in ("left", "right"))
    return begin or end


def cut_at(
    block: PhysicalWindow, bounds: Sequence[int], mark: int = NO_MARK, time_mark: int = NO_TIME_MARK
) -> list[PhysicalWindow]:
    """Views of the windows between each two neighbouring bounds, with their ordinals, all with the same marks.

    Columns are cut when they are asked for: a block may be cut into hundreds, of which nobody sees every column.
    Bounds that descend, or lie outside, are our bug.
    """
    places, made, empty = block._ordinals, [], None
    count = len(block)
    for start, stop in pairwise(bounds):
        if not 0 <= start <= stop <= count:
            raise outside(start, stop, count)
        if start < stop:
            ordinals = None if places is None else places[start:stop]
            rows = _Cut(block.columns, slice(start, stop))
            made.append(PhysicalWindow._of_frozen(block.type, rows, ordinals, mark, None, time_mark))
        else:
            if empty is None:
                empty = PhysicalWindow.empty(block.type, mark, time_mark=time_mark)
            made.append(empty)
    return made


class _Cut(Mapping[str, Column]):
    """Some rows of columns, each cut when it is first asked for."""

    __slots__ = ("_made", "_rows", "_whole")

    def __init__(self, whole: Mapping[str, Column], rows: slice) -> None:
        self._whole, self._rows = whole, rows
        self._made: dict[str, Column] = {}

    def __getitem__(self, name: str) -> Column:
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = self._whole[name][self._rows]
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self._whole)

    def __len__(self) -> int:
        return len(self._whole)


def join_ordinals(parts: Sequence[Ordinals]) -> Ordinals:
    """Ordinals one after the other, kept as a range where that is what they are."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return range(0)
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    step = first.step if isinstance(first, range) and len(first) > 1 else int(parts[1][0]) - int(first[0])
    if step > 0 and _continue_each_other(parts, step):
        return range(int(first[0]), int(parts[-1][-1]) + 1, step)
    return np.concatenate([as_array(part) for part in parts])


def _continue_each_other(parts: Sequence[Ordinals], step: int) -> bool:
    expected = int(parts[0][0])
    for part in parts:
        if not isinstance(part, range) or part.start != expected or (len(part) > 1 and part.step != step):
            return False
        expected += step * len(part)
    return True


def _row_numbers(rows: Array, count: int) -> NDArray[np.intp]:
    """Rows counted from the front, of a mask or of row numbers that may count from the end."""
    rows = np.asarray(rows)
    if rows.dtype == bool:
        if rows.shape != (count,):
            raise IndexError(f"a mask of shape {rows.shape} for {count} windows")
        return np.flatnonzero(rows)
    rows = rows.astype(np.intp, casting="same_kind" if rows.size else "unsafe")
    lowest = rows.min(initial=0)
    if lowest < -count:
        raise IndexError(f"row {lowest} of {count}")
    return np.where(rows < 0, rows + count, rows) if lowest < 0 else rows


def _ordinals_at(ordinals: Ordinals, rows: NDArray[np.intp]) -> Ordinals:
    """Ordinals of some rows: a range where the rows are neighbours in a regular block."""
    if not isinstance(ordinals, range):
        return ordinals[rows]
    if not len(rows):
        return ordinals[:0]
    if rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all():
        return ordinals[int(rows[0]) : int(rows[-1]) + 1]
    return ordinals.start + rows.astype(np.int64) * ordinals.step


def as_array(ordinals: Ordinals) -> NDArray[np.int64]:
    """Ordinals as an array."""
    if isinstance(ordinals, range):
        return np.arange(ordinals.start, ordinals.stop, ordinals.step, dtype=np.int64)
    return ordinals


def shifted(block: PhysicalWindow, distance: int) -> PhysicalWindow:
    """The same windows, so much further on in their stream. No copy."""
    places = block.ordinals
    moved: Ordinals
    if isinstance(places, range):
        moved = range(places.start + distance, places.stop + distance, places.step)
    else:
        moved = places + distance
    return block.stamped(ordinals=moved, mark=block.mark + distance)


def construct(stream_type: StreamType, values: tuple[Any, ...], named: Mapping[str, Any]) -> PhysicalWindow:
    """Check columns against the type and make the block."""
    bound = stream_type.bind(values, named)
    made: dict[str, Column] = {}
    for name, kind in stream_type.attributes.items():
        made[name] = columns.check_column(stream_type.name, name, kind, bound[name])
        if len(made[name]) != len(made["ts"]):
            expected = f"{len(made['ts'])} windows, as in 'ts'"
            raise SchemaError(stream_type.name, name, expected, str(len(made[name])))
    return PhysicalWindow(stream_type, made)
