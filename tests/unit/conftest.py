"""Unit tests start nothing: here starting a grid, a working node, a thread, a process or a socket is an error, and so
is waiting.

So a unit test cannot hang, leaves nothing behind and does not depend on how busy the machine is. A test that has to
start something belongs to `tests/integration`, or to `tests/contract` if every kind of host or channel must pass it.

The guard stands around set-up, call and tear-down of each test in this folder, and sees what the test's own thread
does: fixtures that other tests of the same process share go on, and the threads that NumPy or Arrow make in C are not
seen. Code that catches the error does not get away with it: then the test fails at its end. Two things are let through:
what a library starts while it is being imported (Matplotlib lists the fonts of the machine), and the pair of sockets by
which an event loop wakes itself.
"""

import _thread
import asyncio
import multiprocessing.util
import os
import selectors
import socket
import subprocess
import sys
import sysconfig
import threading
import time
from contextlib import contextmanager
from functools import partial, wraps
from multiprocessing.process import BaseProcess

import pytest
import zmq

from gsdm_grid import Grid
from gsdm_grid.engine.runner import Runner

STARTS = (
    (Grid, "__init__", "started a grid"),
    (Runner, "__init__", "started a working node"),
    (threading.Thread, "start", "started a thread"),
    (_thread, "start_new_thread", "started a thread"),
    (subprocess.Popen, "__init__", "started a process"),
    (BaseProcess, "start", "started a process"),
    (multiprocessing.util, "spawnv_passfds", "started a process"),
    (os, "fork", "started a process"),
    (os, "forkpty", "started a process"),
    (os, "posix_spawn", "started a process"),
    (os, "posix_spawnp", "started a process"),
    (os, "system", "started a process"),
    (socket.socket, "__init__", "opened a socket"),
    (socket, "getaddrinfo", "looked up a host"),
    (zmq.Socket, "__init__", "opened a ZeroMQ socket"),
)
"""What is called to start something, and what a test has done that calls it."""

WAITS = (
    (time, "sleep", 0),
    (asyncio, "sleep", 0),
    (asyncio.tasks, "sleep", 0),
    (threading.Condition, "wait", 1),
    (selectors.DefaultSelector, "select", 1),
    (selectors.PollSelector, "select", 1),
)
"""What is called to wait, and the place of the timeout among its arguments. No timeout is a wait without an end."""

LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


class NotInUnitTests(AssertionError):
    """A unit test started something, or waited."""


class Guard:
    """Refuses what is in the tables above while a test runs, in the thread of the test."""

    def __init__(self):
        self.refused = []
        """The errors that it raised in the test that runs."""
        self._test = None
        self._thread = None

    @contextmanager
    def around(self, test):
        """Refuse what is started inside. If code inside catches that error, it is raised at the end."""
        self._test, self._thread, self.refused = test, threading.get_ident(), []
        with pytest.MonkeyPatch.context() as patch:
            for owner, name, deed in STARTS:
                patch.setattr(owner, name, self._refusing(getattr(owner, name), deed))
            for owner, name, place in WAITS:
                deed = f"waited in {owner.__name__}.{name}"
                patch.setattr(owner, name, self._refusing(getattr(owner, name), deed, partial(_waits, place)))
            try:
                yield
            except (Exception, pytest.skip.Exception) as error:
                if self.refused and error not in self.refused:
                    raise self.refused[0] from error
                raise
        if self.refused:
            raise self.refused[0]

    def _refusing(self, function, deed, condition=lambda args, kwargs: True):
        """A function that refuses what the test's thread asks for if the condition on its arguments holds."""

        @wraps(function)
        def checked(*args, **kwargs):
            if (
                threading.get_ident() == self._thread
                and condition(args, kwargs)
                and not _is_let_through(sys._getframe(1))
            ):
                self._refuse(deed)
            return function(*args, **kwargs)

        return checked

    def _refuse(self, deed):
        error = NotInUnitTests(
            f"{self._test} {deed}: unit tests start nothing and do not wait. Test the pure part, or move the test to"
            " tests/integration (to tests/contract if every kind of host or channel must pass it)."
        )
        self.refused.append(error)
        raise error


def _waits(place, args, kwargs):
    timeout_s = args[place] if len(args) > place else kwargs.get("timeout", kwargs.get("delay"))
    return timeout_s is None or timeout_s > 0


def _is_let_through(frame):
    """Whether only libraries stand between a call and the import, or the event loop, that led to it."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith("<frozen importlib") or frame.f_code.co_name == "_make_self_pipe":
            return True
        if file != __file__ and not file.startswith(LIBRARIES):
            return False
        frame = frame.f_back
    return False


GUARD = Guard()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    """Fixtures of unit tests start nothing, those of the session included."""
    with GUARD.around(item.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Unit tests start nothing."""
    with GUARD.around(item.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item, nextitem):
    """Their fixtures end without waiting; after the last test those of all others end too, as they like."""
    if nextitem is None:
        return (yield)
    with GUARD.around(item.nodeid):
        return (yield)


@pytest.fixture
def guard():
    """A guard of a test's own, for the tests of it."""
    return Guard()
