"""Host pools in a process of their own: a process can be connected to one Ray cluster only, and have one Spark.

Each named resource pool is such a process. It makes the pools itself and does what it is told over a pipe; a call
carries a number, and answers come in any order. If the process dies, what it hosted is lost, and the next start makes
a new one.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle
from typing_extensions import override

from gsdm_grid.errors import ResourceError
from gsdm_grid.hosts.base import HostGroup, HostPool, HostRequest, patiently

MakePools = Callable[[], Mapping[Any, HostPool]]
CLOSE_S = 30.0


class Line:
    """The way to one process: a pipe, and the calls that have not been answered. Another process has another line."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe
        self.calls: dict[int, tuple[Future[Any], Callable[[str], None] | None]] = {}
        self.ended = False
        self._sending = threading.Lock()

    def send(self, message: Any) -> None:
        """Send a message; one that has ended gets none, and whoever listens to it fails its calls."""
        with self._sending, contextlib.suppress(OSError):
            self.pipe.send_bytes(cloudpickle.dumps(message))


class PoolProcess:
    """A process that holds host pools. Started when first needed; thread-safe."""

    def __init__(self, name: str, make: MakePools) -> None:
        self.name = name
        self._make = make
        self._process: Any = None
        self._line: Line | None = None
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.is_alive()

    def call(self, what: str, *args: Any, waiting: Callable[[str], None] | None = None) -> Any:
        """Have something done there, and wait for its outcome."""
        number, future = next(self._numbers), Future[Any]()
        with self._lock:
            line = self._line
            if line is None or line.ended or not self.alive:
                line = self._line = self._start()
            line.calls[number] = (future, waiting)
        line.send((number, what, args))
        return future.result()

    def close(self) -> None:
        """End the process and everything that it acquired."""
        with self._lock:
            process, self._process = self._process, None
            line = self._line
        if process is None or line is None:
            return
        line.send((None, "close", ()))
        process.join(CLOSE_S)
        if process.is_alive():
            process.kill()
            process.join()

    def _start(self) -> Line:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        made = cloudpickle.dumps(self._make)
        self._process = context.Process(target=_serve, args=(made, theirs), name=f"gsdm-pool-{self.name}", daemon=False)
        self._process.start()
        theirs.close()
        line = Line(ours)
        threading.Thread(target=self._listen, args=(line,), name=f"gsdm-pool-{self.name}", daemon=True).start()
        return line

    def _listen(self, line: Line) -> None:
        while True:
            try:
                number, kind, told = cloudpickle.loads(line.pipe.recv_bytes())
            except (EOFError, OSError):
                break
            with self._lock:
                future, _ = line.calls[number] if kind == "waiting" else line.calls.pop(number)
            if kind == "waiting":
                self._tell(line, number, told)
            elif kind == "error":
                future.set_exception(told)
            else:
                future.set_result(told)
        with self._lock:
            line.ended = True
        for future, _ in line.calls.values():
            future.set_exception(ResourceError(f"the process of resource pool {self.name!r} ended"))

    def _tell(self, line: Line, number: int, reason: str) -> None:
        future, waiting = line.calls[number]
        if waiting is None:
            return
        try:
            waiting(reason)
        except Exception as error:  # the query is gone: its request is given up, there and here
            with self._lock:
                line.calls[number] = (Future(), None)
            future.set_exception(error)
            line.send((number, "give_up", ()))


class ForwardingPool(HostPool):
    """A pool of another process."""

    def __init__(self, process: PoolProcess, kind: str) -> None:
        self._process = process
        self._kind = kind

    @override
    def start(self, request: HostRequest) -> ForwardingGroup:
        told = replace(request, live={}, waiting=patiently)
        group = self._process.call("start", self._kind, told, waiting=request.waiting)
        return ForwardingGroup(self._process, group, [bootstrap.node for bootstrap in request.bootstraps])

    @override
    def warm(self) -> None:
        with contextlib.suppress(ResourceError):
            self._process.call("pool", self._kind, "warm")

    @override
    def inventory(self) -> dict[str, Any]:
        if not self._process.alive:
            return {"started": False}
        told: dict[str, Any] = self._process.call("pool", self._kind, "inventory")
        return told

    @override
    def close(self) -> None:
        """Ends the process."""
        self._process.close()


