"""Readers of result streams: any number of them, each at its own pace, none of which a query ever waits for.

A reader pulls from the query's `ResultLog` when its own connection takes more. What many readers want is done once:
being woken (`ResultFeed` rings for all of them, some ten times a second at most) and encoding (readers that want the
same windows in the same form share the bytes; pieces begin at multiples of their size, so that readers who began at
different places come to want the same). Files are read and windows encoded in threads of their own.

How events are put on a connection is the business of `api.routes.results`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import pyarrow as pa
from anyio import CapacityLimiter, to_thread

from api.errors import Problem, document, problem_of
from api.operations import cannot_deliver
from api.results.json_windows import (
    missed_view,
    projected,
    to_json,
    windows_of,
    windows_per_event,
)
from api.settings import ServiceLimits
from gsdm_grid.errors import GsdmError
from gsdm_grid.model import PhysicalWindow, StreamType, stream_schema, to_stream_batch
from gsdm_grid.storage import ResultLog

_log = logging.getLogger("gsdm.results")
HEARTBEAT_S = 10.0
"""Something is sent at least so often: it keeps connections open through proxies."""
RING_S = 0.1
"""Readers that have got everything are woken no more often than this."""
REVOKED_S = 0.5
"""How often the tokens of open streams are looked up: a revoked token's streams end about so soon."""
LOOK_S = 1.0
"""How often a reader looks at the state of a query whose log nobody writes to."""
_SHARED_BYTES = 16 << 20
_THREADS = 2
_ARROW_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
_WINDOWS = {"sse": 1000, "json": 1000, "arrow": 4096}
_SHARE = 0.1
_BURST_S = 0.05
_LONGEST_TURN_S = 1.0

View = Callable[[], Mapping[str, Any]]
"""The query as a document, as `cannot_deliver` takes it; the problem ``not-found`` if it is gone."""
Lasting = Callable[[Collection[str]], set[str]]
"""Those of some tokens, by id, that are still valid. May block."""
Reason = Literal["finished", "stopped", "dropped", "failed", "closing", "revoked"]


@dataclass(frozen=True)
class Form:
    """How a reader wants its windows. Immutable; readers with equal forms share what is encoded."""

    kind: Literal["sse", "json", "arrow"]
    shown: tuple[str, ...] | None
    points: int
    windows: int
    """Windows in one piece, at most."""
    complex_parts: bool = False
    """JSON: complex vectors that are reduced keep their real and imaginary parts."""

    @staticmethod
    def of(
        kind: Literal["sse", "json", "arrow"],
        stream_type: StreamType,
        attributes: tuple[str, ...] | None,
        points: int,
        windows: int | None,
        complex_parts: bool = False,
    ) -> Form:
        """A form for streams of a type, checked."""
        shown = projected(stream_type, attributes)
        wanted = windows or _WINDOWS[kind]
        if kind != "arrow":
            wanted = windows_per_event(shown, points * (1 + complex_parts), wanted)
        return Form(kind, attributes, points, wanted, complex_parts)

    def arrow_schema(self, stream_type: StreamType) -> bytes:
        """What an Arrow stream begins with."""
        return bytes(stream_schema(projected(stream_type, self.shown)).serialize())

    def arrow_event(self, stream_type: StreamType, event: ReaderEvent) -> bytes:
        """What else than windows an Arrow stream has: a batch without rows, and its end."""
        told = event.document() if isinstance(event, Missed | Ended) else {"event": "heartbeat"}
        none = to_stream_batch(PhysicalWindow.empty(projected(stream_type, self.shown)), 0)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, none.schema) as writer:
            writer.write_batch(none, custom_metadata={"gsdm.event": to_json(told)})
        whole = bytes(sink.getvalue())
        end = len(whole) if isinstance(event, Ended) else -len(_ARROW_END)
        return whole[none.schema.serialize().size : end]

    def encode(self, stream_type: StreamType, blocks: list[tuple[int, PhysicalWindow]]) -> bytes:
        """Windows as they go on the connection."""
        shown = projected(stream_type, self.shown)
        first, last = blocks[0][0], blocks[-1][0] + len(blocks[-1][1]) - 1
        if self.kind == "arrow":
            block = PhysicalWindow.concat([block for _, block in blocks])
            batch = to_stream_batch(block if shown is stream_type else block.as_type(shown), first)
            return bytes(batch.serialize())
        windows = windows_of(blocks, shown, self.points, self.complex_parts)
        data = to_json({"event": "windows", "first": first, "last": last, "windows": windows})
        return sse("windows", data, last) if self.kind == "sse" else data


