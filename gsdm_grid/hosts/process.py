"""Working nodes in processes of this machine: for a coordinator without Ray and Spark. User code can be ended by force.

A helper process (`process_starter`) forks them. They live no longer than this process.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

from typing_extensions import override

from gsdm_grid.channels import shared_memory
from gsdm_grid.engine import Bootstrap
from gsdm_grid.errors import ResourceError
from gsdm_grid.hosts import process_starter
from gsdm_grid.hosts.base import HostGroup, HostPool, HostRequest

GRACE_S = 1.0
"""Between SIGTERM and SIGKILL."""
CLOSE_S = 10.0
_PROGRAM = "import sys; sys.path[:] = {path!r}; from gsdm_grid.hosts.process_starter import serve; serve({descriptor})"


class NodeProcess:
    """One working node's process, as its starter tells of it. Changed by the starter's thread only."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.ended = threading.Event()
        self.finished = False
        """The node was dropped and the process ended by itself."""
        self.failure = ""

    @property
    def loss(self) -> str | None:
        """Why it ended, if it should not have."""
        return self.failure if self.ended.is_set() and not self.finished else None


class Starter:
    """The helper process and the thread that listens to it. Thread-safe."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        program = _PROGRAM.format(path=[os.path.abspath(place) for place in sys.path], descriptor=theirs.fileno())
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", program],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C at a terminal is for this process, which ends them
            )
        self.ended = False
        self._numbers = itertools.count()
        self._nodes: dict[int, NodeProcess] = {}
        self._lock = threading.Lock()
        self._listener = threading.Thread(target=self._listen, name="gsdm-processes", daemon=True)
        self._listener.start()

    def start(self, bootstrap: Bootstrap) -> NodeProcess:
        """Start a working node."""
        node = NodeProcess(next(self._numbers))
        with self._lock:
            if self.ended:
                raise ResourceError("the process that starts working nodes has ended")
            self._nodes[node.number] = node
        self._send("start", node.number, (list(sys.path), bootstrap))
        return node

    def signal(self, node: NodeProcess, signum: int) -> None:
        """Signal a node's process, if it lives."""
        self._send("signal", node.number, signum)

    def count(self) -> int:
        """How many processes there are."""
        with self._lock:
            return len(self._nodes)

    def close(self) -> None:
        """End the helper process, and with it all that it started."""
        with contextlib.suppress(OSError):
            self._ours.shutdown(socket.SHUT_RDWR)
        try:
            self._process.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join()

    def _send(self, *message: Any) -> None:
        with contextlib.suppress(OSError):  # it has ended: the listener tells all its nodes
            process_starter.send(self._ours, *message)

    def _listen(self) -> None:
        while (message := process_starter.receive(self._ours)) is not None:
            event, number, argument = message
            with self._lock:
                node = self._nodes.pop(number) if event == "ended" else self._nodes[number]
            if event == "done":
                node.finished = True
            elif event == "failed":
                node.failure = argument
            else:
                node.failure = node.failure or _ending(argument)
                node.ended.set()
        self._process.wait()
        with self._lock:
            self.ended = True
            left, self._nodes = self._nodes, {}
        for node in left.values():
            node.failure = "the process that starts working nodes ended"
            node.ended.set()
        self._ours.close()


def _ending(code: int) -> str:
    """How a process ended, in words.

    >>> _ending(3), _ending(-9)
    ('its process ended with exit code 3', 'its process was killed by SIGKILL')
    """
    if code < 0:
        return f"its process was killed by {signal.Signals(-code).name}"
    return f"its process ended with exit code {code}"


class ProcessGroup(HostGroup):
    """Processes of one query."""

    def __init__(self, pool: ProcessPool, bootstraps: Sequence[Bootstrap]) -> None:
        self._pool = pool
        self._bootstraps = {bootstrap.node: bootstrap for bootstrap in bootstraps}
        self._nodes: dict[str, tuple[Starter, NodeProcess]] = {}
        for node in self._bootstraps:
            self._launch(node)

    def _launch(self, node: str) -> None:
        starter = self._pool.starter()
        self._nodes[node] = (starter, starter.start(self._bootstraps[node]))

    @override
    def lost(self) -> dict[str, str]:
        losses = {name: process.loss for name, (_, process) in list(self._nodes.items())}
        return {name: loss for name, loss in losses.items() if loss is not None}

    @override
    def restart(self, node: str) -> bool:
        shared_memory.sweep()
        self._launch(node)
        return True

    @override
    def release(self, nodes: Sequence[str], timeout_s: float) -> Sequence[str]:
        _end([self._nodes.pop(node) for node in nodes if node in self._nodes], timeout_s)
        return ()

    @override
    def stop(self, timeout_s: float) -> Sequence[str]:
        nodes, self._nodes = self._nodes, {}
        _end(list(nodes.values()), timeout_s)
        return ()


def _end(nodes: Sequence[tuple[Starter, NodeProcess]], timeout_s: float) -> None:
    """Wait until processes have ended by themselves, then end the others by force."""
    if _wait((process for _, process in nodes), timeout_s):
        return
    for signum in (signal.SIGTERM, signal.SIGKILL):
        left = [(starter, process) for starter, process in nodes if not process.ended.is_set()]
        for starter, process in left:
            starter.signal(process, signum)
        if _wait((process for _, process in left), GRACE_S if signum == signal.SIGTERM else CLOSE_S):
            break
    shared_memory.sweep()


def _wait(processes: Iterable[NodeProcess], timeout_s: float) -> bool:
    deadline_s = time.monotonic() + timeout_s
    return all(process.ended.wait(max(deadline_s - time.monotonic(), 0.0)) for process in processes)


class ProcessPool(HostPool):
    """Starts nodes in processes of this machine; starts the helper process when first needed."""

    def __init__(self) -> None:
        self._starter: Starter | None = None
        self._lock = threading.Lock()

    def starter(self) -> Starter:
        """The helper process; another one if it has died."""
        with self._lock:
            if self._starter is None or self._starter.ended:
                self._starter = Starter()
            return self._starter

    @override
    def start(self, request: HostRequest) -> ProcessGroup:
        return ProcessGroup(self, request.bootstraps)

    @override
    def warm(self) -> None:
        self.starter()

    @override
    def inventory(self) -> dict[str, Any]:
        starter = self._starter
        alive = starter is not None and not starter.ended
        return {"started": alive, "cores": os.cpu_count(), "processes": starter.count() if starter and alive else 0}

    @override
    def close(self) -> None:
        with self._lock:
            starter, self._starter = self._starter, None
        if starter is not None:
            starter.close()
