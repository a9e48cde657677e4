"""The law: however often a producer begins again, at or before what its reader has read, and however its windows are
cut into blocks, the reader sees each window once, in order, and every other one is counted as a duplicate."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gsdm_grid.model import StreamPosition, TypeRegistry, create_stream_type

Numbered = create_stream_type("Repeated", {"n": "int64"}, registry=TypeRegistry())


def stream_of(ordinals):
    rows = np.arange(len(ordinals))
    regular = len(ordinals) and (ordinals == np.arange(ordinals[0], ordinals[0] + len(ordinals))).all()
    places = range(int(ordinals[0]), int(ordinals[-1]) + 1) if regular else ordinals
    return Numbered.block(ts=rows, n=rows).stamped(ordinals=places)


steps = st.lists(st.integers(0, 3), min_size=1, max_size=40) | st.integers(1, 40).map(lambda count: [1] * count)


@given(data=st.data(), steps=steps)
def test_a_reader_that_stops_anywhere_sees_each_window_once(data, steps):
    ordinals = np.cumsum(steps)
    stream, position, read, came = stream_of(ordinals), StreamPosition(), [], 0
    for _ in range(data.draw(st.integers(0, 6), "times that it begins again")):
        known = int(ordinals[len(read) - 1]) if read else 0
        at = int(np.searchsorted(ordinals, data.draw(st.integers(0, known), "begins at ordinal")))
        position.expect_duplicates()
        stop = data.draw(st.integers(at, len(ordinals)), "stops before window")
        while at < stop:
            block = stream[at : min(at + data.draw(st.integers(1, 9), "block"), stop)]
            at, came = at + len(block), came + len(block)
            block = position.without_duplicates(block)
            assert list(block.ordinals) == ordinals[block.n].tolist()
            read += block.n.tolist()
            position.advance(block)
    assert read == list(range(len(read)))
    assert position.duplicates == came - len(read)
    if read:
        last = int(ordinals[len(read) - 1])
        assert (position.ordinal, position.count) == (last, int((ordinals[: len(read)] == last).sum()))


@given(data=st.data(), steps=steps)
def test_a_reader_of_blocks_with_marks_sees_each_window_once(data, steps):
    """As a channel: all windows of an ordinal come in one block, and marks say that there are no more."""
    ordinals = np.cumsum(steps)
    stream, position, read, reached = stream_of(ordinals), StreamPosition(), [], -1
    last = int(ordinals[-1])
    while reached < last:
        position.expect_duplicates()
        begin = data.draw(st.integers(0, reached + 1), "begins at ordinal")
        while begin <= last:
            end = data.draw(st.integers(begin + 1, last + 1), "before ordinal")
            first, stop = (int(np.searchsorted(ordinals, border)) for border in (begin, end))
            block = position.without_duplicates(stream[first:stop].stamped(mark=end - 1))
            read += block.n.tolist()
            position.advance_to(block.mark)
            begin, reached = end, max(reached, end - 1)
            if data.draw(st.booleans(), "ends here"):
                break
    assert read == list(range(len(ordinals)))