def sse(event: str, data: bytes, seq: int | None = None) -> bytes:
    """A server-sent event; ``seq`` is where a client that comes back goes on after."""
    return b"%sevent: %s\ndata: %s\n\n" % (b"" if seq is None else b"id: %d\n" % seq, event.encode(), data)


class Windows(NamedTuple):
    """Windows from ``first`` until before ``next``, encoded."""

    first: int
    next: int
    body: bytes


class Missed(NamedTuple):
    """Windows that cannot be read: the reader came too late, or they were damaged on disk."""

    first: int
    next: int

    def document(self) -> dict[str, Any]:
        """For the reader."""
        return {"event": "missed", **missed_view(self.first, self.next)}


class Ended(NamedTuple):
    """There will be no more windows: the run is over, or failed, or the query or the service is gone."""

    reason: Reason
    next: int
    error: Mapping[str, Any] | None = None

    def document(self) -> dict[str, Any]:
        """For the reader."""
        if self.reason == "failed":
            return {"event": "failed", "next": self.next, "error": self.error}
        return {"event": "end", "next": self.next, "reason": self.reason}


class Heartbeat(NamedTuple):
    """Nothing new."""


ReaderEvent = Windows | Missed | Ended | Heartbeat


class ProcessorShare:
    """How much of a processor readers may take from the queries whose sinks live in this process.

    Python threads take turns, so what readers compute, the sinks wait for. While a query writes, its readers get a
    tenth of a processor; beyond that they fall behind, and what they cannot get in time they miss. Bound to the event
    loop's thread, whose own processor time is counted.
    """

    def __init__(self) -> None:
        self._left_s = _BURST_S
        self._looked_s = time.monotonic()
        self._used_s = time.thread_time()
        self._charges: deque[float] = deque()

    @contextmanager
    def charged(self) -> Iterator[None]:
        """Count the processor time of a piece of work. In any thread."""
        began_s = time.thread_time()
        try:
            yield
        finally:
            self._charges.append(time.thread_time() - began_s)

    async def turn(self) -> None:
        """Wait until there is something left, a second at most."""
        left_s = self._refill()
        if left_s < 0:
            await asyncio.sleep(min(-left_s / _SHARE, _LONGEST_TURN_S))

    def _refill(self) -> float:
        now_s, used_s = time.monotonic(), time.thread_time()
        left_s = min(self._left_s + (now_s - self._looked_s) * _SHARE, _BURST_S) - (used_s - self._used_s)
        while self._charges:
            left_s -= self._charges.popleft()
        self._looked_s, self._used_s = now_s, used_s
        self._left_s = max(left_s, -_LONGEST_TURN_S * _SHARE)
        return self._left_s


class _Piece(NamedTuple):
    """What was encoded of a log from some place on."""

    first: int
    next: int
    body: bytes


