"""The demo as people start it: real Ray, real Spark, in a process of its own; and on threads of this one."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
import uuid

import psutil
import pytest
from rich.console import Console

from gsdm_grid.apps.demo.bare_kernel import BareKernel
from gsdm_grid.apps.demo.plans import CHEAP, EXPENSIVE
from gsdm_grid.apps.demo.run import DemoOptions, run_demo
from gsdm_grid.apps.demo.verdict import report_json
from gsdm_grid.apps.demo.view import (
    LiveView,
    PlainView,
    headline,
    show_report,
)
from gsdm_grid.errors import ResourceError

pytestmark = [pytest.mark.slow, pytest.mark.grid]
MARK = "GSDM_TEST_RUN"


class Run:
    """A demo in a subprocess; all processes that descend from it carry its mark in their environment."""

    def __init__(self, folder, placement="grid"):
        self.mark = uuid.uuid4().hex
        command = [sys.executable, "-m", "gsdm_grid.cli", "demo", "--headless", "--json", "--placement", placement]
        self.process = subprocess.Popen(
            [*command, "--seconds", "0.05", "--window", "1024", "--out", str(folder / "out")],
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
def run(tmp_path, request):
    demo = Run(tmp_path, getattr(request, "param", "grid"))
    yield demo
    for process in demo.alive():
        process.kill()
    demo.process.wait()
    demo.process.stdout.close()


def check_document(document):
    """What the demo says of itself is complete, and nothing was lost or different."""
    assert document["ok"] is True, document["problems"]
    workloads = document["workloads"]
    assert {name: list(work["plans"]) for name, work in workloads.items()} == {
        "expensive": ["central", "window_distribute", "window_split", "pipe"],
        "cheap": ["central", "window_distribute"],
    }
    plans = {f"{name} {plan}": one for name, work in workloads.items() for plan, one in work["plans"].items()}
    for name, one in {**plans, "transport": document["transport"]}.items():
        assert one["mb_s"] > 0, name
        assert len(one["rounds_mb_s"]) == 3
        assert one["windows"] > 128
        assert (one["lost"], one["in_order"]) == (0, True)
    for name, one in plans.items():
        assert (one["windows_compared"], one["equals_central"]) == (128, True), name
    for work in workloads.values():
        assert all(rate > 0 for rate in work["bare_mb_s"].values())
        assert work["verdict"].endswith(".")
        assert {"measured_throughput", "throughput"} == set(work["optimizer"])
    growth = document["growth"]
    assert growth["windows"] > 0
    assert (growth["lost"], growth["in_order"]) == (0, True)


@pytest.mark.timeout(400)
def test_the_demo_compares_and_measures_all_plans_and_leaves_nothing_running(run, tmp_path):
    output, _ = run.process.communicate(timeout=380)
    assert run.process.returncode == 0, run.errors.read_text()
    (document,) = output.splitlines()
    check_document(json.loads(document))
    assert (tmp_path / "out" / "waterfall.png").stat().st_size > 10_000
    assert (tmp_path / "out" / "flow-window-split.png").is_file()
    assert run.wait_until_nothing_is_left() == []


@pytest.mark.parametrize(("view_class", "terminal"), [(PlainView, False), (LiveView, True)])
def test_the_demo_runs_on_threads_too(tmp_path, view_class, terminal):
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=100, height=40)
    options = DemoOptions(seconds=0.05, window=256, placement="threads", out=tmp_path / "out")
    console.print(headline(options))
    with view_class(console) as view:
        report = run_demo(options, view)
    show_report(report, console)
    check_document(json.loads(json.dumps(report_json(report))))
    assert {path.name for path in report.pictures} >= {"waterfall.png", "flow-pipe.png"}
    assert all(path.stat().st_size > 1000 for path in report.pictures)
    shown = text.getvalue()
    assert "window distribute" in shown
    assert "window_distribute" not in shown
    assert "The optimizer would choose" in shown
    assert "grew from 1 compute site to 2" in shown
    assert report.pictures[0].name in shown


def test_the_bare_kernel_runs_functions_one_after_the_other_in_processes_of_its_own():
    with BareKernel([EXPENSIVE.chain, CHEAP.chain], 256, 2) as kernel:
        kernel.wait()
        rates = [kernel.measure(chain, number, 0.05) for chain in (0, 1) for number in (1, 2)]
        processes = [one for one in psutil.Process().children() if "spawn_main" in " ".join(one.cmdline())]
    assert all(rate.mb_s > 0 and 0 < rate.cpu_share < 1.5 for rate in rates)
    assert len(processes) == 2
    assert psutil.wait_procs(processes, timeout=10)[1] == []


def test_a_bare_kernel_that_cannot_begin_says_so():
    with BareKernel([[{"name": "nowhere"}]], 256, 1) as kernel, pytest.raises(ResourceError, match="ended"):
        kernel.wait()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("run", "line"),
    [
        ("grid", "Ray: starting"),
        ("grid", "plans: installing"),
        pytest.param("grid", "measuring: ", marks=pytest.mark.long),
        ("threads", "plans: installing"),
        ("threads", "measuring: "),
        ("threads", "growing: "),
    ],
    indirect=["run"],
)
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
