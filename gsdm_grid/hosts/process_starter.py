"""The process that forks those of working nodes: it has imported the engine, so a fork takes milliseconds.

It is started by `process.Starter` as a program of its own, so nothing of the parent's main module is imported here, and
it has one thread, so it may fork. It ends when its parent's end of the socket is closed, however that came about, and
the kernel kills its children with it. It is the parent of its children, so it alone can signal them without hitting
another process that has got the same number.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import pickle
import select
import signal
import socket
import sys
from typing import Any

from gsdm_grid.engine import Bootstrap, run_node

_DIE_WITH_PARENT = 1  # prctl's PR_SET_PDEATHSIG
MESSAGE_BYTES = 1 << 20
PRELOADED = ("scipy.fft",)
"""What functions of the library import: it takes longer than all the rest of a start."""


def send(connection: socket.socket, *message: Any) -> None:
    """Send one message; a socket of packets keeps messages of several processes apart."""
    connection.sendall(pickle.dumps(message))


def receive(connection: socket.socket) -> Any:
    """The next message; None when the other end is closed."""
    try:
        data = connection.recv(MESSAGE_BYTES)
    except ConnectionResetError:
        return None
    return pickle.loads(data) if data else None


def serve(descriptor: int) -> None:
    """Fork working nodes and signal them as the parent asks, and tell it which have ended."""
    connection = socket.socket(fileno=descriptor)
    for module in PRELOADED:
        importlib.import_module(module)
    ended, wake = os.pipe()
    os.set_blocking(ended, False)
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)  # it ends when its parent does
    children: dict[int, int] = {}  # numbers of the parent by process
    while True:
        ready, _, _ = select.select([connection.fileno(), ended], [], [])
        if ended in ready:
            os.read(ended, 4096)
            _tell_ended(connection, children)
        if connection.fileno() in ready:
            message = receive(connection)
            if message is None:
                return
            action, number, argument = message
            if action == "signal":
                for pid in [pid for pid, one in children.items() if one == number]:
                    os.kill(pid, argument)
                continue
            path, bootstrap = argument
            parent = os.getpid()
            if (pid := os.fork()) == 0:
                for inherited in (ended, wake):
                    os.close(inherited)
                _work(connection, number, path, bootstrap, parent)
            children[pid] = number


def _tell_ended(connection: socket.socket, children: dict[int, int]) -> None:
    for pid in list(children):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            send(connection, "ended", children.pop(pid), os.waitstatus_to_exitcode(status))


def _work(connection: socket.socket, number: int, path: list[str], bootstrap: Bootstrap, parent: int) -> None:
    """The child: runs its node and never returns. It says so when the node has ended by itself."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        if os.getppid() == parent:
            sys.path[:] = path
            _seed()
            run_node(bootstrap)
            send(connection, "done", number, None)
            code = 0
    except BaseException as error:
        send(connection, "failed", number, f"{type(error).__name__}: {error}"[:2000])
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def _seed() -> None:
    """Else all nodes would draw the same random numbers; Python's own generator does this by itself."""
    import numpy as np

    np.random.seed()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
