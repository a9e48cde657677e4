"""Registered sources that queries share, over REST: opened once, and every query served as if it were alone."""

from collections import Counter

import numpy as np
import pytest
from starlette.testclient import TestClient

from api.settings import ServiceSettings
from api.wiring import make_app
from gsdm_grid import Grid, Radio, register_input_stream, register_result_stream
from gsdm_grid.interfaces import EndOfStream, StreamInterface, register_stream_interface
from gsdm_grid.testing import eventually

DEADLINE_S = 60.0
opens: Counter[str] = Counter()
given: Counter[str] = Counter()


class Counted(StreamInterface):
    """A live source of ``limit`` windows with the timestamps 0, 1, …, as far as the test has ``given`` them.

    It counts how often it is opened, by option ``key``.
    """

    known_options = frozenset({"key", "limit"})

    def open(self, context):
        super().open(context)
        opens[self.options["key"]] += 1
        self._at = 0

    def next(self, limit):
        if self._at == self.options["limit"]:
            raise EndOfStream
        size = min(limit, given[self.options["key"]] - self._at)
        if size <= 0:
            return None
        ts = np.arange(self._at, self._at + size)
        self._at += size
        samples = np.zeros((size, 8), np.complex64)
        return Radio.block(ts=ts, x=samples, y=samples, z=samples)

    def due_s(self):
        return self.context.clock.monotonic_s() + 0.002


register_stream_interface("counted", Counted)


@pytest.fixture
def app(tmp_path):
    """The application in this process, whose interfaces the test knows, with a token."""
    made = make_app(ServiceSettings(home=tmp_path, placement="threads"))
    with TestClient(made) as client:
        client.headers["Authorization"] = f"Bearer {made.state.services.tokens.create('t', 'admin')[1]}"
        yield client


def timestamps(client, name):
    found = client.get(f"/v1/queries/{name}/results", params={"last": 1000, "points": 1, "attributes": "ts"}).json()
    return [window["values"]["ts"] for window in found["windows"]]


def over(client, name):
    eventually(lambda: client.get(f"/v1/queries/{name}").json(), lambda q: q["state"] == q["desired"] == "installed")


def test_two_queries_on_one_registered_source_open_it_once(app, done):
    source = {"name": "antenna", "type": "Radio", "interface": "counted", "options": {"key": "once", "limit": 400}}
    assert app.post("/v1/sources", json={**source, "shared": True}).json()["shared"] is True
    for name in ("a", "b"):
        app.post("/v1/queries", json={"name": name, "inputs": ["antenna"], "function": "fft3"})
        done(app, app.post(f"/v1/queries/{name}/run"))
    told = app.get("/v1/queries/a").json()["shared"]["antenna"]
    assert told["with"] == ["b"]
    assert told["part"] in app.get("/v1/sites").text
    given["once"] = 400
    for name in ("a", "b"):
        over(app, name)
        assert timestamps(app, name) == list(range(400))
    assert opens["once"] == 1


def test_queries_on_a_source_that_is_not_shared_open_it_each(app, done):
    source = {"name": "antenna", "type": "Radio", "interface": "counted", "options": {"key": "each", "limit": 40}}
    assert app.post("/v1/sources", json=source).json()["shared"] is False
    given["each"] = 40
    for name in ("a", "b"):
        app.post("/v1/queries", json={"name": name, "inputs": ["antenna"], "function": "fft3"})
        done(app, app.post(f"/v1/queries/{name}/run"))
        over(app, name)
        assert timestamps(app, name) == list(range(40))
    assert opens["each"] == 2


def test_queries_share_sites_if_they_say_so(app, done):
    source = {"type": "Radio", "interface": "counted", "options": {"key": "sites", "limit": 400}}
    flow = {"template": "pipe", "args": ["fft3", {}, "polarize", {}]}
    for name in ("a", "b"):
        app.post("/v1/queries", json={"name": name, "inputs": [source], "flow": flow, "share": True})
        done(app, app.post(f"/v1/queries/{name}/run"))
    [read] = app.get("/v1/queries/b").json()["shared"].values()
    assert read["with"] == ["a"]
    given["sites"] = 400
    for name in ("a", "b"):
        over(app, name)
        assert timestamps(app, name) == list(range(400))
    assert opens["sites"] == 1


