"""The command line and the client against a coordinator that runs as people run it."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from gsdm_grid.cli.commands import app
from gsdm_grid.client import ApiProblem, AsyncClient, Client
from gsdm_grid.splitting.split_cost import Coefficients
from gsdm_grid.testing import eventually
from gsdm_grid.tuning.split_profile import SplitProfile, keep_profile

ROOT = Path(__file__).resolve().parents[3]
FFT3 = str(ROOT / "examples" / "fft3.yaml")
DEADLINE_S = 60.0
UPLOADED = """
from gsdm_grid import Radio, current_window, sqf


@sqf(Radio)
def cli_silence(s):
    "Radio without x."
    window = current_window(s)
    return window.replace(x=0 * window.x)
"""


@pytest.fixture
def environment(service, monkeypatch):
    """As on the machine of somebody who started the coordinator there."""
    for name in ("GSDM_SERVER", "GSDM_TOKEN", "GSDM_DEBUG", "GSDM_DATABASE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GSDM_HOME", str(service.home))


@pytest.fixture
def gsdm(environment):
    runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})

    def run(*arguments, fails=False):
        done = runner.invoke(app, [str(argument) for argument in arguments])
        assert (done.exit_code != 0) == fails, done.output
        return done

    return run


@pytest.fixture
def client(environment):
    with Client() as made:
        yield made


@pytest.fixture
def spec(tmp_path):
    """Make a specification of a query over noise; returns its file."""

    def make(name, **members):
        options = {"window": 64, **members.pop("options", {})}
        document = {
            "name": name,
            "inputs": [{"type": "Radio", "interface": "synthetic_radio", "options": options}],
            "flow": {"template": "PCC", "args": [2, "RRpart", "fft3", {}, "S-Merge"]},
            **members,
        }
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
        return tmp_path / f"{name}.json"

    return make


@pytest.fixture
def dropped(client):
    """Drop these queries at the end, if they are still there."""
    names = []
    yield names
    for name in names:
        for query in client.queries(name=name):
            client.drop(query.name, timeout_s=DEADLINE_S)


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def test_the_first_use_in_the_readme_prints_windows(gsdm, dropped):
    dropped.append("fft3")
    submitted = gsdm("submit", FFT3)
    assert "gsdm results fft3 --follow" in submitted.output
    command = [sys.executable, "-m", "gsdm_grid.cli", "results", "fft3", "--follow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as reading:
        watchdog = threading.Timer(DEADLINE_S, reading.kill)
        watchdog.start()
        printed = [reading.stdout.readline() for _ in range(20)]
        reading.kill()
        watchdog.cancel()
    numbers = [int(line.split()[0]) for line in printed]
    assert numbers == list(range(numbers[0], numbers[0] + 20))
    assert "x, y, z: 1024 complex64, |max|" in printed[0]


def test_a_query_goes_through_its_life(gsdm, spec, dropped):
    dropped.append("life")
    assert "stored; run it: gsdm run life" in gsdm("submit", spec("life"), "--no-run").output
    assert "there are no windows yet" in gsdm("results", "life").stderr
    assert json.loads(gsdm("show", "life", "--json").stdout)["state"] == "specified"
    assert "query life is running" in gsdm("run", "life", "--count", "300").output
    printed = gsdm("results", "life", "--follow", "--last", "1000").output
    assert [int(line.split()[0]) for line in printed.splitlines()] == list(range(300))
    assert "query life is running" in gsdm("run", "life").output
    assert "has stopped" in gsdm("stop", "life").output
    shown = gsdm("show", "life").output
    assert "life is installed" in shown
    assert "synthetic_radio" in shown
    assert "life" in gsdm("ls", "--state", "installed").output
    assert {one["action"] for one in json.loads(gsdm("operations", "--query", "life", "--json").stdout)} >= {"run"}
    assert "succeeded" in gsdm("operations", "--query", "life").output
    assert "query life is gone" in gsdm("rm", "life").output
    assert gsdm("show", "life", fails=True).stderr.startswith("error: ")


def test_a_running_query_shows_where_it_runs_and_how_it_fares(gsdm, spec, dropped, client):
    dropped.append("busy")
    gsdm("submit", spec("busy", options={"rate": 500}))
    next(client.result_blocks("busy", start="latest"))
    figures = json.loads(gsdm("stats", "busy", "--json").stdout)
    assert {one["does"] for one in figures} == {"RRpart", "fft3", "S-Merge"}
    told = gsdm("stats", "busy").output
    assert "S-Merge" in told
    assert "read " in told
    assert "sites have counted since" in told
    assert {one["host"] for one in json.loads(gsdm("sites", "--query", "busy", "--json").stdout)} == {"thread"}
    assert "RRpart" in gsdm("sites").output
    assert "S-Merge" in gsdm("graph", "busy").output
    assert gsdm("graph", "busy", "--format", "dot").output.startswith("digraph")
    assert "vertices" in json.loads(gsdm("graph", "busy", "--json").stdout)
    client.deactivate("busy", timeout_s=DEADLINE_S)


def test_statistics_are_watched_until_the_query_is_gone(gsdm, spec, dropped, client):
    dropped.append("watched")
    gsdm("submit", spec("watched", options={"rate": 500}))
    command = [sys.executable, "-m", "gsdm_grid.cli", "stats", "watched", "--watch", "--period", "0.1", "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    ) as looking:
        first = json.loads(looking.stdout.readline())
        client.drop("watched", timeout_s=DEADLINE_S)
        _, said = looking.communicate(timeout=DEADLINE_S)
    assert first["state"] == "active"
    assert "Traceback" not in said


@pytest.mark.parametrize("command", [("stats", "looked", "--watch", "--json"), ("results", "looked", "--follow")])
def test_who_has_seen_enough_ends_it_without_an_error(gsdm, spec, dropped, command):
    dropped.append("looked")
    gsdm("submit", spec("looked", options={"rate": 100}))
    arguments = [sys.executable, "-m", "gsdm_grid.cli", *command]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as looking:
        watchdog = threading.Timer(DEADLINE_S, looking.kill)
        watchdog.start()
        assert looking.stdout.readline()
        looking.send_signal(signal.SIGINT)
        _, said = looking.communicate()
        watchdog.cancel()
    assert (looking.returncode, said) == (0, "\n")
    gsdm("rm", "looked")


def test_results_are_drawn_to_files(gsdm, spec, dropped, tmp_path):
    dropped.append("drawn")
    gsdm("submit", spec("drawn"), "--count", "50")
    png, html = tmp_path / "drawn.png", tmp_path / "drawn.html"
    gsdm("results", "drawn", "--follow", "--png", png, "--html", html)
    assert png.read_bytes().startswith(b"\x89PNG")
    assert 'http-equiv="refresh"' in html.read_text()
    gsdm("results", "drawn", "--html", html)
    assert "refresh" not in html.read_text()
    assert "50 windows drawn: " in gsdm("results", "drawn", "--png", png).output
    refused = gsdm("results", "drawn", "--png", tmp_path / "nowhere" / "drawn.png", fails=True).output
    assert "there is no folder" in refused
    assert "Traceback" not in refused


def test_results_are_plotted_until_the_run_is_over(gsdm, spec, dropped):
    dropped.append("plotted")
    gsdm("submit", spec("plotted"), "--count", "50")
    drawn = gsdm("results", "plotted", "--plot").output
    assert "power of x, y and z" in drawn
    assert "window 49" in drawn
    assert "dB" in drawn


def test_results_as_json_are_one_window_a_line(gsdm, spec, dropped):
    dropped.append("lines")
    gsdm("submit", spec("lines"), "--count", "20")
    told = lines(gsdm("results", "lines", "--json", "--follow", "--last", "1000", "--points", "4").stdout)
    assert [one["seq"] for one in told] == list(range(20))
    assert len(told[0]["values"]["x"]["magnitude"]) == 4
    parts = lines(gsdm("results", "lines", "--json", "--last", "1", "--points", "4", "--complex-parts").stdout)
    assert {name: len(parts[0]["values"]["x"][name]) for name in ("re", "im")} == {"re": 4, "im": 4}
    assert [one["seq"] for one in lines(gsdm("results", "lines", "--json", "--last", "3").stdout)] == [17, 18, 19]


@pytest.mark.parametrize("more", [(), ("--follow",)], ids=["until", "follow"])
@pytest.mark.parametrize("last", [5, 1000])
def test_results_that_are_lost_at_the_end_are_told(gsdm, service, spec, dropped, last, more):
    name = f"lost-{last}-{len(more)}"
    dropped.append(name)
    gsdm("submit", spec(name), "--count", "20")
    printed = gsdm("results", name, "--follow", "--last", "1000").output
    assert len(printed.splitlines()) == 20
    for file in (service.home / "results" / name).glob("*/*.log"):
        content = bytearray(file.read_bytes())
        content[-100] ^= 1
        file.write_bytes(content)
    *shown, missed = lines(gsdm("results", name, "--last", last, "--json", *more).stdout)
    assert [one["seq"] for one in shown] == list(range(max(20 - last, 0), 20 - missed["missed"]))
    *shown, missing = gsdm("results", name, "--last", last, *more).output.splitlines()
    assert len(shown) + missed["missed"] == min(last, 20)
    assert missing.startswith(f"… {missed['missed']} windows are missing: not kept any more, or damaged on disk")


def test_every_window_comes_with_all_its_values(client, spec, dropped):
    dropped.append("values")
    client.submit(spec("values", flow="fft3", stop={"count": 10}))
    client.run("values", timeout_s=DEADLINE_S)
    blocks = list(client.result_blocks("values"))
    assert sum(map(len, blocks)) == 10
    assert all(np.asarray(block.x).dtype == np.complex64 for block in blocks)
    events = list(client.results("values", points=64))
    told = [window["values"]["x"] for event in events for window in event.windows]
    sent = np.concatenate([np.asarray(block.x) for block in blocks])
    np.testing.assert_allclose(np.array([one["re"] for one in told]), sent.real, rtol=1e-6)
    assert events[-1].end in ("finished", "stopped")
    assert client.latest("values", last=3, points=8)["next"] == 10


def test_the_async_client_does_the_same(environment, spec, dropped):
    dropped.append("awaited")

    async def life():
        async with AsyncClient() as client:
            assert await client.is_ready()
            await client.submit(spec("awaited"))
            await client.run("awaited", count=30, timeout_s=DEADLINE_S)
            counted = [len(block) async for block in client.result_blocks("awaited")]
            names = [query.name async for query in client.queries(name="awai")]
            await client.drop("awaited", timeout_s=DEADLINE_S)
            return sum(counted), names

    assert asyncio.run(life()) == (30, ["awaited"])


def test_a_refusal_is_one_clear_line(gsdm, spec, dropped):
    dropped.append("twice")
    gsdm("submit", spec("twice"), "--no-run")
    for arguments, expected in (
        (("submit", spec("twice")), "twice"),
        (("submit", spec("wrong", flow="nothing_like_it"), "--no-run"), "unknown function 'nothing_like_it'"),
        (("stop", "twice"), "error: query 'twice' is specified: cannot stop; allowed now: run, scale, rm\n"),
        (("run", "nobody"), "nobody"),
        (("show", "twic"), "there is no query 'twic'; did you mean 'twice'?"),
        (("ls", "--token", "wrong"), "token"),
    ):
        told = gsdm(*arguments, fails=True).stderr
        assert told.startswith("error: ")
        assert expected in told
        assert told.count("\n") == 1


def test_an_error_of_a_function_is_shown_with_the_lines_of_the_function(gsdm, client, spec, dropped, tmp_path):
    dropped.append("fragile")
    failing = UPLOADED.replace("window.replace(x=0 * window.x)", "window.replace(x=[1.0][len(window.x)])")
    (tmp_path / "code.py").write_text(failing.replace("cli_silence", "cli_fragile"))
    client.upload_bundle("cli_fragile_bundle", tmp_path / "code.py")
    gsdm("submit", spec("fragile", flow="cli_fragile_bundle.cli_fragile"), "--no-run")
    client.run("fragile", wait=False)
    eventually(lambda: client.query("fragile").state, lambda state: state == "failed")
    for told in (gsdm("show", "fragile").stdout, gsdm("results", "fragile", "--follow", fails=True).stderr):
        assert "function 'cli_fragile_bundle.cli_fragile': IndexError: list index out of range\n  File " in told
        assert "\n    return window.replace(x=[1.0][len(window.x)])\n" in told
    assert "return window.replace(x=[1.0][len(window.x)])" in client.query("fragile").document["error"]["trace"]
    gsdm("rm", "fragile")
    gsdm("bundle", "rm", "cli_fragile_bundle")


def test_tokens_are_made_listed_and_removed(gsdm, service):
    made = gsdm("token", "create", "cli-viewer", "--role", "viewer")
    secret = made.stdout.strip()
    assert "cli-viewer" in gsdm("token", "ls").output
    assert json.loads(gsdm("ls", "--token", secret, "--json").stdout) is not None
    assert "viewer" in gsdm("token", "create", "other", "--token", secret, fails=True).stderr
    gsdm("token", "rm", "cli-viewer")
    assert "cli-viewer" not in {one["name"] for one in json.loads(gsdm("token", "ls", "--json").stdout)}


def test_functions_of_the_coordinator_are_listed(gsdm, service):
    listed = json.loads(gsdm("functions", "--server", service.url, "--json").stdout)
    assert "fft3" in {one["name"] for one in listed}
    assert "fft3(Radio)" in gsdm("functions", "fft3", "--server", service.url).output


def test_uploaded_functions_are_used(client, spec, dropped, tmp_path):
    dropped.append("uploaded")
    (tmp_path / "code.py").write_text(UPLOADED)
    assert client.upload_bundle("cli_bundle", tmp_path / "code.py").functions
    assert "cli_bundle.cli_silence" in {one["name"] for one in client.functions()}
    client.submit(spec("uploaded", flow="cli_bundle.cli_silence", stop={"count": 3}))
    client.run("uploaded", timeout_s=DEADLINE_S)
    assert not any(np.any(block.x) for block in client.result_blocks("uploaded"))
    client.drop("uploaded", timeout_s=DEADLINE_S)
    client.delete("bundles", "cli_bundle")
    assert "cli_bundle.cli_silence" not in {one["name"] for one in client.functions()}


def test_a_package_is_uploaded_used_and_removed(gsdm, spec, dropped, tmp_path):
    dropped.append("packed")
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text(f"from .gains import GAIN\n{UPLOADED}".replace("0 *", "GAIN *"))
    (package / "gains.py").write_text("GAIN = 0\n")
    assert "there are no bundles" in gsdm("bundle", "ls").output
    assert "cli_packed.cli_silence" in gsdm("bundle", "upload", "cli_packed", package).output
    again = json.loads(gsdm("bundle", "upload", "cli_packed", package, "--json").stdout)
    assert (again["version"], again["functions"]) == (1, ["cli_packed.cli_silence"])
    assert "cli_packed.cli_silence" in gsdm("bundle", "ls").output
    assert "cli_packed.cli_silence(Radio)" in gsdm("functions", "cli_packed.cli_silence").output
    gsdm("submit", spec("packed", flow="cli_packed.cli_silence"), "--count", "3")
    assert "|max| 0@0" in gsdm("results", "packed", "--follow").output
    assert "packed" in gsdm("bundle", "rm", "cli_packed", fails=True).stderr
    gsdm("rm", "packed")
    assert "bundle cli_packed is gone" in gsdm("bundle", "rm", "cli_packed").output
    assert json.loads(gsdm("bundle", "ls", "--json").stdout) == []


def test_code_that_is_not_pure_python_is_refused_in_one_line(gsdm, tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text(UPLOADED)
    (package / "fast.so").write_bytes(b"ELF")
    assert "'fast.so' is compiled code" in gsdm("bundle", "upload", "native", package, fails=True).stderr


def test_a_trial_shows_what_each_site_spent(gsdm, spec):
    file = spec("tried")
    shown = gsdm("trial", "run", file, "--count", "200").output
    assert "of tried: succeeded, 200 windows" in shown
    assert len([line for line in shown.splitlines() if "▸" in line and "thread" in line]) == 1
    assert "(200 windows in" in shown
    (listed,) = json.loads(gsdm("trial", "ls", "--query", "tried", "--json").stdout)
    assert {site["role"] for site in listed["result"]["sites"]} == {"partition", "compute", "combine"}
    assert listed["id"] in gsdm("trial", "ls").output
    again = gsdm("trial", "show", listed["id"]).output
    assert shown.splitlines()[1:] == again.splitlines()[1:]
    assert f"trial {listed['id']} is gone" in gsdm("trial", "rm", listed["id"]).output
    assert listed["id"] in gsdm("trial", "show", listed["id"], fails=True).stderr
    assert "tried" not in gsdm("ls").output


def test_a_trial_that_cannot_be_is_one_clear_line(gsdm, spec):
    told = gsdm("trial", "run", spec("wrong", flow="nothing_like_it"), fails=True).stderr
    assert "unknown function 'nothing_like_it'" in told
    short = gsdm("trial", "run", spec("short", options={"limit": 5}), "--count", "10").output
    assert "the stream ended after 5 of 10 windows" in short


def test_resources_count_the_sites_at_work(gsdm, spec, dropped):
    dropped.append("placed")
    before = json.loads(gsdm("resources", "--json").stdout)["thread"]["sites"]
    gsdm("submit", spec("placed", options={"rate": 100}))
    assert json.loads(gsdm("resources", "--json").stdout)["thread"]["sites"] == before + 4
    assert "this process" in gsdm("resources").output


def test_served_with_data_folders_others_are_closed_to_operators(own_service, spec, tmp_path):
    (tmp_path / "data").mkdir()
    service = own_service("--placement", "threads", "--data-folder", tmp_path / "data").start()
    with Client(service.url, service.token) as admin:
        operator = admin.create_token("operator", "operator").token
    with Client(service.url, operator) as client:
        outputs = [{"interface": "recorder", "options": {"path": str(tmp_path / "outside.npy")}}]
        with pytest.raises(ApiProblem, match="outside of the data folders") as caught:
            client.submit(spec("outside", outputs=outputs))
        assert caught.value.status == 403
        outputs[0]["options"]["path"] = str(tmp_path / "data" / "inside.npy")
        client.submit(spec("inside", outputs=outputs, options={"limit": 10}))
        client.run("inside", timeout_s=DEADLINE_S)
        client.drop("inside", timeout_s=DEADLINE_S)
    assert (tmp_path / "data" / "inside.npy").exists()


def test_doctor_finds_the_coordinator(gsdm):
    told = {one["name"]: one for one in json.loads(gsdm("doctor", "--json").stdout)}
    assert told["coordinator"]["verdict"] == "ok"
    assert {"Python", "Java", "Ray", "Spark", "port", "disk", "shared memory", "memory"} <= set(told)


def test_a_running_query_is_scaled(gsdm, dropped):
    dropped.append("scaled")
    gsdm("submit", FFT3, "--name", "scaled")
    told = gsdm("scale", "scaled", 3).output
    assert "query scaled has been rescaled" in told
    assert "stood still for" in told
    sites = json.loads(gsdm("sites", "--query", "scaled", "--json").stdout)
    assert sum(site["role"] == "compute" for site in sites) == 3
    assert json.loads(gsdm("scale", "scaled", 1, "--json").output)["result"]["degree"] == 1
    assert "degree 1" in gsdm("show", "scaled").output


def test_more_compute_sites_than_cpus_are_warned_of(gsdm, spec, dropped):
    dropped.append("crowded")
    gsdm("submit", spec("crowded"), "--no-run")
    cpus = os.cpu_count()
    assert "warning" not in gsdm("scale", "crowded", 1).stderr
    told = gsdm("scale", "crowded", cpus + 7)
    assert told.stderr.startswith(
        f"warning: {cpus + 7} compute sites are more than the {cpus} CPUs here: they share them, which makes a query "
        f"slower rather than faster (gsdm scale crowded {cpus} takes it back)"
    )
    assert "query crowded has been rescaled" in told.stdout


@pytest.fixture
def split_profile(monkeypatch, tmp_path):
    """What splitting costs here, as if `gsdm profile split` had measured it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    coefficients = Coefficients(
        cc=5e-9, cp=2e-8, ce=1e-9, crW=2e-5, ceW=1e-5, cr=1e-9, cm=2e-8, cmW=3e-5, cpoll=1e-6, router=5e-5
    )
    keep_profile(SplitProfile("threads", coefficients, 68, 2 << 20, 3e-9, 0.0, 0.05, "2026-01-01T00:00:00+00:00"))


