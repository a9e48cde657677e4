"""Every kind of channel keeps the same promises: in one process, through shared memory, and through sockets."""

from __future__ import annotations

import gc
import os
import socket
import threading
import time

import numpy as np
import pytest
import zmq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from zmq.utils.monitor import recv_monitor_message

from gsdm_grid import PhysicalWindow, Radio
from gsdm_grid.channels import data_plane, shared_memory
from gsdm_grid.channels.channel import ChannelLimits, End
from gsdm_grid.channels.data_plane import DataPlane
from gsdm_grid.channels.keys import InstallationKey
from gsdm_grid.errors import ChannelError

DEADLINE_S = 60.0
LIMITS = ChannelLimits(blocks=8, bytes=1 << 22)


class Planes:
    """Data planes of one installation, pumped by hand."""

    def __init__(self, shared: bool) -> None:
        self.shared = shared
        self.key = InstallationKey()
        self.context = zmq.Context()
        self.made = []

    def plane(self) -> DataPlane:
        plane = DataPlane(self.key, self.context, "127.0.0.1", lambda: None)
        self.made.append(plane)
        return plane

    def pump(self, until, also=lambda: None) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not until():
            assert time.monotonic() < deadline, "the condition did not come true"
            for plane in self.made:
                plane.receive()
                plane.beat(time.monotonic())
            also()
            poller = zmq.Poller()
            for plane in self.made:
                for polled in plane.sockets():
                    poller.register(polled, zmq.POLLIN)
            poller.poll(5)

    def close(self) -> None:
        for plane in self.made:
            plane.close()
        self.context.term()


class Reader:
    """The receiving end, as an engine would use it: consumes and releases what it is told to."""

    def __init__(self, plane: DataPlane, stream: str = "s") -> None:
        self.items = []
        self.inlet = plane.inlet(stream, Radio, self.items.append)
        self.count = 0

    def take_all(self, release: bool = True) -> None:
        self.count = len(self.items)
        self.inlet.progress(self.count, self.count if release else 0)

    @property
    def ordinals(self) -> list[int]:
        return [int(o) for item in self.items if isinstance(item, PhysicalWindow) for o in item.ordinals]


@pytest.fixture(params=["neighbour", "shared memory", "sockets"])
def planes(request, monkeypatch):
    if request.param != "neighbour":
        monkeypatch.setattr(data_plane, "_planes", {})
        monkeypatch.setattr(DataPlane, "is_neighbour", lambda self, endpoint: False)
        monkeypatch.setattr(
            data_plane, "_planes", type("Nobody", (dict,), {"__setitem__": lambda *_: None, "get": lambda *_: None})()
        )
    made = Planes(request.param == "shared memory")
    yield made
    made.close()


@pytest.fixture
def blocks(radio_block):
    whole = radio_block(60, 128)
    return [whole[a : a + 3].stamped(ordinals=range(a, a + 3)) for a in range(0, 60, 3)]


def send(outlet, blocks, planes, reader, release=True):
    for block in blocks:
        planes.pump(outlet.ready, lambda: reader.take_all(release))
        outlet.put(block)


def test_everything_arrives_once_and_in_order(planes, blocks):
    producer, consumer = planes.plane(), planes.plane()
    reader = Reader(consumer)
    outlet = producer.outlet("s", consumer.endpoint, LIMITS, planes.shared, epoch=1)
    send(outlet, [*blocks, End(final=True)], planes, reader)
    planes.pump(lambda: outlet.released == 21, reader.take_all)
    assert reader.items[-1] == End(final=True)
    for sent, got in zip(blocks, reader.items, strict=False):
        assert list(got) == list(sent)


def test_credit_bounds_what_is_under_way(planes, blocks):
    producer, consumer = planes.plane(), planes.plane()
    reader = Reader(consumer)
    outlet = producer.outlet("s", consumer.endpoint, LIMITS, planes.shared, epoch=1)
    sent = 0
    while outlet.ready():
        outlet.put(blocks[sent])
        sent += 1
    assert sent == LIMITS.blocks
    planes.pump(outlet.ready, reader.take_all)


