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

from gsdm_grid.errors import ResourceError
from gsdm_grid.hosts.base import HostGroup, HostPool, HostRequest, patiently

MakePools = Callable[[], Mapping[Any, HostPool]]
Calls = dict[int, tuple[Future[Any], Callable[[str], None] | None]]
"""Calls that a process has not answered yet, by number: who waits for the answer, and who is told why it takes long."""
CLOSE_S = 30.0


class PoolProcess:
    """A process that holds host pools. Started when first needed; thread-safe."""

    def __init__(self, name: str, make: MakePools) -> None:
        self.name = name
        self._make = make
        self._process: Any = None
        self._pipe: Connection | None = None
        self._calls: Calls = {}
        self._ended = False
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._sending = threading.Lock()

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.is_alive()

    def call(self, what: str, *args: Any, waiting: Callable[[str], None] | None = None) -> Any:
        """Have something done there, and wait for its outcome."""
        number, future = next(self._numbers), Future[Any]()
        with self._lock:
            if not self.alive or self._ended:
                self._start()
            self._calls[number] = (future, waiting)
        with contextlib.suppress(OSError):  # it has just ended: whoever listens to it says so
            self._send((number, what, args))
        return future.result()

    def close(self) -> None:
        """End the process and everything that it acquired."""
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(OSError):
            self._send((None, "close", ()))
        process.join(CLOSE_S)
        if process.is_alive():
            process.kill()
            process.join()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        made = cloudpickle.dumps(self._make)
        self._process = context.Process(target=_serve, args=(made, theirs), name=f"gsdm-pool-{self.name}", daemon=False)
        self._process.start()
        theirs.close()
        self._ended = False
        self._calls = {}
        listening = (self._pipe, self._calls)
        threading.Thread(target=self._listen, args=listening, name=f"gsdm-pool-{self.name}", daemon=True).start()

    def _send(self, message: Any) -> None:
        with self._sending:
            assert self._pipe is not None
            self._pipe.send_bytes(cloudpickle.dumps(message))

    def _listen(self, pipe: Connection, calls: Calls) -> None:
        """Hear of the calls of one process until it ends; those of another, started after it, are not its business."""
        while True:
            try:
                number, kind, told = cloudpickle.loads(pipe.recv_bytes())
            except (EOFError, OSError):
                break
            with self._lock:
                future, _ = calls[number] if kind == "waiting" else calls.pop(number)
            if kind == "waiting":
                self._tell(calls, number, told)
            elif kind == "error":
                future.set_exception(told)
            else:
                future.set_result(told)
        with self._lock:
            self._ended = self._ended or calls is self._calls
            given_up = list(calls.values())
        for future, _ in given_up:
            future.set_exception(ResourceError(f"the process of resource pool {self.name!r} ended"))

    def _tell(self, calls: Calls, number: int, reason: str) -> None:
        future, waiting = calls[number]
        if waiting is None:
            return
        try:
            waiting(reason)
        except Exception as error:  # the query is gone: its request is given up, there and here
            with self._lock:
                calls[number] = (Future(), None)
            future.set_exception(error)
            self._send((number, "give_up", ()))


class ElsewherePool:
    """A pool of another process."""

    def __init__(self, process: PoolProcess, kind: str) -> None:
        self._process = process
        self._kind = kind

    def start(self, request: HostRequest) -> ElsewhereGroup:
        """See `HostPool`."""
        told = replace(request, live={}, waiting=patiently)
        group = self._process.call("start", self._kind, told, waiting=request.waiting)
        return ElsewhereGroup(self._process, group, [bootstrap.node for bootstrap in request.bootstraps])

    def warm(self) -> None:
        """See `HostPool`."""
        with contextlib.suppress(ResourceError):
            self._process.call("pool", self._kind, "warm")

    def inventory(self) -> dict[str, Any]:
        """See `HostPool`."""
        if not self._process.alive:
            return {"started": False}
        told: dict[str, Any] = self._process.call("pool", self._kind, "inventory")
        return told

    def close(self) -> None:
        """See `HostPool`: ends the process."""
        self._process.close()


class ElsewhereGroup:
    """A group of hosts of another process."""

    def __init__(self, process: PoolProcess, group: int, nodes: Sequence[str]) -> None:
        self._process = process
        self._group = group
        self._nodes = list(nodes)

    def lost(self) -> dict[str, str]:
        """See `HostGroup`."""
        if not self._process.alive:
            return dict.fromkeys(self._nodes, f"the process of resource pool {self._process.name!r} ended")
        told: dict[str, str] = self._process.call("group", self._group, "lost")
        return told

    def restart(self, node: str) -> bool:
        """See `HostGroup`."""
        return self._process.alive and bool(self._process.call("group", self._group, "restart", node))

    def release(self, nodes: Sequence[str], timeout_s: float) -> None:
        """See `HostGroup`."""
        self._nodes = [node for node in self._nodes if node not in nodes]
        if self._process.alive:
            self._process.call("group", self._group, "release", list(nodes), timeout_s)

    def stop(self, timeout_s: float) -> None:
        """See `HostGroup`."""
        self._nodes = []
        if self._process.alive:
            self._process.call("stop", self._group, timeout_s)


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

    def _stop(self, _number: int, group: int, timeout_s: float) -> None:
        if group in self._groups:
            self._groups.pop(group).stop(timeout_s)

    def _pool(self, _number: int, kind: str, method: str) -> Any:
        return getattr(self._pools[kind], method)()

    def _group(self, _number: int, group: int, method: str, *args: Any) -> Any:
        return getattr(self._groups[group], method)(*args) if group in self._groups else {}


def _serve(made: bytes, pipe: Connection) -> None:
    """The process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the coordinator, which closes us
    _Server(cloudpickle.loads(made)(), pipe).serve()
