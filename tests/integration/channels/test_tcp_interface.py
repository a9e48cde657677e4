"""The TCP interface over the loopback: both ends ours, programs of others, failures."""

import contextlib
import random
import socket
import threading
import time

import numpy as np
import pytest

from gsdm_grid.errors import ChannelError, QueryError
from gsdm_grid.interfaces import EndOfStream, InterfaceContext
from gsdm_grid.interfaces.tcp import FrameReader, TcpInterface, make_frame
from gsdm_grid.interfaces.udp import BYTE_ORDER, END, Header, encode_body, schema_of, show_address
from gsdm_grid.model import create_stream_type
from gsdm_grid.testing import eventually

Radio = create_stream_type("TcpRadio", {"x": "vector of complex64"})


def radio(count, start=0, size=16):
    rows = np.arange(start, start + count)
    return Radio.block(ts=rows, x=np.repeat(rows[:, None], size, 1).astype(np.complex64))


def frame(block, first=0, session=7):
    return make_frame(Header(BYTE_ORDER, session, schema_of(block.type), first, len(block)), encode_body(block))


def end_frame(first, session=7):
    return make_frame(Header(BYTE_ORDER | END, session, 0, first, 0))


@pytest.fixture
def opening():
    """Opens interfaces; afterwards closes them and sees that no thread is left."""
    before = threading.active_count()
    with contextlib.ExitStack() as stack:

        def make(**options):
            woken = threading.Event()
            made = TcpInterface(Radio, {"address": "127.0.0.1:0", **options})
            made.open(InterfaceContext(wake=woken.set))
            made.woken = woken
            made.windows = []
            stack.callback(made.close)
            stack.callback(made.close)
            return made

        yield make
    assert threading.active_count() == before


def until(source, count, deadline_s=60.0):
    finish = time.monotonic() + deadline_s
    while len(source.windows) < count:
        source.woken.clear()
        block = source.next(1000)
        if block is not None:
            source.windows += list(block)
        else:
            left = max(0.0, finish - time.monotonic())
            assert source.woken.wait(left), f"got {len(source.windows)} of {count}"
    return source.windows


def until_end(source):
    with pytest.raises(EndOfStream):
        until(source, 10**9)
    return source.windows


def until_ready(sink, deadline_s=60.0):
    finish = time.monotonic() + deadline_s
    while not sink.ready():
        assert sink.woken.wait(max(0.0, finish - time.monotonic())), "the sink did not become ready"
        sink.woken.clear()


def at(interface):
    return show_address(interface.address)


def dial(interface):
    return socket.create_connection(interface.address, 10)


def free_address():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return show_address(sock.getsockname())


# Both ends ours


@pytest.mark.parametrize("source_listens", [True, False])
def test_windows_arrive_as_they_were_sent(opening, source_listens):
    if source_listens:
        source = opening(listen=True)
        sink = opening(address=at(source))
        source.next(1)
    else:
        sink = opening(listen=True)
        source = opening(address=at(sink))
        source.next(1)
    for start in range(0, 500, 10):
        until_ready(sink)
        sink.insert(radio(10, start, size=300))
    sink.finish()
    sink.close()
    assert until_end(source) == list(radio(500, size=300))
    with pytest.raises(EndOfStream):
        source.next(1)
    assert sink.statistics()["sent"] == 500 == source.statistics()["delivered"]
    assert not any(value for name, value in source.statistics().items() if name.startswith("dropped"))


def test_a_source_that_starts_first_connects_when_the_sink_comes(opening):
    address = free_address()
    source = opening(address=address)
    assert source.next(1) is None
    sink = opening(address=address, listen=True)
    until_ready(sink)
    sink.insert(radio(2))
    assert until(source, 2) == list(radio(2))


def test_every_client_of_a_listening_sink_gets_the_windows(opening):
    sink = opening(listen=True)
    sources = [opening(address=at(sink)) for _ in range(3)]
    for source in sources:
        source.next(1)
    assert sink.ready() in (True, False)
    eventually(lambda: sink.ready() and sink.statistics()["clients"] == 3)
    for start in range(5):
        sink.insert(radio(1, start))
    sink.finish()
    for source in sources:
        assert until_end(source) == list(radio(5))


