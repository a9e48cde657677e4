"""The UDP interface over the loopback."""

import random
import socket
import threading
import time

import numpy as np
import pytest

from gsdm_grid.errors import ChannelError
from gsdm_grid.interfaces import EndOfStream, InterfaceContext
from gsdm_grid.interfaces.udp import UdpInterface, show_address
from gsdm_grid.model import PhysicalWindow, create_stream_type
from gsdm_grid.testing import eventually

Radio = create_stream_type("UdpRadio", {"x": "vector of complex64"})
Note = create_stream_type("UdpNote", {"text": "string", "v": "vector of int32"})


def radio(count, start=0, size=16):
    rows = np.arange(start, start + count)
    return Radio.block(ts=rows, x=np.repeat(rows[:, None], size, 1).astype(np.complex64))


class Reading:
    """An open source and all it has delivered."""

    def __init__(self, stream_type=Radio, **options):
        self.woken = threading.Event()
        self.source = UdpInterface(stream_type, {"bind": "127.0.0.1:0", **options})
        self.source.open(InterfaceContext(wake=self.woken.set))
        self.windows = []

    def until(self, count, deadline_s=60.0):
        finish = time.monotonic() + deadline_s
        while len(self.windows) < count:
            self.woken.clear()
            block = self.source.next(1000)
            if block is not None:
                self.windows += list(block)
            else:
                assert self.woken.wait(max(0.0, finish - time.monotonic())), f"got {len(self.windows)} of {count}"
        return self.windows

    def until_end(self):
        with pytest.raises(EndOfStream):
            self.until(10**9)
        return self.windows

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.source.close()
        self.source.close()


def sender_to(reading, stream_type=Radio, **options):
    sink = UdpInterface(stream_type, {"to": show_address(reading.source.address), **options})
    sink.open(InterfaceContext())
    return sink


# Over the loopback


@pytest.mark.parametrize("datagram_bytes", [200, 1400, 60000])
def test_windows_arrive_as_they_were_sent(datagram_bytes):
    before = threading.active_count()
    with Reading() as reading:
        sink = sender_to(reading, datagram_bytes=datagram_bytes)
        for start in range(0, 50, 10):
            sink.insert(radio(10, start))
            reading.until(start + 10)
        sink.finish()
        sink.close()
        sink.close()
        assert reading.until_end() == list(radio(50))
        statistics = reading.source.statistics()
        assert statistics["delivered"] == 50 == sink.statistics()["sent"]
        assert not any(value for name, value in statistics.items() if name.startswith("dropped"))
    assert threading.active_count() == before


def test_text_and_vectors_of_different_lengths_travel():
    windows = [Note.window(i, "é" * i, np.arange(i)) for i in range(10)]
    with Reading(Note) as reading:
        sink = sender_to(reading, Note, datagram_bytes=150)
        sink.insert(PhysicalWindow.pack(Note, windows))
        assert reading.until(10) == windows
        sink.close()


def test_one_source_takes_windows_of_several_senders():
    with Reading() as reading:
        sinks = [sender_to(reading) for _ in range(3)]
        for turn in range(4):
            for place, sink in enumerate(sinks):
                sink.insert(radio(1, 100 * place + turn))
        reading.until(12)
        for place in range(3):
            assert [int(w.ts) % 100 for w in reading.windows if int(w.ts) // 100 == place] == [0, 1, 2, 3]
        for sink in sinks:
            sink.close()


def test_a_reopened_source_and_sink_go_on():
    reading = Reading()
    sink = sender_to(reading)
    sink.insert(radio(1))
    reading.until(1)
    port = reading.source.address[1]
    reading.source.close()
    sink.close()
    reading.source._asked = ("127.0.0.1", port)
    reading.source.open(InterfaceContext(wake=reading.woken.set))
    sink.open(InterfaceContext())
    sink.insert(radio(1, 1))
    assert reading.until(2) == list(radio(2))
    reading.source.close()
    sink.close()


def test_rubbish_from_the_network_is_counted_and_harmless():
    dice = random.Random(5)
    with Reading() as reading, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as rubbish:
        for size in range(100):
            rubbish.sendto(dice.randbytes(size), reading.source.address)
        eventually(lambda: reading.source.statistics()["dropped_malformed"] == 100)
        sink = sender_to(reading)
        sink.insert(radio(3))
        assert reading.until(3) == list(radio(3))
        sink.close()


def test_an_overloaded_source_drops_by_its_policy_and_counts():
    window_bytes = radio(1).nbytes
    with Reading(overload="drop_oldest", buffer_bytes=5 * window_bytes) as reading:
        sink = sender_to(reading)
        for start in range(20):
            sink.insert(radio(1, start))
        eventually(lambda: reading.source.statistics()["received"] == 20)
        assert [int(w.ts) for w in reading.until(5)] == [15, 16, 17, 18, 19]
        assert reading.source.statistics()["dropped_oldest"] == 15
        sink.close()


def test_a_source_that_waits_for_room_can_be_closed():
    with Reading(overload="block", buffer_blocks=1) as reading:
        sink = sender_to(reading)
        for start in range(5):
            sink.insert(radio(1, start))
        eventually(lambda: reading.source.statistics()["received"] == 2)
        sink.close()
    assert reading.source.statistics()["dropped_closed"] == 1
    assert reading.source.statistics()["buffered"] == 1


class FakeClock:
    def now_ns(self):
        return 5000

    def monotonic_s(self):
        return 0.0


def test_raw_samples_fill_windows_across_datagrams():
    samples = np.arange(10).astype(np.complex64)
    with Reading(format="raw", dtype="cf32_le", window=4, sample_rate=4, start_ts=9, header_bytes=2) as reading:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as instrument:
            for start in range(0, 10, 2):
                instrument.sendto(b"##" + samples[start : start + 2].tobytes(), reading.source.address)
            instrument.sendto(b"##odd", reading.source.address)
            instrument.sendto(b"", reading.source.address)
        windows = reading.until(2)
        assert [w.x.tolist() for w in windows] == [[0, 1, 2, 3], [4, 5, 6, 7]]
        assert [int(w.ts) for w in windows] == [9, 1_000_000_009]
        eventually(lambda: reading.source.statistics()["dropped_malformed"] == 2)


def test_raw_windows_without_a_sample_rate_bear_the_time_of_arrival():
    woken = threading.Event()
    source = UdpInterface(Radio, {"bind": "127.0.0.1:0", "format": "raw", "dtype": "ci8", "window": 2})
    source.open(InterfaceContext(wake=woken.set, clock=FakeClock()))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as instrument:
        instrument.sendto(bytes(8), source.address)
    assert woken.wait(60)
    assert source.next(5).ts.tolist() == [5000, 5001]
    source.close()


def test_an_address_in_use_is_named():
    with Reading() as reading:
        taken = show_address(reading.source.address)
        with pytest.raises(ChannelError, match=taken):
            UdpInterface(Radio, {"bind": taken}).open(InterfaceContext())
