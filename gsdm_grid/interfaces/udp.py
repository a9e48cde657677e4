"""Interface ``udp``: windows in datagrams; and the message form that it shares with `tcp`.

A source has option ``bind``, ``"host:port"`` (port 0 takes a free one; `UdpInterface.address` says which);
a sink has option ``to``. Further options of a source: ``format``, ``"gsdm"`` (the default) or ``"raw"``
(samples as instruments send them: ``dtype``, ``channels``, ``window``, ``scale`` as in `raw_iq`,
``header_bytes`` to leave out of each datagram, and ``sample_rate`` with ``start_ts``, else windows bear the
time of their arrival); ``receive_bytes`` (the socket's buffer); ``reassembly_bytes``; and those of
`overload`, whose policy is ``drop_oldest`` unless told. Of a sink: ``datagram_bytes``, the largest datagram
to send.

A *message* is a few windows of one block: a header, then a body. All numbers are little-endian; the header
is 36 bytes::

    magic 4s "GSDM" | version u8 = 2 | flags u8 | reserved u16 = 0 | session u32 | schema u32
    first u64 | windows u32 | part u32 | parts u32

``flags``: 1 = the buffers are big-endian, 2 = the stream has ended (no body). ``session`` is new whenever a
sender starts; ``schema`` is `schema_of` the stream type, or 0 for senders that do not check; ``first``
counts the windows sent before this message and so identifies it and shows what is missing; a message that
is too large for a datagram goes in ``parts``, of which ``part`` counts from 0. The body, all parts put
together, is the windows as `gsdm_grid.model.wire` packs them; where they are in their stream is left out.

Whatever is wrong with a datagram is counted, never raised: ``dropped_malformed`` (datagrams),
``dropped_incomplete`` (windows of which a part was lost), ``dropped_missing`` (windows that never came),
``late_datagrams`` (of windows already delivered or given up).
"""

from __future__ import annotations

import secrets
import selectors
import socket
import struct
import sys
import threading
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np

from gsdm_grid.channels import Waker
from gsdm_grid.errors import ChannelError, QueryError
from gsdm_grid.interfaces.interface import InterfaceContext, StreamInterface, interfaces
from gsdm_grid.interfaces.overload import OverloadBuffer
from gsdm_grid.interfaces.player import positive
from gsdm_grid.interfaces.raw_iq import SampleFormat, header_bytes, sample_ts
from gsdm_grid.model import Clock, PhysicalWindow, StreamPosition, StreamType, SystemClock, cut, wire

HostPort = tuple[str, int]
HEADER = struct.Struct("<4sBBHIIQIII")
MAGIC, VERSION = b"GSDM", 2
BIG_ENDIAN, END = 1, 2
BYTE_ORDER = BIG_ENDIAN if sys.byteorder == "big" else 0
_MAX_DATAGRAM = 65507
_MAX_SENDERS = 256


def parse_address(interface: str, option: str, text: Any) -> HostPort:
    """Host and port of ``host:port``; an IPv6 host stands in brackets.

    >>> parse_address("udp", "bind", "[::1]:4000")
    ('::1', 4000)
    """
    host, colon, port = str(text).rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if (
        not (isinstance(text, str) and colon and host)
        or not (port.isascii() and port.isdigit() and int(port) < 65536)
        or (":" in host and not bracketed)
    ):
        raise QueryError(
            f"interface {interface!r}, option {option!r}: expected 'host:port' or '[IPv6]:port'; got {text!r}"
        )
    return (host[1:-1] if bracketed else host), int(port)


def show_address(address: HostPort) -> str:
    """Inverse of `parse_address`."""
    return f"[{address[0]}]:{address[1]}" if ":" in address[0] else f"{address[0]}:{address[1]}"


def resolve(interface: str, address: HostPort, kind: socket.SocketKind) -> tuple[socket.AddressFamily, Any]:
    """Address family and socket address of a host and port; a `ChannelError` if the name is not known."""
    try:
        family, _, _, _, found = socket.getaddrinfo(*address, type=kind)[0]
    except (OSError, UnicodeError) as error:
        raise ChannelError(f"interface {interface!r} cannot resolve {show_address(address)}: {error}") from error
    return family, found


