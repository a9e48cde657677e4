"""Interface ``tcp``: windows in frames over connections, for programs outside the system.

Options: ``address``, ``"host:port"``; ``listen``, True to wait for connections there instead of making one
(port 0 takes a free one; `TcpInterface.address` says which); ``connect_timeout_s``, how long to try to
connect, also after a connection was lost. It reads or writes, whichever is asked of it first.

A source reads from one connection at a time. Its options: ``end_on_close``, True if the end of a connection
is the end of the stream; ``max_frame_bytes``; and those of `overload`, whose policy is ``block`` unless
told. A sink that listens serves any number of clients, each from when it came; the slowest sets the pace: a
client with more than ``buffer_bytes`` waiting makes ``ready`` False. While nobody is connected it waits,
or, with ``wait_for_client`` False, drops (``dropped_no_client``). ``linger_s``: how long ``close`` tries to
send what is waiting.

A frame is a u32 (little-endian), the number of bytes that follow, and a message as in `udp`, in one part. A
message that cannot be understood is counted as ``dropped_malformed``; where even its length makes no sense,
the connection is closed as well. A frame cut off by a lost connection counts as ``dropped_incomplete``
unless it is sent again.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from gsdm_grid.channels import Waker
from gsdm_grid.errors import ChannelError
from gsdm_grid.interfaces.interface import InterfaceContext, StreamInterface, interfaces
from gsdm_grid.interfaces.overload import OverloadBuffer
from gsdm_grid.interfaces.player import positive
from gsdm_grid.interfaces.udp import (
    BYTE_ORDER,
    END,
    HEADER,
    Header,
    HostPort,
    body_pieces,
    decode_body,
    parse_address,
    resolve,
    schema_of,
    show_address,
    wait_for,
)
from gsdm_grid.model import Clock, PhysicalWindow, StreamPosition, StreamType

_LENGTH = struct.Struct("<I")
_RETRY_S = 0.05
_CHUNK = 1 << 18


def make_frame(header: Header, *body: Any) -> bytes:
    """A message with its length in front; its body may come in pieces."""
    return b"".join([_LENGTH.pack(HEADER.size + sum(map(len, body))), header.pack(), *body])


class FrameReader:
    """Bytes in, messages out. Does no input or output; holds no more than has come of one frame."""

    def __init__(self, max_bytes: int = 256 << 20) -> None:
        self._max_bytes = max_bytes
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[Header, bytes]]:
        """Messages that these bytes complete. A `ChannelError` means that the stream cannot be read any further."""
        self._data += data
        while len(self._data) >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._data)
            if not HEADER.size <= size <= self._max_bytes:
                raise ChannelError(f"a frame of {size} bytes; allowed: {HEADER.size}…{self._max_bytes}")
            header = self.partial()
            if header is None or len(self._data) < _LENGTH.size + size:
                return
            if header.parts != 1:
                raise ChannelError(f"a frame of {header.parts} parts; allowed: 1")
            body = bytes(memoryview(self._data)[_LENGTH.size + HEADER.size : _LENGTH.size + size])
            del self._data[: _LENGTH.size + size]
            yield header, body

    def partial(self) -> Header | None:
        """Header of the frame that is not complete, if that much of it has come."""
        if len(self._data) < _LENGTH.size + HEADER.size:
            return None
        return Header.unpack(self._data[_LENGTH.size : _LENGTH.size + HEADER.size])

    @property
    def waiting_bytes(self) -> int:
        """How much of an incomplete frame has come."""
        return len(self._data)


class _Line:
    """How connections come about, whether made or waited for. Shared by both directions; ends when told to stop."""

    def __init__(self, asked: HostPort, listen: bool, timeout_s: float, clock: Clock) -> None:
        self._asked = asked
        self._timeout_s = timeout_s
        self._clock = clock
        self.stop = threading.Event()
        self.server: socket.socket | None = None
        if listen:
            self.server = self._listen()
        self.address: HostPort = self.server.getsockname()[:2] if self.server else asked
        self.waker = Waker()

    def _listen(self) -> socket.socket:
        family, address = resolve("tcp", self._asked, socket.SOCK_STREAM)
        server = socket.socket(family, socket.SOCK_STREAM)
        try:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(address)
            server.listen(16)
            server.setblocking(False)
        except OSError as error:
            server.close()
            raise ChannelError(f"interface 'tcp' cannot listen on {show_address(self._asked)}: {error}") from error
        return server

    def accept(self) -> socket.socket | None:
        """A client that has come, or None if there is none."""
        try:
            client, _ = self.server.accept()  # type: ignore[union-attr]
        except OSError:
            return None
        return _prepared(client)

    def obtain(self) -> socket.socket | None:
        """Wait for a connection; None when told to stop, `ChannelError` when the time is up."""
        deadline = self._clock.monotonic_s() + self._timeout_s
        while not self.stop.is_set():
            if self.server is not None:
                wait_for([self.server, self.waker])
                client = self.accept()
                if client is not None:
                    return client
                continue
            reason = "stopped"
            try:
                got = self._connect(deadline)
                if isinstance(got, socket.socket):
                    return got
                reason = got
            except ChannelError as error:
                reason = str(error)
            if self._clock.monotonic_s() >= deadline and not self.stop.is_set():
                raise ChannelError(
                    f"interface 'tcp' cannot connect to {show_address(self._asked)}, "
                    f"tried for {self._timeout_s:g} s: {reason}"
                )
            self.stop.wait(_RETRY_S)
        return None

    def _connect(self, deadline: float) -> socket.socket | str:
        """A connection, or why there is none."""
        family, address = resolve("tcp", self._asked, socket.SOCK_STREAM)
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setblocking(False)
        code = sock.connect_ex(address)
        while code == errno.EINPROGRESS and not self.stop.is_set():
            left = deadline - self._clock.monotonic_s()
            _, writable = wait_for([self.waker], [sock], max(0.0, left))
            self.waker.clear()
            if writable:
                code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            elif left <= 0:
                code = errno.ETIMEDOUT
        # A socket that dials a free port of its own machine may, by chance, reach itself.
        if code == 0 and sock.getsockname() != sock.getpeername():
            return _prepared(sock)
        sock.close()
        return os.strerror(code or errno.ECONNREFUSED)

    def close(self) -> None:
        """After the thread has ended."""
        if self.server is not None:
            self.server.close()
        self.waker.close()


def _prepared(sock: socket.socket) -> socket.socket:
    sock.setblocking(False)
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


class _Receiver:
    """The reading direction: runs in a thread, fills the buffer, counts what it must refuse."""

    def __init__(self, stream_type: StreamType, options: Mapping[str, Any]) -> None:
        self._type = stream_type
        self._max_bytes = int(options.get("max_frame_bytes", 256 << 20))
        self._end_on_close = bool(options.get("end_on_close", False))
        self.buffer = OverloadBuffer.from_options(options, "block")
        self._session = 0
        self._position = StreamPosition()
        self._cut: Header | None = None
        self._counts = dict.fromkeys(
            ("connections", "dropped_malformed", "dropped_incomplete", "dropped_missing", "duplicates"), 0
        )

    def run(self, line: _Line) -> None:
        """Read connection after connection until the stream ends or the line is told to stop."""
        try:
            while (sock := line.obtain()) is not None:
                self._counts["connections"] += 1
                with sock:
                    ended = self._read(sock, line)
                if not line.stop.is_set() and (ended or self._end_on_close):
                    self.buffer.end()
                    return
                line.stop.wait(_RETRY_S)
        except Exception as error:
            self.buffer.fail(error)

    def _read(self, sock: socket.socket, line: _Line) -> bool:
        """Read until the connection ends; whether the stream has ended with it."""
        frames = FrameReader(self._max_bytes)
        if self._session == 0:
            self._position = StreamPosition()
        try:
            while not line.stop.is_set():
                try:
                    data = sock.recv(_CHUNK)
                except BlockingIOError:
                    wait_for([sock, line.waker])
                    continue
                if not data:
                    break
                for header, body in frames.feed(data):
                    if self.accept(header, body):
                        return True
        except OSError:
            pass  # A lost connection: what was lost with it shows in the numbers of what comes next.
        except ChannelError:
            self._counts["dropped_malformed"] += 1
            return False
        self._note_cut(frames)
        return False

    def _note_cut(self, frames: FrameReader) -> None:
        try:
            cut = frames.partial()
        except ChannelError:
            cut = None
        if cut is not None and cut.windows:
            self._settle_cut(None)
            self._cut = cut
        elif frames.waiting_bytes:
            self._counts["dropped_malformed"] += 1

    def _settle_cut(self, header: Header | None) -> int:
        """Count the frame that was cut off, unless this is it again; how many windows it cost."""
        cut, self._cut = self._cut, None
        if cut is None or (header and header.session and (header.session, header.first) == (cut.session, cut.first)):
            return 0
        self._counts["dropped_incomplete"] += cut.windows
        return cut.windows if header and header.session == cut.session else 0

    def accept(self, header: Header, body: bytes) -> bool:
        """Take one message; whether it ends the stream."""
        if header.session != self._session:
            self._session, self._position = header.session, StreamPosition()
        if self._position.has_passed(header.first):
            self._counts["duplicates"] += header.windows
            return False
        block = None
        if not header.flags & END:
            try:
                block = decode_body(self._type, header, body)
            except ChannelError:
                self._counts["dropped_malformed"] += 1
                return False
        lost = self._settle_cut(header)
        self._counts["dropped_missing"] += max(0, self._position.missing_before(header.first) - lost)
        self._position.advance_to(header.first + header.windows - 1)
        if block is not None:
            self.buffer.put(block)
        return block is None

    def statistics(self) -> dict[str, int | float]:
        """See the module for the names."""
        cut = self._cut
        incomplete = self._counts["dropped_incomplete"] + (cut.windows if cut else 0)
        return {**self.buffer.statistics(), **self._counts, "dropped_incomplete": incomplete}


class _Client:
    """One reader of a sink: frames (with their number of windows) that wait to be sent."""

    def __init__(self, frames: deque[tuple[bytes, int]]) -> None:
        self.sock: socket.socket | None = None
        self.frames = frames
        self.offset = 0
        self.bytes = sum(len(frame) for frame, _ in frames)

    def push(self, frame: bytes, windows: int) -> None:
        self.frames.append((frame, windows))
        self.bytes += len(frame)

    def pop(self) -> None:
        self.bytes -= len(self.frames.popleft()[0])
        self.offset = 0

    def windows(self) -> int:
        return sum(windows for _, windows in self.frames)


class _Sender:
    """The writing direction: ``ready`` and ``insert`` in the engine's thread, sending in a thread of its own.

    Frames for nobody wait in ``_orphans`` for the next client. A sink that makes its connection itself is
    its only client, and sends a frame again from its beginning when the connection was lost in the middle.
    """

    def __init__(self, stream_type: StreamType, options: Mapping[str, Any], listen: bool) -> None:
        self._schema = schema_of(stream_type)
        self._listen = listen
        self._high_bytes = int(options.get("buffer_bytes", 8 << 20))
        self._wait_for_client = bool(options.get("wait_for_client", True))
        self._linger_s = float(options.get("linger_s", 5.0))
        self._session = secrets.randbits(32) or 1
        self._first = 0
        self._lock = threading.Lock()
        self._clients: list[_Client] = []
        self._orphans: deque[tuple[bytes, int]] = deque()
        self._finished = False
        self._engine_waits = False
        self._drain_until: float | None = None
        self._error: Exception | None = None
        self._counts = dict.fromkeys(("connections", "dropped_no_client", "dropped_disconnected"), 0)

    def ready(self) -> bool:
        """See `StreamInterface`."""
        with self._lock:
            ready = self._is_ready()
            self._engine_waits = not ready
            return ready

    def _is_ready(self) -> bool:
        if self._error is not None:
            return True
        if not self._clients:
            return self._listen and not self._wait_for_client
        return all(client.bytes < self._high_bytes for client in self._clients)

    def insert(self, block: PhysicalWindow, line: _Line) -> None:
        """See `StreamInterface`."""
        header = Header(BYTE_ORDER, self._session, self._schema, self._first, len(block))
        self._push(make_frame(header, *body_pieces(block)), len(block), line)
        self._first += len(block)

    def finish(self, line: _Line) -> None:
        """See `StreamInterface`."""
        self._finished = True
        self._push(self._end_frame(), 0, line)

    def _end_frame(self) -> bytes:
        return make_frame(Header(BYTE_ORDER | END, self._session, self._schema, self._first, 0))

    def _push(self, frame: bytes, windows: int, line: _Line) -> None:
        with self._lock:
            if self._error is not None:
                raise self._error
            for client in self._clients:
                client.push(frame, windows)
            if not self._clients:
                if self._listen and not self._wait_for_client:
                    self._counts["dropped_no_client"] += windows
                elif windows or not self._listen:
                    self._orphans.append((frame, windows))
        line.waker.wake()

    def run(self, line: _Line, clock: Clock, wake: Callable[[], None]) -> None:
        """Send until the line is told to stop and everything is sent or the time for it is up."""
        try:
            while not self._done(line, clock):
                if self._listen or self._clients:
                    self._send_some(line, clock)
                else:
                    sock = line.obtain()
                    if sock is not None:
                        self._welcome(sock)
                with self._lock:
                    call = self._engine_waits and self._is_ready()
                    self._engine_waits = self._engine_waits and not call
                if call:
                    wake()
        except Exception as error:
            with self._lock:
                self._error = error
            wake()
        for client in list(self._clients):
            self._part_from(client)

    def _done(self, line: _Line, clock: Clock) -> bool:
        with self._lock:
            waiting = any(client.frames for client in self._clients)
            if self._finished and not self._listen and not waiting and not self._orphans:
                return True
        if not line.stop.is_set():
            return False
        if self._drain_until is None:
            self._drain_until = clock.monotonic_s() + self._linger_s
        return not waiting or clock.monotonic_s() >= self._drain_until

    def _welcome(self, sock: socket.socket) -> None:
        with self._lock:
            client = _Client(self._orphans)
            client.sock = sock
            self._orphans = deque()
            if self._finished and self._listen:
                client.push(self._end_frame(), 0)
            self._clients.append(client)
            self._counts["connections"] += 1

    def _send_some(self, line: _Line, clock: Clock) -> None:
        socks = {client.sock: client for client in self._clients}
        busy = [sock for sock, client in socks.items() if client.frames]
        listening = [line.server] if line.server is not None and not line.stop.is_set() else []
        timeout_s = None if self._drain_until is None else max(0.0, self._drain_until - clock.monotonic_s())
        readable, writable = wait_for([line.waker, *listening, *socks], busy, timeout_s)
        line.waker.clear()
        if line.server in readable:
            newcomer = line.accept()
            if newcomer is not None:
                self._welcome(newcomer)
        for sock, client in socks.items():
            try:
                if sock in readable and sock is not None and not sock.recv(_CHUNK):
                    raise ConnectionResetError
                if sock in writable:
                    self._send_to(client)
            except BlockingIOError:
                continue
            except OSError:
                self._part_from(client)

    def _send_to(self, client: _Client) -> None:
        while client.frames and client.sock is not None:
            frame = client.frames[0][0]
            client.offset += client.sock.send(memoryview(frame)[client.offset :])
            if client.offset == len(frame):
                with self._lock:
                    client.pop()

    def _part_from(self, client: _Client) -> None:
        """Close a connection. What waits for it is dropped, unless this end makes its connections itself."""
        if client.sock is not None:
            with contextlib.suppress(OSError):
                client.sock.shutdown(socket.SHUT_WR)
            client.sock.close()
        with self._lock:
            self._clients.remove(client)
            if self._listen:
                self._counts["dropped_disconnected"] += client.windows()
            else:
                self._orphans = client.frames

    def reopen(self) -> None:
        """Before ``run`` is called again."""
        self._drain_until = None
        self._error = None

    def statistics(self) -> dict[str, int | float]:
        """See the module for the names."""
        with self._lock:
            queued = sum(client.windows() for client in self._clients) + sum(windows for _, windows in self._orphans)
            return {"sent": self._first, **self._counts, "queued": queued, "clients": len(self._clients)}


class TcpInterface(StreamInterface):
    """Reads or writes windows over connections; see the module."""

    known_options: ClassVar[frozenset[str] | None] = frozenset(
        {
            "address",
            "buffer_blocks",
            "buffer_bytes",
            "connect_timeout_s",
            "end_on_close",
            "linger_s",
            "listen",
            "max_frame_bytes",
            "overload",
            "sample_every",
            "wait_for_client",
        }
    )

    def __init__(self, stream_type: StreamType, options: Mapping[str, Any]) -> None:
        super().__init__(stream_type, options)
        self._asked = parse_address("tcp", "address", options.get("address"))
        self._listen = bool(options.get("listen", False))
        self._timeout_s = positive("tcp", options, "connect_timeout_s") or 30.0
        self.address: HostPort | None = None
        self._line: _Line | None = None
        self._thread: threading.Thread | None = None
        self._receiver = _Receiver(stream_type, options)
        self._sender = _Sender(stream_type, options, self._listen)
        self._writes = False

    @classmethod
    def exclusive(cls, options: Mapping[str, Any]) -> bool:
        """See `StreamInterface`: a port is listened on once."""
        return bool(options.get("listen", False))

    def open(self, context: InterfaceContext) -> None:
        """See `StreamInterface`. One that listens does so when this returns."""
        super().open(context)
        self._line = _Line(self._asked, self._listen, self._timeout_s, context.clock)
        self.address = self._line.address
        self._receiver.buffer.open(context.wake)
        self._sender.reopen()

    def next(self, limit: int) -> PhysicalWindow | None:
        """See `StreamInterface`."""
        line = self._opened()
        if self._thread is None:
            self._writes = False
            self._start(self._receiver.run, line)
        return self._receiver.buffer.take(limit)

    def ready(self) -> bool:
        """See `StreamInterface`. True after a failure, which ``insert`` then raises."""
        self._start_sending()
        return self._sender.ready()

    def insert(self, block: PhysicalWindow) -> None:
        """See `StreamInterface`."""
        line = self._start_sending()
        if len(block):
            self._sender.insert(block, line)

    def finish(self) -> None:
        """See `StreamInterface`: clients are told."""
        if self._line is not None:
            self._sender.finish(self._start_sending())

    def _start_sending(self) -> _Line:
        line = self._opened()
        if self._thread is None:
            self._writes = True
            self._start(self._sender.run, line, self.context.clock, self.context.wake)
        return line

    def _opened(self) -> _Line:
        if self._line is None:
            raise ChannelError(f"interface 'tcp' at {show_address(self._asked)} is closed")
        return self._line

    def _start(self, target: Callable[..., None], *arguments: Any) -> None:
        name = f"tcp-{show_address(self._asked)}"
        self._thread = threading.Thread(target=target, args=arguments, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """See `StreamInterface`. A sink first sends what is waiting, for as long as ``linger_s``."""
        line, self._line = self._line, None
        if line is None:
            return
        line.stop.set()
        self._receiver.buffer.close()
        line.waker.wake()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()
        line.close()

    def statistics(self) -> dict[str, int | float]:
        """See the module and `overload` for the names."""
        return self._sender.statistics() if self._writes else self._receiver.statistics()


interfaces.add("tcp", TcpInterface)