def test_a_consumer_started_anew_gets_what_was_not_released(planes, blocks):
    producer, first = planes.plane(), planes.plane()
    reader = Reader(first)
    outlet = producer.outlet("s", first.endpoint, LIMITS, planes.shared, epoch=1)
    send(outlet, blocks[:6], planes, reader)
    planes.pump(lambda: outlet.released == 6, reader.take_all)
    send(outlet, blocks[6:10], planes, reader, release=False)
    second = planes.plane()
    successor = Reader(second)
    outlet.redirect(second.endpoint)
    send(outlet, blocks[10:], planes, successor)
    planes.pump(lambda: outlet.released == 20, successor.take_all)
    assert successor.ordinals == list(range(18, 60))


def test_a_producer_started_anew_is_not_heard_twice(planes, blocks):
    first, consumer = planes.plane(), planes.plane()
    reader = Reader(consumer)
    outlet = first.outlet("s", consumer.endpoint, LIMITS, planes.shared, epoch=1)
    send(outlet, blocks[:8], planes, reader)
    planes.pump(lambda: len(reader.items) == 8, reader.take_all)
    second = planes.plane()
    successor = second.outlet("s", consumer.endpoint, LIMITS, planes.shared, epoch=2)
    send(successor, blocks[5:], planes, reader)
    planes.pump(lambda: successor.released == 15, reader.take_all)
    assert reader.ordinals == list(range(60))
    assert reader.inlet.duplicates == 9


def test_a_producer_started_anew_is_heard_though_its_clock_has_gone_back(planes, blocks, monkeypatch):
    monkeypatch.setattr(time, "time_ns", lambda: 2_000_000_000)
    first, consumer = planes.plane(), planes.plane()
    reader = Reader(consumer)
    outlet = first.outlet("s", consumer.endpoint, LIMITS, planes.shared, epoch=1)
    send(outlet, blocks[:8], planes, reader)
    planes.pump(lambda: len(reader.items) == 8, reader.take_all)
    monkeypatch.setattr(time, "time_ns", lambda: 1_000_000_000)
    successor = planes.plane().outlet("s", consumer.endpoint, LIMITS, planes.shared, epoch=2)
    send(successor, blocks[8:], planes, reader)
    planes.pump(lambda: successor.released == 12, reader.take_all)
    assert reader.ordinals == list(range(60))


def test_what_a_predecessor_still_says_is_not_heard(planes, blocks):
    first, consumer = planes.plane(), planes.plane()
    reader = Reader(consumer)
    outlet = first.outlet("s", consumer.endpoint, LIMITS, planes.shared, epoch=1)
    successor = planes.plane().outlet("s", consumer.endpoint, LIMITS, planes.shared, epoch=2)
    successor.put(blocks[0])
    planes.pump(lambda: reader.items, reader.take_all)
    outlet.put(blocks[5])
    successor.put(blocks[1])
    planes.pump(lambda: successor.released == 2, reader.take_all)
    assert reader.ordinals == list(range(6))


def test_views_keep_their_bytes_however_long_they_are_held(planes, blocks):
    producer, consumer = planes.plane(), planes.plane()
    reader = Reader(consumer)
    outlet = producer.outlet("s", consumer.endpoint, ChannelLimits(4, 40_000), planes.shared, epoch=1)
    send(outlet, blocks * 3, planes, reader)
    planes.pump(lambda: len(reader.items) == 60, reader.take_all)
    for sent, got in zip(blocks * 3, reader.items, strict=True):
        np.testing.assert_array_equal(got.x, sent.x)


def test_shared_memory_is_given_back_when_the_last_view_dies(monkeypatch, planes, blocks):
    if not planes.shared:
        pytest.skip("only for shared memory")
    producer, consumer = planes.plane(), planes.plane()
    reader = Reader(consumer)
    outlet = producer.outlet("s", consumer.endpoint, LIMITS, True, epoch=1)
    send(outlet, blocks[:4], planes, reader)
    planes.pump(lambda: outlet.released == 4, reader.take_all)
    assert outlet._ring.taken == 4
    kept = reader.items[2].x
    reader.items[:] = [None] * 4
    gc.collect()
    planes.pump(lambda: outlet._ring.taken == 2, reader.take_all)
    del kept
    planes.pump(lambda: outlet._ring.taken == 0, reader.take_all)


