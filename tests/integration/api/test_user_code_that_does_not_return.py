"""A function that never returns, or ends its process, harms its own query only: the coordinator can end it."""

import psutil
import pytest
from typer.testing import CliRunner

from gsdm_grid.cli.commands import app
from gsdm_grid.client import Client
from gsdm_grid.testing import eventually

BUNDLE = b"""
import os
from gsdm_grid import Radio, current_window, sqf


@sqf(Radio, returns=Radio)
def endless(s):
    current_window(s)
    while True:
        pass


@sqf(Radio, returns=Radio)
def leave(s):
    current_window(s)
    os._exit(7)
"""
RADIO = {"type": "Radio", "interface": "synthetic_radio", "options": {"window": 64}}


@pytest.fixture
def client(own_service):
    service = own_service("--placement", "processes").start()
    with Client(service.url, service.token) as client:
        client.upload_bundle("bad", BUNDLE)
        yield client


def test_deletion_ends_a_function_that_never_returns(client):
    client.submit({"name": "loop", "inputs": [RADIO], "function": "bad.endless"})
    client.run("loop")
    (pid,) = [site["pid"] for site in client.sites() if site["host"] == "process"]
    eventually(lambda: psutil.Process(pid).cpu_times().user, lambda spent_s: spent_s > 0.2)
    client.drop("loop")
    eventually(lambda: not psutil.pid_exists(pid))


def test_a_function_that_ends_its_process_fails_its_query_and_the_coordinator_goes_on(client):
    client.submit({"name": "leave", "inputs": [RADIO], "function": "bad.leave"})
    client.run("leave")
    failed = eventually(lambda: client.query("leave"), lambda query: query.state == "failed")
    assert "exit code 7" in str(failed.error)
    client.drop("leave")


def test_a_query_placed_on_threads_carries_a_warning_and_others_do_not(client):
    for placement in ("threads", "processes"):
        client.submit({"name": placement, "inputs": [RADIO], "function": "identity", "placement": placement})
    assert "takes the coordinator with it" in client.query("threads").warnings[0]
    assert client.query("processes").warnings == ()


@pytest.mark.slow
def test_removing_a_query_says_which_threads_run_on_and_what_to_do(own_service):
    service = own_service("--placement", "threads").start()
    with Client(service.url, service.token) as client:
        client.upload_bundle("bad", BUNDLE)
        for name in ("one", "two"):
            client.submit({"name": name, "inputs": [RADIO], "function": "bad.endless"})
            client.run(name)
            spent_s = psutil.Process(service.process.pid).cpu_times().user
            busy = lambda now_s, begun_s=spent_s: now_s > begun_s + 2  # noqa: E731
            eventually(lambda: psutil.Process(service.process.pid).cpu_times().user, busy)
        done = client.drop("one")
        warning = done.document["result"]["warning"]
        assert warning.startswith("site compute.0 of query 'one' still runs: its function has not returned")
        assert "until the coordinator is restarted" in warning
        assert "placement 'processes'" in warning
        shown = CliRunner().invoke(app, ["rm", "two", "--server", service.url, "--token", service.token])
        assert shown.exit_code == 0
        assert "site compute.0 of query 'two' still runs" in shown.stderr
