import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsdm_grid.errors import QueryError
from gsdm_grid.interfaces.udp import (
    BYTE_ORDER,
    END,
    HEADER,
    Header,
    Reassembly,
    UdpInterface,
    encode_body,
    parse_address,
    schema_of,
    show_address,
)
from gsdm_grid.model import PhysicalWindow, create_stream_type

Radio = create_stream_type("UdpRadio", {"x": "vector of complex64"})
Note = create_stream_type("UdpNote", {"text": "string", "v": "vector of int32"})


def radio(count, start=0, size=16):
    rows = np.arange(start, start + count)
    return Radio.block(ts=rows, x=np.repeat(rows[:, None], size, 1).astype(np.complex64))


def messages(block, first=0, session=7, room=10**6, schema=None):
    body = encode_body(block)
    parts = -(-len(body) // room)
    schema = schema_of(block.type) if schema is None else schema
    header = Header(BYTE_ORDER, session, schema, first, len(block), 0, parts)
    return [header._replace(part=p).pack() + body[p * room : (p + 1) * room] for p in range(parts)]


def end(first, session=7):
    return Header(BYTE_ORDER | END, session, 0, first, 0).pack()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "'bind'"),
        ({"bind": "h:1", "to": "h:1"}, "'bind'"),
        ({"bind": "nothing"}, "'host:port'"),
        ({"bind": "h:1", "format": "xml"}, "'gsdm' or 'raw'"),
        ({"bind": "h:1", "format": "raw"}, "dtype"),
        ({"to": "h:1", "datagram_bytes": 9}, "datagram_bytes"),
        ({"bind": "h:1", "overload": "hope"}, "drop_oldest"),
    ],
)
def test_wrong_options_are_explained(options, message):
    if options.get("format") == "raw":
        options = {**options, "window": 4}
    with pytest.raises(QueryError, match=message):
        UdpInterface(Radio, options)


def test_a_source_cannot_be_written_to_nor_a_sink_read():
    with pytest.raises(QueryError, match="written to"):
        UdpInterface(Radio, {"bind": "127.0.0.1:0"}).insert(radio(1))
    with pytest.raises(QueryError, match="read from"):
        UdpInterface(Radio, {"to": "127.0.0.1:9"}).next(1)


def test_addresses_are_hosts_and_ports():
    assert parse_address("udp", "to", "host.example:80") == ("host.example", 80)
    assert parse_address("udp", "to", "[fe80::1]:0") == ("fe80::1", 0)
    assert show_address(("::1", 5)) == "[::1]:5"
    for wrong in ("host", ":80", "host:", "host:x", "host:65536", "::1:80", "host:-1", None, 80, "host:²"):
        with pytest.raises(QueryError, match="host:port"):
            parse_address("udp", "to", wrong)


# Reassembly


def test_a_message_with_a_lost_part_is_dropped_and_counted():
    reassembly = Reassembly(Radio)
    lost = messages(radio(4), 0, room=100)
    assert len(lost) > 2
    for datagram in lost[:1] + lost[2:]:
        assert reassembly.accept("a", datagram) is None
    assert reassembly.reassembling == 4
    (whole,) = messages(radio(2, 4), 4)
    assert list(reassembly.accept("a", whole)) == list(radio(2, 4))
    assert reassembly.counts["dropped_incomplete"] == 4
    assert reassembly.counts["dropped_missing"] == 0
    assert reassembly.reassembling == 0
    assert reassembly.accept("a", lost[1]) is None
    assert reassembly.counts["late_datagrams"] == 1


def test_windows_that_never_came_are_missing():
    reassembly = Reassembly(Radio)
    reassembly.accept("a", messages(radio(3), 10)[0])
    reassembly.accept("a", messages(radio(1), 20)[0])
    assert reassembly.counts["dropped_missing"] == 7
    reassembly.accept("a", end(25))
    assert reassembly.counts["dropped_missing"] == 11
    assert reassembly.ended


def test_a_sender_that_starts_again_counts_anew():
    reassembly = Reassembly(Radio)
    assert reassembly.accept("a", messages(radio(3), 10, session=1)[0]) is not None
    assert reassembly.accept("a", messages(radio(3), 0, session=2)[0]) is not None
    assert reassembly.accept("a", messages(radio(3), 0, session=2)[0]) is None
    assert reassembly.counts["dropped_missing"] == 0
    assert reassembly.counts["late_datagrams"] == 1