class ForwardingGroup(HostGroup):
    """A group of hosts of another process."""

    def __init__(self, process: PoolProcess, group: int, nodes: Sequence[str]) -> None:
        self._process = process
        self._group = group
        self._nodes = list(nodes)

    @override
    def lost(self) -> dict[str, str]:
        if not self._process.alive:
            return dict.fromkeys(self._nodes, f"the process of resource pool {self._process.name!r} ended")
        told: dict[str, str] = self._process.call("group", self._group, "lost")
        return told

    @override
    def restart(self, node: str) -> bool:
        return self._process.alive and bool(self._process.call("group", self._group, "restart", node))

    @override
    def release(self, nodes: Sequence[str], timeout_s: float) -> Sequence[str]:
        self._nodes = [node for node in self._nodes if node not in nodes]
        return self._ended("group", self._group, "release", list(nodes), timeout_s)

    @override
    def stop(self, timeout_s: float) -> Sequence[str]:
        self._nodes = []
        return self._ended("stop", self._group, timeout_s)

    def _ended(self, *call: Any) -> Sequence[str]:
        """Have nodes ended there; gives those that run on."""
        return list(self._process.call(*call)) if self._process.alive else []


class _Server:
    """The other end: holds the pools and the groups."""

    def __init__(self, pools: Mapping[str, HostPool], pipe: Connection) -> None:
        self._pools = pools
        self._pipe = pipe
        self._groups: dict[int, HostGroup] = {}
        self._given_up: set[int] = set()
        self._numbers = itertools.count()
        self._sending = threading.Lock()

    def serve(self) -> None:
        while True:
            try:
                number, what, args = cloudpickle.loads(self._pipe.recv_bytes())
            except (EOFError, OSError):  # the coordinator is gone
                break
            if what == "close":
                break
            if what == "give_up":
                self._given_up.add(number)
            else:
                threading.Thread(target=self._answer, args=(number, what, args), daemon=True).start()
        for group in list(self._groups.values()):
            group.stop(1.0)
        for pool in self._pools.values():
            pool.close()

    def _answer(self, number: int, what: str, args: Sequence[Any]) -> None:
        try:
            told = getattr(self, f"_{what}")(number, *args)
        except Exception as error:
            self._send((number, "error", error))
        else:
            self._send((number, "done", told))

    def _send(self, message: Any) -> None:
        with self._sending, contextlib.suppress(OSError):
            self._pipe.send_bytes(cloudpickle.dumps(message))

    def _start(self, number: int, kind: str, request: HostRequest) -> int:
        def waiting(reason: str) -> None:
            if number in self._given_up:
                raise ResourceError(f"query {request.query!r} was given up")
            self._send((number, "waiting", reason))

        group = self._pools[kind].start(replace(request, waiting=waiting))
        mine = next(self._numbers)
        self._groups[mine] = group
        return mine

    def _stop(self, _number: int, group: int, timeout_s: float) -> Sequence[str]:
        return self._groups.pop(group).stop(timeout_s) if group in self._groups else ()

    def _pool(self, _number: int, kind: str, method: str) -> Any:
        return getattr(self._pools[kind], method)()

    def _group(self, _number: int, group: int, method: str, *args: Any) -> Any:
        return getattr(self._groups[group], method)(*args) if group in self._groups else {}


def _serve(made: bytes, pipe: Connection) -> None:
    """The process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the coordinator, which closes us
    _Server(cloudpickle.loads(made)(), pipe).serve()
