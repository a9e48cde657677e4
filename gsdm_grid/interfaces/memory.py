"""Interfaces over objects of this process: iterables as sources; queues and callbacks as sinks.

They hold live objects, so they stay in the process that made them; the compiler links it with the rest.
"""

from __future__ import annotations

import queue
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from gsdm_grid.errors import QueryError
from gsdm_grid.interfaces.interface import (
    EndOfStream,
    InterfaceContext,
    StreamInterface,
    interfaces,
)
from gsdm_grid.model import LogicalWindow, PhysicalWindow, StreamType, cut


class WindowFeed:
    """Blocks out of any iterable of physical windows, logical windows, mappings or tuples of attribute
    values.

    Shared by the sources that read Python objects. Single windows are packed together; packing ends early
    when the iterable is slow, so that the first of them does not wait for the last. Bound to the engine's
    thread.
    """

    def __init__(self, interface: str, stream_type: StreamType, items: Iterable[Any]) -> None:
        self._interface = interface
        self._type = stream_type
        self._iterator: Iterator[Any] = iter([items] if isinstance(items, PhysicalWindow) else items)
        self._rest: PhysicalWindow | None = None
        self._ahead: PhysicalWindow | None = None
        self.due_s: float | None = None
        """When to take again after no windows, on the context's monotonic clock: the iterable had empty blocks only."""

    def take(self, limit: int, context: InterfaceContext) -> PhysicalWindow:
        """At most ``limit`` windows; `EndOfStream` when the iterable is exhausted.

        Passes over empty blocks, but for no longer than windows may wait: if it finds nothing else, it gives one.
        """
        give_up_s = self.due_s = None
        while True:
            if self._rest is not None:
                block, self._rest = self._rest, None
            else:
                block = self._pull(limit, context)
            if len(block):
                break
            now_s = context.clock.monotonic_s()
            give_up_s = now_s + context.flush_s if give_up_s is None else give_up_s
            if now_s > give_up_s:
                self.due_s = now_s
                break
        if len(block) > limit:
            block, self._rest = cut(block, 0, limit), cut(block, limit)
        return block

    def skip(self, count: int, context: InterfaceContext) -> None:
        """Leave out windows; beyond the end, the next ``take`` finds the end."""
        try:
            while count > 0:
                count -= len(self.take(count, context))
        except EndOfStream:
            return

    def _pull(self, limit: int, context: InterfaceContext) -> PhysicalWindow:
        windows: list[LogicalWindow] = []
        flush_at_s = context.clock.monotonic_s() + context.flush_s
        while len(windows) < limit and not (windows and context.clock.monotonic_s() > flush_at_s):
            if self._ahead is not None:
                item, self._ahead = self._ahead, None
            else:
                try:
                    item = next(self._iterator)
                except StopIteration:
                    break
            if isinstance(item, PhysicalWindow):
                if windows:
                    self._ahead = item
                    break
                return item if item.type == self._type else item.as_type(self._type)
            windows.append(self._window(item))
        if not windows:
            raise EndOfStream
        return PhysicalWindow.pack(self._type, windows)

    def _window(self, item: Any) -> LogicalWindow:
        if isinstance(item, LogicalWindow):
            return item if item.type == self._type else item.as_type(self._type)
        if isinstance(item, Mapping):
            return self._type.window(**item)
        if isinstance(item, tuple):
            return self._type.window(*item)
        raise QueryError(
            f"interface {self._interface!r}: expected windows, blocks, mappings or tuples, got {type(item).__name__}"
        )


class MemorySource(StreamInterface):
    """Option ``items``: an iterable of physical windows, logical windows, mappings or tuples of attribute
    values.

    A list can be read again from any place; a generator only once.
    """

    known_options: ClassVar[frozenset[str] | None] = frozenset({"items"})

    local: ClassVar[bool] = True

    def __init__(self, stream_type: StreamType, options: Mapping[str, Any]) -> None:
        super().__init__(stream_type, options)
        items = options.get("items")
        if not isinstance(items, Iterable):
            raise QueryError(f"interface 'memory' needs option 'items', an iterable of windows; got {items!r}")
        self._items = items
        self._feed = WindowFeed("memory", stream_type, items)
        self.replayable = not isinstance(items, Iterator)  # differs from object to object

    def next(self, limit: int) -> PhysicalWindow | None:
        """See `StreamInterface`. Single windows are packed together, up to the limit."""
        return self._feed.take(limit, self.context)

    def due_s(self) -> float | None:
        """See `StreamInterface`."""
        return self._feed.due_s

    def seek(self, ordinal: int) -> None:
        """See `StreamInterface`; only where ``items`` can be iterated over again."""
        if not self.replayable:
            raise QueryError("interface 'memory' cannot go back in an iterator: give a list, or interface 'generator'")
        self._feed = WindowFeed("memory", self.stream_type, self._items)
        self._feed.skip(ordinal, self.context)