def test_a_consumer_that_cannot_open_the_shared_memory_gets_messages(monkeypatch, planes, blocks):
    if not planes.shared:
        pytest.skip("only for shared memory")

    def refuse(name):
        raise ChannelError("not on this machine")

    monkeypatch.setattr(shared_memory, "MappedRing", refuse)
    producer, consumer = planes.plane(), planes.plane()
    reader = Reader(consumer)
    outlet = producer.outlet("s", consumer.endpoint, LIMITS, True, epoch=1)
    send(outlet, blocks, planes, reader)
    planes.pump(lambda: outlet.released == 20, reader.take_all)
    assert reader.ordinals == list(range(60))


def test_a_block_that_goes_on_as_it_came_is_not_copied(planes, blocks):
    if not planes.shared:
        pytest.skip("only for shared memory")
    producer, router, consumer = planes.plane(), planes.plane(), planes.plane()
    middle, reader = Reader(router), Reader(consumer, "t")
    first = producer.outlet("s", router.endpoint, LIMITS, True, epoch=1)
    second = router.outlet("t", consumer.endpoint, LIMITS, True, epoch=1)
    send(first, blocks[:4], planes, middle)
    planes.pump(lambda: first.released == 4, middle.take_all)
    for item in middle.items:
        second.put(item.stamped(mark=1000))
    middle.items[:] = [None] * 4
    del item
    planes.pump(lambda: second.released == 4, reader.take_all)
    assert (second.sent_on, second._ring) == (4, None)
    for sent, got in zip(blocks, reader.items, strict=False):
        np.testing.assert_array_equal(got.x, sent.x)
        assert got.mark == 1000
    gc.collect()
    planes.pump(lambda: True, middle.take_all)
    assert first._ring.taken == 4  # the consumer still views them
    reader.items[:] = [None] * 4
    del got
    gc.collect()
    planes.pump(lambda: not second._passed_on, reader.take_all)
    gc.collect()
    planes.pump(lambda: first._ring.taken == 0, middle.take_all)


def test_a_part_or_a_changed_block_is_copied(planes, blocks):
    if not planes.shared:
        pytest.skip("only for shared memory")
    producer, router, consumer = planes.plane(), planes.plane(), planes.plane()
    middle, reader = Reader(router), Reader(consumer, "t")
    first = producer.outlet("s", router.endpoint, LIMITS, True, epoch=1)
    second = router.outlet("t", consumer.endpoint, LIMITS, True, epoch=1)
    send(first, blocks[:2], planes, middle)
    planes.pump(lambda: first.released == 2, middle.take_all)
    second.put(middle.items[0].replace(x=middle.items[0].x * 2))
    second.put(middle.items[1].select(slice(0, 3, 2)))
    planes.pump(lambda: second.released == 2, reader.take_all)
    assert second.sent_on == 0
    np.testing.assert_array_equal(reader.items[0].x, blocks[0].x * 2)
    np.testing.assert_array_equal(reader.items[1].x, blocks[1].x[::2])


def test_a_block_whose_ring_is_gone_goes_on_in_a_message(planes, blocks):
    if not planes.shared:
        pytest.skip("only for shared memory")
    producer, router, consumer = planes.plane(), planes.plane(), planes.plane()
    middle, reader = Reader(router), Reader(consumer, "t")
    first = producer.outlet("s", router.endpoint, LIMITS, True, epoch=1)
    second = router.outlet("t", consumer.endpoint, LIMITS, True, epoch=1)
    send(first, blocks[:3], planes, middle)
    planes.pump(lambda: first.released == 3, middle.take_all)
    first.close()  # removes the ring's file; whoever has mapped it may read on
    for item in middle.items:
        second.put(item)
    second.put(blocks[3])
    planes.pump(lambda: second.released == 4, reader.take_all)
    assert reader.ordinals == list(range(12))
    for sent, got in zip(blocks, reader.items, strict=False):
        np.testing.assert_array_equal(got.x, sent.x)
    assert second.sent_shared == 4  # the last one in a ring of its own


