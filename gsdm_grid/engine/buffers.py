"""Streams at a working node: input buffers with a cursor per operator, and outputs of several kinds.

Operators that read the same stream share its buffer; a block leaves the buffer when the last cursor has passed it.
Where an input comes from (an interface, a channel, another operator) shows only in `refill` and `settle`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol, TypeVar

from gsdm_grid.channels import (
    End,
    Inlet,
    Item,
    Outlet,
)
from gsdm_grid.engine.statistics import StreamStatistics
from gsdm_grid.errors import GsdmError, InternalError, QueryError
from gsdm_grid.functions import raised_by_user_code
from gsdm_grid.interfaces import EndOfStream, InterfaceContext, StreamInterface
from gsdm_grid.model import NO_MARK, NO_TIME_MARK, PhysicalWindow, cut, shifted, whole_ordinals
from gsdm_grid.operators import TimeOrder
from gsdm_grid.plan import ORDERED, StreamOrder

T = TypeVar("T")
MEMORY_BLOCKS = 8
FIRST_LIMIT = 16


class InputStream:
    """The buffer of one input stream. Bound to the node's thread."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.statistics = StreamStatistics()
        self.cursors: dict[str, int] = {}
        self._items: deque[Item] = deque()
        self._first = 0  # number of the first buffered item

    def append(self, item: Item) -> None:
        """Another block, or an end mark."""
        self._items.append(item)
        if isinstance(item, PhysicalWindow):
            self.statistics.count(item)

    def peek(self, reader: str) -> Item | None:
        """The item at the reader's cursor."""
        at = self.cursors[reader] - self._first
        return self._items[at] if at < len(self._items) else None

    def advance(self, reader: str) -> None:
        """Move the reader's cursor on; items that all have passed leave the buffer."""
        self.cursors[reader] += 1
        passed = min(self.cursors.values())
        while self._first < passed:
            self._items.popleft()
            self._first += 1

    def rewire(self) -> None:
        """Other operators will read it: what is buffered, which is at most an end mark, was for those before them."""
        self._first += len(self._items)
        self._items.clear()
        self.cursors.clear()
        self.statistics = StreamStatistics()

    @property
    def consumed(self) -> int:
        """Number of items that all readers have passed."""
        return self._first

    @property
    def waiting(self) -> int:
        """Number of buffered items."""
        return len(self._items)

    def open(self, context: InterfaceContext) -> None:
        """The query becomes active."""

    def refill(self, budget: int | None = None) -> bool:  # noqa: ARG002
        """Bring in more, if the stream is of a kind that must be asked; says whether something came."""
        return False

    def close(self) -> None:
        """The query stops or is dropped."""


