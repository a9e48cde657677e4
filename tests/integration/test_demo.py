"""The demo as people start it: real Ray, real Spark, in a process of its own."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid

import psutil
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.grid]
MARK = "GSDM_TEST_RUN"


class Run:
    """A demo in a subprocess; all processes that descend from it carry its mark in their environment."""

    def __init__(self, folder):
        self.mark = uuid.uuid4().hex
        command = [sys.executable, "-m", "gsdm_grid.cli", "demo", "--headless", "--json"]
        self.process = subprocess.Popen(
            [*command, "--windows", "40", "--window", "1024", "--out", str(folder / "out")],
            cwd=folder,
            env={**os.environ, MARK: self.mark},
            stdout=subprocess.PIPE,
            stderr=(folder / "stderr").open("w"),
            text=True,
        )
        self.errors = folder / "stderr"

    def alive(self):
        return [process for process in psutil.process_iter(["name", "cmdline"]) if self._is_ours(process)]

    def _is_ours(self, process):
        try:
            return process.environ().get(MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE
        except (psutil.Error, OSError):
            return False

    def wait_until_nothing_is_left(self, deadline_s=60):
        until_s = time.monotonic() + deadline_s
        while (left := self.alive()) and time.monotonic() < until_s:
            psutil.wait_procs(left, timeout=0.2)
        return [" ".join(process.info["cmdline"] or [process.info["name"]])[:120] for process in left]


@pytest.fixture
def run(tmp_path):
    made = Run(tmp_path)
    yield made
    for process in made.alive():
        process.kill()
    made.process.wait()
    made.process.stdout.close()


@pytest.mark.timeout(400)
def test_the_demo_compares_all_plans_and_leaves_nothing_running(run, tmp_path):
    output, _ = run.process.communicate(timeout=380)
    assert run.process.returncode == 0, run.errors.read_text()
    told = json.loads(output.splitlines()[-1])
    assert told["ok"] is True
    strategies = told["strategies"]
    assert list(strategies) == ["central", "window_distribute", "window_split", "tree", "pipe"]
    for name, one in strategies.items():
        assert one["windows"] == 40, name
        assert one["mb_s"] > 0
        assert name == "central" or {"degree", "in_order", "equals_central"} <= set(one)
        assert one.get("in_order", True)
        assert one.get("equals_central", True)
    assert [strategies[name]["degree"] for name in ("window_distribute", "window_split", "tree")] == [2, 2, 4]
    assert (tmp_path / "out" / "waterfall.png").stat().st_size > 10_000
    assert (tmp_path / "out" / "flow-tree.png").is_file()
    assert run.wait_until_nothing_is_left() == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("line", ["Ray: starting", "queries: installing", "central: "])
def test_an_interrupted_demo_leaves_nothing_running(run, line):
    until_s = time.monotonic() + 200
    while line not in run.errors.read_text():
        assert run.process.poll() is None, run.errors.read_text()
        assert time.monotonic() < until_s
        with contextlib.suppress(subprocess.TimeoutExpired):
            run.process.wait(timeout=0.2)
    assert run.alive()
    for _ in range(3):  # as people do: one may come while a library is not to be disturbed
        run.process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            run.process.communicate(timeout=30)
            break
    assert run.process.returncode == 130, run.errors.read_text()
    assert run.wait_until_nothing_is_left() == []
    assert "Traceback" not in run.errors.read_text()
