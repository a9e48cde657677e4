"""The data plane: channels between working nodes, one kind for every arc.

A channel has an `Outlet` at the producer and an `Inlet` at the consumer. What moves is numbered: physical windows and
end marks of a stream have sequence numbers within the epoch of their producer. The protocol is small:

* producer → consumer: *hello* (here I am, my oldest kept number is n), *data*, *end*;
* consumer → producer: *state* (next number expected, how many consumed, how many released).

*Consumed* returns credit: the producer may send that many more. *Released* is the acknowledgement: everything
made of it has been acknowledged further down, so the producer may forget it. What was not released is kept, and
sent again to a consumer that lost its connection or was started anew. A producer that was started anew computes again
what it has no memory of; the consumer knows by the ordinals what it has already seen.

Between threads of one process blocks are handed over as they are; between processes they are encoded by `model.wire`.
"""

from __future__ import annotations

import socket as sockets
import time
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgpack
import numpy as np
import zmq

from gsdm_grid.channels.keys import InstallationKey
from gsdm_grid.errors import ChannelError
from gsdm_grid.model import NO_MARK, PhysicalWindow, StreamType, as_array, wire

HELLO, DATA, END, STATE = b"h", b"d", b"e", b"s"
HEARTBEAT_S = 0.5
_planes: weakref.WeakValueDictionary[str, DataPlane] = weakref.WeakValueDictionary()


@dataclass(frozen=True)
class ChannelLimits:
    """How much may be under way on one channel: sent, but not yet consumed."""

    blocks: int = 32
    bytes: int = 64 << 20


@dataclass(frozen=True)
class End:
    """A producer sends nothing more: ``final``, or until the query is resumed."""

    final: bool


Item = PhysicalWindow | End


@dataclass(frozen=True)
class Message:
    """One message of the protocol; ``numbers`` as its kind needs."""

    kind: bytes
    stream: str
    epoch: int
    numbers: tuple[int, ...]
    block: PhysicalWindow | None = None


class Outlet:
    """The sending end of a channel. Made by `DataPlane.outlet`; bound to the engine's thread."""

    def __init__(self, plane: DataPlane, stream: str, endpoint: str, limits: ChannelLimits) -> None:
        self.stream = stream
        self.endpoint = endpoint
        self.epoch = time.time_ns()
        self.next = 0
        self.released = 0
        self._plane = plane
        self._limits = limits
        self._consumed = 0
        self._sizes: deque[int] = deque()
        self._in_flight_bytes = 0
        self._kept: deque[tuple[int, Item]] = deque()
        self._heard_s = 0.0
        self._said_s = 0.0

    def ready(self) -> bool:
        """Whether there is credit for another block."""
        return len(self._sizes) < self._limits.blocks and (
            not self._sizes or self._in_flight_bytes < self._limits.bytes
        )

    def put(self, item: Item) -> None:
        """Send a block or an end mark. Never blocks; ask `ready` first."""
        size = item.nbytes if isinstance(item, PhysicalWindow) else 0
        self._kept.append((self.next, item))
        self._sizes.append(size)
        self._in_flight_bytes += size
        self._send(self.next, item)
        self.next += 1

    def hello(self) -> None:
        """Say which numbers can be had; the consumer answers with what it expects."""
        self._said_s = time.monotonic()
        first = self._kept[0][0] if self._kept else self.next
        self._plane.post(self.endpoint, Message(HELLO, self.stream, self.epoch, (first, self.next)))

    def redirect(self, endpoint: str) -> None:
        """The consumer was started anew at another place: send it again what was not released."""
        self.endpoint = endpoint
        self.hello()

    def beat(self, now_s: float) -> None:
        """Ask again when something is under way and nobody has answered for a while."""
        if self._kept and now_s - max(self._heard_s, self._said_s) > HEARTBEAT_S:
            self.hello()

    def heard(self, message: Message) -> None:
        """A *state* from the consumer."""
        if message.epoch != self.epoch:
            return
        expected, consumed, released = message.numbers
        self._heard_s = time.monotonic()
        while self._consumed < min(consumed, self.next):
            self._consumed += 1
            self._in_flight_bytes -= self._sizes.popleft()
        self.released = max(self.released, released)
        while self._kept and self._kept[0][0] < self.released:
            self._kept.popleft()
        if 0 <= expected < self.next:
            for number, item in self._kept:
                if number >= expected:
                    self._send(number, item)

    def _send(self, number: int, item: Item) -> None:
        if isinstance(item, End):
            message = Message(END, self.stream, self.epoch, (number, int(item.final)))
        else:
            message = Message(DATA, self.stream, self.epoch, (number,), item)
        self._plane.post(self.endpoint, message)


