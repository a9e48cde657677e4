"""The guard of the unit tests: what it refuses, what it lets through."""

import asyncio
import contextlib
import importlib
import importlib.abc
import importlib.util
import multiprocessing
import os
import queue
import socket
import subprocess
import sys
import sysconfig
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import zmq
import zmq.asyncio

from gsdm_grid import Grid
from gsdm_grid.engine import Bootstrap, run_node
from gsdm_grid.testing import eventually

STARTS = {
    "started a grid": [lambda: Grid("threads")],
    "started a working node": [lambda: run_node(Bootstrap("q/compute.0", "tcp://127.0.0.1:9", None))],
    "started a thread": [
        lambda: threading.Thread(target=int).start(),
        lambda: threading.Timer(0.0, int).start(),
        lambda: ThreadPoolExecutor(1).submit(int),
        lambda: asyncio.run(asyncio.to_thread(int)),
    ],
    "started a process": [
        lambda: subprocess.run(["true"], check=True),
        lambda: os.system("true"),
        lambda: os.popen("true"),
        lambda: os.fork(),
        lambda: multiprocessing.get_context("fork").Process(target=int).start(),
        lambda: multiprocessing.get_context("spawn").Process(target=int).start(),
        lambda: asyncio.run(asyncio.create_subprocess_exec("true")),
    ],
    "opened a socket": [
        lambda: socket.socket(),
        lambda: socket.socketpair(),
        lambda: socket.create_server(("127.0.0.1", 0)),
    ],
    "looked up a host": [lambda: socket.create_connection(("localhost", 9))],
    "opened a ZeroMQ socket": [
        lambda: zmq.Context.instance().socket(zmq.PAIR),
        lambda: zmq.asyncio.Context.instance().socket(zmq.PAIR),
    ],
    "waited in": [
        lambda: time.sleep(0.01),
        lambda: asyncio.run(asyncio.sleep(0.01)),
        lambda: asyncio.run(asyncio.wait_for(asyncio.Event().wait(), 0.01)),
        lambda: threading.Event().wait(0.01),
        lambda: threading.Event().wait(),
        lambda: queue.Queue().get(timeout=0.01),
        lambda: eventually(lambda: False, timeout_s=0.1),
    ],
}


@pytest.mark.parametrize(("deed", "call"), [(deed, call) for deed, calls in STARTS.items() for call in calls])
def test_what_starts_something_or_waits_is_refused_with_the_name_of_the_test(guard, deed, call):
    with (
        pytest.raises(AssertionError, match=f"a test {deed}.*move the test to tests/integration"),
        guard.around("a test"),
    ):
        call()


def open_a_socket(then):
    """Open a socket, and whether that goes well or not, go on."""
    with contextlib.suppress(AssertionError):
        socket.socket()
    then()


def test_a_test_fails_if_the_code_under_test_catches_the_error(guard):
    with pytest.raises(AssertionError, match="a test opened a socket"), guard.around("a test"):
        open_a_socket(lambda: None)


@pytest.mark.parametrize("then", [lambda: {}["nothing"], lambda: pytest.skip("no sockets here")])
def test_neither_another_error_nor_a_skip_hides_what_was_started(guard, then):
    with pytest.raises(AssertionError, match="a test opened a socket"), guard.around("a test"):
        open_a_socket(then)


def test_the_error_of_a_test_that_starts_nothing_is_left_alone(guard):
    with pytest.raises(KeyError, match="nothing"), guard.around("a test"):
        {}["nothing"]


def test_what_does_not_wait_is_let_through():
    event, items = threading.Event(), queue.Queue()
    event.set()
    items.put(1)

    async def take_turns():
        await asyncio.sleep(0)
        return await asyncio.wait_for(asyncio.sleep(0, "done"), 60)

    assert event.wait(60)
    assert items.get(timeout=60) == 1
    assert asyncio.run(take_turns()) == "done"


class Library(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
    """Finds one module, as if it lay in a folder."""

    def __init__(self, folder, source):
        self._file, self._source = f"{folder}/gsdm_test_starting.py", source

    def find_spec(self, name, path, target=None):
        return importlib.util.spec_from_loader(name, self) if name == "gsdm_test_starting" else None

    def get_filename(self, name):
        return self._file

    def get_data(self, path):
        return self._source.encode()


@pytest.fixture
def starting(monkeypatch):
    """Make a module in a folder that starts a thread when it is imported, and one when it is called."""

    def make(folder):
        source = "import threading\ndef start():\n    thread = threading.Thread(target=int)\n    thread.start()\n"
        monkeypatch.setattr(sys, "meta_path", [Library(folder, source + "    return thread\nthread = start()\n")])

    yield make
    sys.modules.pop("gsdm_test_starting", None)


def test_what_a_library_starts_while_it_is_imported_is_its_own_affair(guard, starting):
    starting(sysconfig.get_path("purelib"))
    library = importlib.import_module("gsdm_test_starting")
    with pytest.raises(AssertionError, match="a test started a thread"), guard.around("a test"):
        library.start()


def test_what_our_own_modules_start_while_they_are_imported_is_refused(guard, starting, tmp_path):
    starting(tmp_path)
    with pytest.raises(AssertionError, match="a test started a thread"), guard.around("a test"):
        importlib.import_module("gsdm_test_starting")
