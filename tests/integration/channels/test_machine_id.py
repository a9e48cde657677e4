"""Who shares memory with whom, seen from containers: namespaces of the kernel, where this account may make them."""

import shutil
import subprocess
import sys

import pytest

PROGRAM = "from gsdm_grid.channels.data_plane import machine_id; print(machine_id())"


def told(*prefix):
    done = subprocess.run([*prefix, sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    if prefix and (done.returncode != 0):
        pytest.skip(f"this account may not make namespaces: {done.stderr.strip()}")
    return done.stdout.strip()


@pytest.fixture
def unshare():
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare here")
    return "unshare"


def test_processes_of_one_machine_share_memory():
    assert told() == told() != ""


def test_containers_with_shared_memory_of_their_own_do_not(unshare):
    inside = told(unshare, "--mount", "sh", "-c", 'mount -t tmpfs none /dev/shm && exec "$@"', "sh")
    assert inside not in ("", told())


def test_containers_that_do_not_see_each_others_processes_do_not(unshare):
    assert told(unshare, "--pid", "--fork", "--mount-proc") not in ("", told())