class Inlet:
    """The receiving end of a channel. ``deliver`` is called with every item, once, in order."""

    def __init__(self, plane: DataPlane, stream: str, stream_type: StreamType, deliver: Callable[[Item], None]) -> None:
        self.stream = stream
        self.type = stream_type
        self.duplicates = 0
        self._plane = plane
        self._deliver = deliver
        self._peer: Any = None
        self._epoch = -1
        self._expected = 0
        self._delivered = 0
        self._base = 0  # sequence number that the first delivered item of this epoch had, less items before it
        self._consumed = 0
        self._released = 0
        self._told = (-1, -1, -1)
        self._asked = -1
        self._seen = NO_MARK
        self._drop_upto = NO_MARK

    def heard(self, message: Message, peer: Any) -> None:
        """*Hello*, *data* or *end* from the producer."""
        if message.epoch < self._epoch:
            return
        self._peer = peer
        first = message.numbers[0]
        if message.epoch > self._epoch:
            if self._epoch >= 0:  # a producer started anew: it may compute again what we have seen
                self._drop_upto = self._seen
            self._epoch, self._expected = message.epoch, 0
            self._base = -self._delivered
        if message.kind == HELLO:
            if first > self._expected:  # we are new here: what came before was released by a predecessor
                self._base += first - self._expected
                self._expected = first
            self._tell(ask=self._expected < message.numbers[1])
            return
        if first != self._expected:
            if first > self._expected and self._asked != self._expected:
                self._asked = self._expected
                self._tell(ask=True)
            return
        self._expected += 1
        self._delivered += 1
        self._deliver(End(bool(message.numbers[1])) if message.kind == END else self._unseen(message))

    def progress(self, consumed: int, released: int) -> None:
        """How many items, counted from the first delivered one, were consumed and released; tells the producer."""
        self._consumed, self._released = consumed, released
        if self._peer is not None and (self._consumed, self._released) != self._told[1:]:
            self._tell()

    def _tell(self, ask: bool = False) -> None:
        self._told = (self._expected, self._consumed, self._released)
        numbers = (self._expected if ask else -1, self._consumed + self._base, self._released + self._base)
        self._plane.reply(self._peer, Message(STATE, self.stream, self._epoch, numbers))

    def _unseen(self, message: Message) -> PhysicalWindow:
        block = message.block
        assert block is not None
        if self._drop_upto != NO_MARK and len(block) and int(block.ordinals[0]) <= self._drop_upto:
            new = as_array(block.ordinals) > self._drop_upto
            self.duplicates += int(len(block) - np.count_nonzero(new))
            block = block.select(new).stamped(mark=max(block.mark, self._drop_upto))
        self._seen = max(self._seen, block.mark)
        return block


