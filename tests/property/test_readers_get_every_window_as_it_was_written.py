"""The law: whatever the sizes of windows, blocks and files, and whatever the limits of a reading, a reader of a result
log gets under each number the window that was appended under it. The same over HTTP: `tests/integration/api`."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsdm_grid.errors import InternalError
from gsdm_grid.model import TypeRegistry, create_stream_type, cut, cut_at
from gsdm_grid.storage.result_log import ResultLog

Numbered = create_stream_type(
    "NumberedResult", {"n": "int64", "v": "vector of float32", "name": "string"}, registry=TypeRegistry()
)


def numbered(first, lengths):
    """Windows whose content and ordinal tell their number, with vectors of these lengths."""
    rows = np.arange(first, first + len(lengths))
    vectors = [np.full(length, row, np.float32) for row, length in zip(rows, lengths, strict=True)]
    block = Numbered.block(ts=rows * 10, n=rows, v=vectors, name=[f"w{row}" for row in rows])
    return block.stamped(ordinals=rows * 3 + 7)


def assert_numbered(seq, block):
    rows = np.arange(seq, seq + len(block))
    assert list(block.ordinals) == (rows * 3 + 7).tolist()
    assert block.n.tolist() == rows.tolist()
    assert list(block.name) == [f"w{row}" for row in rows]
    assert all((vector == row).all() for row, vector in zip(rows, block.v, strict=True))


lengths = st.integers(0, 40)
blocks = st.lists(
    st.one_of(
        st.lists(lengths, min_size=1, max_size=12),
        st.builds(lambda count, length: [length] * count, st.integers(1, 60), lengths),
    ),
    min_size=1,
    max_size=12,
)


@given(data=st.data())
def test_number_ordinal_and_content_agree_for_every_window_of_a_log(tmp_path_factory, data):
    log = ResultLog(tmp_path_factory.mktemp("log"), Numbered, segment_bytes=data.draw(st.integers(100, 8000)))
    for vectors in data.draw(blocks):
        log.append(numbered(log.next, vectors))
    seq = data.draw(st.integers(0, log.next))
    while seq < log.next:
        max_windows, max_bytes = data.draw(st.integers(1, 50)), data.draw(st.integers(1, 8000))
        reading = log.read(seq, max_windows, max_bytes)
        assert reading.missed == 0
        assert reading.blocks
        assert sum(len(block) for _, block in reading.blocks) <= max_windows
        for first, block in reading.blocks:
            assert first == seq
            assert len(block) > 0
            assert_numbered(first, block)
            seq += len(block)
        assert reading.next == seq
    log.remove()


@given(st.lists(lengths, max_size=12), st.integers(-15, 15), st.integers(-15, 15) | st.none())
def test_a_cut_outside_a_block_is_an_error(vectors, start, stop):
    block = numbered(0, vectors)
    end = len(block) if stop is None else stop
    if 0 <= start <= end <= len(block):
        part = cut(block, start, stop)
        assert len(part) == end - start
        assert_numbered(start, part)
    else:
        with pytest.raises(InternalError, match=f"rows {start} to {end} of {len(block)}"):
            cut(block, start, stop)


@given(st.lists(lengths, max_size=12), st.lists(st.integers(-15, 15), max_size=5))
def test_cutting_at_bounds_outside_a_block_is_an_error(vectors, bounds):
    block = numbered(0, vectors)
    if bounds == sorted(bounds) and all(0 <= bound <= len(block) for bound in bounds):
        for (start, stop), part in zip(pairwise(bounds), cut_at(block, bounds), strict=True):
            assert len(part) == stop - start
            assert_numbered(start, part)
    elif len(bounds) > 1:
        with pytest.raises(InternalError, match=f"of {len(block)}$"):
            cut_at(block, bounds)
