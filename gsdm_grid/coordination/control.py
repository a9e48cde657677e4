"""The coordinator's end of the control protocol: one socket to all working nodes, and the name service.

Nodes connect, register under their name with the endpoint of their data plane, obey commands and send events. Commands
are answered; `call` waits for the answer. One thread owns the socket; calls may come from any thread.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

import msgpack
import zmq

from gsdm_grid.channels import InstallationKey, Waker
from gsdm_grid.engine import piece, unpack_error
from gsdm_grid.errors import NodeLost, ResourceError

PING_S = 2.0
Event = Mapping[str, Any]


@dataclass(frozen=True)
class Registration:
    """What a node told when it registered."""

    identity: bytes
    endpoint: str
    pid: int
    machine: str
    host: str


@dataclass(frozen=True)
class SentCommand:
    """A command that was sent, and its answer to come."""

    number: int
    node: str
    answer: Future[Any]


class ControlServer:
    """Serves one coordinator. ``on_event`` is called in the server's thread and must not block."""

    def __init__(self, key: InstallationKey, on_event: Callable[[Event], None], address: str = "127.0.0.1") -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        key.secure_server(self._socket)
        self._socket.linger = 0
        self._socket.router_mandatory = True
        port = self._socket.bind_to_random_port(f"tcp://{address}")
        self.endpoint = f"tcp://{address}:{port}"
        self._on_event = on_event
        self._waker = Waker()
        self._outgoing: SimpleQueue[tuple[bytes, bytes]] = SimpleQueue()
        self._nodes: dict[str, Registration] = {}
        self._expected: set[str] = set()
        self._changed = threading.Condition()
        self._pending: dict[int, SentCommand] = {}  # whoever takes a call out settles it
        self._ids = itertools.count(1)
        self._epochs = itertools.count(1)
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name="gsdm-control", daemon=True)
        self._thread.start()

    def registration(self, node: str) -> Registration:
        """Where a registered node is."""
        with self._changed:
            try:
                return self._nodes[node]
            except KeyError:
                raise NodeLost(node, "it is not registered") from None

    def expect(self, nodes: Iterable[str]) -> None:
        """These nodes are about to be started. One that registers and that nobody expects is dropped at once."""
        with self._changed:
            self._expected |= set(nodes)

    def drop(self, nodes: Iterable[str]) -> None:
        """Have nodes end: those that have registered now, the others as soon as they do. Does not wait for that."""
        with self._changed:
            self._expected -= set(nodes)
            registered = [node for node in nodes if node in self._nodes]
        for node in registered:
            with contextlib.suppress(NodeLost):
                self.send(node, {"do": "drop"})

    def wait_for(self, nodes: Sequence[str], timeout_s: float, check: Callable[[], None]) -> None:
        """Wait until all these nodes have registered; ``check`` may raise meanwhile."""
        deadline_s = time.monotonic() + timeout_s
        with self._changed:
            while missing := [node for node in nodes if node not in self._nodes]:
                check()
                if time.monotonic() > deadline_s:
                    raise ResourceError(
                        f"{len(missing)} of {len(nodes)} working nodes did not start within {timeout_s:g} s: "
                        f"{', '.join(missing[:5])}"
                    )
                self._changed.wait(0.1)

    def call(self, node: str, command: Mapping[str, Any], timeout_s: float = 60.0) -> Any:
        """Send a command and wait for its answer; the node's error is raised here."""
        return self.result(self.send(node, command), timeout_s)

    def send(self, node: str, command: Mapping[str, Any]) -> SentCommand:
        """Send a command; ask `result` for its answer."""
        call = SentCommand(next(self._ids), node, Future())
        identity = self.registration(node).identity
        self._pending[call.number] = call
        self._outgoing.put((identity, msgpack.packb({**command, "id": call.number})))
        self._waker.wake()
        return call

    def result(self, call: SentCommand, timeout_s: float = 60.0) -> Any:
        """The answer to a command of `send`. One that comes after the timeout is dropped."""
        wait([call.answer], timeout_s)
        if self._pending.pop(call.number, None) is not None:
            raise NodeLost(call.node, f"no answer within {timeout_s:g} s")
        return call.answer.result()  # it is there, or another thread is just putting it there

    def new_epoch(self) -> int:
        """An epoch for the sending end of a channel, greater than all that were issued before. Any thread."""
        return next(self._epochs)

    def forget(self, nodes: Sequence[str]) -> None:
        """These nodes are gone: who still waits for an answer is told."""
        with self._changed:
            for node in nodes:
                self._nodes.pop(node, None)
        for number, call in list(self._pending.items()):
            if call.node in nodes and self._pending.pop(number, None) is not None:
                call.answer.set_exception(NodeLost(call.node, "it is gone"))

    def close(self) -> None:
        """End the thread and close the socket."""
        self._closing = True
        self._waker.wake()
        self._thread.join(5)

    def _serve(self) -> None:
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._waker.fileno(), zmq.POLLIN)
        pinged_s = 0.0
        while not self._closing:
            poller.poll(int(PING_S * 250))
            self._waker.clear()
            self._send_outgoing()
            self._receive()
            now_s = time.monotonic()
            if now_s - pinged_s > PING_S:
                pinged_s = now_s
                with self._changed:
                    identities = [registration.identity for registration in self._nodes.values()]
                for identity in identities:
                    self._post(identity, msgpack.packb({"do": "ping"}))
        self._send_outgoing()
        self._socket.close()
        self._context.term()
        self._waker.close()

    def _send_outgoing(self) -> None:
        while True:
            try:
                identity, data = self._outgoing.get_nowait()
            except Empty:
                return
            self._post(identity, data)

    def _post(self, identity: bytes, data: bytes) -> None:
        try:
            self._socket.send_multipart([identity, data], zmq.NOBLOCK)
        except zmq.ZMQError:
            return  # the node is gone; whoever waits for it is told by its host

    def _receive(self) -> None:
        while True:
            try:
                identity, data = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            event = msgpack.unpackb(data)
            kind = event["event"]
            if kind == "fetch":
                self._post(identity, msgpack.packb(piece(event["digest"], event["offset"])))
                continue
            if kind == "reply":
                self._answer(event)
                continue
            if kind == "register":
                self.forget([event["node"]])
                with self._changed:
                    if event["node"] not in self._expected:
                        self._post(identity, msgpack.packb({"do": "drop", "id": next(self._ids)}))
                        continue
                    self._nodes[event["node"]] = Registration(
                        identity, event["endpoint"], event["pid"], event["machine"], event["host"]
                    )
                    self._changed.notify_all()
            self._on_event(event)

    def _answer(self, event: Event) -> None:
        call = self._pending.pop(event["id"], None)
        if call is None:
            return  # nobody waits for it any more
        if "error" in event:
            call.answer.set_exception(unpack_error(event["error"]))
        else:
            call.answer.set_result(event["value"])