def test_a_client_that_comes_after_the_end_is_told(opening):
    sink = opening(listen=True, wait_for_client=False)
    sink.insert(radio(3))
    sink.finish()
    assert sink.statistics()["dropped_no_client"] == 3
    source = opening(address=at(sink))
    assert until_end(source) == []


def test_a_slow_client_makes_the_sink_unready_until_it_reads(opening):
    sink = opening(listen=True, buffer_bytes=200_000)
    with dial(sink) as client:
        until_ready(sink)
        sent = 0
        while sink.ready():
            sink.insert(radio(1, sent, size=20_000))
            sent += 1
            assert sent < 1000
        sink.woken.clear()
        reader = FrameReader()
        got = []
        while len(got) < sent:
            got += list(reader.feed(client.recv(1 << 20)))
        assert sink.woken.wait(60)
        assert sink.ready()
    assert [header.first for header, _ in got] == list(range(sent))


def test_a_listening_sink_waits_for_its_first_client(opening):
    sink = opening(listen=True)
    assert not sink.ready()
    sink.insert(radio(2))
    source = opening(address=at(sink))
    assert until(source, 2) == list(radio(2))
    until_ready(sink)


def test_what_a_lost_client_did_not_get_is_counted(opening):
    sink = opening(listen=True, linger_s=0.01)
    with dial(sink):
        until_ready(sink)
        sink.insert(radio(10, size=2_000_000))
    eventually(lambda: sink.statistics()["dropped_disconnected"] == 10)
    assert not sink.ready()


def test_closing_does_not_wait_long_for_a_client_that_does_not_read(opening):
    sink = opening(listen=True, linger_s=0.05)
    with dial(sink):
        until_ready(sink)
        sink.insert(radio(10, size=2_000_000))
        sink.close()
    assert sink.statistics()["dropped_disconnected"] == 10


def test_an_overloaded_source_makes_the_sender_wait_and_loses_nothing(opening):
    source = opening(listen=True, buffer_blocks=2)
    source.next(1)
    sink = opening(address=at(source), buffer_bytes=100_000)
    until_ready(sink)
    sent = 0
    while sink.ready():
        sink.insert(radio(1, sent, size=20_000))
        sent += 1
        assert sent < 1000
    assert [int(w.ts) for w in until(source, sent)] == list(range(sent))


def test_a_connecting_sink_sends_again_what_a_lost_connection_swallowed(opening):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)
        sink = opening(address=show_address(server.getsockname()), buffer_bytes=1 << 30)
        sink.ready()
        first, _ = server.accept()
        until_ready(sink)
        sink.insert(radio(1, 0, size=3_000_000))
        first.recv(1000)
        first.close()
        second, _ = server.accept()
        second.settimeout(10)
        reader, got = FrameReader(), []
        with second:
            while not got:
                got += list(reader.feed(second.recv(1 << 20)))
    assert got[0][0].first == 0
    assert got[0][1] == encode_body(radio(1, 0, size=3_000_000))


def test_a_paused_sink_and_source_go_on(opening):
    source = opening(address=free_address(), listen=True)
    source.next(1)
    sink = opening(address=at(source))
    until_ready(sink)
    sink.insert(radio(2))
    until(source, 2)
    for interface in (sink, source):
        interface.close()
        interface.open(InterfaceContext(wake=interface.woken.set))
    source.next(1)
    until_ready(sink)
    sink.insert(radio(2, 2))
    sink.finish()
    assert until_end(source) == list(radio(4))
    assert source.statistics()["dropped_missing"] == 0


# Against programs of others


def test_rubbish_closes_its_connection_and_nothing_else(opening):
    source = opening(listen=True)
    source.next(1)
    for rubbish in (b"GET / HTTP/1.1\r\n\r\n", bytes(100), random.Random(3).randbytes(500)):
        with dial(source) as client:
            client.sendall(rubbish)
            with contextlib.suppress(ConnectionResetError):
                assert client.recv(10) == b""
    eventually(lambda: source.statistics()["dropped_malformed"] == 3)
    with dial(source) as client:
        client.sendall(frame(radio(2)) + end_frame(2))
        assert until_end(source) == list(radio(2))