class SourceStream(InputStream):
    """An input stream read from an interface. It numbers the windows, and holds the stop condition.

    Numbers begin at ``start_at``: a stream that can be read again is read from there, another goes on with whatever
    comes. Windows that come with numbers keep them, if the stream can be read again; else they only keep their
    distances. (Those of an interface that is not ``placed`` are numbered anew: what blocks of other streams say about
    their places, and their marks, does not hold for this one.)

    Windows are numbered in the order of time that was declared for the stream, into which they are brought here.
    """

    def __init__(
        self,
        name: str,
        interface: StreamInterface,
        block_bytes: int,
        start_at: int = 0,
        order: StreamOrder = ORDERED,
    ) -> None:
        super().__init__(name)
        if start_at < 0:
            raise InternalError(f"input stream {name!r} cannot begin at window {start_at}")
        self.interface = interface
        self.position = start_at
        self._seek = start_at > 0
        self._skip = 0  # windows to pass over, in a stream that can only be sorted from its beginning
        self._order = order
        self.time_order = TimeOrder(order, name)
        self._time_mark: int = NO_TIME_MARK  # what readers were told
        self._exhausted = False
        self._open = False
        self.ended = True
        self.stop_at: int | None = None
        self.finished = False
        self._rest: PhysicalWindow | None = None  # what an interface gave beyond what it was asked for
        self._shift: int | None = None  # from the numbers that windows come with to those they get
        self._block_bytes = block_bytes
        self._limit = FIRST_LIMIT

    def open(self, context: InterfaceContext) -> None:
        """See `InputStream`."""
        if not self._open:
            self._call(lambda: self.interface.open(context))
            self._shift = None
            self._exhausted = False
        self._open = True
        if self._seek and self.interface.replayable:
            self._rest = None
            self._skip = self.position if self._order.renumbers else 0
            self._call(lambda: self.interface.seek(self.position - self._skip))
        self._seek = False
        self.ended = False

    def stop(self, final: bool = False, held: bool = False) -> None:
        """Read no more; readers find an end mark."""
        if not self.ended:
            self.ended = True
            self.finished = self.finished or final
            self.append(End(self.finished, held and not self.finished))
            if not held:
                self.interface.rest()

    def refill(self, budget: int | None = None) -> bool:
        """See `InputStream`: reads one block when the buffer is empty, at most ``budget`` windows.

        What was read may have to wait for its turn, so that nothing is in the buffer yet.
        """
        if self.ended or self.waiting:
            return False
        limit = self._limit - self.position % self._limit  # blocks begin at multiples, so that runs of them stay whole
        limit = limit if budget is None else min(limit, budget)
        if self.stop_at is not None:
            limit = min(limit, self.stop_at - self.position)
        if limit <= 0:
            if budget is None or budget > 0:
                self.stop()
            return False
        try:
            block = self._next(limit)
        except EndOfStream:
            self.stop(final=True)
            return True
        if block is None:
            return False
        if not len(block):
            if block.time_mark > self._time_mark:
                self._time_mark = block.time_mark
                self.append(PhysicalWindow.empty(block.type, time_mark=block.time_mark))
            return True
        block = self._numbered(block)
        self._time_mark = max(self._time_mark, block.time_mark)
        end = int(block.ordinals[-1]) + 1
        if self.stop_at is not None:
            self.stop_at += end - self.position - len(block)  # numbers that nobody has do not count
        self.append(block)
        self.position = end
        if self.stop_at is not None and end >= self.stop_at:  # beyond it, if the last ordinal has several windows
            self.stop()
        return True

    def _next(self, limit: int) -> PhysicalWindow | None:
        """At most so many windows, whatever the interface gives; more only of one ordinal, which come together.

        An empty block if what it gave has to wait.
        """
        block, self._rest = self._rest, None
        if block is None:
            block = self._ordered(limit)
        if block is not None and len(block) > limit:
            at = whole_ordinals(block, limit) if self._keeps_places else limit
            if at < len(block):
                block, self._rest = cut(block, 0, at), cut(block, at).marked_as(block)
        return block

    def _ordered(self, limit: int) -> PhysicalWindow | None:
        """The next windows whose turn it is, by their timestamps."""
        try:
            if self._exhausted:
                raise EndOfStream
            block = self._call(lambda: self.interface.next(limit))
        except EndOfStream:
            self._exhausted = True
            if (rest := self.time_order.rest()) is None:
                raise
            return self._unskipped(rest)
        if block is None or not (len(block) or block.time_mark > self._time_mark):
            return None
        if len(block):
            self._limit = max(1, self._block_bytes * len(block) // max(block.nbytes, 1))
        if not self.interface.placed and block.time_mark != NO_TIME_MARK:
            block = block.stamped(time_mark=NO_TIME_MARK)
        late = self.time_order.late
        ordered = self.time_order.take(block)
        if self._skip:
            self.time_order.late = late  # counted when these windows were read for the first time
        return self._unskipped(ordered)

    def _unskipped(self, block: PhysicalWindow) -> PhysicalWindow:
        if not self._skip:
            return block
        skipped = min(self._skip, len(block))
        self._skip -= skipped
        return cut(block, skipped).stamped(time_mark=block.time_mark)

    @property
    def _keeps_places(self) -> bool:
        return self.interface.placed and not self._order.renumbers

    def _numbered(self, block: PhysicalWindow) -> PhysicalWindow:
        if not self._keeps_places:
            return block.stamped(ordinals=range(self.position, self.position + len(block)), mark=NO_MARK)
        if self._shift is None:
            self._shift = 0 if self.interface.replayable else self.position - int(block.ordinals[0])
        return block if not self._shift else shifted(block, self._shift)

    def close(self) -> None:
        """See `InputStream`."""
        self._open = False
        self._call(self.interface.close)

    def _call(self, call: Callable[[], T]) -> T:
        return interface_call(f"input stream {self.name!r}", call)


class ChannelStream(InputStream):
    """An input stream that arrives through a channel."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.inlet: Inlet | None = None
        self._unreleased: deque[tuple[int, int]] = deque()  # (number, last ordinal) of blocks not released
        self._fences: deque[tuple[int, list[tuple[Outlet, int]]]] = deque()
        self._numbered = 0
        self._released = 0

    def append(self, item: Item) -> None:
        """See `InputStream`."""
        super().append(item)
        last = item.mark if isinstance(item, PhysicalWindow) else -1
        self._unreleased.append((self._numbered, last))
        self._numbered += 1

    def settle(self, floor: int | None, outlets: list[Outlet], drained: bool, idle: bool) -> None:
        """Return credit for what was consumed, and release what is acknowledged further down.

        ``floor`` is the smallest ordinal that operators still hold; ``drained`` says that nothing is under way between
        operators inside this node, so that what was consumed has left through the outlets; ``idle`` that there is
        time to tell.
        """
        if drained:
            upto = self.consumed
            if floor is not None:
                upto = next((n for n, last in self._unreleased if n >= upto or last >= floor), upto)
            if upto > (self._fences[-1][0] if self._fences else self._released):
                self._fences.append((upto, [(outlet, outlet.next) for outlet in outlets]))
        while self._fences and all(outlet.released >= sent for outlet, sent in self._fences[0][1]):
            self._released = self._fences.popleft()[0]
        while self._unreleased and self._unreleased[0][0] < self._released:
            self._unreleased.popleft()
        if self.inlet is not None:
            self.inlet.progress(self.consumed, self._released, idle)


class OutputStream(Protocol):
    """Where an operator's results go."""

    name: str
    statistics: StreamStatistics

    def ready(self) -> bool:
        """Whether it can take another block."""

    def put(self, item: Item) -> None:
        """Take a block or an end mark; must not block."""

    def open(self, context: InterfaceContext) -> None:
        """The query becomes active."""

    def close(self) -> None:
        """The query stops or is dropped."""


class _Output:
    def __init__(self, name: str) -> None:
        self.name = name
        self.statistics = StreamStatistics()

    def open(self, context: InterfaceContext) -> None:
        """See `OutputStream`."""

    def close(self) -> None:
        """See `OutputStream`."""

    def count(self, item: Item) -> None:
        """Keep statistics."""
        if isinstance(item, PhysicalWindow):
            self.statistics.count(item)


class MemoryOutput(_Output):
    """To operators of the same node."""

    def __init__(self, name: str, target: InputStream) -> None:
        super().__init__(name)
        self._target = target

    def ready(self) -> bool:
        """See `OutputStream`."""
        return self._target.waiting < MEMORY_BLOCKS

    def put(self, item: Item) -> None:
        """See `OutputStream`."""
        self.count(item)
        self._target.append(item)


class ChannelOutput(_Output):
    """To another node. A mark without windows waits a moment, because the next windows bring a newer one."""

    def __init__(self, name: str, outlet: Outlet) -> None:
        super().__init__(name)
        self.outlet = outlet
        self._mark: PhysicalWindow | None = None

    def ready(self) -> bool:
        """See `OutputStream`."""
        return self.outlet.ready()

    def put(self, item: Item) -> None:
        """See `OutputStream`."""
        if isinstance(item, PhysicalWindow) and not len(item) and item.halo is None:
            self._mark = item
            return
        if self._mark is not None and isinstance(item, PhysicalWindow) and item.time_mark < self._mark.time_mark:
            item = item.stamped(halo=item.halo, time_mark=self._mark.time_mark)
        if isinstance(item, End):
            self.flush()
        self._mark = None
        self.count(item)
        self.outlet.put(item)

    def flush(self) -> None:
        """Nothing else to do just now: send a mark that waits."""
        if self._mark is not None:
            self.outlet.put(self._mark)
            self._mark = None


class SinkOutput(_Output):
    """To the world, through an interface."""

    def __init__(self, name: str, interface: StreamInterface) -> None:
        super().__init__(name)
        self.interface = interface

    def open(self, context: InterfaceContext) -> None:
        """See `OutputStream`."""
        self._call(lambda: self.interface.open(context))

    def rewire(self) -> None:
        """Other operators will write it."""
        self.statistics = StreamStatistics()

    def ready(self) -> bool:
        """See `OutputStream`."""
        return self.interface.ready()

    def put(self, item: Item) -> None:
        """See `OutputStream`."""
        if isinstance(item, End):
            if not item.held:
                self._call(self.interface.finish if item.final else self.interface.pause)
        elif len(item) or (self.interface.takes_marks and item.tells):
            self.count(item)
            self._call(lambda: self.interface.insert(item))

    def close(self) -> None:
        """See `OutputStream`."""
        self._call(self.interface.close)

    def _call(self, call: Callable[[], T]) -> T:
        return interface_call(f"result stream {self.name!r}", call)


def interface_call(stream: str, call: Callable[[], T]) -> T:
    """Call a method of a stream interface; what its code raises becomes a `QueryError` that names the stream."""
    try:
        return call()
    except (EndOfStream, GsdmError):
        raise
    except BaseException as error:
        if not raised_by_user_code(error):
            raise
        raise QueryError(f"{stream}: {type(error).__name__}: {error}") from error
