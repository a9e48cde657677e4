"""Result streams over real HTTP: one server, real logs, readers of every kind."""

import json
import socket
import threading
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace

import httpx
import numpy as np
import pyarrow as pa
import pytest
import uvicorn
from fastapi import FastAPI
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from api import errors
from api.errors import Problem
from api.http.auth import Tokens
from api.routes import results
from api.settings import ServiceLimits, ServiceSettings
from api.store import Store
from gsdm_grid.client import Client
from gsdm_grid.model import PhysicalWindow, TypeRegistry, create_stream_type
from gsdm_grid.storage.result_log import ResultLog
from gsdm_grid.testing import eventually

DEADLINE_S = 60.0
Kept = create_stream_type(
    "KeptResult", {"n": "int64", "v": "vector of complex64", "name": "string"}, registry=TypeRegistry()
)
SSE = {"Accept": "text/event-stream"}
ARROW = {"Accept": "application/vnd.apache.arrow.stream"}
READ_BYTES = 20_000
"""Few, so that readings often end inside a block."""


def kept(first, count, length=4):
    rows = np.arange(first, first + count)
    v = (rows[:, None] + 1j * np.arange(length)).astype(np.complex64)
    return Kept.block(ts=rows * 10, n=rows, v=v, name=[f"w{row}" for row in rows]).stamped(range(first, first + count))


class Queries:
    """What routes of results ask for: views of queries by name, and the one log of each."""

    def __init__(self, folder):
        self._folder = folder
        self.logs = {}
        self.views = {}

    def add(self, name, state="active", **options):
        self.logs[name] = ResultLog(self._folder / name, Kept, **options)
        self.views[name] = {"name": name, "state": state, "desired": state, "error": None}
        return self.logs[name]

    def gives_spectra(self, name, stream):
        return stream == "spectra"

    def kept(self, name, stream):
        if name not in self.logs or stream not in (None, "results"):
            raise Problem("not-found", f"there is no result stream {stream!r} of {name!r}")
        return self.logs[name]

    def view(self, name):
        if name not in self.views:
            raise Problem("not-found", f"there is no query {name!r}")
        return dict(self.views[name])


@contextmanager
def serving(app):
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        eventually(lambda: server.started)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(DEADLINE_S)
        listener.close()


@contextmanager
def service_over(tmp_path, **limits):
    """A served application with `Queries` behind it, and a viewer's token."""
    store = Store(f"sqlite:///{tmp_path / 'gsdm.sqlite'}")
    tokens = Tokens(store)
    _, secret = tokens.create("reader", "viewer")
    queries = Queries(tmp_path / "results")
    app = FastAPI()
    service_settings = ServiceSettings(home=tmp_path, limits=ServiceLimits(result_streams=12, **limits))
    app.state.services = SimpleNamespace(settings=service_settings, tokens=tokens, views=queries, logs=queries)
    errors.install(app)
    app.include_router(results.router)
    with serving(app) as url:
        client = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {secret}"}, timeout=DEADLINE_S)
        with client:
            yield SimpleNamespace(url=url, client=client, queries=queries, secret=secret, app=app)
    for log in queries.logs.values():
        log.close()
    store.close()