def schema_of(stream_type: StreamType) -> int:
    """CRC-32 of the attributes, written ``name:type`` and joined by commas: a sender of another type is refused."""
    text = ",".join(f"{name}:{kind}" for name, kind in stream_type.attributes.items())
    return zlib.crc32(text.encode())


class Header(NamedTuple):
    """The fixed part in front of every datagram and frame."""

    flags: int
    session: int
    schema: int
    first: int
    windows: int
    part: int = 0
    parts: int = 1

    def pack(self) -> bytes:
        """As bytes."""
        flags, session, *rest = self
        return HEADER.pack(MAGIC, VERSION, flags, 0, session, *rest)

    @staticmethod
    def unpack(data: bytes | bytearray | memoryview) -> Header:
        """From the first bytes of a message; `ChannelError` if they are no header of ours."""
        if len(data) < HEADER.size:
            raise ChannelError(f"a message of {len(data)} bytes is shorter than its header")
        magic, version, flags, _, *rest = HEADER.unpack_from(data)
        if magic != MAGIC or version != VERSION:
            raise ChannelError(f"not a message of version {VERSION}: {bytes(data[:5])!r}")
        header = Header(flags, *rest)
        if header.part >= header.parts or (header.windows == 0) != bool(flags & END) or flags & ~(END | BIG_ENDIAN):
            raise ChannelError(f"inconsistent message header {header}")
        return header


def body_pieces(block: PhysicalWindow) -> list[Any]:
    """The body of the message that carries these windows, as pieces to be joined."""
    return wire.pack(PhysicalWindow(block.type, block.columns))


def encode_body(block: PhysicalWindow) -> bytes:
    """The body of the message that carries these windows."""
    return b"".join(body_pieces(block))


def decode_body(stream_type: StreamType, header: Header, body: bytes) -> PhysicalWindow:
    """Inverse of `encode_body`; anything that does not fit the header or the type is a `ChannelError`."""
    if header.schema not in (0, schema_of(stream_type)) or header.flags & BIG_ENDIAN != BYTE_ORDER:
        raise ChannelError(f"a message of another stream type or byte order than {stream_type.name!r} has here")
    block = wire.unpack(stream_type, body, header.windows)
    return PhysicalWindow(stream_type, block.columns)


@dataclass
class _Session:
    """What is known about one session of a sender: what was delivered, and messages not yet complete."""

    number: int
    position: StreamPosition = field(default_factory=StreamPosition)
    pending: dict[int, tuple[Header, dict[int, bytes]]] = field(default_factory=dict)