def test_a_frame_with_a_wrong_body_is_counted_and_the_rest_read(opening):
    source = opening(listen=True)
    source.next(1)
    wrong = make_frame(Header(BYTE_ORDER, 7, 0, 1, 1), b"nonsense")
    with dial(source) as client:
        client.sendall(frame(radio(1)) + wrong + frame(radio(1, 2), 2))
        assert [int(w.ts) for w in until(source, 2)] == [0, 2]
    assert source.statistics()["dropped_malformed"] == 1
    assert source.statistics()["dropped_missing"] == 1


def test_a_frame_that_was_cut_off_is_incomplete_unless_sent_again(opening):
    source = opening(listen=True)
    source.next(1)
    whole = frame(radio(3, 1), 1)
    with dial(source) as client:
        client.sendall(frame(radio(1)) + whole[:-5])
    eventually(lambda: source.statistics()["dropped_incomplete"] == 3)
    with dial(source) as client:
        client.sendall(frame(radio(1)) + whole)
        until(source, 4)
    assert source.statistics()["dropped_incomplete"] == 0
    assert source.statistics()["duplicates"] == 1
    with dial(source) as client:
        client.sendall(frame(radio(3, 4), 4)[:-5])
    eventually(lambda: source.statistics()["dropped_incomplete"] == 3)
    with dial(source) as client:
        client.sendall(frame(radio(1, 9), 9))
        until(source, 5)
    assert source.statistics()["dropped_incomplete"] == 3
    assert source.statistics()["dropped_missing"] == 2
    with dial(source) as client:
        client.sendall(whole[:10])
    eventually(lambda: source.statistics()["dropped_malformed"] == 1)


def test_a_sender_without_session_may_start_again_on_each_connection(opening):
    source = opening(listen=True)
    source.next(1)
    for turn in (1, 2):
        with dial(source) as client:
            client.sendall(frame(radio(2), 0, session=0))
            until(source, 2 * turn)
    assert source.statistics()["duplicates"] == 0


def test_the_end_of_a_connection_may_be_the_end_of_the_stream(opening):
    source = opening(listen=True, end_on_close=True)
    source.next(1)
    with dial(source) as client:
        client.sendall(frame(radio(2)))
    assert until_end(source) == list(radio(2))


# Failures


def test_a_port_in_use_is_named(opening):
    taken = at(opening(listen=True))
    with pytest.raises(ChannelError, match=f"cannot listen on {taken}"):
        TcpInterface(Radio, {"address": taken, "listen": True}).open(InterfaceContext())


def test_a_refused_connection_is_an_error_after_the_deadline(opening):
    address = free_address()
    source = opening(address=address, connect_timeout_s=0.1)
    with pytest.raises(ChannelError, match=f"cannot connect to {address}.*refused"):
        until(source, 1)
    sink = opening(address=address, connect_timeout_s=0.1)
    until_ready(sink)
    with pytest.raises(ChannelError, match=f"cannot connect to {address}"):
        sink.insert(radio(1))


def test_closing_ends_attempts_to_connect(opening):
    source = opening(address=free_address(), connect_timeout_s=1000)
    assert source.next(1) is None
    source.close()
    sink = opening(address=free_address(), connect_timeout_s=1000)
    assert not sink.ready()
    sink.insert(radio(1))
    sink.close()
    assert sink.statistics()["queued"] == 1


def test_a_wrong_or_unknown_address_is_explained(opening):
    with pytest.raises(QueryError, match="host:port"):
        TcpInterface(Radio, {})
    with pytest.raises(ChannelError, match="cannot resolve"):
        TcpInterface(Radio, {"address": "no.such.host.invalid:1", "listen": True}).open(InterfaceContext())
    closed = TcpInterface(Radio, {"address": "127.0.0.1:1"})
    with pytest.raises(ChannelError, match="closed"):
        closed.next(1)
    closed.finish()
    closed.close()
