"""Frames of the TCP interface: found however they are cut, refused when they are damaged."""

import contextlib

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gsdm_grid.errors import ChannelError
from gsdm_grid.interfaces.tcp import FrameReader, make_frame
from gsdm_grid.interfaces.udp import BYTE_ORDER, Header, encode_body, schema_of
from gsdm_grid.model import create_stream_type

Radio = create_stream_type("TcpRadio", {"x": "vector of complex64"})


def radio(count, start=0, size=16):
    rows = np.arange(start, start + count)
    return Radio.block(ts=rows, x=np.repeat(rows[:, None], size, 1).astype(np.complex64))


def frame(block, first=0, session=7):
    return make_frame(Header(BYTE_ORDER, session, schema_of(block.type), first, len(block)), encode_body(block))


@settings(max_examples=60)
@given(counts=st.lists(st.integers(1, 3), max_size=5), size=st.integers(1, 300))
def test_frames_are_found_however_the_bytes_are_cut(counts, size):
    data = b"".join(frame(radio(count, size=2), first) for first, count in enumerate(counts))
    reader = FrameReader()
    got = [pair for at in range(0, len(data), size) for pair in reader.feed(data[at : at + size])]
    assert [header.windows for header, _ in got] == counts
    assert reader.waiting_bytes == 0


@settings(max_examples=300)
@given(chunks=st.lists(st.binary(max_size=120), max_size=6), cut=st.integers(0, 200), valid=st.booleans())
def test_random_and_truncated_frames_are_refused_or_waited_for(chunks, cut, valid):
    reader = FrameReader(max_bytes=1000)
    whole = frame(radio(1, size=2))
    data = [whole[:cut], *chunks] if valid else chunks
    with contextlib.suppress(ChannelError):
        for chunk in data:
            for header, body in reader.feed(chunk):
                assert header.parts == 1
                assert len(body) <= 1000
    assert reader.waiting_bytes <= sum(map(len, data))


@settings(max_examples=200)
@given(data=st.data())
def test_a_damaged_frame_never_harms_the_receiver(data):
    from gsdm_grid.interfaces.tcp import _Receiver

    receiver = _Receiver(Radio, {})
    damaged = bytearray(frame(radio(2, size=2)))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(4, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ChannelError):
        for header, body in FrameReader().feed(bytes(damaged)):
            receiver.accept(header, body)
    statistics = receiver.statistics()
    assert statistics["received"] == statistics["buffered"]
    assert statistics["dropped_malformed"] <= 1