class Proxy:
    """A TCP proxy that can be cut and restored."""

    def __init__(self, target: str) -> None:
        host, _, port = target.removeprefix("tcp://").rpartition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: list[socket.socket] = []
        self.up = True
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                here, _ = self._listener.accept()
            except OSError:
                return
            if not self.up:
                here.close()
                continue
            there = socket.create_connection(self._target)
            self._open += [here, there]
            for a, b in ((here, there), (there, here)):
                threading.Thread(target=self._copy, args=(a, b), daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass

    def cut(self) -> None:
        self.up = False
        for each in self._open:
            each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._open.clear()

    def close(self) -> None:
        self._listener.close()
        for each in self._open:
            each.close()


def test_a_cut_connection_loses_nothing(planes, blocks):
    if planes.shared:
        pytest.skip("descriptions and payload take the same way")
    producer, consumer = planes.plane(), planes.plane()
    reader = Reader(consumer)
    proxy = Proxy(consumer.endpoint)
    outlet = producer.outlet("s", proxy.endpoint, LIMITS, False, epoch=1)
    send(outlet, blocks[:4], planes, reader)
    proxy.cut()
    for block in blocks[4:8]:
        outlet.put(block)
    proxy.up = True
    send(outlet, blocks[8:], planes, reader)
    planes.pump(lambda: outlet.released == 20, reader.take_all)
    assert reader.ordinals == list(range(60))
    proxy.close()


def test_a_process_without_the_key_is_refused(blocks):
    planes = Planes(shared=False)
    consumer = planes.plane()
    reader = Reader(consumer)
    with zmq.Context() as context, context.socket(zmq.DEALER) as stranger:
        stranger.linger = 0
        InstallationKey().secure_client(stranger)
        monitor = stranger.get_monitor_socket()
        stranger.connect(consumer.endpoint)
        stranger.send(b"let me in")
        seen = []
        while zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL not in seen and zmq.EVENT_DISCONNECTED not in seen:
            assert monitor.poll(DEADLINE_S * 1000), f"neither accepted nor refused: {seen}"
            seen.append(recv_monitor_message(monitor)["event"])
        assert zmq.EVENT_HANDSHAKE_SUCCEEDED not in seen
        assert consumer.receive() == 0
        stranger.disable_monitor()
        monitor.close()
    assert reader.items == []
    planes.close()


@pytest.fixture(scope="module")
def fuzzed():
    made = Planes(shared=False)
    plane = made.plane()
    yield plane, Reader(plane)
    made.close()


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(frames=st.lists(st.binary(max_size=200), min_size=1, max_size=6))
def test_malformed_messages_are_refused_and_harmless(fuzzed, frames):
    plane, reader = fuzzed
    with pytest.raises(ChannelError):
        plane._accept([zmq.Frame(frame) for frame in frames], b"x")
    assert reader.items == []


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.binary(min_size=1, max_size=2000))
def test_random_bytes_on_a_data_port_are_harmless(fuzzed, data):
    plane, reader = fuzzed
    host, _, port = plane.endpoint.removeprefix("tcp://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as raw:
        raw.sendall(data)
    plane.receive()
    assert reader.items == []


def test_rings_of_dead_processes_are_swept():
    stale = shared_memory.FOLDER / "gsdm-999999999-1-abcdef"
    stale.write_bytes(b"left by a crash")
    own = shared_memory.Ring(4096)
    assert shared_memory.sweep() >= 1
    assert not stale.exists()
    assert (shared_memory.FOLDER / own.name).exists()
    own.close()
    assert not (shared_memory.FOLDER / own.name).exists()
    assert os.path.isdir(shared_memory.FOLDER)
