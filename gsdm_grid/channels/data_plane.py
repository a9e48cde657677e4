"""The data plane of a working node: its channels, and the sockets behind them.

Between threads of one process messages are handed over as they are. Between processes of one machine the payload lies
in shared memory and only its description travels; between machines everything travels. All sockets are encrypted and
open only to holders of the installation's key.
"""

from __future__ import annotations

import socket as sockets
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgpack
import zmq

from gsdm_grid.channels import shared_memory
from gsdm_grid.channels.channel import (
    DATA,
    LEAVE,
    NUMBERS,
    REFUSE,
    SHARED,
    STATE,
    ChannelLimits,
    Inlet,
    Item,
    Message,
    Outlet,
)
from gsdm_grid.channels.keys import InstallationKey
from gsdm_grid.errors import ChannelError
from gsdm_grid.model import Array, StreamType, wire

_planes: weakref.WeakValueDictionary[str, DataPlane] = weakref.WeakValueDictionary()


class DataPlane:
    """All channels of one working node. Bound to the engine's thread.

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
        self._signalled = False
        self.refused = 0
        self._clients: dict[str, Any] = {}
        self._inlets: dict[str, Inlet] = {}
        self._outlets: dict[str, Outlet] = {}
        self._mapped_rings: dict[str, shared_memory.MappedRing] = {}
        self._rings: dict[str, set[str]] = {}  # names of the rings seen on each stream
        _planes[self.endpoint] = self

    def inlet(self, stream: str, stream_type: StreamType, deliver: Callable[[Item], None]) -> Inlet:
        """The receiving end of a new channel."""
        self._inlets[stream] = made = Inlet(self, stream, stream_type, deliver)
        return made

    def outlet(self, stream: str, endpoint: str, limits: ChannelLimits, shared: bool, epoch: int) -> Outlet:
        """The sending end of a new channel to the working node at this endpoint; ``shared`` if on the same machine.

        ``epoch``: see `Outlet`.
        """
        ring_bytes = 2 * limits.bytes if shared and shared_memory.available() else 0
        self._outlets[stream] = made = Outlet(self, stream, endpoint, limits, epoch, ring_bytes)
        return made

    def forget(self, streams: Iterable[str]) -> None:
        """Remove channels: their other ends are gone, or will make new ones."""
        for stream in streams:
            self._inlets.pop(stream, None)
            for ring in self._rings.pop(stream, ()):
                self._mapped_rings.pop(ring, None)
            outlet = self._outlets.pop(stream, None)
            if outlet is not None:
                outlet.close()
                if all(other.endpoint != outlet.endpoint for other in self._outlets.values()):
                    client = self._clients.pop(outlet.endpoint, None)
                    if client is not None:
                        client.close(0)

    def sockets(self) -> list[Any]:
        """What the engine polls for incoming messages."""
        return [self._server, *self._clients.values()]

    def receive(self, ready: Collection[Any] | None = None, budget: int = 256) -> int:
        """Take in messages that have arrived, at most about ``budget`` per socket; returns how many.

        ``ready`` holds the sockets that have something; None: ask them all.
        """
        count = 0
        self._signalled = False  # before looking: what is handed over from now on signals again
        while self.inbox and count < budget:
            message, peer = self.inbox.popleft()
            self._dispatch(message, peer)
            count += 1
        for client in list(self._clients.values()):
            if ready is None or client in ready:
                count += self._drain(client, budget, has_identity=False)
        if ready is None or self._server in ready:
            count += self._drain(self._server, budget, has_identity=True)
        return count

    def beat(self, now_s: float) -> None:
        """Called regularly: channels notice silence."""
        for outlet in self._outlets.values():
            outlet.beat(now_s)

    def is_neighbour(self, endpoint: str) -> bool:
        """See `Transport`."""
        return endpoint in _planes

    def place_of(self, arrays: Sequence[Array]) -> tuple[str, list[tuple[int, int]]] | None:
        """See `Transport`."""
        for name, ring in self._mapped_rings.items():
            places = ring.places(arrays)
            if places is not None:
                return name, places
        return None

    def post(self, endpoint: str, message: Message) -> None:
        """See `Transport`."""
        neighbour = _planes.get(endpoint)
        if neighbour is not None:
            neighbour.hand_over(message, self)
        else:
            self._transmit(self._client(endpoint), message, None)

    def reply(self, peer: Any, message: Message) -> None:
        """See `Transport`."""
        if isinstance(peer, DataPlane):
            peer.hand_over(message, self)
        else:
            self._transmit(self._server, message, peer)

    def hand_over(self, message: Message, sender: DataPlane) -> None:
        """Take a message from a plane of the same process, in its thread. Many messages need one wake-up."""
        self.inbox.append((message, sender))
        if not self._signalled:
            self._signalled = True
            self._wake()

    def close(self) -> None:
        """Close all sockets and remove shared memory; what is under way is dropped."""
        _planes.pop(self.endpoint, None)
        for outlet in self._outlets.values():
            outlet.close()
        for client in self._clients.values():
            client.close(0)
        self._server.close(0)
        for held in (self._clients, self._inlets, self._outlets, self._mapped_rings, self._rings, self.inbox):
            held.clear()

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
        if message.kind == SHARED:
            frames += [message.header, msgpack.packb((message.ring, message.places))]
        elif message.kind == DATA:
            frames += [message.header, *(buffer.data for buffer in wire.buffers_of(message.arrays))]
        if identity is not None:
            frames.insert(0, identity)
        try:
            socket.send_multipart(frames, zmq.NOBLOCK, copy=False)
        except zmq.ZMQError:
            return  # the peer is gone: what it did not get is sent again when it, or its successor, says hello

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
                self._accept(frames, identity)
            except ChannelError:
                self.refused += 1
        return count

    def _accept(self, frames: list[Any], identity: bytes | None) -> None:
        """Decode a message and pass it on; anything malformed is a `ChannelError`."""
        message = _decode(frames)
        if message.kind not in (DATA, SHARED):
            self._dispatch(message, identity)
            return
        inlet = self._inlets.get(message.stream)
        if inlet is None or len(frames) < 2:
            raise ChannelError(f"data for unknown stream {message.stream!r}")
        if message.kind == DATA:
            buffers = [frame.buffer for frame in frames[2:]]
        else:
            try:
                buffers = self._shared(inlet, message, frames)
            except ChannelError:
                inlet.refuse(message, identity)
                raise
        block = wire.rebuild(inlet.type, frames[1].bytes, buffers)
        inlet.heard(replace(message, block=block), identity)

    def _shared(self, inlet: Inlet, message: Message, frames: list[Any]) -> list[Any]:
        try:
            name, places = msgpack.unpackb(frames[2].buffer)
            if name not in self._mapped_rings:
                self._mapped_rings[name] = shared_memory.MappedRing(name)
                self._rings.setdefault(message.stream, set()).add(name)
            return self._mapped_rings[name].view(places, partial(inlet.died, message.epoch, message.numbers[0]))
        except (ValueError, TypeError, IndexError, msgpack.exceptions.UnpackException) as error:
            raise ChannelError(f"malformed description of shared memory: {error!r}") from None

    def _dispatch(self, message: Message, peer: Any) -> None:
        if message.kind in (STATE, REFUSE, LEAVE):
            outlet = self._outlets.get(message.stream)
            if outlet is not None:
                outlet.heard(message)
            return
        inlet = self._inlets.get(message.stream)
        if inlet is not None:
            inlet.heard(message, peer)


def _decode(frames: list[Any]) -> Message:
    try:
        kind, stream, epoch, numbers = msgpack.unpackb(frames[0].buffer)
        if len(numbers) != NUMBERS[kind] or not isinstance(stream, str):
            raise ValueError("wrong form")
        return Message(kind, stream, int(epoch), tuple(int(number) for number in numbers))
    except (ValueError, TypeError, IndexError, KeyError, msgpack.exceptions.UnpackException) as error:
        raise ChannelError(f"malformed message: {error!r}") from None


def _configure(socket: Any) -> None:
    socket.linger = 0
    socket.sndhwm = 0  # credits bound what is under way
    socket.rcvhwm = 0
    socket.reconnect_ivl = 50
    socket.reconnect_ivl_max = 1000


def local_address(towards: str | None = None) -> str:
    """The address of this machine that others reach it by: the one used towards a given host, else loopback."""
    if towards is None or towards == "localhost" or towards.startswith("127."):
        return "127.0.0.1" if towards in (None, "localhost") else str(towards)
    with sockets.socket(sockets.AF_INET, sockets.SOCK_DGRAM) as probe:
        probe.connect((towards, 9))
        address: str = probe.getsockname()[0]
        return address


def machine_id() -> str:
    """Tells whether two processes can share memory: the same kernel, and not containers with a ``/dev/shm`` each."""
    try:
        kernel = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{kernel}/{shared_memory.FOLDER.stat().st_dev}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return sockets.gethostname()
