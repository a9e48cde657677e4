"""Sets of packages on their way from the coordinator to the nodes of a machine."""

import os
import subprocess
import sys
import threading

import pytest

from gsdm_grid.channels.keys import InstallationKey
from gsdm_grid.coordination.control import ControlServer
from gsdm_grid.engine import package_staging
from gsdm_grid.engine.package_staging import PIECE_BYTES, PackageCache, fetch
from gsdm_grid.errors import ResourceError
from gsdm_grid.functions import PackageSet, packages
from gsdm_grid.functions.packages import pack


@pytest.fixture
def key():
    return InstallationKey()


@pytest.fixture
def server(key):
    made = ControlServer(key, lambda event: None)
    yield made
    made.close()


@pytest.fixture
def offered(tmp_path):
    """A set of packages that a coordinator offers: more than fits into the pieces that are asked for ahead."""
    folder = tmp_path / "coordinator"
    folder.mkdir()
    (folder / "gsdm_staged.py").write_text("VALUE = 42\n")
    (folder / "data.bin").write_bytes(os.urandom(PIECE_BYTES * (package_staging.AHEAD + 3) + 17))
    archive = tmp_path / "archive.zip"
    made = PackageSet(pack(folder, archive), folder, archive)
    packages.add(made)
    yield made
    packages.remove(made.digest)


def test_an_archive_arrives_whole(server, key, offered, tmp_path):
    fetch(offered.digest, tmp_path / "fetched.zip", server.endpoint, key)
    assert (tmp_path / "fetched.zip").read_bytes() == offered.archive.read_bytes()


def test_what_the_coordinator_does_not_have_is_said(server, key, tmp_path):
    with pytest.raises(ResourceError, match="cannot send the packages 0123"):
        fetch("0123", tmp_path / "fetched.zip", server.endpoint, key)


def test_nobody_gets_an_archive_without_the_key(server, offered, tmp_path, monkeypatch):
    monkeypatch.setattr(package_staging, "ANSWER_S", 0.3)
    with pytest.raises(ResourceError, match=r"did not send the packages \w+ within 0\.3 s"):
        fetch(offered.digest, tmp_path / "fetched.zip", server.endpoint, InstallationKey())


def test_a_process_that_has_never_seen_a_set_imports_it(server, key, offered, tmp_path):
    program = (
        "import sys\nfrom gsdm_grid.channels.keys import InstallationKey\n"
        "from gsdm_grid.engine.package_staging import stage\n"
        "stage([sys.argv[1]], sys.argv[2], InstallationKey(sys.argv[3].encode()))\n"
        "import gsdm_staged\nprint(gsdm_staged.VALUE, gsdm_staged.__file__)"
    )
    command = [sys.executable, "-c", program, offered.digest, server.endpoint, key.secret.decode()]
    machine = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "machine")}
    nodes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=machine) for _ in range(3)]
    expected = tmp_path / "machine" / "gsdm" / "packages" / offered.digest / "gsdm_staged.py"
    assert [node.communicate(timeout=60)[0].strip() for node in nodes] == [f"42 {expected}"] * 3
    assert sorted(path.name for path in expected.parents[1].iterdir()) == [offered.digest, f"{offered.digest}.lock"]


def test_nodes_of_a_machine_fetch_a_set_once(offered, tmp_path):
    fetched = []

    def count(digest, target):
        fetched.append(digest)
        target.write_bytes(offered.archive.read_bytes())

    nodes = [
        threading.Thread(target=PackageCache(tmp_path / "cache").get, args=(offered.digest, count)) for _ in range(8)
    ]
    for node in nodes:
        node.start()
    for node in nodes:
        node.join()
    assert fetched == [offered.digest]