@pytest.mark.parametrize(
    ("wrong", "detail"),
    [
        ({"share": "yes"}, "share: expected true or false"),
        ({"inputs": [{"type": "Radio", "interface": "tap", "options": {"part": "x"}}]}, "used inside the system only"),
        (
            {"inputs": [{"type": "Radio", "interface": "synthetic_radio", "shared": 1}]},
            "shared: expected true or false",
        ),
        (
            {"share": True, "autoscale": {"max": 2}, "plan": {"strategy": "window_distribute"}},
            "does not go with autoscale",
        ),
    ],
)
def test_what_cannot_be_shared_is_refused_with_the_place(app, wrong, detail):
    inputs = [{"type": "Radio", "interface": "synthetic_radio"}]
    answer = app.post("/v1/queries", json={"name": "q", "inputs": inputs, "function": "fft3", **wrong})
    assert answer.status_code == 422
    assert detail in answer.json()["detail"]


def test_a_port_that_is_listened_on_is_shared_unless_told_otherwise(service, rest, done, free_port):
    address = f"127.0.0.1:{free_port}"
    source = {"name": "line", "type": "Radio", "interface": "tcp", "options": {"address": address, "listen": True}}
    assert rest.post("/v1/sources", json=source).json()["shared"] is True
    try:
        for name in ("line-a", "line-b"):
            rest.post("/v1/queries", json={"name": name, "inputs": ["line"], "function": "fft3"})
            done(rest, rest.post(f"/v1/queries/{name}/run"))
        send(address, 50)
        for name in ("line-a", "line-b"):
            eventually(lambda name=name: timestamps(rest, name), lambda ts: len(ts) == 50)
            assert timestamps(rest, name) == [number * 1000 for number in range(50)]
    finally:
        for name in ("line-a", "line-b"):
            rest.delete(f"/v1/queries/{name}")


def send(address, count):
    """Send windows to a port, as another system would."""
    samples = np.zeros((count, 8), np.complex64)
    block = Radio.block(ts=np.arange(count) * 1000, x=samples, y=samples, z=samples)
    with Grid("threads") as grid:
        sink = register_result_stream(address, "tcp")
        grid.cq("identity", [register_input_stream("Radio", block)], [sink]).run().wait(DEADLINE_S)


@pytest.mark.slow
def test_after_a_crash_each_query_goes_on_exactly_where_it_was(own_service, done):
    service = own_service("--placement", "threads").start()
    source = {"name": "radio", "type": "Radio", "interface": "synthetic_radio", "options": {"window": 256, "rate": 400}}
    with service.client() as client:
        client.post("/v1/sources", json={**source, "shared": True})
        client.post("/v1/queries", json={"name": "a", "inputs": ["radio"], "function": "fft3"})
        done(client, client.post("/v1/queries/a/run"))
        eventually(lambda: timestamps(client, "a"), lambda ts: len(ts) > 50)
        client.post("/v1/queries", json={"name": "b", "inputs": ["radio"], "function": "fft3"})
        done(client, client.post("/v1/queries/b/run", json={"count": 400}))
        eventually(lambda: timestamps(client, "b"), lambda ts: len(ts) > 50)
        assert client.get("/v1/queries/b").json()["shared"]["radio"]["with"] == ["a"]
    service.kill()
    service.start()
    with service.client() as client:
        finished = lambda query: query["state"] == query["desired"] == "installed"  # noqa: E731
        eventually(lambda: client.get("/v1/queries/b").json(), finished, 60)
        seen = timestamps(client, "b")
        first = seen[0] // 256_000
        assert first > 40
        assert seen == [number * 256_000 for number in range(first, first + 400)]
        seen = timestamps(client, "a")
        assert seen == [seen[0] + number * 256_000 for number in range(len(seen))]