class MemorySink(StreamInterface):
    """Keeps the result for iteration. Option ``blocks``: how many physical windows may wait before it says stop."""

    known_options: ClassVar[frozenset[str] | None] = frozenset({"blocks", "queue"})

    local: ClassVar[bool] = True

    def __init__(self, stream_type: StreamType, options: Mapping[str, Any]) -> None:
        super().__init__(stream_type, options)
        self._limit = int(options.get("blocks", 64))
        self.queue: queue.Queue[PhysicalWindow | None] = options.get("queue") or queue.Queue()

    def ready(self) -> bool:
        """See `StreamInterface`."""
        return self.queue.qsize() < self._limit

    def insert(self, block: PhysicalWindow) -> None:
        """See `StreamInterface`."""
        self.queue.put(block)

    def finish(self) -> None:
        """See `StreamInterface`: readers find None at the end."""
        self.queue.put(None)

    def pause(self) -> None:
        """See `StreamInterface`: readers find None here too, and may read on after the query was resumed."""
        self.queue.put(None)

    def take(self, timeout_s: float | None = None) -> PhysicalWindow | None:
        """The next block, None at the end of the stream; `queue.Empty` after the time-out. For the reader's thread."""
        block = self.queue.get(timeout=timeout_s)
        self.context.wake()
        return block


class CallbackSink(StreamInterface):
    """Option ``function``: called with every physical window, in order, in the engine's thread."""

    known_options: ClassVar[frozenset[str] | None] = frozenset({"function"})

    local: ClassVar[bool] = True

    def __init__(self, stream_type: StreamType, options: Mapping[str, Any]) -> None:
        super().__init__(stream_type, options)
        if not callable(options.get("function")):
            raise QueryError(f"interface 'callback' needs option 'function'; got {options.get('function')!r}")

    def insert(self, block: PhysicalWindow) -> None:
        """See `StreamInterface`."""
        self.options["function"](block)


class NullSink(StreamInterface):
    """Takes everything and keeps nothing: for measurements."""

    known_options: ClassVar[frozenset[str] | None] = frozenset()

    def insert(self, block: PhysicalWindow) -> None:
        """See `StreamInterface`."""


class LatencySink(StreamInterface):
    """Measures the time from each window's timestamp (wall-clock nanoseconds at the source) to its arrival."""

    known_options: ClassVar[frozenset[str] | None] = frozenset()

    def __init__(self, stream_type: StreamType, options: Mapping[str, Any]) -> None:
        super().__init__(stream_type, options)
        self.latencies_ns: list[int] = []

    def open(self, context: InterfaceContext) -> None:
        """See `StreamInterface`."""
        super().open(context)
        self.latencies_ns = []

    def insert(self, block: PhysicalWindow) -> None:
        """See `StreamInterface`."""
        self.latencies_ns += (self.context.clock.now_ns() - block.ts).tolist()

    def statistics(self) -> dict[str, int | float]:
        """Number of windows, and median, 99th percentile and largest latency in milliseconds."""
        import numpy as np

        if not self.latencies_ns:
            return {"windows": 0}
        p50, p99, top = np.percentile(self.latencies_ns, [50, 99, 100]) / 1e6
        return {
            "windows": len(self.latencies_ns),
            "p50_ms": float(p50),
            "p99_ms": float(p99),
            "max_ms": float(top),
        }


interfaces.add("memory", MemorySource)
interfaces.add("result", MemorySink)
interfaces.add("callback", CallbackSink)
interfaces.add("null", NullSink)
interfaces.add("latency", LatencySink)
