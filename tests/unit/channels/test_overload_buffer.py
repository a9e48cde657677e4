import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsdm_grid.errors import ChannelError, QueryError
from gsdm_grid.interfaces.overload import POLICIES, OverloadBuffer
from gsdm_grid.model import create_stream_type

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