class Reassembly:
    """Datagrams in, blocks out, in each sender's order. Does no input or output; bound to one thread.

    A message that comes after a later one is given up: streams do not go back in time.
    """

    def __init__(self, stream_type: StreamType, max_bytes: int = 64 << 20) -> None:
        self._type = stream_type
        self._max_bytes = max_bytes
        self._bytes = 0
        self._senders: OrderedDict[Any, _Session] = OrderedDict()
        self.ended = False
        self.reassembling = 0
        self.counts = dict.fromkeys(("dropped_malformed", "dropped_incomplete", "dropped_missing", "late_datagrams"), 0)

    def accept(self, sender: Any, datagram: bytes) -> PhysicalWindow | None:
        """The block that this datagram completes, if any. Never raises."""
        try:
            return self._accept(sender, datagram)
        except ChannelError:
            self.counts["dropped_malformed"] += 1
            return None

    def reset(self) -> None:
        """Give up what is incomplete: the rest will not come."""
        for session in self._senders.values():
            self._give_up(session, None)

    def _accept(self, sender: Any, datagram: bytes) -> PhysicalWindow | None:
        header = Header.unpack(datagram)
        session = self._session(sender, header.session)
        if session.position.has_passed(header.first):
            self.counts["late_datagrams"] += 1
            return None
        if header.flags & END:
            self._advance(session, header)
            self.ended = True
            return None
        body = self._assemble(session, header, datagram)
        if body is None:
            return None
        block = decode_body(self._type, header, body)
        self._advance(session, header)
        return block

    def _session(self, sender: Any, number: int) -> _Session:
        session = self._senders.get(sender)
        if session is None or session.number != number:
            if session is not None:
                self._give_up(session, None)
            session = self._senders[sender] = _Session(number)
            if len(self._senders) > _MAX_SENDERS:
                self._give_up(self._senders.popitem(last=False)[1], None)
        self._senders.move_to_end(sender)
        return session

    def _assemble(self, session: _Session, header: Header, datagram: bytes) -> bytes | None:
        if header.parts == 1:
            return datagram[HEADER.size :]
        if header.first not in session.pending:
            session.pending[header.first] = (header, {})
            self.reassembling += header.windows
        known, parts = session.pending[header.first]
        if header._replace(part=known.part) != known:
            raise ChannelError(f"parts of one message disagree: {known}, {header}")
        if header.part not in parts:
            parts[header.part] = datagram[HEADER.size :]
            self._bytes += len(datagram)
        if len(parts) == header.parts:
            self._forget(session, header.first)
            return b"".join(parts[part] for part in range(header.parts))
        while self._bytes > self._max_bytes:
            oldest = next(other for other in self._senders.values() if other.pending)
            self.counts["dropped_incomplete"] += self._forget(oldest, min(oldest.pending))
        return None

    def _advance(self, session: _Session, header: Header) -> None:
        """Go on behind a message, and count what lies between the last one and it."""
        given_up = self._give_up(session, header.first)
        self.counts["dropped_missing"] += max(0, session.position.missing_before(header.first) - given_up)
        session.position.advance_to(header.first + header.windows - 1)

    def _give_up(self, session: _Session, before: int | None) -> int:
        firsts = [first for first in session.pending if before is None or first < before]
        windows = sum(self._forget(session, first) for first in firsts)
        self.counts["dropped_incomplete"] += windows
        return windows

    def _forget(self, session: _Session, first: int) -> int:
        header, parts = session.pending.pop(first)
        self.reassembling -= header.windows
        self._bytes -= sum(len(part) + HEADER.size for part in parts.values())
        return header.windows


class _RawSamples:
    """Samples in, blocks out: windows are filled across datagrams."""

    def __init__(self, stream_type: StreamType, options: Mapping[str, Any]) -> None:
        self._type = stream_type
        self._layout = SampleFormat.make("udp", stream_type, options)
        rate = positive("udp", options, "sample_rate")
        self._rate = None if rate is None else Fraction(rate)
        self._header = header_bytes("udp", options)
        self.clock: Clock = SystemClock()
        self._start: int | None = options.get("start_ts")
        self._after = 0
        self._windows = 0
        self._part = bytearray()
        self.ended = False
        self.counts = {"dropped_malformed": 0}

    def accept(self, _sender: Any, datagram: bytes) -> PhysicalWindow | None:
        """See `Reassembly`."""
        samples = datagram[self._header :]
        if not samples or len(samples) % self._layout.sample_bytes:
            self.counts["dropped_malformed"] += 1
            return None
        self._part += samples
        count = len(self._part) // self._layout.window_bytes
        if count == 0:
            return None
        used = count * self._layout.window_bytes
        raw = np.frombuffer(bytes(self._part[:used]), np.uint8)
        del self._part[:used]
        return self._layout.decode(self._type, raw, self._ts(count))

    def _ts(self, count: int) -> list[int]:
        now = max(self.clock.now_ns(), self._after)
        self._after = now + count
        if self._start is None:
            self._start = now
        rows = range(self._windows, self._windows + count)
        self._windows += count
        if self._rate is None:
            return [now + row - rows.start for row in rows]
        return [sample_ts(self._start, row * self._layout.window, self._rate) for row in rows]

    def reset(self) -> None:
        """See `Reassembly`."""
        self._part.clear()

    @property
    def reassembling(self) -> int:
        """See `Reassembly`."""
        return 1 if self._part else 0


