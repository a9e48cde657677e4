"""A Spark cluster on what Ray gives: grown for queries, shrunk after them, and mended under them."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

SCENARIO = Path(__file__).with_name("spark_on_ray_scenario.py")

pytestmark = [pytest.mark.slow, pytest.mark.grid, pytest.mark.timeout(450)]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What the scenario told, by kind, and the folder in which its processes had their files."""
    folder = tmp_path_factory.mktemp("t")
    run = subprocess.run(
        [sys.executable, str(SCENARIO)],
        env={**os.environ, "RAY_TMPDIR": tempfile.gettempdir(), "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=420,
        check=False,
    )
    lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    assert run.returncode == 0, f"{lines}\n{run.stderr[-3000:]}"
    return lines, folder


def one(told, what, **fields):
    return next(line for line in told[0] if line["what"] == what and fields.items() <= line.items())


def test_two_queries_share_executors_on_workers_that_ray_hosts(told):
    line = one(told, "two queries")
    assert line["complete"] == [True, True]
    assert line["claimed"] == {"first": 2, "second": 2}
    assert (line["workers"], line["executors"], line["on_executors"]) == (2, 2, 2)


@pytest.mark.parametrize("victim", ["deploy.worker.Worker", "deploy.master.Master"])
def test_every_window_arrives_once_and_in_order_though_a_daemon_is_killed(told, victim):
    assert one(told, "killed", victim=victim)["complete"]


def test_functions_that_never_return_are_ended_on_executors_too(told):
    line = one(told, "ended by force")
    assert line["left"] == []
    assert line["executors"] > 0


def test_tasks_do_not_notice_that_the_master_was_killed(told):
    assert one(told, "killed", victim="deploy.master.Master")["restarts"] == []


def test_workers_go_when_no_query_needs_them_and_come_again(told):
    assert one(told, "shrunk") == {"what": "shrunk", "workers": 0, "masters": 1}
    assert one(told, "grown again")["workers"] == 1


def test_what_the_cluster_will_never_have_is_refused_with_what_there_is(told):
    reason = one(told, "refused")["reason"]
    assert "asks for 70 Spark tasks at a time; the cluster has room for 64, in workers of 2 slots" in reason


def test_closing_leaves_nothing_behind(told):
    line = one(told, "closed")
    assert line["daemons"] == 0
    assert line["actors"] == []
    assert [path for path in told[1].iterdir() if path.name.startswith("gsdm")] == []
