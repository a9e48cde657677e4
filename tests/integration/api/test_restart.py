"""A coordinator that is killed: after its restart states are true, and result streams go on."""

import contextlib
import io
import json
import sqlite3
import zipfile

import httpx
import psutil
import pytest

from gsdm_grid.testing import eventually

RADIO = {"type": "Radio", "interface": "synthetic_radio", "options": {"window": 256, "rate": 400}}
FLOW = {"template": "PCC", "args": [2, "RRpart", "fft3", {}, "S-Merge"]}


def specification(name="q", **members):
    return {"name": name, "inputs": [RADIO], "flow": FLOW, **members}


def kept(client, name="q"):
    """Seq and timestamp of all windows that are kept."""
    found = client.get(f"/v1/queries/{name}/results", params={"last": 1000, "points": 1, "attributes": "ts"})
    return found.json()


def timestamps(client, name="q"):
    return [window["values"]["ts"] for window in kept(client, name)["windows"]]


def expected(count):
    """Timestamps of the source's first windows: 256 samples at 1 MHz apart, in nanoseconds."""
    return [number * 256_000 for number in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("placement", ["threads", pytest.param("grid", marks=pytest.mark.grid)])
def test_killed_while_active_the_result_goes_on_without_a_lost_or_doubled_window(own_service, placement):
    service = own_service("--placement", placement).start()
    with service.client() as client:
        client.post("/v1/queries", json=specification(stop={"count": 900}))
        client.post("/v1/queries/q/run")
        eventually(lambda: len(timestamps(client)), lambda count: count > 200, 90)
    below = psutil.Process(service.process.pid).children(recursive=True)
    service.kill()
    service.start()
    with service.client() as client:
        before = len(timestamps(client))
        assert 200 < before < 900
        query = client.get("/v1/queries/q").json()
        assert query["desired"] == "active"
        over = lambda query: query["state"] == query["desired"] == "installed"  # noqa: E731
        eventually(lambda: client.get("/v1/queries/q").json(), over, 90)
        assert timestamps(client) == expected(900)
        states = [event["state"] for event in client.get("/v1/queries/q/events").json()["items"]][::-1]
        assert states == [
            "specified",
            "compiled",
            "installed",
            "active",
            "compiled",
            "installed",
            "active",
            "installed",
        ]
    _, alive = psutil.wait_procs(below, timeout=45)
    assert not alive, [process.cmdline() for process in alive]


def test_a_damaged_type_of_a_result_log_is_mended_by_the_restart(own_service):
    service = own_service("--placement", "threads").start()
    with service.client() as client:
        client.post("/v1/queries", json=specification(stop={"count": 900}))
        client.post("/v1/queries/q/run")
        eventually(lambda: len(timestamps(client)), lambda count: count > 200, 90)
    service.kill()
    (file,) = (service.home / "results" / "q").glob("*/type.json")
    file.write_bytes(file.read_bytes()[:-20])
    service.start()
    with service.client() as client:
        over = lambda query: query["state"] == query["desired"] == "installed"  # noqa: E731
        eventually(lambda: client.get("/v1/queries/q").json(), over, 90)
        assert timestamps(client) == expected(900)
    assert f"{file} is damaged" in (service.home / "log").read_text()


def test_killed_while_compiling_the_promise_is_kept(own_service):
    service = own_service("--placement", "threads").start()
    with service.client() as client:
        for number in range(20):
            client.post("/v1/queries", json=specification(f"q{number}"))
        promised = [client.post(f"/v1/queries/q{number}/compile").headers["Location"] for number in range(20)]
    service.kill()
    service.start()
    with service.client() as client:
        for place in promised:
            eventually(lambda place=place: client.get(place).json()["status"], lambda status: status == "succeeded")
        for number in range(20):
            query = client.get(f"/v1/queries/q{number}").json()
            assert (query["state"], query["desired"]) == ("compiled", "compiled")


def test_killed_while_stopping_the_query_is_installed_and_resumable(own_service, done):
    service = own_service("--placement", "threads").start()
    with service.client() as client:
        client.post("/v1/queries", json=specification())
        done(client, client.post("/v1/queries/q/run"))
        eventually(lambda: len(timestamps(client)), lambda count: count > 50)
        client.post("/v1/queries/q/deactivate")
    service.kill()
    service.start()
    with service.client() as client:
        over = lambda query: query["state"] == query["desired"] == "installed"  # noqa: E731
        eventually(lambda: client.get("/v1/queries/q").json(), over)
        before = len(timestamps(client))
        done(client, client.post("/v1/queries/q/activate", json={"count": 100}))
        eventually(lambda: client.get("/v1/queries/q").json(), over)
        found = timestamps(client)
        assert before < len(found) <= before + 120
        assert found == expected(len(found))


def test_what_was_registered_survives(own_service):
    service = own_service("--placement", "threads").start()
    with service.client() as client:
        wave = {"name": "Wave", "attributes": {"x": "vector of float32"}}
        assert client.post("/v1/types", json=wave).status_code == 201
        source = {"name": "antenna", **RADIO}
        assert client.post("/v1/sources", json=source).status_code == 201
        viewer = client.post("/v1/tokens", json={"name": "eve", "role": "viewer"}).json()["token"]
        client.post("/v1/queries", json={"name": "q", "inputs": ["antenna"], "function": "fft3"})
    service.kill()
    service.start()
    with service.client(viewer) as client:
        assert client.get("/v1/types/Wave").status_code == 200
        assert client.get("/v1/sources/antenna").status_code == 200
        assert client.get("/v1/queries/q").json()["state"] == "specified"


def test_a_polite_end_leaves_nothing_running(own_service, done):
    service = own_service("--placement", "threads").start()
    with service.client() as client:
        client.post("/v1/queries", json=specification())
        done(client, client.post("/v1/queries/q/run"))
    service.stop()
    assert service.process.returncode == 0
    assert not (service.home / "server.json").exists()


PAIRS = """
from .helping import pair
from gsdm_grid import Radio, sqf


@sqf(Radio, returns=Radio, uses_neighbours=True)
def seconds_of_pairs(s):
    return pair(s)[1]
"""
HELPING = """
from gsdm_grid import sliding_window as window_of


def pair(s):
    return window_of(s, 2, 2)
"""


@pytest.mark.slow
def test_killed_while_active_a_function_that_uses_neighbouring_windows_through_a_helper_goes_on_as_if_nothing_was(
    own_service,
):
    service = own_service("--placement", "threads").start()
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("__init__.py", PAIRS)
        archive.writestr("helping.py", HELPING)
    with service.client() as client:
        put = client.put(
            "/v1/bundles/lib", content=content.getvalue(), headers={"Content-Type": "application/zip"}, timeout=60
        )
        assert put.status_code < 300, put.text
        query = {"name": "q", "inputs": [RADIO], "function": "lib.seconds_of_pairs", "stop": {"count": 600}}
        query["plan"] = "central"
        assert client.post("/v1/queries", json=query).status_code < 300
        client.post("/v1/queries/q/run")
        eventually(lambda: len(timestamps(client)), lambda count: count > 51)
    service.kill()
    service.start()
    with service.client() as client:
        over = lambda query: query["state"] == query["desired"] == "installed"  # noqa: E731
        eventually(lambda: client.get("/v1/queries/q").json(), over, 90)
        assert timestamps(client) == expected(600)[1::2]


DEADLY = """
import os
from gsdm_grid import Radio, current_window, sqf

@sqf(Radio, returns=Radio)
def end(stream):
    window = current_window(stream)
    os._exit(3)
    return window
"""


def start_until(service, holds):
    """Start a coordinator that dies again and again, until it stays and something holds."""
    for _ in range(4):  # what was started at the same time is told apart from what ends it, so it takes some deaths
        service.process.wait(60)
        try:
            with service.start().client() as client:
                if holds(client):
                    return
        except (AssertionError, OSError, ValueError, httpx.HTTPError):
            continue  # it has died again


@pytest.mark.slow
def test_a_query_that_ends_the_coordinator_is_not_started_by_itself_for_ever(own_service):
    service = own_service("--placement", "threads").start()
    with service.client() as client:
        uploaded = client.put("/v1/bundles/deadly", content=DEADLY.encode(), headers={"Content-Type": "text/x-python"})
        assert uploaded.status_code == 201, uploaded.text
        client.post("/v1/queries", json=specification("good"))
        client.post("/v1/queries", json={"name": "q", "inputs": [RADIO], "function": "deadly.end"})
        client.post("/v1/queries/good/run")
        client.post("/v1/queries/q/run")
    start_until(service, lambda client: client.get("/v1/queries/q").json()["state"] == "failed")
    with service.client() as client:
        query = client.get("/v1/queries/q").json()
        assert (query["state"], query["desired"]) == ("failed", "failed")
        assert query["error"]["type"] == "urn:gsdm:problem:crashed-while-starting"
        assert "crashed while starting" in query["error"]["detail"]
        assert "gsdm run q" in query["error"]["detail"]
        eventually(lambda: client.get("/v1/queries/good").json()["state"], lambda state: state == "active")


@pytest.mark.slow
def test_a_trial_that_ends_the_coordinator_is_not_run_for_ever_nor_is_the_search_that_asked_for_it(own_service):
    service = own_service("--placement", "threads").start()
    query = {"name": "q", "inputs": [RADIO], "function": "deadly.end"}
    asked = [("/v1/trials", query), ("/v1/optimizations", {"specification": query, "count": 10})]
    with service.client() as client:
        uploaded = client.put("/v1/bundles/deadly", content=DEADLY.encode(), headers={"Content-Type": "text/x-python"})
        assert uploaded.status_code == 201, uploaded.text
    for path, body in asked:
        with contextlib.suppress(httpx.HTTPError), service.client() as client:  # it may die before it has answered
            client.post(path, json=body)
        start_until(service, lambda client: client.get(path).json()["items"][0]["status"] == "failed")
        with service.client() as client:
            (one,) = client.get(path).json()["items"]
            assert one["status"] == "failed"
            assert one["error"]["type"] == "urn:gsdm:problem:crashed-while-running"
            assert "crashed while running" in one["error"]["detail"]
            assert "ask for it again" in one["error"]["detail"]
            assert {done["status"] for done in client.get("/v1/operations").json()["items"]} == {"failed"}
    assert service.process.poll() is None


def test_a_coordinator_starts_though_an_older_version_stored_what_is_not_allowed_any_more(own_service):
    service = own_service("--placement", "threads").start()
    with service.client() as client:
        for name in ("leaves", "works"):
            code = DEADLY.replace("end", name).encode()
            uploaded = client.put(f"/v1/bundles/{name}", content=code, headers={"Content-Type": "text/x-python"})
            assert uploaded.status_code == 201, uploaded.text
        for name in ("path", "uses", "good"):
            client.post("/v1/queries", json=specification(name))
        client.post("/v1/queries/path/run")
        eventually(lambda: client.get("/v1/queries/path").json()["state"], lambda state: state == "active")
    service.kill()
    with contextlib.closing(sqlite3.connect(service.home / "gsdm.sqlite")) as database, database:
        code = f"{DEADLY}\nos._exit(5)\n".encode()
        database.execute("UPDATE bundles SET content = ? WHERE name = 'leaves'", (code,))
        for name, function in (("path", "json.tool:main"), ("uses", "leaves.leaves")):
            stored = json.dumps({"name": name, "inputs": [RADIO], "function": function})
            database.execute("UPDATE queries SET specification = ? WHERE name = ?", (stored, name))
        source = json.dumps({"type": "Radio", "interface": "json.tool:main"})
        database.execute("INSERT INTO segments VALUES ('old', ?, 100, NULL, 'nobody', 1.0)", (source,))
        database.execute(
            "INSERT INTO operations VALUES ('op-old', 'old', 'record', '{}', 'pending', NULL, NULL, 1, NULL)"
        )
    with service.start().client() as client:
        bundles = {bundle["name"]: bundle["error"] for bundle in client.get("/v1/bundles").json()["items"]}
        assert bundles["leaves"] == "the code cannot be imported: it ended its process, with exit code 5"
        assert bundles["works"] is None
        query = client.get("/v1/queries/path").json()
        assert (query["state"], query["desired"]) == ("failed", "failed")
        assert "'json.tool:main': code is named by a registered name" in query["error"]["detail"]
        over = lambda operation: operation["status"] == "failed"  # noqa: E731
        recording = eventually(lambda: client.get("/v1/operations/op-old").json(), over)
        assert "'json.tool:main': code is named by a registered name" in recording["error"]["detail"]
        client.post("/v1/queries/uses/run")
        uses = eventually(lambda: client.get("/v1/queries/uses").json(), lambda query: query["error"])
        assert "leaves.leaves" in uses["error"]["detail"]
        client.post("/v1/queries/good/run")
        eventually(lambda: client.get("/v1/queries/good").json()["state"], lambda state: state == "active")
