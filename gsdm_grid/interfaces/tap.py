"""Taps: how a running query lends its results to others. Each reader has a tap, a channel of its own.

`Taps` stands where a result stream would: every block goes into every tap. Taps come and go while it runs, always
between two blocks, so that a reader gets a contiguous run of them. `TapSource` is the reader's end, an input stream
of the query that reads: stop conditions, rates and rescaling are its own business.

A reader that is slow does what its overload policy says, as it would if it read the source alone:

* ``block`` — nobody is served until it can take another block; how long the others waited for it is counted as
  ``stalled_s``;
* ``drop_oldest``, ``sample`` — windows wait in a buffer of its own, which drops and counts them; the others do not
  notice.

Without any reader nothing is taken in: the one that comes next goes on where the last one left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from gsdm_grid.channels import (
    End,
    Inlet,
    Item,
    Outlet,
)
from gsdm_grid.errors import InternalError
from gsdm_grid.interfaces.interface import (
    EndOfStream,
    InterfaceContext,
    StreamInterface,
    interfaces,
)
from gsdm_grid.interfaces.overload import OverloadBuffer
from gsdm_grid.model import NO_TIME_MARK, PhysicalWindow, StreamPosition, StreamType, cut, whole_ordinals

TAP_SINK, TAP_SOURCE = "taps", "tap"
TAKE = 1 << 20  # windows taken from a buffer at a time; its bytes are limited there


class Tap:
    """One reader's way out. Bound to the engine's thread."""

    def __init__(self, outlet: Outlet, options: Mapping[str, Any], close: Callable[[], None]) -> None:
        self.outlet = outlet
        self.close = close
        self.windows = 0
        self.stalled_s = 0.0
        self._waiting_since_s: float | None = None
        buffer = OverloadBuffer.from_options(options, "block", placed=True)
        self._buffer = None if buffer.policy == "block" else buffer

    def ready(self, now_s: float) -> bool:
        """Whether it can take another block; counts how long it could not."""
        if self._buffer is not None:
            self._pump()
            return True
        ready = self.outlet.ready()
        if self._waiting_since_s is not None:
            self.stalled_s += now_s - self._waiting_since_s
        self._waiting_since_s = None if ready else now_s
        return ready

    def put(self, block: PhysicalWindow) -> None:
        """Send a block, now or as soon as there is credit for it. A buffer that drops windows keeps no marks."""
        if self._buffer is None:
            self._send(block)
        elif len(block):
            self._buffer.put(block)
            self._pump()

    def finish(self) -> None:
        """Send the end mark, and what waits before it, which is no more than the buffer holds."""
        self._pump(upto_credit=False)
        self.outlet.put(End(True))

    def statistics(self) -> dict[str, int | float]:
        """Windows sent, how long others waited for it, and what its buffer counted."""
        dropped = self._buffer.statistics() if self._buffer is not None else {}
        return {"windows": self.windows, "stalled_s": self.stalled_s, **dropped}

    def _pump(self, upto_credit: bool = True) -> None:
        while self._buffer is not None and (not upto_credit or self.outlet.ready()):
            block = self._buffer.take(TAKE)
            if block is None:
                return
            self._send(block)

    def _send(self, block: PhysicalWindow) -> None:
        self.windows += len(block)
        self.outlet.put(block)


class Taps(StreamInterface):
    """The results of a query, for other queries. Taps are added and removed while it runs."""

    internal: ClassVar[bool] = True
    takes_marks: ClassVar[bool] = True
    known_options: ClassVar[frozenset[str] | None] = frozenset()

    def __init__(self, stream_type: StreamType, options: Mapping[str, Any]) -> None:
        super().__init__(stream_type, options)
        self._taps: dict[str, Tap] = {}
        self._left: dict[str, dict[str, int | float]] = {}  # figures of readers that have left by themselves
        self._finished = False
        self._next = 0

    def attach(self, reader: str, tap: Tap) -> int:
        """Serve another reader from the next block on; gives the ordinal that comes next."""
        self._taps[reader] = tap
        if self._finished:
            tap.finish()
        return self._next

    def detach(self, reader: str) -> dict[str, int | float]:
        """Serve a reader no more; gives what was counted for it. Safe to call twice."""
        tap = self._taps.pop(reader, None)
        if tap is None:
            return self._left.pop(reader, {})
        tap.close()
        return tap.statistics()

    def ready(self) -> bool:
        """See `StreamInterface`."""
        for reader in [reader for reader, tap in self._taps.items() if tap.outlet.left]:
            self._left[reader] = self.detach(reader)
        now_s = self.context.clock.monotonic_s()
        slow = [tap for tap in self._taps.values() if not tap.ready(now_s)]
        return bool(self._taps) and not slow

    def insert(self, block: PhysicalWindow) -> None:
        """See `StreamInterface`."""
        for tap in self._taps.values():
            tap.put(block)
        self._next = max(self._next, block.mark + 1)

    def finish(self) -> None:
        """See `StreamInterface`."""
        self._finished = True
        for tap in self._taps.values():
            tap.finish()

    def close(self) -> None:
        """See `StreamInterface`."""
        for reader in list(self._taps):
            self.detach(reader)

    def readers(self) -> dict[str, dict[str, int | float]]:
        """Figures of each tap."""
        return {**self._left, **{reader: tap.statistics() for reader, tap in self._taps.items()}}


class TapSource(StreamInterface):
    """Reads a tap. Its windows come with their places in the stream.

    Where the stream began at a source that can be read again, the places are kept from one run to the next, and what
    was read before is left out (``replayable``); else they only say what is missing in between.
    """

    internal: ClassVar[bool] = True
    placed: ClassVar[bool] = True
    known_options: ClassVar[frozenset[str] | None] = frozenset(
        {"part", "overload", "buffer_blocks", "buffer_bytes", "sample_every"}
    )

    def __init__(self, stream_type: StreamType, options: Mapping[str, Any]) -> None:
        super().__init__(stream_type, options)
        self.replayable = False
        self._channel = ""
        self._inlet: Inlet | None = None
        self._items: deque[Item] = deque()
        self._taken = 0
        self._resting = False
        self._position = StreamPosition()
        self._time_mark: int = NO_TIME_MARK  # what the reader was told

    def listen(self, channel: str, replayable: bool) -> None:
        """What the next run reads; said before it is opened."""
        self._channel, self.replayable = channel, replayable

    def open(self, context: InterfaceContext) -> None:
        """See `StreamInterface`. The tap is attached afterwards."""
        super().open(context)
        if context.plane is None or not self._channel:
            raise InternalError("a tap can only be read by a working node that was told which")
        self._items.clear()
        self._taken, self._resting = 0, False
        if self.replayable:
            self._position.expect_duplicates()
        else:
            self._position = StreamPosition()
        self._inlet = context.plane.inlet(self._channel, self.stream_type, self._arrived)

    def seek(self, ordinal: int) -> None:
        """See `StreamInterface`: what comes before is left out."""
        self._position = StreamPosition.before(ordinal)
        self._position.expect_duplicates()

    def next(self, limit: int) -> PhysicalWindow | None:
        """See `StreamInterface`. Windows of one ordinal come together, even if they are more than the limit."""
        while self._items and isinstance(self._items[0], PhysicalWindow):
            block = self._position.without_duplicates(self._items[0])
            at = whole_ordinals(block, limit)
            if at < len(block):
                self._items[0] = cut(block, at).marked_as(block)
                block = cut(block, 0, at)
            else:
                self._items.popleft()
                self._taken += 1
            self._progress()
            if len(block) or block.time_mark > self._time_mark:
                self._position.advance(block)
                self._time_mark = max(self._time_mark, block.time_mark)
                return block
        self._progress()
        if self._items:
            raise EndOfStream
        return None

    def due_s(self) -> float | None:
        """See `StreamInterface`: when the other end is to be told."""
        return self._inlet.due_s if self._inlet is not None else None

    def rest(self) -> None:
        """See `StreamInterface`: the other readers need not wait for this one any more."""
        self._resting = True
        if self._inlet is not None:
            self._inlet.leave()

    def close(self) -> None:
        """See `StreamInterface`."""
        inlet, self._inlet = self._inlet, None
        if inlet is not None and self.context.plane is not None:
            inlet.leave()
            self.context.plane.forget([inlet.stream])

    def _arrived(self, item: Item) -> None:
        self._items.append(item)
        if self._resting and self._inlet is not None:  # attached only after this run had read enough
            self._inlet.leave()

    def _progress(self) -> None:
        if self._inlet is not None:
            self._inlet.progress(self._taken, self._taken, idle=not self._items)


interfaces.add(TAP_SINK, Taps)
interfaces.add(TAP_SOURCE, TapSource)
