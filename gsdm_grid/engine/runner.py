"""The runner: the loop around a working node, the same in a thread, a Ray actor and a Spark task.

It connects to the coordinator, registers the node, carries out commands, lets the node work in periods, and waits
for messages when there is nothing to do. It reports statistics regularly, tells when a run is finished or has failed,
and ends when the node is dropped, or when the coordinator has not been heard of for too long.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgpack
import zmq

from gsdm_grid.channels import (
    DataPlane,
    InstallationKey,
    Waker,
    local_address,
    machine_id,
    shared_memory,
)
from gsdm_grid.engine.freed_memory import keep_freed_memory
from gsdm_grid.engine.node import WorkingNode
from gsdm_grid.engine.package_staging import stage
from gsdm_grid.errors import GsdmError, InternalError
from gsdm_grid.functions import raised_by_user_code
from gsdm_grid.interfaces import InterfaceContext, StreamInterface

REPORT_S = 0.5


@dataclass(frozen=True)
class Bootstrap:
    """All that a host needs to start a working node. Pickled to the host."""

    node: str
    control: str
    key: InstallationKey
    orphan_s: float = 30.0
    packages: tuple[str, ...] = ()
    """Digests of the sets of packages that the node's functions need (see `gsdm_grid.engine.package_staging`)."""


def pack_error(error: BaseException) -> dict[str, Any]:
    """An error as plain data; `unpack_error` makes it again."""
    if isinstance(error, GsdmError):
        return {
            "type": type(error).__name__,
            "args": [
                arg if isinstance(arg, str | int | float | None) else list(arg) if isinstance(arg, tuple) else str(arg)
                for arg in error.args
            ],
        }
    return {"type": "InternalError", "args": [f"{type(error).__name__}: {error}"]}


def unpack_error(data: Mapping[str, Any]) -> GsdmError:
    """The error behind `pack_error`."""
    from gsdm_grid import errors

    kind = getattr(errors, str(data["type"]), InternalError)
    return kind(*data["args"]) if issubclass(kind, GsdmError) else InternalError(str(data))


def run_node(bootstrap: Bootstrap, live: Mapping[str, StreamInterface] | None = None) -> dict[str, Any]:
    """Run a working node until it is dropped; returns its final statistics."""
    stage(bootstrap.packages, bootstrap.control, bootstrap.key)
    return Runner(bootstrap, live or {}).run()


class Runner:
    """One node's loop. Made and used in one thread."""

    def __init__(self, bootstrap: Bootstrap, live: Mapping[str, StreamInterface]) -> None:
        self._bootstrap = bootstrap
        shared_memory.sweep()
        keep_freed_memory()
        self._context = zmq.Context()
        self._waker = Waker()
        address = local_address(bootstrap.control.removeprefix("tcp://").rpartition(":")[0])
        self._plane = DataPlane(bootstrap.key, self._context, address, self._waker.wake)
        context = InterfaceContext(self._waker.wake, plane=self._plane)
        self._node = WorkingNode(bootstrap.node, self._plane, context, live)
        self._control = self._context.socket(zmq.DEALER)
        bootstrap.key.secure_client(self._control)
        self._control.linger = 500
        self._control.identity = f"{bootstrap.node}#{os.getpid()}-{time.time_ns()}".encode()
        self._heard_s = time.monotonic()
        self._reported_s = 0.0
        self._failed = False
        self._polled: list[Any] = []
        self._ready: set[Any] | None = None  # sockets that had something when last waited for
        self._poller = zmq.Poller()

    def run(self) -> dict[str, Any]:
        """See `run_node`."""
        self._control.connect(self._bootstrap.control)
        self._tell(
            "register", endpoint=self._plane.endpoint, pid=os.getpid(), machine=machine_id(), host=socket.gethostname()
        )
        try:
            self._loop()
            return self._node.report()
        finally:
            self._close()

    def _loop(self) -> None:
        while not self._node.dropped:
            started_s = time.monotonic()
            ready = self._poll(0.0) if self._ready is None else self._ready
            self._ready = None
            busy = self._guard(self._obey) if self._control in ready else False
            if not self._failed:
                busy = bool(self._guard(partial(self._node.period, ready))) or bool(busy)
            self._report(started_s)
            if self._node.dropped:
                return
            if started_s - self._heard_s > self._bootstrap.orphan_s:
                self._guard(self._node.drop)
                return
            fixed_s = self._node.fixed_period_s
            if fixed_s is not None:
                rest_s = fixed_s - (time.monotonic() - started_s)
                if rest_s <= 0:
                    self._node.statistics.overloads += 1
                self._wait(max(rest_s, 0.0), whole=True)
            elif not busy:
                self._wait(self._node.wait_s())
            if self._node.active:
                self._node.statistics.active_s += time.monotonic() - started_s

    def _obey(self) -> bool:
        """Carry out the commands that have arrived."""
        worked = False
        while True:
            try:
                command = msgpack.unpackb(self._control.recv(zmq.NOBLOCK))
            except zmq.Again:
                return worked
            self._heard_s = time.monotonic()
            if command["do"] == "ping":
                continue
            worked = True
            try:
                value = self._node.handle(command)
            except BaseException as error:
                if not raised_by_user_code(error):
                    raise
                self._tell("reply", id=command["id"], error=pack_error(error))
            else:
                self._tell("reply", id=command["id"], value=value)

    def _guard(self, work: Callable[[], Any]) -> Any:
        """Run the node's work; what it raises fails the query, not the runner."""
        try:
            return work()
        except BaseException as error:
            if not raised_by_user_code(error):
                raise
            self._failed = True
            self._node.active = False
            self._tell("failed", error=pack_error(error), trace=getattr(error, "trace", ""))
            return False

    def _report(self, now_s: float) -> None:
        finished = self._node.finished()
        if finished is not None:
            self._tell("finished", statistics=self._node.report(), **finished)
        elif now_s - self._reported_s > REPORT_S:
            self._reported_s = now_s
            self._tell("statistics", statistics=self._node.report())

    def _wait(self, timeout_s: float, whole: bool = False) -> None:
        """Wait for messages or a wake-up; ``whole`` waits out a fixed period whatever comes."""
        before_s = time.monotonic()
        if whole:
            time.sleep(timeout_s)
        else:
            self._ready = self._poll(timeout_s)
        if self._node.active:
            self._node.statistics.idle_s += time.monotonic() - before_s

    def _poll(self, timeout_s: float) -> set[Any]:
        """Wait for messages or a wake-up; gives the sockets that have something."""
        ready = {source for source, _ in self._current_poller().poll(int(timeout_s * 1000))}
        if self._waker.fileno() in ready:
            self._waker.clear()
        return ready

    def _current_poller(self) -> zmq.Poller:
        """A poller over all sockets; made anew only when the data plane has other ones."""
        sources = [self._control, *self._plane.sockets(), self._waker.fileno()]
        if sources != self._polled:
            self._polled = sources
            self._poller = zmq.Poller()
            for source in sources:
                self._poller.register(source, zmq.POLLIN)
        return self._poller

    def _tell(self, event: str, **fields: Any) -> None:
        message = {"event": event, "node": self._bootstrap.node, **fields}
        self._control.send(msgpack.packb(message, default=_plain))

    def _close(self) -> None:
        self._tell("gone")
        self._control.close()
        self._plane.close()
        self._context.term()
        self._waker.close()


def _plain(value: Any) -> Any:
    """NumPy numbers and the like, for msgpack."""
    return value.item() if hasattr(value, "item") else str(value)