def wait_for(
    readers: Sequence[Any], writers: Sequence[Any] = (), timeout_s: float | None = None
) -> tuple[list[Any], list[Any]]:
    """Those of the sockets that can be read and written. Unlike ``select.select``, takes any file number."""
    with selectors.DefaultSelector() as selector:
        for item in dict.fromkeys([*readers, *writers]):
            selector.register(
                item, (item in readers) * selectors.EVENT_READ | (item in writers) * selectors.EVENT_WRITE
            )
        found = selector.select(timeout_s)
    readable = [key.fileobj for key, mask in found if mask & selectors.EVENT_READ]
    return readable, [key.fileobj for key, mask in found if mask & selectors.EVENT_WRITE]


class UdpInterface(StreamInterface):
    """A source (option ``bind``) or a sink (option ``to``); see the module."""

    known_options: ClassVar[frozenset[str] | None] = frozenset(
        {
            "bind",
            "buffer_blocks",
            "buffer_bytes",
            "channels",
            "datagram_bytes",
            "dtype",
            "format",
            "header_bytes",
            "overload",
            "reassembly_bytes",
            "receive_bytes",
            "sample_every",
            "sample_rate",
            "scale",
            "start_ts",
            "to",
            "window",
        }
    )

    source_option: ClassVar[str] = "bind"
    sink_option: ClassVar[str] = "to"
    overload: ClassVar[str] = "drop_oldest"

    def __init__(self, stream_type: StreamType, options: Mapping[str, Any]) -> None:
        super().__init__(stream_type, options)
        if ("bind" in options) == ("to" in options):
            raise QueryError("interface 'udp' needs option 'bind' (a source) or 'to' (a sink), 'host:port'")
        self._role = "bind" if "bind" in options else "to"
        self._asked = parse_address("udp", self._role, options[self._role])
        self._format = options.get("format", "gsdm")
        if self._format not in ("gsdm", "raw"):
            raise QueryError(f"interface 'udp', option 'format': 'gsdm' or 'raw'; got {self._format!r}")
        self._limit = int(options.get("datagram_bytes", 8192))
        if not HEADER.size < self._limit <= _MAX_DATAGRAM:
            raise QueryError(
                f"interface 'udp', option 'datagram_bytes': {HEADER.size + 1}…{_MAX_DATAGRAM}; got {self._limit}"
            )
        self.address: HostPort | None = None
        self._buffer = OverloadBuffer.from_options(options, self.overload)
        self._parser = self._make_parser()
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._waker: Waker | None = None
        self._closing = False
        self._peer: Any = None
        self._session = 0
        self._sent = 0
        self._dropped_unsent = 0
        self._received_datagrams = 0

    @classmethod
    def exclusive(cls, options: Mapping[str, Any]) -> bool:
        """See `StreamInterface`: a port is bound once."""
        return "bind" in options

    def _make_parser(self) -> Reassembly | _RawSamples:
        if self._format == "raw" and self._role == "bind":
            return _RawSamples(self.stream_type, self.options)
        return Reassembly(self.stream_type, int(self.options.get("reassembly_bytes", 64 << 20)))

    def open(self, context: InterfaceContext) -> None:
        """See `StreamInterface`. A source is bound and receives when this returns."""
        super().open(context)
        family, address = resolve("udp", self._asked, socket.SOCK_DGRAM)
        sock = socket.socket(family, socket.SOCK_DGRAM)
        try:
            if self._role == "to":
                self._peer, self.address = address, (address[0], address[1])
                self._session, self._sent = secrets.randbits(32) or 1, 0
            else:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, int(self.options.get("receive_bytes", 4 << 20)))
                sock.bind(address)
                sock.setblocking(False)
                self.address = sock.getsockname()[:2]
        except OSError as error:
            sock.close()
            raise ChannelError(f"interface 'udp' cannot bind {show_address(self._asked)}: {error}") from error
        self._socket = sock
        if self._role == "bind":
            if isinstance(self._parser, _RawSamples):
                self._parser.clock = context.clock
            self._buffer.open(context.wake)
            self._closing = False
            self._waker = Waker()
            self._thread = threading.Thread(
                target=self._receive,
                args=(sock, self._waker),
                name=f"udp-{show_address(self._asked)}",
                daemon=True,
            )
            self._thread.start()

    def _receive(self, sock: socket.socket, waker: Waker) -> None:
        try:
            while not self._closing and not self._parser.ended:
                try:
                    datagram, sender = sock.recvfrom(_MAX_DATAGRAM + 1)
                except BlockingIOError:
                    wait_for([sock, waker])
                    continue
                self._received_datagrams += 1
                block = self._parser.accept(sender, datagram)
                if block is not None:
                    self._buffer.put(block)
        except OSError as error:
            self._buffer.fail(ChannelError(f"interface 'udp' at {show_address(self._asked)}: {error}"))
        except Exception as error:
            self._buffer.fail(error)
        if self._parser.ended:
            self._parser.reset()
            self._buffer.end()

    def next(self, limit: int) -> PhysicalWindow | None:
        """See `StreamInterface`."""
        if self._role != "bind":
            return super().next(limit)
        return self._buffer.take(limit)

    def insert(self, block: PhysicalWindow) -> None:
        """See `StreamInterface`. What the network refuses is counted as ``dropped_unsent``."""
        if self._role != "to":
            super().insert(block)
        for part in _portions(block, self._limit - HEADER.size):
            for datagram in self._datagrams(part):
                if not self._send(datagram):
                    self._dropped_unsent += len(part)
                    break
            self._sent += len(part)

    def _datagrams(self, block: PhysicalWindow) -> Iterator[bytes]:
        body = encode_body(block)
        room = self._limit - HEADER.size
        parts = -(-len(body) // room)
        header = Header(BYTE_ORDER, self._session, schema_of(block.type), self._sent, len(block), 0, parts)
        for part in range(parts):
            yield header._replace(part=part).pack() + body[part * room : (part + 1) * room]

    def _send(self, datagram: bytes) -> bool:
        if self._socket is None:
            raise ChannelError(f"interface 'udp' to {show_address(self._asked)} is closed")
        try:
            self._socket.sendto(datagram, self._peer)
        except OSError:
            return False
        return True

    def finish(self) -> None:
        """See `StreamInterface`: tells the receiver, three times, since datagrams get lost."""
        if self._role == "to" and self._socket is not None:
            end = Header(BYTE_ORDER | END, self._session, schema_of(self.stream_type), self._sent, 0).pack()
            for _ in range(3):
                self._send(end)

    def close(self) -> None:
        """See `StreamInterface`."""
        self._closing = True
        self._buffer.close()
        thread, self._thread = self._thread, None
        if thread is not None and self._waker is not None:
            self._waker.wake()
            thread.join()
            self._waker.close()
            self._parser.reset()
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def statistics(self) -> dict[str, int | float]:
        """See the module and `overload` for the names."""
        if self._role == "to":
            return {"sent": self._sent, "dropped_unsent": self._dropped_unsent}
        return {
            **self._buffer.statistics(),
            **self._parser.counts,
            "datagrams": self._received_datagrams,
            "reassembling": self._parser.reassembling,
        }


def _portions(block: PhysicalWindow, room: int) -> Iterator[PhysicalWindow]:
    """Cut a block so that a portion fits a datagram, where a single window does."""
    if not len(block):
        return
    fixed = 64 + 48 * len(block.columns)
    count = max(1, int((room - fixed) * len(block) / max(block.nbytes, 1)))
    for start in range(0, len(block), count):
        yield cut(block, start, min(start + count, len(block)))


interfaces.add("udp", UdpInterface)
