"""The bounded buffer between a thread that receives windows and the engine that reads them.

What happens when windows come faster than they are read is the query's declared overload policy:

* ``block`` — the receiving thread waits, and with it the sender, where the medium can make it wait;
* ``drop_oldest`` — the windows that waited longest are dropped;
* ``sample`` — one of n windows is kept, of those that come and, if that is not enough, of those that wait.

Law: received = delivered + dropped (counted by reason) + in the buffer.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gsdm_grid.errors import QueryError
from gsdm_grid.interfaces.interface import EndOfStream
from gsdm_grid.model import PhysicalWindow, cut

POLICIES = ("block", "drop_oldest", "sample")
_MERGE_BYTES = 1 << 20


class OverloadBuffer:
    """Blocks in order, bounded by bytes and by number; a single block may be larger than the bound.

    One thread puts, another takes; both may close. Windows that wait when it is closed are there when it is
    opened again. Blocks lose the ordinals they came with, because the engine counts anew, unless they are ``placed``.
    """

    def __init__(
        self,
        policy: str = "block",
        max_bytes: int = 64 << 20,
        max_blocks: int = 4096,
        sample_every: int = 10,
        placed: bool = False,
    ) -> None:
        if policy not in POLICIES:
            raise QueryError(f"unknown overload policy {policy!r}; allowed: {', '.join(POLICIES)}")
        if max_bytes < 1 or max_blocks < 1:
            raise QueryError(f"an overload buffer needs room; got {max_bytes} bytes, {max_blocks} blocks")
        if sample_every < 2:
            raise QueryError(f"overload policy 'sample' keeps one of 2, 3, … windows; got {sample_every}")
        self.policy = policy
        self._max_bytes = max_bytes
        self._max_blocks = max_blocks
        self._every = sample_every
        self._placed = placed
        self._changed = threading.Condition()
        self._blocks: deque[PhysicalWindow] = deque()
        self._bytes = 0
        self._phase = 0
        self._open = True
        self._ended = False
        self._error: Exception | None = None
        self._wake: Callable[[], None] = lambda: None
        self._counts = dict.fromkeys(
            ("received", "delivered", "dropped_oldest", "dropped_sampled", "dropped_closed"), 0
        )

    @staticmethod
    def from_options(options: Mapping[str, Any], policy: str, placed: bool = False) -> OverloadBuffer:
        """By the options ``overload`` (the policy), ``buffer_bytes``, ``buffer_blocks`` and ``sample_every``."""
        return OverloadBuffer(
            str(options.get("overload", policy)),
            int(options.get("buffer_bytes", 64 << 20)),
            int(options.get("buffer_blocks", 4096)),
            int(options.get("sample_every", 10)),
            placed,
        )

    def open(self, wake: Callable[[], None]) -> None:
        """Accept windows; ``wake`` is called after each change that a reader may wait for."""
        with self._changed:
            self._open, self._wake, self._error = True, wake, None

    def put(self, block: PhysicalWindow) -> bool:
        """Add a block, waiting only under policy ``block``. False if the buffer is closed, and the block dropped."""
        with self._changed:
            self._counts["received"] += len(block)
            if self.policy == "block":
                self._changed.wait_for(lambda: self._fits(block) or not self._open)
            if not self._open:
                self._counts["dropped_closed"] += len(block)
                return False
            if self.policy == "sample" and not self._fits(block):
                block = self._sampled(block)
            while not self._fits(block):
                self._drop_oldest()
            if len(block):
                self._blocks.append(self._kept(block))
                self._bytes += block.nbytes
        self._wake()
        return True

    def take(self, limit: int) -> PhysicalWindow | None:
        """At most ``limit`` windows, small blocks joined; None if there are none. At the end `EndOfStream`,
        or the error that ended it."""
        with self._changed:
            if not self._blocks:
                if self._error is not None:
                    raise self._error
                if self._ended:
                    raise EndOfStream
                return None
            taken: list[PhysicalWindow] = []
            room, size = limit, 0
            while self._blocks and room > 0 and size < _MERGE_BYTES:
                block = self._pop()
                if len(block) > room:
                    rest = cut(block, room)
                    self._blocks.appendleft(self._kept(rest))
                    self._bytes += rest.nbytes
                    block = cut(block, 0, room)
                room -= len(block)
                size += block.nbytes
                taken.append(block)
            self._counts["delivered"] += limit - room
            self._changed.notify_all()
        return self._kept(PhysicalWindow.concat(taken))

    def end(self) -> None:
        """Nothing more will come."""
        with self._changed:
            self._ended = True
        self._wake()

    def fail(self, error: Exception) -> None:
        """Nothing more will come, because of an error that the reader is to see after the last window."""
        with self._changed:
            self._error = error
        self._wake()

    def close(self) -> None:
        """Let a waiting ``put`` return; windows that are waiting stay. Safe to call twice."""
        with self._changed:
            self._open = False
            self._changed.notify_all()

    def statistics(self) -> dict[str, int | float]:
        """Windows received, delivered, dropped by reason, and buffered, all of one moment."""
        with self._changed:
            return {**self._counts, "buffered": sum(map(len, self._blocks)), "buffered_bytes": self._bytes}

    def _kept(self, block: PhysicalWindow) -> PhysicalWindow:
        return block if self._placed else PhysicalWindow(block.type, block.columns)

    def _fits(self, block: PhysicalWindow) -> bool:
        full = self._bytes + block.nbytes > self._max_bytes or len(self._blocks) >= self._max_blocks
        return not self._blocks or not len(block) or not full

    def _pop(self) -> PhysicalWindow:
        block = self._blocks.popleft()
        self._bytes -= block.nbytes
        return block

    def _drop_oldest(self) -> None:
        reason = "dropped_sampled" if self.policy == "sample" else "dropped_oldest"
        self._counts[reason] += len(self._pop())

    def _sampled(self, block: PhysicalWindow) -> PhysicalWindow:
        """Thin out the block and, while it does not fit, the buffer."""
        kept = self._thin(block, -self._phase % self._every)
        self._phase = (self._phase + len(block)) % self._every
        while not self._fits(kept) and sum(map(len, self._blocks)) > 1:
            rest = self._thin(PhysicalWindow.concat(list(self._blocks)), 0)
            self._blocks = deque([rest])
            self._bytes = rest.nbytes
        return kept

    def _thin(self, block: PhysicalWindow, first: int) -> PhysicalWindow:
        # An index array copies, so that the dropped windows' memory is free at once.
        kept = block.select(np.arange(first, len(block), self._every))
        self._counts["dropped_sampled"] += len(block) - len(kept)
        return kept
