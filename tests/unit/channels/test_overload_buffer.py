import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsdm_grid.errors import ChannelError, QueryError
from gsdm_grid.interfaces import EndOfStream
from gsdm_grid.interfaces.overload import POLICIES, OverloadBuffer
from gsdm_grid.model import create_stream_type
from gsdm_grid.testing import eventually

Item = create_stream_type("BufferedItem", {"x": "vector[3] of float64"})
WINDOW_BYTES = 8 + 24


def items(start, count):
    return Item.block(ts=np.arange(start, start + count), x=np.full((count, 3), start))


def accounted(statistics):
    dropped = sum(value for name, value in statistics.items() if name.startswith("dropped_"))
    return statistics["delivered"] + dropped + statistics["buffered"]


@pytest.mark.parametrize("policy", ["drop_oldest", "sample"])
@settings(max_examples=150)
@given(
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 12)), max_size=40),
    max_windows=st.integers(1, 20),
    max_blocks=st.integers(1, 5),
    every=st.integers(2, 5),
)
def test_received_is_delivered_plus_dropped_plus_buffered(policy, steps, max_windows, max_blocks, every):
    buffer = OverloadBuffer(policy, max_windows * WINDOW_BYTES, max_blocks, every)
    produced, delivered = 0, []
    for is_put, count in steps:
        if is_put:
            assert buffer.put(items(produced, count))
            produced += count
        else:
            block = buffer.take(max(1, count))
            if block is not None:
                assert 1 <= len(block) <= max(1, count)
                assert not block.placed
                delivered += block.ts.tolist()
        statistics = buffer.statistics()
        assert statistics["received"] == produced == accounted(statistics)
        assert statistics["delivered"] == len(delivered)
        # One block may be larger than the bound, but only alone.
        assert statistics["buffered"] <= max(max_windows, 12)
        assert statistics["buffered_bytes"] == statistics["buffered"] * WINDOW_BYTES
        assert len(buffer._blocks) <= max_blocks
    assert delivered == sorted(set(delivered))


def test_drop_oldest_keeps_the_newest():
    buffer = OverloadBuffer("drop_oldest", 10 * WINDOW_BYTES)
    for start in range(0, 20, 5):
        buffer.put(items(start, 5))
    assert buffer.take(100).ts.tolist() == list(range(10, 20))
    assert buffer.statistics()["dropped_oldest"] == 10


def test_sampling_keeps_windows_from_the_whole_time_of_overload():
    buffer = OverloadBuffer("sample", 50 * WINDOW_BYTES, sample_every=2)
    for start in range(0, 10_000, 10):
        buffer.put(items(start, 10))
    kept = buffer.take(100).ts
    assert 20 <= len(kept) <= 50
    assert kept[0] < 1000
    assert kept[-1] > 9900
    assert buffer.statistics()["dropped_sampled"] == 10_000 - len(kept)


def test_nothing_is_sampled_while_there_is_room():
    buffer = OverloadBuffer("sample", 50 * WINDOW_BYTES, sample_every=2)
    buffer.put(items(0, 50))
    assert buffer.take(100).ts.tolist() == list(range(50))
    assert buffer.statistics()["dropped_sampled"] == 0


def test_blocking_makes_the_producer_wait_and_loses_nothing():
    buffer = OverloadBuffer("block", 10 * WINDOW_BYTES, 3)
    woken = threading.Event()
    buffer.open(woken.set)

    def produce():
        for start in range(0, 1000, 4):
            assert buffer.put(items(start, 4))
        buffer.end()

    producer = threading.Thread(target=produce)
    producer.start()
    eventually(lambda: buffer.statistics()["received"] > buffer.statistics()["buffered"] > 0)
    assert producer.is_alive()
    delivered = []
    try:
        while True:
            block = buffer.take(7)
            if block is None:
                assert woken.wait(60)
                woken.clear()
            else:
                delivered += block.ts.tolist()
    except EndOfStream:
        pass
    producer.join(60)
    assert delivered == list(range(1000))
    assert buffer.statistics()["delivered"] == 1000


def test_closing_lets_a_waiting_producer_go_and_keeps_what_waits():
    buffer = OverloadBuffer("block", 5 * WINDOW_BYTES)
    results = []
    producer = threading.Thread(target=lambda: results.extend(buffer.put(items(s, 5)) for s in (0, 5)))
    producer.start()
    eventually(lambda: buffer.statistics()["received"] == 10)
    buffer.close()
    buffer.close()
    producer.join(60)
    assert results == [True, False]
    buffer.open(lambda: None)
    assert buffer.take(100).ts.tolist() == list(range(5))
    statistics = buffer.statistics()
    assert statistics["dropped_closed"] == 5
    assert accounted(statistics) == 10


@pytest.mark.parametrize("policy", POLICIES)
def test_a_block_larger_than_the_bound_passes_alone(policy):
    buffer = OverloadBuffer(policy, 1, 1)
    assert buffer.put(items(0, 10))
    assert buffer.take(4).ts.tolist() == [0, 1, 2, 3]
    assert buffer.take(40).ts.tolist() == [4, 5, 6, 7, 8, 9]


def test_an_error_is_seen_after_the_last_window():
    buffer = OverloadBuffer()
    buffer.put(items(0, 1))
    buffer.fail(ChannelError("cable cut"))
    assert len(buffer.take(5)) == 1
    with pytest.raises(ChannelError, match="cable cut"):
        buffer.take(5)


def test_an_unknown_policy_is_answered_with_the_allowed_ones():
    with pytest.raises(QueryError, match="block, drop_oldest, sample"):
        OverloadBuffer("hope")
    with pytest.raises(QueryError, match="room"):
        OverloadBuffer(max_bytes=0)
    with pytest.raises(QueryError, match="one of 2, 3"):
        OverloadBuffer("sample", sample_every=1)
