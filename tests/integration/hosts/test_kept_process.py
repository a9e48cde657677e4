"""A kept process and its descendants end with their owner, however that ends, and their folder goes with them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from gsdm_grid.hosts.kept_process import KeptProcess
from gsdm_grid.testing import eventually

CHILD_IN_A_SESSION_OF_ITS_OWN = "import subprocess; subprocess.Popen(['sleep', '1000'], start_new_session=True).wait()"
OWNER = """
import sys
from pathlib import Path
from gsdm_grid.hosts.kept_process import KeptProcess

kept = KeptProcess(["sleep", "1000"], Path(sys.argv[1]))
print(kept.pid, flush=True)
kept.wait()
"""


def gone(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "kept"
    made.mkdir()
    return made


def test_closing_ends_the_process_and_all_that_descends_from_it(folder):
    kept = KeptProcess([sys.executable, "-c", CHILD_IN_A_SESSION_OF_ITS_OWN], folder)
    eventually(lambda: psutil.Process(kept.pid).children())
    child = psutil.Process(kept.pid).children()[0].pid
    kept.close()
    kept.close()
    kept.wait()
    assert gone(kept.pid)
    assert gone(child)
    assert not folder.exists()


def test_a_process_that_ends_by_itself_says_why(folder):
    kept = KeptProcess([sys.executable, "-c", "print('out of luck'); raise SystemExit(3)"], folder)
    assert kept.wait() == "it ended with 3: out of luck"
    assert not folder.exists()
    kept.close()


def test_a_program_that_there_is_not_says_so(folder):
    kept = KeptProcess(["/nowhere/java"], folder)
    assert kept.pid == 0
    assert "/nowhere/java" in kept.wait()
    assert not folder.exists()
    kept.close()


def test_a_process_gets_the_environment_it_is_given(folder):
    kept = KeptProcess([sys.executable, "-c", "import os; print(os.environ['GIVEN'])"], folder, {"GIVEN": "this"})
    assert kept.wait().endswith("this")
    kept.close()


def test_the_process_ends_when_its_owner_is_killed(folder):
    owner = subprocess.Popen([sys.executable, "-c", OWNER, folder], stdout=subprocess.PIPE, text=True)
    pid = int(owner.stdout.readline())
    assert not gone(pid)
    owner.kill()
    owner.communicate()
    eventually(lambda: gone(pid) and not folder.exists())


def test_the_process_ends_when_its_keeper_is_killed(folder):
    kept = KeptProcess(["sleep", "1000"], folder)
    os.kill(psutil.Process(kept.pid).ppid(), signal.SIGKILL)
    assert kept.wait() == "its keeper was killed"
    eventually(lambda: gone(kept.pid))
    assert not folder.exists()
    kept.close()


def test_a_folder_is_kept_without_a_process(folder):
    kept = KeptProcess((), folder)
    Path(folder, "remembered").write_text("this")
    kept.close()
    kept.wait()
    assert not folder.exists()