class DataPlane:
    """All channels of one working node, and the sockets behind them. Bound to the engine's thread.

    ``inbox`` is the exception: planes of the same process put messages there from their own threads.
    """

    def __init__(self, key: InstallationKey, context: Any, address: str, wake: Callable[[], None]) -> None:
        self._key = key
        self._context = context
        self._wake = wake
        self._server = context.socket(zmq.ROUTER)
        key.secure_server(self._server)
        _configure(self._server)
        port = self._server.bind_to_random_port(f"tcp://{address}")
        self.endpoint = f"tcp://{address}:{port}"
        self.inbox: deque[tuple[Message, Any]] = deque()
        self.refused = 0
        self._clients: dict[str, Any] = {}
        self._inlets: dict[str, Inlet] = {}
        self._outlets: dict[str, Outlet] = {}
        _planes[self.endpoint] = self

    def inlet(self, stream: str, stream_type: StreamType, deliver: Callable[[Item], None]) -> Inlet:
        """The receiving end of a new channel."""
        self._inlets[stream] = made = Inlet(self, stream, stream_type, deliver)
        return made

    def outlet(self, stream: str, endpoint: str, limits: ChannelLimits) -> Outlet:
        """The sending end of a new channel to the working node at this endpoint."""
        self._outlets[stream] = made = Outlet(self, stream, endpoint, limits)
        return made

    def sockets(self) -> list[Any]:
        """What the engine polls for incoming messages."""
        return [self._server, *self._clients.values()]

    def receive(self, budget: int = 256) -> int:
        """Take in messages that have arrived, at most about ``budget`` per socket; returns how many."""
        count = 0
        while self.inbox and count < budget:
            message, peer = self.inbox.popleft()
            self._dispatch(message, peer)
            count += 1
        for client in list(self._clients.values()):
            count += self._drain(client, budget, has_identity=False)
        return count + self._drain(self._server, budget, has_identity=True)

    def beat(self, now_s: float) -> None:
        """Called regularly: channels notice silence."""
        for outlet in self._outlets.values():
            outlet.beat(now_s)

    def post(self, endpoint: str, message: Message) -> None:
        """Send to the working node at an endpoint."""
        neighbour = _planes.get(endpoint)
        if neighbour is not None:
            neighbour.inbox.append((message, self))
            neighbour._wake()
        else:
            self._transmit(self._client(endpoint), message, None)

    def reply(self, peer: Any, message: Message) -> None:
        """Send back to where a message came from."""
        if isinstance(peer, DataPlane):
            peer.inbox.append((message, self))
            peer._wake()
        else:
            self._transmit(self._server, message, peer)

    def close(self) -> None:
        """Close all sockets; what is under way is dropped."""
        _planes.pop(self.endpoint, None)
        for client in self._clients.values():
            client.close(0)
        self._clients.clear()
        self._server.close(0)
        self._inlets.clear()
        self._outlets.clear()
        self.inbox.clear()

    def _client(self, endpoint: str) -> Any:
        if endpoint not in self._clients:
            client = self._context.socket(zmq.DEALER)
            self._key.secure_client(client)
            _configure(client)
            client.connect(endpoint)
            self._clients[endpoint] = client
        return self._clients[endpoint]

    def _transmit(self, socket: Any, message: Message, identity: bytes | None) -> None:
        frames: list[Any] = [msgpack.packb((message.kind, message.stream, message.epoch, message.numbers))]
        if message.block is not None:
            header, arrays = wire.describe(message.block)
            frames += [header, *(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data for array in arrays)]
        if identity is not None:
            frames.insert(0, identity)
        try:
            socket.send_multipart(frames, zmq.NOBLOCK, copy=False)
        except zmq.ZMQError:
            return  # the peer is gone or full: heartbeats repair what is lost

    def _drain(self, socket: Any, budget: int, has_identity: bool) -> int:
        count = 0
        while count < budget:
            try:
                frames = socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                break
            count += 1
            identity = frames.pop(0).bytes if has_identity else None
            try:
                self._dispatch(self._decode(frames), identity)
            except ChannelError:
                self.refused += 1
        return count

    def _decode(self, frames: list[Any]) -> Message:
        try:
            kind, stream, epoch, numbers = msgpack.unpackb(frames[0].buffer)
            message = Message(kind, stream, int(epoch), tuple(int(number) for number in numbers))
            lengths = {HELLO: 2, DATA: 1, END: 2, STATE: 3}
            if len(message.numbers) != lengths[kind]:
                raise ValueError("wrong length")
        except (ValueError, TypeError, IndexError, KeyError, msgpack.exceptions.UnpackException) as error:
            raise ChannelError(f"malformed message: {error!r}") from None
        if kind != DATA:
            return message
        inlet = self._inlets.get(stream)
        if inlet is None or len(frames) < 2:
            raise ChannelError(f"data for unknown stream {stream!r}")
        block = wire.rebuild(inlet.type, frames[1].bytes, [frame.buffer for frame in frames[2:]])
        return Message(kind, stream, message.epoch, message.numbers, block)

    def _dispatch(self, message: Message, peer: Any) -> None:
        if message.kind == STATE:
            outlet = self._outlets.get(message.stream)
            if outlet is not None:
                outlet.heard(message)
            return
        inlet = self._inlets.get(message.stream)
        if inlet is not None:
            inlet.heard(message, peer)


def _configure(socket: Any) -> None:
    socket.linger = 0
    socket.sndhwm = 0  # credits bound what is under way
    socket.rcvhwm = 0
    socket.reconnect_ivl = 50
    socket.reconnect_ivl_max = 1000


def local_address(towards: str | None = None) -> str:
    """The address of this machine that others reach it by: the one used towards a given host, else loopback."""
    if towards in (None, "localhost", "127.0.0.1"):
        return "127.0.0.1"
    with sockets.socket(sockets.AF_INET, sockets.SOCK_DGRAM) as probe:
        probe.connect((towards, 9))
        address: str = probe.getsockname()[0]
        return address