class ResultFeed:
    """What the readers of one log share. Bound to an event loop; lives as long as there are readers."""

    def __init__(
        self, log: ResultLog, view: View, limiter: CapacityLimiter, share: ProcessorShare, read_bytes: int
    ) -> None:
        self.log = log
        self.share = share
        self.readers = 0
        self._view = view
        self._limiter = limiter
        self._read_bytes = read_bytes
        self._loop = asyncio.get_running_loop()
        self._rang = asyncio.Event()
        self._rang_s = 0.0
        self._pending = False
        self._pieces: OrderedDict[tuple[Form, int], asyncio.Future[_Piece]] = OrderedDict()
        self._shared_bytes = 0
        self._seen: tuple[float, asyncio.Future[Mapping[str, Any] | None]] | None = None
        self._cancel = log.subscribe(self._on_change)

    def close(self) -> None:
        """The last reader is gone."""
        self._cancel()
        self._pieces.clear()

    def _on_change(self) -> None:
        """In the writer's thread: costs it a call into the event loop at most once for each ring."""
        if not self._pending:
            self._pending = True
            try:
                self._loop.call_soon_threadsafe(self._ring_soon)
            except RuntimeError:  # the loop is closed, and its readers with it
                self._cancel()

    def _ring_soon(self) -> None:
        wait_s = self._rang_s + RING_S - self._loop.time()
        if wait_s > 0:
            self._loop.call_later(wait_s, self.ring)
        else:
            self.ring()

    def ring(self) -> None:
        """Wake all readers that wait."""
        self._pending = False
        self._rang_s = self._loop.time()
        rang, self._rang = self._rang, asyncio.Event()
        rang.set()

    @property
    def bell(self) -> asyncio.Event:
        """Is set at the next ring. Take it before looking at the log, so that nothing goes unnoticed in between."""
        return self._rang

    async def piece(self, form: Form, seq: int) -> _Piece:
        """Windows from ``seq`` on, encoded; empty if there are none. May begin later, if those are gone."""
        found = self._pieces.get((form, seq))
        if found is None:
            if seq >= self.log.next and seq >= self.log.first:
                return _Piece(seq, seq, b"")
            found = asyncio.ensure_future(to_thread.run_sync(self._encode, form, seq, limiter=self._limiter))
            self._pieces[form, seq] = found
            found.add_done_callback(lambda done: self._keep((form, seq), done))
        return await asyncio.shield(found)

    def _encode(self, form: Form, seq: int) -> _Piece:
        with self.share.charged():
            return self._encoded(form, seq)

    def _encoded(self, form: Form, seq: int) -> _Piece:
        reading = self.log.read(seq, form.windows - seq % form.windows, self._read_bytes)
        if not reading.blocks:
            return _Piece(reading.next, reading.next, b"")
        return _Piece(reading.blocks[0][0], reading.next, form.encode(self.log.type, reading.blocks))

    def _keep(self, key: tuple[Form, int], done: asyncio.Future[_Piece]) -> None:
        """Pieces are shared for a while; not those that would look different the next time."""
        if done.cancelled() or done.exception() is not None or not done.result().body:
            self._pieces.pop(key, None)
        if key not in self._pieces:
            return
        self._shared_bytes += len(done.result().body)
        for old, piece in list(self._pieces.items()):
            if self._shared_bytes <= _SHARED_BYTES or not piece.done():
                break
            del self._pieces[old]
            self._shared_bytes -= len(piece.result().body)

    async def view(self) -> Mapping[str, Any] | None:
        """The query as a document, not older than half a second; None if it is gone."""
        now_s = self._loop.time()
        if self._seen is None or now_s - self._seen[0] > LOOK_S / 2:
            looking = asyncio.ensure_future(to_thread.run_sync(self._look, limiter=self._limiter))
            self._seen = (now_s, looking)
        return await asyncio.shield(self._seen[1])

    def _look(self) -> Mapping[str, Any] | None:
        try:
            return self._view()
        except Problem as problem:
            if problem.kind == "not-found":
                return None
            raise

    async def ended(self, at: int) -> Ended | None:
        """Whether a reader that has got everything so far may expect nothing more."""
        state = self.log.state
        if state == "removed":
            return Ended("dropped", at)
        if state == "closed":
            return Ended("closing", at)
        query = await self.view()
        if query is None:
            return Ended("dropped", at)
        if cannot_deliver(query):
            return Ended("failed", at, query["error"])
        if state == "ended":
            return Ended("finished", at)
        runs = state == "writing" or query["state"] in ("active", "stopping") or query.get("desired") == "active"
        return None if runs or self.log.state != state else Ended("stopped", at)


class Reader:
    """One open result stream: what it reads, and with whose token. Bound to an event loop."""

    def __init__(self, feed: ResultFeed, token_id: str) -> None:
        self.feed = feed
        self.token_id = token_id
        self.revoked = False


