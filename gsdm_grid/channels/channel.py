"""A channel between two working nodes: an `Outlet` at the producer, an `Inlet` at the consumer. One kind for every arc.

What moves is numbered: physical windows and end marks of a stream have sequence numbers within the epoch of their
producer. The protocol is small:

* producer → consumer: *hello* (here I am, my oldest kept number is n), *data* (in the message, or in shared memory),
  *end*;
* consumer → producer: *state* (number expected if something is missing; how many were consumed, released, freed),
  *refuse* (cannot open your shared memory: send it again in messages), *leave* (send nothing more).

*Consumed* returns credit: the producer may send that many more. *Released* is the acknowledgement: everything made of
it has been acknowledged further down, so the producer may forget it. *Freed* says that nothing views the shared memory
of it any more. What was not released is kept, and sent again to a consumer that lost its connection or was started
anew. A producer that was started anew computes again what it has no memory of; the consumer knows by the ordinals what
it has already seen (`gsdm_grid.model.StreamPosition`).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gsdm_grid.channels.shared_memory import Ring
from gsdm_grid.errors import ChannelError
from gsdm_grid.model import Array, PhysicalWindow, StreamPosition, StreamType, wire

HELLO, DATA, SHARED, END, STATE, REFUSE, LEAVE = b"h", b"d", b"m", b"e", b"s", b"r", b"l"
NUMBERS = {HELLO: 2, DATA: 1, SHARED: 1, END: 2, STATE: 4, REFUSE: 1, LEAVE: 0}
HEARTBEAT_S = 0.5
SLACK_BYTES = 4096  # alignment and ordinals beside a block's own bytes
TELL_EVERY = 2  # blocks that a consumer lets pass before it returns credit
TELL_S = 0.02  # after which an idle consumer returns it anyway
INLINE_BYTES = 4096  # smaller blocks go into the message


@dataclass(frozen=True)
class ChannelLimits:
    """How much may be under way on one channel: sent, but not yet consumed. The defaults are in `Settings`."""

    blocks: int
    bytes: int


@dataclass(frozen=True)
class End:
    """A producer sends nothing more: ``final``, or until the query is resumed; ``held``: which is in a moment."""

    final: bool
    held: bool = False


ENDS = (End(False), End(True), End(False, held=True))
"""By the number that stands for them in messages."""
Item = PhysicalWindow | End


@dataclass(frozen=True)
class Message:
    """One message of the protocol; ``numbers`` as its kind needs, and what comes with it."""

    kind: bytes
    stream: str
    epoch: int
    numbers: tuple[int, ...]
    block: PhysicalWindow | None = None
    header: bytes = b""
    arrays: tuple[Array, ...] = ()
    ring: str = ""
    places: tuple[tuple[int, int], ...] = ()


class Transport(Protocol):
    """What a channel needs of the data plane."""

    def is_neighbour(self, endpoint: str) -> bool:
        """Whether the endpoint is in this process, so that blocks can be handed over as they are."""

    def place_of(self, arrays: Sequence[Array]) -> tuple[str, list[tuple[int, int]]] | None:
        """Name of the ring of another process that all the arrays lie in, and where; None if there is none."""

    def post(self, endpoint: str, message: Message) -> None:
        """Send to the working node at an endpoint. Never blocks."""

    def reply(self, peer: Any, message: Message) -> None:
        """Send back to where a message came from. Never blocks."""


class Outlet:
    """The sending end of a channel. Bound to the engine's thread.

    ``epoch`` is issued by the coordinator, greater for every outlet of a stream than for those before it: a consumer
    listens to the greatest one. No clock is asked, because those of two machines, or of one, may go back.
    """

    def __init__(
        self, transport: Transport, stream: str, endpoint: str, limits: ChannelLimits, epoch: int, ring_bytes: int = 0
    ) -> None:
        self.stream = stream
        self.endpoint = endpoint
        self.epoch = epoch
        self.next = 0
        self.released = 0
        self.sent_again = 0
        self.sent_shared = 0
        self.sent_on = 0
        self.left = False
        """Whether the consumer wants nothing more."""
        self._transport = transport
        self._limits = limits
        self._ring_bytes = ring_bytes
        self._ring: Ring | None = None
        self._in_ring: deque[int] = deque()  # numbers of the items whose payload is in the ring
        self._passed_on: dict[int, PhysicalWindow] = {}  # items whose payload stays in the ring that they came in
        self.consumed = 0
        self._sizes: deque[int] = deque()
        self._in_flight_bytes = 0
        self._kept: deque[tuple[int, Message]] = deque()
        self._heard_s = 0.0
        self._said_s = 0.0

    def ready(self) -> bool:
        """Whether there is credit for another block."""
        if not self._sizes:
            return True
        if self._ring is not None and not self._ring.fits(self._sizes[-1] + SLACK_BYTES):
            return False  # what is under way will make room
        return len(self._sizes) < self._limits.blocks and self._in_flight_bytes < self._limits.bytes

    def put(self, item: Item) -> None:
        """Send a block or an end mark. Never blocks; ask `ready` first."""
        message = self._message(item)
        size = item.nbytes if isinstance(item, PhysicalWindow) else 0
        self._kept.append((self.next, message))
        self._sizes.append(size)
        self._in_flight_bytes += size
        self.next += 1
        self._transport.post(self.endpoint, message)

    def hello(self) -> None:
        """Say which numbers can be had; the consumer answers with what it expects."""
        self._said_s = time.monotonic()
        first = self._kept[0][0] if self._kept else self.next
        self._transport.post(self.endpoint, Message(HELLO, self.stream, self.epoch, (first, self.next)))

    def redirect(self, endpoint: str) -> None:
        """The consumer was started anew at another place: send it again what was not released."""
        self.endpoint = endpoint
        self.hello()

    def beat(self, now_s: float) -> None:
        """Ask again when something is under way and nobody has answered for a while."""
        if self._kept and now_s - max(self._heard_s, self._said_s) > HEARTBEAT_S:
            self.hello()

    def heard(self, message: Message) -> None:
        """A *state*, *refuse* or *leave* from the consumer."""
        if message.epoch != self.epoch:
            return
        if message.kind == LEAVE:
            self.left = True
            return
        self._heard_s = time.monotonic()
        if message.kind == REFUSE:
            if message.numbers[0] not in self._passed_on:
                self._leave_ring()
            self._keep_copies()
            self._send_from(message.numbers[0])
            return
        expected, consumed, released, freed = message.numbers
        while self.consumed < min(consumed, self.next):
            self.consumed += 1
            self._in_flight_bytes -= self._sizes.popleft()
        self.released = max(self.released, min(released, self.next))
        while self._kept and self._kept[0][0] < self.released:
            self._kept.popleft()
        while self._in_ring and self._in_ring[0] < min(self.released, freed):
            self._in_ring.popleft()
            if self._ring is not None:
                self._ring.free(1)
        for number in [number for number in self._passed_on if number < min(self.released, freed)]:
            del self._passed_on[number]
        if expected >= 0:
            self._send_from(expected)

    def close(self) -> None:
        """Remove the shared memory."""
        if self._ring is not None:
            self._ring.close()

    def _message(self, item: Item) -> Message:
        if isinstance(item, End):
            return Message(END, self.stream, self.epoch, (self.next, ENDS.index(item)))
        if self._transport.is_neighbour(self.endpoint):
            return Message(DATA, self.stream, self.epoch, (self.next,), item)
        header, arrays = wire.describe(item)
        if self._ring_bytes and item.nbytes >= INLINE_BYTES:
            location = self._transport.place_of(arrays)
            if location is not None:  # it goes on as it came: the consumer may view it where it lies
                self._passed_on[self.next] = item
                self.sent_shared += 1
                self.sent_on += 1
                return self._shared(header, *location)
            if self._ring is None:
                self._ring = Ring(self._ring_bytes)
            places = self._ring.write(arrays)
            if places is not None:
                self._in_ring.append(self.next)
                self.sent_shared += 1
                return self._shared(header, self._ring.name, places)
        return Message(DATA, self.stream, self.epoch, (self.next,), item, header, tuple(arrays))

    def _shared(self, header: bytes, ring: str, places: Iterable[tuple[int, int]]) -> Message:
        """Says where the arrays of the next item lie in shared memory."""
        return Message(SHARED, self.stream, self.epoch, (self.next,), header=header, ring=ring, places=tuple(places))

    def _copied(self, number: int, header: bytes, arrays: Iterable[Array]) -> tuple[int, Message]:
        """An item that was sent as a place in shared memory, with its arrays instead."""
        return number, Message(DATA, self.stream, self.epoch, (number,), header=header, arrays=tuple(arrays))

    def _send_from(self, expected: int) -> None:
        for number, message in self._kept:
            if number >= expected:
                self.sent_again += 1
                self._transport.post(self.endpoint, message)

    def _leave_ring(self) -> None:
        """The consumer cannot see our shared memory: what it holds goes into messages, and so does all that follows."""
        self._ring_bytes = 0
        for at, (number, message) in enumerate(self._kept):
            if message.kind == SHARED and self._ring is not None and number not in self._passed_on:
                self._kept[at] = self._copied(number, message.header, self._ring.read(message.places))

    def _keep_copies(self) -> None:
        """The consumer cannot see a ring that items came in, whose owner may be gone: they go into messages."""
        for at, (number, message) in enumerate(self._kept):
            if number in self._passed_on and message.kind == SHARED:
                self._kept[at] = self._copied(number, message.header, wire.describe(self._passed_on[number])[1])


class Inlet:
    """The receiving end of a channel. ``deliver`` is called with every item, once, in order."""

    def __init__(
        self, transport: Transport, stream: str, stream_type: StreamType, deliver: Callable[[Item], None]
    ) -> None:
        self.stream = stream
        self.type = stream_type
        self._transport = transport
        self._deliver = deliver
        self._peer: Any = None
        self._epoch = -1
        self._expected = 0
        self._delivered = 0
        self._base = 0  # sequence number in this epoch of an item, less its place among all delivered
        self._progress = (0, 0)
        self._told: tuple[int, int, int] = (-1, -1, -1)
        self._told_s = 0.0
        self._ended = False  # an end mark was the last to be delivered
        self.due_s: float | None = None
        """When the producer is to be told of what it has not been told of."""
        self._asked = -1
        self._position = StreamPosition()
        self._viewed: set[int] = set()
        self._died: deque[tuple[int, int]] = deque()  # (epoch, number); filled by whatever thread drops the last view

    @property
    def duplicates(self) -> int:
        """Windows that a producer started anew has sent a second time: they were left out."""
        return self._position.duplicates

    def heard(self, message: Message, peer: Any) -> None:
        """*Hello*, *data* or *end* from the producer."""
        if message.epoch < self._epoch:
            return
        self._peer = peer
        first = message.numbers[0]
        if message.epoch > self._epoch:
            if self._epoch >= 0:  # a producer started anew: it may compute again what we have seen
                self._position.expect_duplicates()
            self._epoch, self._expected = message.epoch, 0
            self._base = -self._delivered
            self._viewed.clear()
        if message.kind == HELLO:
            if first > self._expected:  # we are new here: what came before was released by a predecessor
                self._base += first - self._expected
                self._expected = first
            self._tell(ask=self._expected < message.numbers[1])
            return
        if message.kind == END and not 0 <= message.numbers[1] < len(ENDS):
            raise ChannelError(f"unknown end mark {message.numbers[1]} on stream {self.stream!r}")
        if first != self._expected:
            if first > self._expected and self._asked != self._expected:
                self._asked = self._expected
                self._tell(ask=True)
            return
        item = ENDS[message.numbers[1]] if message.kind == END else self._unseen(message.block)
        if message.kind == SHARED:
            self._viewed.add(first)
        self._expected += 1
        self._delivered += 1
        self._ended = message.kind == END
        self._deliver(item)

    def refuse(self, message: Message, peer: Any) -> None:
        """The producer's shared memory cannot be seen from here."""
        self._transport.reply(peer, Message(REFUSE, self.stream, message.epoch, (message.numbers[0],)))

    def leave(self) -> None:
        """Tell the producer to send nothing more."""
        if self._peer is not None:
            self._transport.reply(self._peer, Message(LEAVE, self.stream, self._epoch, ()))

    def died(self, epoch: int, number: int) -> None:
        """Nothing views the shared memory of this item any more. Any thread."""
        self._died.append((epoch, number))

    def progress(self, consumed: int, released: int, idle: bool = True) -> None:
        """How many items, counted from the first delivered one, were consumed and released; tells the producer.

        It tells only now and then, because messages cost more than credits that come a little later: every few items,
        and an ``idle`` consumer after a moment (see `due_s`), or at once after an end mark, which producers wait for.
        """
        self._progress = (consumed, released)
        if self._peer is None:
            return
        if consumed - self._told[0] < TELL_EVERY:
            if not idle or (consumed, released, self._freed()) == self._told:
                return
            if not self._ended and time.monotonic() - self._told_s < TELL_S:
                self.due_s = self._told_s + TELL_S
                return
        self._tell()

    def _freed(self) -> int:
        while self._died:
            epoch, number = self._died.popleft()
            if epoch == self._epoch:
                self._viewed.discard(number)
        return min(self._viewed, default=self._expected)

    def _tell(self, ask: bool = False) -> None:
        consumed, released = self._progress
        freed = self._freed()
        self._told, self._told_s, self.due_s = (consumed, released, freed), time.monotonic(), None
        numbers = (self._expected if ask else -1, consumed + self._base, released + self._base, freed)
        self._transport.reply(self._peer, Message(STATE, self.stream, self._epoch, numbers))

    def _unseen(self, block: PhysicalWindow | None) -> PhysicalWindow:
        if block is None:
            raise ChannelError(f"data without a block on stream {self.stream!r}")
        unseen = self._position.without_duplicates(block)
        self._position.advance_to(block.mark)
        if unseen is block:
            return block
        return unseen.stamped(mark=self._position.ordinal, time_mark=block.time_mark)
