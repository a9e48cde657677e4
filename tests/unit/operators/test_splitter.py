"""The splitter as pure logic: its kernel against a loop over tuples, marks, statistics, skew."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsdm_grid import PhysicalWindow, create_stream_type
from gsdm_grid.errors import InternalError
from gsdm_grid.functions import Decision
from gsdm_grid.model import TypeRegistry, as_array
from gsdm_grid.operators import Splitter
from gsdm_grid.operators.split_kernel import gather, gather_range, scatter
from gsdm_grid.operators.splitter import hot_output

Mixed = create_stream_type(
    "Mixed",
    {"number": "int32", "name": "string", "fixed": "vector[3] of float32", "free": "vector of int16"},
    registry=TypeRegistry(),
)


def loop(outputs, broadcast, ways):
    """What the kernel must give, tuple by tuple."""
    made = [[] for _ in range(ways)]
    for row, output in enumerate(outputs):
        if broadcast is not None and broadcast[row]:
            for one in made:
                one.append(row)
        elif output >= 0:
            made[output].append(row)
    return made


def sorted_by_numpy(outputs, broadcast, ways):
    """What the kernel must give, by array operations: a reference that is quick enough for large blocks."""
    chosen = np.flatnonzero(broadcast)
    rows = np.concatenate([np.flatnonzero(~broadcast & (outputs >= 0)), np.repeat(chosen, ways)])
    codes = np.concatenate([outputs[~broadcast & (outputs >= 0)], np.tile(np.arange(ways), len(chosen))])
    order = np.lexsort((rows, codes))
    return rows[order], np.searchsorted(codes[order], np.arange(ways + 1))


def mixed(count):
    return Mixed.block(
        ts=np.arange(count) * 10,
        number=np.arange(count),
        name=[f"n{k}" for k in range(count)],
        fixed=np.arange(3 * count, dtype=np.float32).reshape(count, 3),
        free=[np.arange(k % 4, dtype=np.int16) for k in range(count)],
    )


@given(data=st.data(), count=st.integers(0, 80), ways=st.sampled_from([1, 2, 3, 64, 254, 255, 256, 257, 300]))
def test_the_kernel_does_what_a_loop_over_tuples_does(data, count, ways):
    outputs = np.array(data.draw(st.lists(st.integers(-1, ways - 1), min_size=count, max_size=count)), np.int64)
    broadcast = data.draw(
        st.none() | st.lists(st.booleans(), min_size=count, max_size=count).map(lambda given: np.array(given, bool))
    )
    rows, borders = scatter(outputs, broadcast, ways)
    assert [rows[a:b].tolist() for a, b in itertools.pairwise(borders)] == loop(outputs, broadcast, ways)
    assert len(rows) == borders[-1]


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "float64"])
def test_many_tuples_go_where_numpy_would_send_them(dtype):
    rng = np.random.default_rng(1)
    outputs, broadcast = rng.integers(0 if dtype[0] == "u" else -1, 64, 50_000), rng.random(50_000) < 0.005
    rows, borders = scatter(outputs.astype(dtype), broadcast, 64)
    expected, expected_borders = sorted_by_numpy(outputs, broadcast, 64)
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_array_equal(borders, expected_borders)


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "float32", "datetime64[ns]", "complex64", "complex128", "S5"]
)
@pytest.mark.parametrize("cut", [np.s_[:], np.s_[::2]])
@pytest.mark.parametrize("width", [(), (3,)])
def test_columns_are_gathered_as_numpy_takes_them(dtype, cut, width):
    column = np.random.default_rng(2).integers(0, 100, (200, *width)).astype(dtype)[cut]
    rows = np.array([3, 99, 0, 3], np.uint32)
    made = gather(column, rows)
    assert made.dtype == column.dtype
    np.testing.assert_array_equal(made, column[rows])


def test_a_range_is_gathered_without_being_made():
    assert gather_range(7, 3, np.array([0, 5, 2], np.uint32)).tolist() == [7, 22, 13]


@given(data=st.data(), count=st.integers(1, 30), ways=st.integers(1, 5), stride=st.sampled_from([1, 3, None]))
def test_every_kind_of_column_and_the_ordinals_go_along(data, count, ways, stride):
    block = mixed(count)
    places = np.cumsum(np.arange(count) % 4) if stride is None else range(7, 7 + count * stride, stride)
    block = block.stamped(ordinals=places, mark=1000)
    outputs = np.array(data.draw(st.lists(st.integers(-1, ways - 1), min_size=count, max_size=count)))
    broadcast = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    made = Splitter(Mixed, ways, lambda _: Decision(outputs, broadcast)).push(0, block)
    assert len(made) == ways
    for part, expected in zip(made, loop(outputs, broadcast, ways), strict=True):
        assert list(part) == [block[row] for row in expected]
        assert part.mark == 1000
        assert as_array(part.ordinals).tolist() == as_array(block.ordinals)[expected].tolist()


def test_outputs_without_tuples_get_the_mark():
    block = mixed(4).stamped(ordinals=range(4), mark=9)
    made = Splitter(Mixed, 3, lambda b: Decision(np.zeros(len(b), int))).push(0, block)
    assert [(len(part), part.mark) for part in made] == [(4, 9), (0, 9), (0, 9)]
    assert np.shares_memory(made[0].number, block.number)  # a block that stays together is not copied
    alone = PhysicalWindow.empty(Mixed, 12)
    assert [part.mark for part in Splitter(Mixed, 3, lambda b: Decision(np.zeros(0, int))).push(0, alone)] == [12] * 3


def test_what_is_broadcast_as_a_whole_is_not_copied():
    block = mixed(4).stamped(ordinals=range(4), mark=9)
    splitter = Splitter(Mixed, 3, lambda b: Decision(np.full(len(b), -1), np.ones(len(b), bool)))
    made = splitter.push(0, block)
    assert [(list(part), part.mark) for part in made] == [(list(block), 9)] * 3
    assert all(np.shares_memory(part.number, block.number) for part in made)
    assert (splitter.statistics()["b"], splitter.statistics()["per_output"]) == (1.0, [4, 4, 4])


def test_context_of_a_segment_is_not_split():
    block = mixed(5).stamped(ordinals=range(5), halo=2)
    made = Splitter(Mixed, 2, lambda b: Decision(b.number % 2)).push(0, block)
    assert [part.number.tolist() for part in made] == [[2, 4], [3]]


def test_a_block_with_more_context_than_windows_is_an_error():
    block = mixed(5).stamped(ordinals=range(5), halo=6)
    with pytest.raises(InternalError, match="rows 6 to 5 of 5"):
        Splitter(Mixed, 2, lambda b: Decision(b.number % 2)).push(0, block)


def test_results_are_slices_of_one_buffer():
    block = mixed(100).stamped(ordinals=range(100))
    made = Splitter(Mixed, 4, lambda b: Decision(b.number % 4)).push(0, block)
    assert len({part.number.__array_interface__["data"][0] // 1_000_000 for part in made}) <= 2
    assert all(part.number.base is made[0].number.base for part in made)
    with pytest.raises(ValueError, match="read-only"):
        made[0].number[0] = 1


def test_statistics_tell_what_became_of_the_tuples():
    splitter = Splitter(Mixed, 3, lambda b: Decision(np.where(b.number < 6, b.number % 3, -1), b.number == 9))
    for _ in range(2):
        splitter.push(0, mixed(10).stamped(ordinals=range(10)))
    told = splitter.statistics()
    assert (told["tuples"], told["omitted"], told["routed"], told["broadcast"]) == (20, 6, 12, 2)
    assert told["per_output"] == [6, 6, 6]
    assert told["o"] + told["r"] + told["b"] == pytest.approx(1)
    assert told["hot"] is None


def test_an_output_that_gets_most_of_the_tuples_is_named():
    splitter = Splitter(Mixed, 4, lambda b: Decision(np.where(b.number % 10 == 0, b.number // 10 % 4, 2)))
    splitter.push(0, mixed(1000).stamped(ordinals=range(1000)))
    hot = splitter.statistics()["hot"]
    assert hot["output"] == 2
    assert hot["share"] > 0.9


@pytest.mark.parametrize("counts", [[0, 0], [5], [1, 0, 0], [100, 120, 90], [10_000, 9_900]])
def test_chance_and_even_outputs_are_not_called_hot(counts):
    assert hot_output(np.array(counts)) is None