def test_a_stored_query_that_splits_registered_streams_is_explained_by_its_name(
    gsdm, client, dropped, split_profile, free_port
):
    dropped += ["antennas", "cars"]
    client.create_source(
        {"name": "dish", "type": "Radio", "interface": "synthetic_radio", "options": {"window": 64, "rate": 1000}}
    )
    client.create_sink({"name": "nowhere", "interface": "null"})
    split = {"template": "fsplit", "w": 2, "rfn": "ts % 2"}
    outputs = ["nowhere", {"name": "second", "interface": "null"}]
    client.submit({"name": "antennas", "inputs": ["dish"], "flow": split, "outputs": outputs})
    explained = json.loads(gsdm("explain", "antennas", "--sample", "50", "--json").stdout)
    assert explained["query"] == "antennas"
    assert explained["sample"]["tuples"] >= 50

    client.create_type({"name": "Vehicle", "attributes": {"vid": "int32"}})
    client.create_type({"name": "Taxi", "under": "Vehicle", "attributes": {"xway": "int32"}})
    options = {"bind": f"127.0.0.1:{free_port}"}
    client.create_source({"name": "taxis", "type": "Taxi", "interface": "udp", "options": options})
    split = {"template": "fsplit", "w": 2, "rfn": "xway + vid"}
    client.submit({"name": "cars", "inputs": [{"source": "taxis", "name": "seen"}], "flow": split, "outputs": outputs})
    assert "fsplit into 2, rfn xway + vid" in gsdm("explain", "cars", "--sample", "0").output
