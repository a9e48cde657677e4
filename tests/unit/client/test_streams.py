"""Result streams: bytes cut anywhere, connections that break, coordinators that come back."""

import asyncio
import json

import httpx
import numpy as np
import pyarrow as pa
import pytest

from gsdm_grid import PhysicalWindow, Radio, create_stream_type
from gsdm_grid.client import ApiProblem, AsyncClient, Client, NoCoordinator, RetryPolicy
from gsdm_grid.client.result_streams import ArrowBatches, EventLines, message_length
from gsdm_grid.errors import ChannelError
from gsdm_grid.model import TypeRegistry
from gsdm_grid.model.arrow import stream_schema, to_stream_batch

Reading = create_stream_type(
    "Reading", {"id": "int64", "name": "string", "wave": "vector of complex64"}, registry=TypeRegistry()
)
FAILED = {"type": "urn:gsdm:problem:function-failed", "status": 422, "detail": "vertex 'f.0': no"}


def readings(first, count):
    numbers = range(first, first + count)
    waves = [np.full(n % 3, n, np.complex64) for n in numbers]
    return Reading.block(ts=list(numbers), id=list(numbers), name=[f"n{n}" for n in numbers], wave=waves)


def arrow(*parts):
    """An Arrow stream: blocks as (seq, block), events as mappings; no end of stream."""
    schema = stream_schema(Reading)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for part in parts:
            if isinstance(part, dict):
                none = to_stream_batch(PhysicalWindow.empty(Reading), 0)
                writer.write_batch(none, custom_metadata={"gsdm.event": json.dumps(part)})
            else:
                writer.write_batch(to_stream_batch(part[1], part[0]))
    return bytes(sink.getvalue())[:-8]


def sse(kind, told, event_id=None):
    return (f"id: {event_id}\n" if event_id is not None else "") + f"event: {kind}\ndata: {json.dumps(told)}\n\n"


def windows(first, count):
    made = [{"seq": n, "ordinal": n, "values": {"ts": n}} for n in range(first, first + count)]
    told = {"event": "windows", "first": first, "last": first + count - 1, "windows": made}
    return sse("windows", told, first + count - 1)


END = sse("end", {"event": "end", "reason": "finished", "next": 4})