def test_incomplete_messages_take_bounded_memory():
    reassembly = Reassembly(Radio, max_bytes=10_000)
    for first in range(200):
        reassembly.accept(first % 3, messages(radio(1, size=100), first, room=500)[0])
        assert reassembly._bytes <= 10_000
    assert reassembly.counts["dropped_incomplete"] + reassembly.reassembling == 200
    for sender in range(1000):
        reassembly.accept(("many", sender), messages(radio(1, size=100), 0, room=500)[0])
    assert len(reassembly._senders) <= 256
    assert reassembly.counts["dropped_incomplete"] + reassembly.reassembling == 1200
    reassembly.reset()
    assert (reassembly._bytes, reassembly.reassembling) == (0, 0)


def test_another_stream_type_is_refused():
    reassembly = Reassembly(Note)
    assert reassembly.accept("a", messages(radio(1))[0]) is None
    assert reassembly.accept("a", messages(radio(1), schema=0)[0]) is None
    assert reassembly.counts["dropped_malformed"] == 2


@settings(max_examples=60)
@given(
    counts=st.lists(st.integers(1, 4), min_size=1, max_size=8),
    room=st.integers(60, 400),
    data=st.data(),
)
def test_what_is_sent_is_delivered_dropped_or_under_way(counts, room, data):
    reassembly = Reassembly(Radio)
    sent, delivered = 1, [0]
    assert reassembly.accept("a", messages(radio(1), 0)[0]) is not None
    for count in counts:
        datagrams = messages(radio(count, sent), sent, room=room)
        kept = data.draw(st.lists(st.sampled_from(range(len(datagrams))), max_size=2 * len(datagrams)))
        whole = data.draw(st.booleans())
        for part in range(len(datagrams)) if whole else kept:
            block = reassembly.accept("a", datagrams[part])
            if block is not None:
                delivered += block.ts.tolist()
        sent += count
    reassembly.accept("a", end(sent))
    assert delivered == sorted(set(delivered))
    dropped = reassembly.counts["dropped_incomplete"] + reassembly.counts["dropped_missing"]
    assert len(delivered) + dropped + reassembly.reassembling == sent
    assert reassembly.reassembling == 0
    assert reassembly.counts["dropped_malformed"] == 0


@settings(max_examples=300)
@given(datagrams=st.lists(st.binary(max_size=200), max_size=5), headed=st.booleans(), flags=st.integers(0, 255))
def test_random_bytes_are_refused_and_counted(datagrams, headed, flags):
    reassembly = Reassembly(Note)
    for datagram in datagrams:
        if headed:
            datagram = b"GSDM\x01" + bytes([flags]) + datagram
        block = reassembly.accept("x", datagram)
        assert block is None
    counts = reassembly.counts
    assert counts["dropped_malformed"] <= len(datagrams)
    if not headed:
        assert counts["dropped_malformed"] == len(datagrams)


note_blocks = st.lists(
    st.tuples(st.text(max_size=4), st.lists(st.integers(-5, 5), max_size=4)), min_size=1, max_size=4
).map(
    lambda rows: PhysicalWindow.pack(Note, [Note.window(i, t, np.array(v, np.int32)) for i, (t, v) in enumerate(rows)])
)


@settings(max_examples=300)
@given(block=note_blocks, data=st.data())
def test_a_damaged_datagram_gives_no_block_or_a_sound_one(block, data):
    (whole,) = messages(block)
    assert list(Reassembly(Note).accept("a", whole)) == list(block)
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(damaged[: data.draw(st.integers(0, len(damaged)))]) + data.draw(st.binary(max_size=4))
    got = Reassembly(Note).accept("a", damaged)
    if got is not None:
        windows = [(int(w.ts), w.text, w.v.tolist()) for w in got]
        assert len(windows) == len(got) >= 1


@settings(max_examples=100)
@given(block=note_blocks, cut=st.integers(0, 10_000))
def test_a_truncated_datagram_is_refused(block, cut):
    (whole,) = messages(block)
    reassembly = Reassembly(Note)
    assert reassembly.accept("a", whole[: cut % len(whole)]) is None
    assert reassembly.counts["dropped_malformed"] == 1


def test_the_header_is_as_documented():
    packed = Header(2, 3, 4, 5, 0, 0, 1).pack()
    assert len(packed) == HEADER.size == 36
    assert packed == b"GSDM\x02\x02\0\0" + bytes([3, 0, 0, 0, 4, 0, 0, 0, 5]) + bytes(15) + b"\x01\0\0\0"
    assert Header.unpack(packed) == (2, 3, 4, 5, 0, 0, 1)
