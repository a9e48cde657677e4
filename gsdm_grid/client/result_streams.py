"""Reading result streams without the I/O: bytes in, events or physical windows out; where a broken stream goes on.

A cursor says with which request to read, takes the bytes of its answer, and knows what it has read. When the connection
breaks it asks again from there, so that a reader sees every window that the coordinator still keeps, once.
"""

from __future__ import annotations

import json
import logging
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

import httpx
import pyarrow as pa

from gsdm_grid.client.calls import path
from gsdm_grid.client.conversations import (
    Pause,
    Request,
    successful,
    unreachable,
)
from gsdm_grid.client.documents import Document, ResultEvent
from gsdm_grid.client.problems import ApiProblem
from gsdm_grid.client.retries import BUSY, RetryPolicy
from gsdm_grid.errors import ChannelError
from gsdm_grid.model import SEQ, PhysicalWindow, cut

E = TypeVar("E")
Start = int | str
"""Where to begin: ``earliest``, ``latest``, or the number of a window."""
ONCE_CONNECTED = RetryPolicy(attempts=12, most_s=5.0)
"""For streams that were read before: a coordinator that is being started again comes back."""
_CONTINUES, _PREFIX = 0xFFFFFFFF, struct.Struct("<Ii")
_BODY_LENGTH = 3
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ResultSelection:
    """Which windows of which result stream, and in which form. Immutable; see `CoordinatorInterface.results`."""

    name: str
    start: Start = "earliest"
    until: int | None = None
    follow: bool = False
    stream: str | None = None
    attributes: Sequence[str] | None = None
    points: int | None = None
    complex_parts: bool = False

    @property
    def nothing(self) -> bool:
        """Whether it is over before it begins."""
        return self.until is not None and self.until <= (self.start if isinstance(self.start, int) else 0)

    def params(self) -> dict[str, Any]:
        """As parameters of a request."""
        return {
            "from": self.start,
            "follow": "true" if self.follow else None,
            "stream": self.stream,
            "attributes": None if self.attributes is None else ",".join(self.attributes),
            "points": self.points,
            "complex": "parts" if self.complex_parts else None,
        }


class Cursor(ABC, Generic[E]):
    """One reader's place in one result stream. Bound to its reader."""

    accept: str

    def __init__(self, url: str, retries: RetryPolicy, selection: ResultSelection) -> None:
        self.over = selection.nothing
        self._url = url
        self._retries = retries
        self._selection = selection
        self._attempt = 0
        self._error: httpx.TransportError | None = None
        self._retry_after: str | None = None

    def request(self) -> Request:
        """How to go on reading."""
        self._begin()
        headers = {"Accept": self.accept, **self._headers()}
        return Request("GET", path("queries", self._selection.name, "results"), self._selection.params(), headers)

    def opened(self, response: httpx.Response) -> bool:
        """Whether the answer can be read. One that is not of success, with its body read, raises what it tells of,
        unless it asks for patience.
        """
        self._error, self._retry_after = None, None
        if response.status_code in BUSY and not self._retries.exhausted(self._attempt):
            self._retry_after = response.headers.get("Retry-After")
            return False
        successful(response)
        return True

    def feed(self, data: bytes) -> Iterator[E]:
        """What these bytes complete. Raises the problem that the query failed with, unless it is followed."""
        self._retries, self._attempt = ONCE_CONNECTED, 0
        for item in self._decoded(data):
            yield item
            if self.over:
                return

    def lost(self, error: httpx.TransportError) -> None:
        """The connection broke."""
        self._error = error

    def pause(self) -> Pause:
        """How long to wait before the stream is asked for again; raises if that has been done often enough."""
        if self._retries.exhausted(self._attempt):
            if self._error is not None:
                raise unreachable(self._url, self._error) from self._error
            raise ChannelError(f"{self._url} ends the result stream again and again without a reason")
        pause = Pause(self._retries.pause_s(self._attempt, self._retry_after))
        self._attempt += 1
        return pause

    def _passed(self, following: int) -> None:
        """Windows before this one have come."""
        self.over = self.over or (self._selection.until is not None and following >= self._selection.until)

    def _missed(self, event: Document) -> int:
        """Windows cannot be read any more; says which comes next, which is none beyond those selected."""
        following = int(event["to"]) + 1
        until = self._selection.until
        self._passed(following)
        return following if until is None else min(following, until)

    def _ended(self, reason: str | None) -> None:
        """The coordinator ends the stream, for a reason; if it only closes, the stream goes on when it is back."""
        self.over = self.over or reason != "closing"

    def _failed(self, error: Document) -> ApiProblem:
        """The problem that the query failed with; raised if there will be nothing more to read."""
        problem = ApiProblem.from_json(error)
        if not self._selection.follow:
            raise problem
        return problem

    def _headers(self) -> dict[str, str]:
        return {}

    @abstractmethod
    def _decoded(self, data: bytes) -> Iterator[E]:
        """What these bytes complete."""

    @abstractmethod
    def _begin(self) -> None:
        """A new answer begins: forget what is left of the last."""


