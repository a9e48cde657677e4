"""The optimizer as people use it: from the command line, over a live source, across a crash, and on the grid."""

import json
import socket
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gsdm_grid import Grid, cq, register_input_stream, register_result_stream
from gsdm_grid.cli.commands import app
from gsdm_grid.client import Client
from gsdm_grid.testing import eventually

RADIO = {"type": "Radio", "interface": "synthetic_radio", "options": {"window": 64, "seed": 50}}
EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "fft3.yaml"
QUICK = {"most": 2, "repeats": 1, "block_bytes": [None], "runs": [1]}


@pytest.fixture
def gsdm(service, monkeypatch):
    for name in ("GSDM_SERVER", "GSDM_TOKEN", "GSDM_DEBUG", "GSDM_DATABASE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GSDM_HOME", str(service.home))
    runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})

    def run(*arguments, fails=False):
        done = runner.invoke(app, [str(argument) for argument in arguments])
        assert (done.exit_code != 0) == fails, done.output
        return done

    return run


@pytest.fixture
def grid(service):
    with Client(service.url, service.token) as client:
        yield client


def test_a_query_is_optimized_from_the_command_line(gsdm, grid, tmp_path):
    grid.submit({"name": "cli-auto", "inputs": [RADIO], "function": "fft3", "plan": "auto"})
    shown = gsdm("optimize", "cli-auto", "--count", "64", "--most", "2", "--watch").output
    assert "★" in shown
    assert "chosen: " in shown
    assert "query cli-auto: has the plan" in shown
    (listed,) = json.loads(gsdm("optimization", "ls", "--query", "cli-auto", "--json").stdout)
    assert listed["id"] in gsdm("optimization", "ls").output
    assert "window_split-2" in gsdm("optimization", "show", listed["id"], "--skipped").output
    for name in ("report.html", "report.png"):
        gsdm("optimization", "report", listed["id"], tmp_path / name)
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")
    assert "<html" in (tmp_path / "report.html").read_text()
    assert "is gone" in gsdm("optimization", "rm", listed["id"]).output
    grid.drop("cli-auto")


def test_the_shipped_example_is_optimized_and_explained_by_its_name(gsdm, grid):
    gsdm("submit", EXAMPLE)
    try:
        assert "fft3: no stream is split" in gsdm("explain", "fft3").output
        assert "fft3: no stream is split" in gsdm("explain", EXAMPLE).output
        told = gsdm("optimize", "fft3", "--count", "64", "--most", "2", "--watch").output
        assert "chosen: fft3 " in told
        assert "query fft3: has the plan" in told
    finally:
        grid.drop("fft3")


def test_a_search_that_cannot_be_is_one_clear_line(gsdm, grid, tmp_path):
    told = gsdm("optimize", "nobody", fails=True).stderr
    assert "there is no query 'nobody'" in told
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps({"name": "spec", "inputs": [RADIO], "function": "fft3"}))
    assert "FIGURE=BOUND" in gsdm("optimize", spec, "--subject-to", "hosts", fails=True).stderr
    assert "the plan space of fft3 is empty" in gsdm("optimize", spec, "--subject-to", "hosts=0", fails=True).stderr
    assert "search opt-" in gsdm("optimize", spec, "--count", "8", "--most", "1").output


def test_a_segment_is_recorded_from_the_command_line(gsdm, grid):
    grid.create_source({"name": "antenna", **RADIO})
    assert (
        "segment cli-segment: 32 windows"
        in gsdm("segment", "record", "antenna", "--windows", "32", "--name", "cli-segment").output
    )
    assert "cli-segment" in gsdm("segment", "ls").output
    assert "is gone" in gsdm("segment", "rm", "cli-segment").output
    grid.delete("sources", "antenna")


def test_a_live_source_is_recorded_before_it_is_tried(grid):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    live = {"type": "Radio", "interface": "tcp", "options": {"address": address, "listen": True}}
    source = register_input_stream("Radio", None, "gsdm_grid.apps.radio:SyntheticRadio", window=64)
    with Grid("threads") as sender:
        query = cq("identity", [source], [register_result_stream(address, "tcp")], grid=sender)
        sending = threading.Thread(target=lambda: query.run(count=2000))
        sending.start()
        spec = {"name": "live", "inputs": [live], "function": "fft3"}
        done = grid.optimize(spec, count=64, search=QUICK, wait=True, timeout_s=60)
        sending.join(60)
        query.drop()
    assert done.status == "published"
    assert all(row["windows"] >= 8 for row in done.choice["table"])


@pytest.mark.slow
def test_a_search_goes_on_after_the_coordinator_was_killed(own_service):
    service = own_service("--placement", "threads").start()
    slow = {"type": "Radio", "interface": "synthetic_radio", "options": {"window": 512}}
    spec = {"name": "killed", "inputs": [slow], "function": "fft3"}
    with Client(service.url, service.token) as client:
        begun = client.optimize(spec, count=20_000, search=QUICK)
        eventually(lambda: len(list(client.trials(optimization=begun.id))), lambda trials: trials >= 2, 60)
    service.kill()
    service.start()
    with Client(service.url, service.token) as client:
        done = client.wait_for_optimization(client.optimization(begun.id), 120)
        assert done.status == "published"
        keys = [trial.key for trial in client.trials(optimization=begun.id)]
        assert len(keys) == len(set(keys))
        assert not [site for site in client.sites() if site["query"].startswith("trial")]


@pytest.mark.slow
@pytest.mark.timeout(460)
def test_plans_are_tried_on_ray_and_spark(grid_service):
    spec = {"name": "placed", "inputs": [RADIO], "function": "fft3"}
    search = {**QUICK, "strategies": ["window_distribute"], "short": 1.0}
    with Client(grid_service.url, grid_service.token) as client:
        done = client.optimize(spec, count=200, search=search, wait=True, timeout_s=400)
        hosts = {site["host"] for row in done.choice["table"] for site in row["sites"]}
        assert hosts == {"ray", "spark"}
        client.submit({**spec, "plan": "auto", "stop": {"count": 50}})
        client.run("placed")
        assert sum(len(block) for block in client.result_blocks("placed")) == 50
        client.drop("placed")
