"""The family of processes, with other programs in the place of Airflow's: it is imported nowhere here."""

import json
import subprocess
import sys

import psutil
import pytest

from gsdm_grid.testing import eventually

FAMILY = """
import json, os, signal, subprocess, sys, time
from pathlib import Path
from gsdm_grid.airflow.components import Family

logs, how = Path(sys.argv[1]), sys.argv[2]
family = Family(logs, grace_s=0.5)

def leave_an_orphan():
    left = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    print("orphan", left.pid, flush=True)
    if how == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if how != "ends":
        time.sleep(1000)

family.fork("component", leave_an_orphan)
deadline_s = time.monotonic() + 30
log = logs / "component.log"
while not (log.exists() and log.read_text().endswith(os.linesep)):
    assert time.monotonic() < deadline_s
    time.sleep(0.01)
code = family.watch()
family.end_all()
sys.exit(code)
"""


@pytest.fixture
def family(tmp_path):
    """Start a family; gives its process."""
    started = []

    def start(how):
        process = subprocess.Popen(
            [sys.executable, "-c", FAMILY, tmp_path, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def orphan(tmp_path):
    """Id of the process that a component left."""
    log = tmp_path / "component.log"
    eventually(lambda: log.exists() and log.read_text().endswith("\n"))
    return int(log.read_text().split()[1])


@pytest.mark.parametrize("how", ["polite", "stubborn"])
def test_a_family_whose_stdin_closes_ends_with_what_its_components_left(family, tmp_path, how):
    process = family(how)
    left = orphan(tmp_path)
    process.stdin.close()
    assert process.wait(60) == 0
    assert not psutil.pid_exists(left)


def test_a_component_that_ends_by_itself_ends_the_family_and_is_named(family, tmp_path):
    process = family("ends")
    said = [json.loads(line) for line in process.stdout]
    assert process.wait(60) == 1
    assert {"step": "ended", "component": "component"} in said
    assert not psutil.pid_exists(orphan(tmp_path))