class ResultStreams:
    """All open result streams of the service. Bound to its event loop."""

    def __init__(self, limits: ServiceLimits, lasting: Lasting) -> None:
        self._lasting = lasting
        self._readers: set[Reader] = set()
        self._watching: asyncio.Task[None] | None = None
        self.open = 0
        self.closing = False
        self._limit = limits.result_streams
        self._read_bytes = limits.result_read_bytes
        self._feeds: dict[ResultLog, ResultFeed] = {}
        self._limiter = CapacityLimiter(_THREADS)
        self._share = ProcessorShare()

    @contextmanager
    def reading(self, log: ResultLog, view: View, token_id: str) -> Iterator[Reader]:
        """For one reader, while it reads; the problem ``too-many`` if there are too many already."""
        if self.open >= self._limit:
            raise Problem("too-many", f"{self.open} result streams are open, which is the limit", limit=self._limit)
        feed = self._feeds.get(log)
        if feed is None:
            feed = self._feeds[log] = ResultFeed(log, view, self._limiter, self._share, self._read_bytes)
        reader = Reader(feed, token_id)
        self.open += 1
        feed.readers += 1
        self._readers.add(reader)
        if self._watching is None:
            self._watching = asyncio.ensure_future(self._watch())
        try:
            yield reader
        finally:
            self._readers.discard(reader)
            self.open -= 1
            feed.readers -= 1
            if not feed.readers:
                feed.close()
                self._feeds.pop(log, None)

    async def _watch(self) -> None:
        """While streams are open: find those whose tokens are not valid any more, and wake their readers."""
        try:
            while self._readers:
                await asyncio.sleep(REVOKED_S)
                ids = {reader.token_id for reader in self._readers}
                try:
                    lasting = await to_thread.run_sync(self._lasting, ids) if ids else ids
                except Exception as error:  # the store does not answer: look again
                    _log.error("tokens of open streams cannot be looked up", exc_info=error)
                    continue
                for reader in self._readers:
                    if reader.token_id in ids - lasting:
                        reader.revoked = True
                        reader.feed.ring()
        finally:
            self._watching = None

    def close(self) -> None:
        """End all streams: their readers are asked to come back. For the event loop's thread."""
        self.closing = True
        for feed in self._feeds.values():
            feed.ring()

    async def events(self, reader: Reader, form: Form, at: int, follow: bool) -> AsyncIterator[ReaderEvent]:
        """What happens on a result stream from window ``at`` on, until it ends; with ``follow``, also after that."""
        loop, feed = asyncio.get_running_loop(), reader.feed
        sent_s, told = loop.time(), None
        while True:
            bell = feed.bell
            if self.closing or reader.revoked:
                yield Ended("revoked" if reader.revoked else "closing", at)
                return
            try:
                if feed.log.state == "writing":
                    await feed.share.turn()
                piece = await feed.piece(form, at)
            except GsdmError as error:
                yield Ended("failed", at, document(problem_of(error)))
                return
            if piece.first > at:
                yield Missed(at, piece.first)
            if piece.body:
                yield Windows(*piece)
                await asyncio.sleep(0)  # a reader that finds all it wants waits for nothing else
                sent_s, told = loop.time(), None
            at = max(piece.next, at)
            quiet_s = loop.time() - sent_s
            if not piece.body or quiet_s >= HEARTBEAT_S:
                ended = await feed.ended(at)
                if ended is not None and feed.log.next <= at:
                    if not follow or ended.reason in ("dropped", "closing"):
                        yield ended
                        return
                    if ended.reason == "failed" and told != ended:
                        yield ended
                        sent_s, told = loop.time(), ended
            elif feed.log.state != "writing" or feed.log.next >= at - at % form.windows + form.windows:
                continue  # there is more, or the end is to be found out
            if quiet_s >= HEARTBEAT_S:
                yield Heartbeat()
                sent_s = loop.time()
            patience_s = HEARTBEAT_S if feed.log.state == "writing" else LOOK_S
            due_s = max(sent_s + HEARTBEAT_S - loop.time(), 0.001)
            with suppress(TimeoutError):
                await asyncio.wait_for(bell.wait(), min(patience_s, due_s))