class Breaking(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body in pieces; breaks off with an error if that is the last piece."""

    def __init__(self, *pieces):
        self.pieces = pieces

    def __iter__(self):
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece if isinstance(piece, bytes) else piece.encode()

    async def __aiter__(self):
        for piece in self:
            yield piece


@pytest.fixture(params=[Client, AsyncClient])
def reader(request):
    """Reads a result stream to its end from prepared answers; returns what came, the requests and the pauses."""

    def read(method, answers, **wanted):
        left, requests, pauses, got = list(answers), [], [], []

        def answer(asked):
            requests.append(asked)
            given = left.pop(0)
            if isinstance(given, Exception):
                raise given
            return given if isinstance(given, httpx.Response) else httpx.Response(200, stream=given)

        async def sleep(seconds):
            pauses.append(seconds)

        settings = {"transport": httpx.MockTransport(answer), "retries": RetryPolicy(attempts=3, random=lambda: 0.0)}

        async def read_async():
            async with AsyncClient("http://127.0.0.1:1", sleep=sleep, **settings) as client:
                async for item in getattr(client, method)("q", **wanted):
                    got.append(item)

        if request.param is AsyncClient:
            asyncio.run(read_async())
        else:
            with Client("http://127.0.0.1:1", sleep=pauses.append, **settings) as client:
                got.extend(getattr(client, method)("q", **wanted))
        assert not left
        return got, requests, pauses

    return read


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_events_are_found_wherever_the_bytes_are_cut(size):
    text = (": hello\n\nretry: 1000\n\n" + windows(0, 2) + "event: é\r\ndata: a\r\ndata: b\r\n\r\n" + END).encode()
    lines = EventLines()
    found = [event for at in range(0, len(text), size) for event in lines.feed(text[at : at + size])]
    assert [kind for kind, _, _ in found] == ["windows", "é", "end"]
    assert [event_id for _, event_id, _ in found] == ["1", "1", "1"]
    assert found[1][2] == "a\nb"


@pytest.mark.parametrize("size", [1, 8, 13, 4096, 10**6])
def test_batches_are_found_wherever_the_bytes_are_cut(size, assert_equal_streams):
    data = arrow((0, readings(0, 5)), {"event": "heartbeat"}, (5, readings(5, 2))) + b"\xff\xff\xff\xff\0\0\0\0"
    batches = ArrowBatches()
    found = [one for at in range(0, len(data), size) for one in batches.feed(data[at : at + size])]
    assert [batch.num_rows for batch, _ in found] == [5, 0, 2]
    assert json.loads(found[1][1][b"gsdm.event"]) == {"event": "heartbeat"}
    got = PhysicalWindow.concat([PhysicalWindow.from_arrow(batch) for batch, _ in found if batch.num_rows])
    assert_equal_streams(got, readings(0, 7))


def test_lengths_of_messages_are_those_that_pyarrow_writes(radio_block):
    batch = to_stream_batch(radio_block(3), 0)
    schema, body = bytes(stream_schema(Radio).serialize()), bytes(batch.serialize())
    assert message_length(schema + body) == len(schema)
    assert message_length(body) == len(body)
    assert message_length(body[:20]) is None
    assert message_length(b"") is None


def test_what_is_no_arrow_stream_is_refused():
    with pytest.raises(ChannelError, match="no Arrow stream"):
        list(ArrowBatches().feed(b"<html>  "))


def test_events_are_read_to_the_end(reader):
    missed = sse("missed", {"event": "missed", "missed": 2, "from": 0, "to": 1}, 1)
    got, requests, pauses = reader("results", [Breaking("retry: 1000\n\n", missed, windows(2, 2), END)], points=8)
    assert [(event.seq, len(event.windows), event.missed, event.end) for event in got] == [
        (2, 0, 2, None),
        (4, 2, 0, None),
        (4, 0, 0, "finished"),
    ]
    assert dict(requests[0].url.params) == {"from": "earliest", "points": "8"}
    assert requests[0].headers["Accept"] == "text/event-stream"
    assert pauses == []


@pytest.mark.parametrize("way", [(), (httpx.ReadError("gone"),)], ids=["ended", "broken"])
def test_a_stream_that_breaks_off_goes_on_after_the_last_event(reader, way):
    answers = [
        Breaking(windows(0, 3), windows(3, 1)[:20], *way),
        httpx.ConnectError("refused"),
        httpx.Response(503, json={"type": "urn:gsdm:problem:not-ready"}, headers={"Retry-After": "1"}),
        Breaking(windows(3, 1), END),
    ]
    got, requests, pauses = reader("results", answers, start=0, follow=True)
    assert [window["seq"] for event in got for window in event.windows] == [0, 1, 2, 3]
    assert [request.headers.get("Last-Event-ID") for request in requests] == [None, "2", "2", "2"]
    assert requests[0].url.params["follow"] == "true"
    assert len(pauses) == 3
    assert pauses[2] >= 1.0


def test_an_arrow_stream_that_breaks_off_goes_on_with_the_next_window(reader, assert_equal_streams):
    first, rest = arrow((10, readings(0, 3)), (13, readings(3, 1))), arrow((14, readings(4, 2)), {"event": "end"})
    answers = [Breaking(first, httpx.RemoteProtocolError("gone")), Breaking(rest)]
    got, requests, _ = reader("numbered_blocks", answers, start=10)
    assert [numbered.seq for numbered in got] == [10, 13, 14]
    assert_equal_streams(PhysicalWindow.concat([numbered.block for numbered in got]), readings(0, 6))
    assert [request.url.params["from"] for request in requests] == ["10", "14"]


def test_a_coordinator_that_closes_is_asked_again(reader):
    closing = {"event": "end", "reason": "closing", "next": 1}
    answers = [
        Breaking(arrow((0, readings(0, 1)), closing) + b"\xff\xff\xff\xff\0\0\0\0"),
        Breaking(arrow({"event": "end", "reason": "stopped"})),
    ]
    got, requests, pauses = reader("result_blocks", answers)
    assert [len(block) for block in got] == [1]
    assert requests[1].url.params["from"] == "1"
    assert len(pauses) == 1


def test_what_was_missed_is_not_asked_for_again(reader):
    missed = {"event": "missed", "missed": 5, "from": 0, "to": 4}
    _, requests, _ = reader("result_blocks", [Breaking(arrow(missed)), Breaking(arrow({"event": "end"}))])
    assert requests[1].url.params["from"] == "5"


@pytest.mark.parametrize(("until", "expected"), [(None, 9), (9, 9), (7, 7)])
def test_a_gap_at_the_end_is_told_as_far_as_it_is_wanted(reader, until, expected):
    missed = {"event": "missed", "missed": 4, "from": 5, "to": 8}
    end = {"event": "end", "reason": "finished", "next": 9}
    blocks = [Breaking(arrow((3, readings(0, 2)), missed, end))]
    got, _, _ = reader("numbered_blocks", blocks, start=3, until=until)
    assert [(seq, len(block)) for seq, block in got] == [(3, 2), (expected, 0)]
    got, _, _ = reader("result_blocks", blocks, start=3, until=until)
    assert [len(block) for block in got] == [2]
    events = [Breaking(sse("missed", missed, 8), sse("end", end))]
    got, _, _ = reader("results", events, start=5, until=until)
    assert [(event.seq, event.missed) for event in got if event.missed] == [(expected, expected - 5)]


def test_reading_ends_before_the_window_named(reader):
    got, _, _ = reader("results", [Breaking(windows(0, 3))], until=2)
    assert [window["seq"] for window in got[0].windows] == [0, 1]
    got, _, _ = reader("result_blocks", [Breaking(arrow((5, readings(0, 3))))], start=5, until=7)
    assert [len(block) for block in got] == [2]
    assert reader("results", [], start=3, until=3)[0] == []


def test_a_failed_query_raises_its_problem(reader):
    failed = {"event": "failed", "next": 0, "error": FAILED}
    with pytest.raises(ApiProblem, match=r"vertex 'f\.0': no"):
        reader("results", [Breaking(sse("failed", failed))])
    with pytest.raises(ApiProblem, match=r"vertex 'f\.0': no"):
        reader("result_blocks", [Breaking(arrow(failed))])


def test_a_reader_that_follows_is_told_of_failures_and_goes_on(reader):
    failed = {"event": "failed", "next": 0, "error": FAILED}
    got, _, _ = reader("results", [Breaking(sse("failed", failed), windows(0, 1), END)], follow=True)
    assert got[0].error.kind == "function-failed"
    assert len(got[1].windows) == 1
    got, _, _ = reader("result_blocks", [Breaking(arrow(failed, (0, readings(0, 1)), {"event": "end"}))], follow=True)
    assert len(got) == 1


def test_a_refusal_is_raised_at_once(reader):
    refused = httpx.Response(404, json={"type": "urn:gsdm:problem:not-found", "detail": "no query 'q'"})
    with pytest.raises(ApiProblem, match="no query 'q'"):
        reader("results", [refused])


def test_if_nobody_answers_it_is_given_up(reader):
    with pytest.raises(NoCoordinator):
        reader("results", [httpx.ConnectError("Connection refused")] * 3)


def test_a_stream_that_ends_at_once_over_and_over_is_given_up(reader):
    with pytest.raises(ChannelError, match="again and again"):
        reader("results", [Breaking()] * 3)