class EventCursor(Cursor[ResultEvent]):
    """Reads server-sent events; a broken stream goes on after the event that came last."""

    accept = "text/event-stream"

    def __init__(self, url: str, retries: RetryPolicy, selection: ResultSelection) -> None:
        super().__init__(url, retries, selection)
        self._last_id: str | None = None
        self._lines = EventLines()

    def _headers(self) -> dict[str, str]:
        return {} if self._last_id is None else {"Last-Event-ID": self._last_id}

    def _begin(self) -> None:
        self._lines = EventLines()

    def _decoded(self, data: bytes) -> Iterator[ResultEvent]:
        for kind, event_id, text in self._lines.feed(data):
            told = json.loads(text)
            self._last_id = event_id or self._last_id
            if kind == "windows":
                yield self._windows(told)
            elif kind == "missed":
                following = self._missed(told)
                yield ResultEvent(following, missed=following - int(told["from"]))
            elif kind == "failed":
                yield ResultEvent(int(told["next"]), error=self._failed(told["error"]))
            elif kind == "end":
                self._ended(told.get("reason"))
                yield ResultEvent(int(told["next"]), end=told.get("reason") or "finished")

    def _windows(self, told: Document) -> ResultEvent:
        until = self._selection.until
        windows = tuple(window for window in told["windows"] if until is None or window["seq"] < until)
        self._passed(int(told["last"]) + 1)
        return ResultEvent(int(told["first"]) + len(windows), windows)


class EventLines:
    """The events in a ``text/event-stream``, cut anywhere.

    >>> lines = EventLines()
    >>> list(lines.feed(b"id: 7\\nevent: windows\\nda")), list(lines.feed(b"ta: {}\\n\\n: still there\\n\\n"))
    ([], [('windows', '7', '{}')])
    """

    def __init__(self) -> None:
        self._rest = b""
        self._kind, self._id = "message", ""
        self._data: list[str] = []

    def feed(self, data: bytes) -> Iterator[tuple[str, str, str]]:
        """Kind, id and data of the events that these bytes complete."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            text = line.rstrip(b"\r").decode()
            if text:
                self._take(*text.partition(":")[::2])
                continue
            if self._data:
                yield self._kind, self._id, "\n".join(self._data)
            self._kind, self._data = "message", []

    def _take(self, name: str, value: str) -> None:
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._kind = value
        elif name == "id":
            self._id = value


class NumberedBlock(NamedTuple):
    """A physical window of a result, and the number of its first window in the result stream.

    One without windows says that those before its number were missed.
    """

    seq: int
    block: PhysicalWindow


class BlockCursor(Cursor[E]):
    """Reads an Arrow stream; a broken stream goes on with the window after the last that came.

    What else happens than windows is in the metadata of batches without rows. ``shown`` makes what the reader gets of a
    block, or None if that is nothing.
    """

    accept = "application/vnd.apache.arrow.stream"

    def __init__(
        self, url: str, retries: RetryPolicy, selection: ResultSelection, shown: Callable[[NumberedBlock], E | None]
    ) -> None:
        super().__init__(url, retries, selection)
        self._shown = shown
        self._batches = ArrowBatches()

    def _begin(self) -> None:
        self._batches = ArrowBatches()

    def _decoded(self, data: bytes) -> Iterator[E]:
        for batch, metadata in self._batches.feed(data):
            numbered = self._windows(batch) if batch.num_rows else self._heed(batch, metadata)
            shown = None if numbered is None else self._shown(numbered)
            if shown is not None:
                yield shown

    def _windows(self, batch: pa.RecordBatch) -> NumberedBlock | None:
        seq = int(batch.column(SEQ)[0].as_py())
        block = PhysicalWindow.from_arrow(batch)
        following = seq + len(block)
        if self._selection.until is not None and following > self._selection.until:
            block = cut(block, 0, max(self._selection.until - seq, 0))
        self._selection = replace(self._selection, start=following)
        self._passed(following)
        return NumberedBlock(seq, block) if len(block) else None

    def _heed(self, batch: pa.RecordBatch, metadata: Mapping[bytes, bytes] | None) -> NumberedBlock | None:
        event = json.loads((metadata or {}).get(b"gsdm.event", b"{}"))
        if event.get("event") == "end":
            self._ended(event.get("reason"))
        elif event.get("event") == "failed":
            self._failed(event["error"])
        elif event.get("event") == "missed":
            following = self._missed(event)
            self._selection = replace(self._selection, start=following)
            _log.warning(
                "windows %s to %s of %r cannot be read any more", event["from"], event["to"], self._selection.name
            )
            return NumberedBlock(following, PhysicalWindow.from_arrow(batch))
        return None


class ArrowBatches:
    """The record batches in an Arrow IPC stream, cut anywhere. pyarrow's own reader can only block."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._schema = b""

    def feed(self, data: bytes) -> Iterator[tuple[pa.RecordBatch, Mapping[bytes, bytes] | None]]:
        """The batches that these bytes complete, with the metadata of each."""
        self._rest += data
        while (length := message_length(self._rest)) is not None and len(self._rest) >= length:
            message = bytes(memoryview(self._rest)[:length])
            del self._rest[:length]
            if not self._schema:
                self._schema = message
            elif length > _PREFIX.size:  # shorter is the end of the stream
                reader = pa.ipc.open_stream(pa.py_buffer(self._schema + message))
                yield reader.read_next_batch_with_custom_metadata()


def message_length(data: bytes | bytearray) -> int | None:
    """Length of the first encapsulated message of an Arrow IPC stream; None if too little of it is there.

    The message's head is a flatbuffer whose field 3 is the length of the body that follows it.
    """
    if len(data) < _PREFIX.size:
        return None
    mark, head = _PREFIX.unpack_from(data)
    if mark != _CONTINUES or head < 0:
        raise ChannelError("the coordinator's answer is no Arrow stream")
    if head == 0:
        return int(_PREFIX.size)
    if len(data) < _PREFIX.size + head:
        return None
    table = _PREFIX.size + struct.unpack_from("<I", data, _PREFIX.size)[0]
    fields = table - struct.unpack_from("<i", data, table)[0]
    size = struct.unpack_from("<H", data, fields)[0]
    slot = 4 + 2 * _BODY_LENGTH
    place = struct.unpack_from("<H", data, fields + slot)[0] if slot < size else 0
    body = struct.unpack_from("<q", data, table + place)[0] if place else 0
    return int(_PREFIX.size + head + body)