@pytest.fixture
def service(tmp_path):
    with service_over(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def shared_service(tmp_path_factory):
    with service_over(tmp_path_factory.mktemp("shared"), result_read_bytes=READ_BYTES) as made:
        yield made


def path(name="q", **parameters):
    return str(httpx.URL(f"/v1/queries/{name}/results", params={k.strip("_"): v for k, v in parameters.items()}))


def events(response):
    """Server-sent events as (id, event, data)."""
    found = {}
    for line in response.iter_lines():
        if not line:
            if "event" in found:
                yield found.get("id"), found["event"], json.loads(found["data"])
            found = {}
        elif not line.startswith(":"):
            key, _, value = line.partition(": ")
            found[key] = value


def read_sse(service, *, headers=(), **parameters):
    with service.client.stream("GET", path(**parameters), headers={**SSE, **dict(headers)}) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        return list(events(response))


def numbers(found):
    return [window["values"]["n"] for _, event, data in found if event == "windows" for window in data["windows"]]


def ws_url(service, **parameters):
    return service.url.replace("http", "ws") + path(**parameters).replace("/results", "/results/ws")


def refused(service, headers=None, **parameters):
    """Status and kind of problem with which a WebSocket is denied."""
    with (
        pytest.raises(InvalidStatus) as caught,
        connect(ws_url(service, **parameters), additional_headers=headers or bearer(service)),
    ):
        pass
    answer = caught.value.response
    return answer.status_code, json.loads(answer.body)["type"]


def bearer(service):
    return {"Authorization": f"Bearer {service.secret}"}


def test_last_windows_come_as_json(service):
    log = service.queries.add("q")
    for first in range(0, 50, 10):
        log.append(kept(first, 10, 1000))
    view = service.client.get(path(last=5, points=10, attributes="n,v")).json()
    assert (view["query"], view["first"], view["next"], view["points"]) == ("q", 0, 50, 10)
    assert [window["seq"] for window in view["windows"]] == list(range(45, 50))
    values = view["windows"][0]["values"]
    assert set(values) == {"ts", "n", "v"}
    assert values["v"]["length"] == 1000
    assert len(values["v"]["magnitude"]) == 10
    assert view["spectra"] is False
    assert len(service.client.get(path()).json()["windows"]) == 50
    results.LastWindows.model_validate(view)


def test_whoever_asks_again_gets_the_newest_of_what_came_since(service):
    log = service.queries.add("q")
    for first in range(0, 50, 10):
        log.append(kept(first, 10, 4))

    def numbers(**parameters):
        return [window["seq"] for window in service.client.get(path(**parameters)).json()["windows"]]

    assert numbers(**{"from": 47, "last": 10}) == [47, 48, 49]
    assert numbers(**{"from": 20, "last": 3}) == [47, 48, 49]
    assert numbers(**{"from": 0, "last": 2}) == numbers(**{"from": "earliest", "last": 2}) == [48, 49]
    for nothing in (50, 1000, "latest"):
        assert numbers(**{"from": nothing}) == []


def placed(first, count, length):
    """Windows whose ordinals, too, tell their numbers."""
    return kept(first, count, length).stamped(ordinals=np.arange(first, first + count) * 3 + 7)


def shown(windows):
    """Number, ordinal and two values of windows in JSON; the second is real, as the vectors begin with their number."""
    return [
        (
            one["seq"],
            one["ordinal"],
            one["values"]["n"],
            one["values"]["v"]["re"][0] if one["values"]["v"]["re"] else None,
        )
        for one in windows
    ]


def in_arrow(content):
    """The same of an Arrow stream, and the events in it."""
    reader, rows, told = pa.ipc.open_stream(content), [], []
    while True:
        try:
            batch, metadata = reader.read_next_batch_with_custom_metadata()
        except StopIteration:
            return rows, told
        if not batch.num_rows:
            told.append(json.loads(metadata["gsdm.event"]))
            continue
        block = PhysicalWindow.from_arrow(batch)
        firsts = [float(v[0].real) if len(v) else None for v in block.v]
        rows += zip(
            batch.column("__seq__").to_pylist(), map(int, block.ordinals), block.n.tolist(), firsts, strict=True
        )


def every_form(service, name, first, count, **parameters):
    """What readers of each form get from a window on; ``last`` is as many as there are, a thousand at most."""
    last = service.client.get(path(name, last=min(count, 1000), points=10_000)).json()
    yield "json", shown(last["windows"]), last["missed"]
    parameters |= {"name": name, "from_": first, "points": 10_000}
    found = read_sse(service, **parameters)
    windows = [window for _, event, data in found if event == "windows" for window in data["windows"]]
    yield "sse", shown(windows), [data for _, event, data in found if event == "missed"]
    rows, told = in_arrow(service.client.get(path(**parameters), headers=ARROW).content)
    yield "arrow", rows, [event for event in told if event["event"] == "missed"]
    with connect(ws_url(service, **parameters), additional_headers=bearer(service), max_size=None) as websocket:
        messages = [json.loads(message) for message in websocket]
    windows = [window for message in messages if message["event"] == "windows" for window in message["windows"]]
    yield "websocket", shown(windows), [message for message in messages if message["event"] == "missed"]
    with connect(
        ws_url(service, format="arrow", **parameters), additional_headers=bearer(service), max_size=None
    ) as websocket:
        messages = list(websocket)
    rows, _ = in_arrow(b"".join(message for message in messages if isinstance(message, bytes)))
    told = [json.loads(message) for message in messages if isinstance(message, str)]
    yield "websocket arrow", rows, [event for event in told if event["event"] == "missed"]


@settings(max_examples=25)
@given(
    blocks=st.lists(st.tuples(st.integers(1, 60), st.sampled_from([0, 4, 100, 700])), min_size=1, max_size=12),
    first=st.integers(0, 50),
    max_windows=st.integers(1, 100),
)
def test_number_ordinal_and_content_agree_in_every_form(shared_service, blocks, first, max_windows):
    name = f"q{len(shared_service.queries.logs)}"
    log = shared_service.queries.add(name, "installed")
    lengths = []
    for count, length in blocks:
        log.append(placed(log.next, count, length))
        lengths += [length] * count
    log.end(final=True)
    expected = [(seq, seq * 3 + 7, seq, seq if length else None) for seq, length in enumerate(lengths)]
    for form, rows, missed in every_form(shared_service, name, first, log.next, max_windows=max_windows):
        assert not missed, form
        assert rows == (expected if form == "json" else expected[first:]), form
    log.remove()


def test_a_gap_in_the_middle_is_told_in_every_form(shared_service):
    log = shared_service.queries.add("gap", "installed")
    for first in range(0, 100, 10):
        log.append(placed(first, 10, 50))
    log.end(final=True)
    (file,) = log.path.glob("*.log")
    content = bytearray(file.read_bytes())
    content[len(content) // 2 - 100] ^= 4
    file.write_bytes(content)
    expected = [(seq, seq * 3 + 7, seq, seq) for seq in range(100) if not 40 <= seq < 50]
    for form, rows, missed in every_form(shared_service, "gap", 0, 100):
        assert rows == expected, form
        assert [(one["missed"], one["from"], one["to"]) for one in missed] == [(10, 40, 49)], form
    with Client(shared_service.url, shared_service.secret) as client:
        told = list(client.results("gap"))
        numbers = [seq for event in told for seq in ([window["seq"] for window in event.windows])]
        assert numbers == [seq for seq, *_ in expected]
        assert [event.missed for event in told if event.missed] == [10]
        assert next(seq for seq, _ in client.numbered_blocks("gap") if seq >= 40) == 50
    log.remove()


class BreakingTransport(httpx.BaseTransport):
    """The network, but answers break off after so many bytes, each after the next number, with an error or without."""

    def __init__(self, breaks):
        self._network = httpx.HTTPTransport()
        self._breaks = list(breaks)

    def handle_request(self, request):
        answer = self._network.handle_request(request)
        if self._breaks:
            answer.stream = BreakingStream(answer.stream, *self._breaks.pop(0))
        return answer

    def close(self):
        self._network.close()


class BreakingStream(httpx.SyncByteStream):
    """The first bytes of another stream."""

    def __init__(self, stream, length, error):
        self._stream, self._length, self._error = stream, length, error

    def __iter__(self):
        for data in self._stream:
            yield data[: self._length]
            self._length -= len(data)
            if self._length <= 0:
                break
        if self._error:
            raise httpx.ReadError("the connection broke")

    def close(self):
        self._stream.close()


def damage(log, data):
    """Flip a bit in some frames of a log, whose windows are lost; gives the numbers that can be read."""
    left = set(range(log.first, log.next))
    for file in log.path.glob("*.log"):
        content = bytearray(file.read_bytes())
        for _ in range(data.draw(st.integers(0, 3), "damages")):
            content[data.draw(st.integers(0, len(content) - 1), "place")] ^= 1
        file.write_bytes(content)
    at = log.first
    while at < log.next:
        reading = log.read(at, 1 << 20, 1 << 40)
        left -= set(range(at, at + reading.missed))
        at = reading.next
    return left


@settings(max_examples=25)
@given(data=st.data())
def test_a_reader_whose_connection_breaks_gets_every_window_once_and_is_told_of_every_gap(shared_service, data):
    name = f"q{len(shared_service.queries.logs)}"
    log = shared_service.queries.add(name, "installed", segment_bytes=8000)
    for count in data.draw(st.lists(st.integers(1, 30), min_size=1, max_size=12), "blocks"):
        log.append(placed(log.next, count, data.draw(st.sampled_from([0, 4, 100]), "length")))
    log.end(final=True)
    readable = damage(log, data)
    start = data.draw(st.integers(0, log.next), "start")
    until = data.draw(st.none() | st.integers(start, log.next), "until")
    end = log.next if until is None else until
    breaks = st.lists(st.tuples(st.integers(1, 6000), st.booleans()), max_size=8)
    network = BreakingTransport(data.draw(breaks, "breaks"))
    expected = [(seq, seq * 3 + 7, seq) for seq in range(start, end) if seq in readable]
    with Client(shared_service.url, shared_service.secret, transport=network, sleep=lambda _: None) as client:
        rows, missed = [], 0
        for event in client.results(name, start=start, until=until):
            rows += [(one["seq"], one["ordinal"], one["values"]["n"]) for one in event.windows]
            missed += event.missed
        assert rows == expected
        assert missed == end - start - len(expected)
    network = BreakingTransport(data.draw(breaks, "breaks"))
    with Client(shared_service.url, shared_service.secret, transport=network, sleep=lambda _: None) as client:
        rows, at = [], start
        for seq, block in client.numbered_blocks(name, start=start, until=until):
            assert seq >= at
            rows += zip(range(seq, seq + len(block)), map(int, block.ordinals), block.n.tolist(), strict=True)
            at = seq + len(block)
        assert rows == expected
        assert at == end, "the last gap is told as well"
    log.remove()


def test_complex_vectors_come_in_parts_on_request_in_json_events_and_messages(service):
    log = service.queries.add("q")
    log.begin()
    log.append(kept(0, 3, 1000))
    log.end(final=True)
    wanted = {"points": 4, "attributes": "v"}
    expected = {"re": [2, 2, 2, 2], "im": [0, 499, 500, 999], "length": 1000}
    view = service.client.get(path(**wanted, complex="parts")).json()
    assert view["windows"][2]["values"]["v"] == expected
    assert read_sse(service, **wanted, complex="parts")[0][2]["windows"][2]["values"]["v"] == expected
    with connect(ws_url(service, **wanted, complex="parts"), additional_headers=bearer(service)) as websocket:
        assert json.loads(websocket.recv(DEADLINE_S))["windows"][2]["values"]["v"] == expected
    for default in ({}, {"complex": "magnitude"}):
        shown = service.client.get(path(**wanted, **default)).json()["windows"][0]["values"]["v"]
        assert shown == {"magnitude": [0, 499, 500, 999], "length": 1000}
    refusal = service.client.get(path(complex="polar"))
    assert refusal.status_code == 422
    assert "'magnitude' or 'parts'" in refusal.text


def test_an_ended_stream_is_read_to_its_end_as_events(service):
    log = service.queries.add("q")
    log.begin()
    for first in range(0, 300, 30):
        log.append(kept(first, 30))
    log.end(final=True)
    found = read_sse(service, max_windows=100)
    assert numbers(found) == list(range(300))
    assert [(one[0], one[1]) for one in found] == [
        ("99", "windows"),
        ("199", "windows"),
        ("299", "windows"),
        (None, "end"),
    ]
    assert found[-1][2] == {"event": "end", "next": 300, "reason": "finished"}
    assert found[0][2]["windows"][2]["values"]["v"] == {"re": [2, 2, 2, 2], "im": [0, 1, 2, 3]}


def test_a_stream_is_resumed_after_the_last_event(service):
    log = service.queries.add("q")
    log.append(kept(0, 100))
    log.end(final=True)
    assert numbers(read_sse(service, headers={"Last-Event-ID": "41"})) == list(range(42, 100))
    assert numbers(read_sse(service, headers={"Last-Event-ID": "99"})) == []
    assert numbers(read_sse(service, headers={"Last-Event-ID": "5000"})) == list(range(100))
    assert numbers(read_sse(service, from_=90)) == list(range(90, 100))
    assert numbers(read_sse(service, from_="latest")) == []


def test_windows_arrive_while_the_query_runs(service):
    log = service.queries.add("q")
    log.begin()
    log.append(kept(0, 3))
    with service.client.stream("GET", path(), headers=SSE) as response:
        found = events(response)
        assert numbers([next(found)]) == [0, 1, 2]
        log.append(kept(3, 2))
        assert numbers([next(found)]) == [3, 4]
        log.append(kept(5, 1))
        log.end(final=False)
        service.queries.views["q"].update(state="installed", desired="installed")
        assert numbers([next(found)]) == [5]
        assert next(found)[2] == {"event": "end", "next": 6, "reason": "stopped"}
        assert list(found) == []


def test_a_follower_stays_for_the_next_run(service):
    log = service.queries.add("q", "installed")
    log.append(kept(0, 2))
    log.end(final=True)
    with service.client.stream("GET", path(follow=True), headers=SSE) as response:
        found = events(response)
        assert numbers([next(found)]) == [0, 1]
        log.begin()
        log.append(kept(2, 2))
        assert numbers([next(found)]) == [2, 3]
        service.queries.views.pop("q")
        log.remove()
        assert next(found)[2]["reason"] == "dropped"


def test_a_reader_waits_for_a_query_that_is_on_its_way(service):
    log = service.queries.add("q", "compiled")
    service.queries.views["q"]["desired"] = "active"
    with service.client.stream("GET", path(), headers=SSE) as response:
        found = events(response)
        eventually(lambda: service.app.state.result_streams.open == 1)
        log.begin()
        log.append(kept(0, 2))
        assert numbers([next(found)]) == [0, 1]


def test_a_failed_query_tells_its_readers_why(service):
    log = service.queries.add("q")
    log.begin()
    log.append(kept(0, 2))
    with service.client.stream("GET", path(), headers=SSE) as response:
        found = events(response)
        assert next(found)[1] == "windows"
        service.queries.views["q"].update(state="failed", desired="failed", error={"title": "it broke"})
        log.abandon()
        assert next(found) == (None, "failed", {"event": "failed", "next": 2, "error": {"title": "it broke"}})
        assert list(found) == []


@pytest.mark.parametrize("form", ["sse", "arrow", "websocket"])
@pytest.mark.parametrize("reader", ["waiting", "late"])
def test_readers_of_a_query_whose_run_failed_are_told_why(service, form, reader):
    service.queries.add("q", "compiled")
    view = service.queries.views["q"]
    problem = {"title": "no hosts"}
    failed = {"desired": "compiled", "error": problem, "failure": {"action": "run", "operation": "op-1", "at": 1.0}}
    view.update({"desired": "active"} if reader == "waiting" else failed)
    told = {"event": "failed", "next": 0, "error": problem}

    def fail():
        if reader == "waiting":
            eventually(lambda: service.app.state.result_streams.open == 1)
            view.update(failed)

    if form == "websocket":
        with connect(ws_url(service), additional_headers=bearer(service)) as websocket:
            fail()
            assert json.loads(websocket.recv(timeout=DEADLINE_S)) == told
            return
    with service.client.stream("GET", path(), headers=SSE if form == "sse" else ARROW) as response:
        fail()
        if form == "sse":
            assert list(events(response)) == [(None, "failed", told)]
        else:
            stream = pa.ipc.open_stream(b"".join(response.iter_raw()))
            _, metadata = stream.read_next_batch_with_custom_metadata()
            assert json.loads(metadata[b"gsdm.event"]) == told


def test_a_follower_is_told_that_a_run_failed_and_stays_for_the_next(service):
    log = service.queries.add("q", "installed")
    log.append(kept(0, 2))
    log.end(final=True)
    view = service.queries.views["q"]
    with service.client.stream("GET", path(follow=True), headers=SSE) as response:
        found = events(response)
        assert numbers([next(found)]) == [0, 1]
        view.update(error={"title": "no hosts"}, failure={"action": "activate", "operation": "op-1", "at": 1.0})
        assert next(found)[1:] == ("failed", {"event": "failed", "next": 2, "error": {"title": "no hosts"}})
        view.update(error=None, failure=None, desired="active", state="active")
        log.begin()
        log.append(kept(2, 2))
        assert numbers([next(found)]) == [2, 3]
        service.queries.views.pop("q")
        log.remove()
        assert next(found)[2]["reason"] == "dropped"


def test_a_query_that_does_not_run_ends_its_streams_at_once(service):
    service.queries.add("q", "installed")
    assert read_sse(service) == [(None, "end", {"event": "end", "next": 0, "reason": "stopped"})]


def test_a_reader_that_came_too_late_is_told_what_it_missed(service):
    log = service.queries.add("q", keep_bytes=20_000, segment_bytes=5_000)
    for first in range(0, 1000, 10):
        log.append(kept(first, 10))
    log.end(final=True)
    gone = log.first
    assert gone > 10
    found = read_sse(service, from_=5)
    assert found[0] == (str(gone - 1), "missed", {"event": "missed", "missed": gone - 5, "from": 5, "to": gone - 1})
    assert numbers(found) == list(range(gone, 1000))
    assert numbers(read_sse(service)) == list(range(gone, 1000))
    with service.client.stream("GET", path(from_=5), headers=ARROW) as response:
        reader = pa.ipc.open_stream(response.read())
        told = []
        while True:
            try:
                _, metadata = reader.read_next_batch_with_custom_metadata()
            except StopIteration:
                break
            told += [json.loads(metadata["gsdm.event"])["event"]] if metadata else []
    assert told == ["missed", "end"]


def test_all_values_come_as_one_arrow_stream(service):
    log = service.queries.add("q")
    blocks = [kept(0, 30, 5), kept(30, 1, 2000), kept(31, 500, 7)]
    for block in blocks:
        log.append(block)
    log.end(final=True)
    response = service.client.get(path(max_windows=20), headers=ARROW)
    assert response.headers["content-type"] == ARROW["Accept"]
    batches = list(pa.ipc.open_stream(response.content))
    assert [seq for batch in batches for seq in batch.column("__seq__").to_pylist()] == list(range(531))
    got = PhysicalWindow.concat([PhysicalWindow.from_arrow(batch) for batch in batches])
    expected = PhysicalWindow.concat(blocks)
    assert got.type == expected.type
    assert list(got.ordinals) == list(range(531))
    for name in expected.columns:
        assert all(np.array_equal(a, b) for a, b in zip(got[name], expected[name], strict=True))
    few = pa.ipc.open_stream(service.client.get(path(attributes="n"), headers=ARROW).content)
    assert few.schema.names == ["__seq__", "__ordinal__", "ts", "n"]
    assert PhysicalWindow.from_arrow(next(iter(few))).n.tolist() == list(range(531))


@pytest.mark.parametrize("way", ["header", "subprotocol"])
def test_a_websocket_gets_the_same_events(service, way):
    log = service.queries.add("q")
    log.begin()
    log.append(kept(0, 3))
    if way == "header":
        options = {"additional_headers": bearer(service)}
    else:
        options = {"subprotocols": ["gsdm.results", f"gsdm.bearer.{service.secret}"]}
    with connect(ws_url(service), **options) as websocket:
        assert websocket.subprotocol == (None if way == "header" else "gsdm.results")
        first = json.loads(websocket.recv(DEADLINE_S))
        assert [window["values"]["n"] for window in first["windows"]] == [0, 1, 2]
        websocket.send("whatever")
        log.append(kept(3, 1))
        assert json.loads(websocket.recv(DEADLINE_S))["last"] == 3
        log.end(final=True)
        assert json.loads(websocket.recv(DEADLINE_S)) == {"event": "end", "next": 4, "reason": "finished"}
        with pytest.raises(ConnectionClosed):
            websocket.recv(DEADLINE_S)


def test_a_websocket_gets_arrow_messages(service):
    log = service.queries.add("q")
    log.append(kept(0, 50))
    log.end(final=True)
    with connect(ws_url(service, format="arrow", from_=7), additional_headers=bearer(service)) as websocket:
        messages = list(websocket)
    stream = pa.ipc.open_stream(b"".join(message for message in messages if isinstance(message, bytes)))
    assert [n for batch in stream for n in batch.column("n").to_pylist()] == list(range(7, 50))
    assert json.loads(messages[-1])["event"] == "end"


@pytest.mark.parametrize(
    ("parameters", "status", "kind"),
    [
        ({"from_": "yesterday"}, 422, "invalid-request"),
        ({"from_": -1}, 422, "invalid-request"),
        ({"last": 0}, 422, "invalid-request"),
        ({"last": 1001}, 422, "invalid-request"),
        ({"points": 10_001}, 422, "invalid-request"),
        ({"lst": 5}, 422, "invalid-request"),
        ({"attributes": "n,w"}, 422, "unknown-name"),
        ({"stream": "other"}, 404, "not-found"),
        ({"name": "nobody"}, 404, "not-found"),
    ],
)
def test_wrong_requests_get_problem_documents(service, parameters, status, kind):
    service.queries.add("q").append(kept(0, 3))
    for headers in ({}, SSE, ARROW):
        answer = service.client.get(path(**parameters), headers=headers)
        assert (answer.status_code, answer.json()["type"]) == (status, f"urn:gsdm:problem:{kind}")
    if "last" not in parameters:
        assert refused(service, **parameters) == (status, f"urn:gsdm:problem:{kind}")


def test_forms_are_negotiated(service):
    service.queries.add("q", "installed").append(kept(0, 3))
    for accept, media in {
        "*/*": "application/json",
        "text/html, application/json;q=0.9, */*;q=0.1": "application/json",
        "text/*": "text/event-stream",
        "text/event-stream, */*": "text/event-stream",
        "application/json;q=0.5, application/vnd.apache.arrow.stream": "application/vnd.apache.arrow.stream",
        "application/json;q=0, */*": "text/event-stream",
    }.items():
        answer = service.client.get(path(), headers={"Accept": accept})
        assert answer.headers["content-type"].partition(";")[0] == media, accept
    answer = service.client.get(path(), headers={"Accept": "image/png"})
    assert (answer.status_code, answer.json()["type"]) == (406, "urn:gsdm:problem:not-acceptable")


def test_nobody_reads_without_a_token(service):
    service.queries.add("q")
    for headers in ({}, SSE):
        assert httpx.get(service.url + path(), headers=headers).status_code == 401
    assert refused(service, {"X-Token": "none"}) == (401, "urn:gsdm:problem:unauthorized")


def test_open_streams_are_limited_and_counted_down_when_readers_go(service):
    log = service.queries.add("q")
    log.begin()
    log.append(kept(0, 1))
    with ExitStack() as readers:
        found = []  # what is not held is closed
        for _ in range(11):
            response = readers.enter_context(service.client.stream("GET", path(), headers=SSE))
            found.append(events(response))
            assert next(found[-1])[1] == "windows"
        readers.enter_context(connect(ws_url(service), additional_headers=bearer(service)))
        for headers in (SSE, ARROW):
            answer = service.client.get(path(), headers=headers)
            assert (answer.status_code, answer.json()["type"]) == (429, "urn:gsdm:problem:too-many")
        assert refused(service) == (429, "urn:gsdm:problem:too-many")
        assert service.client.get(path()).status_code == 200
    eventually(lambda: service.app.state.result_streams.open == 0)
    assert log._listeners == ()


def test_readers_that_stop_reading_hold_up_neither_the_writer_nor_other_readers(service):
    log = service.queries.add("q", keep_bytes=4 << 20, segment_bytes=1 << 18)
    log.begin()
    log.append(kept(0, 1))
    stalled = [service.client.stream("GET", path(from_=0), headers=form) for form in (SSE, ARROW, SSE, ARROW)]
    begun = [stream.__enter__().iter_raw(10) for stream in stalled]
    for raw in begun:
        next(raw)
    with service.client.stream("GET", path(points=0, attributes="n"), headers=SSE) as response:
        found = events(response)
        seen = numbers([next(found)])
        for first in range(1, 4001, 10):
            log.append(kept(first, 10, 500))
        log.end(final=True)
        for one in found:
            if one[1] == "missed":
                seen += range(one[2]["from"], one[2]["to"] + 1)
            seen += numbers([one])
    assert seen == list(range(4001))
    assert log.first > 0
    for stream in stalled:
        stream.__exit__(None, None, None)
    eventually(lambda: service.app.state.result_streams.open == 0)


def test_readers_of_the_same_windows_share_what_is_encoded(service, monkeypatch):
    log = service.queries.add("q")
    log.begin()
    log.append(kept(0, 1))
    encoded = []
    plain = results.Form.encode
    monkeypatch.setattr(results.Form, "encode", lambda *args: encoded.append(args[2][0][0]) or plain(*args))
    streams = [service.client.stream("GET", path(from_=0, max_windows=256), headers=SSE) for _ in range(8)]
    readers = [events(stream.__enter__()) for stream in streams]
    for reader in readers:
        assert numbers([next(reader)]) == [0]
    log.append(kept(1, 999))
    log.end(final=True)
    for reader in readers:
        assert numbers(reader) == list(range(1, 1000))
    assert sorted(encoded) == [0, 1, 256, 512, 768]
    for stream in streams:
        stream.__exit__(None, None, None)


def test_a_service_that_ends_lets_its_readers_go(service):
    log = service.queries.add("q")
    log.begin()
    log.append(kept(0, 1))
    with service.client.stream("GET", path(), headers=SSE) as response:
        found = events(response)
        assert next(found)[1] == "windows"
        with connect(ws_url(service, from_="latest"), additional_headers=bearer(service)) as websocket:
            eventually(lambda: service.app.state.result_streams.open == 2)
            log.close()
            assert list(found) == []
            assert json.loads(websocket.recv(DEADLINE_S))["reason"] == "closing"
            with pytest.raises(ConnectionClosed):
                websocket.recv(DEADLINE_S)
            assert websocket.close_code == 1012
