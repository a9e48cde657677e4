import copy
import itertools
import pickle

import numpy as np
import pytest

from gsdm_grid.errors import SchemaError, UnknownAttribute
from gsdm_grid.model import NO_MARK, PhysicalWindow, Ragged, as_array, create_stream_type, join_ordinals


@pytest.fixture
def level(registry):
    return create_stream_type("Level", {"value": "float64"}, registry=registry)


@pytest.fixture
def block(level):
    return level.block(ts=np.arange(10) * 100, value=np.arange(10) / 2).stamped(range(20, 30))


@pytest.fixture
def signal(registry):
    return create_stream_type("Signal", {"name": "string", "x": "vector of float32"}, registry=registry)


def test_block_is_a_sequence_of_logical_windows_and_of_columns(level, block):
    assert len(block) == 10
    assert block[3] == level.window(300, 1.5)
    assert block[-1] == level.window(900, 4.5)
    assert [window.ts for window in block] == list(range(0, 1000, 100))
    assert block.value is block["value"] is block.columns["value"]
    with pytest.raises(IndexError):
        block[10]
    with pytest.raises(TypeError):
        block[1.0]


def test_unknown_column_says_what_is_known(block):
    for read in (lambda: block.volume, lambda: block["volume"], lambda: block["mark"]):
        with pytest.raises(UnknownAttribute, match="of stream type 'Level'; known: ts, value"):
            read()
    assert not hasattr(block, "volume")


@pytest.mark.parametrize("ragged", [False, True])
def test_every_kind_of_attribute_lies_in_a_column_of_its_dtype(everything, make_block, ragged):
    block = make_block(6, ragged)
    for name, kind in everything.attributes.items():
        column = block[name]
        values = column.values if isinstance(column, Ragged) else column
        assert values.dtype == kind.numpy
        assert isinstance(column, Ragged) == (kind.is_string or (ragged and kind.shape is None))
        assert len(column) == 6


@pytest.mark.parametrize("ragged", [False, True])
def test_logical_windows_packed_again_are_the_same_block(everything, make_block, assert_same, ragged):
    block = make_block(7, ragged)
    assert_same(PhysicalWindow.pack(everything, list(block)), block)
    assert_same(PhysicalWindow.pack(everything, list(block), range(3, 10), 12), block.stamped(range(3, 10), 12))


def test_packing_nothing_gives_an_empty_block_with_its_mark(everything):
    empty = PhysicalWindow.pack(everything, [], mark=4)
    assert len(empty) == 0
    assert empty.mark == 4
    assert list(empty) == []


def test_columns_of_different_lengths_are_refused(level):
    with pytest.raises(SchemaError, match="attribute 'value': expected 3 windows, as in 'ts', got 2"):
        level.block(ts=[1, 2, 3], value=[1, 2])


def test_block_of_nothing_can_be_constructed_from_empty_lists(signal, level):
    assert len(signal.block(ts=[], name=[], x=[])) == 0
    assert len(level.block(ts=[], value=[])) == 0


def written(array):
    array[...] = 0


def assert_read_only(block):
    for column in block.columns.values():
        for array in (column.values, column.offsets) if isinstance(column, Ragged) else (column,):
            assert not array.flags.writeable
    if isinstance(block.ordinals, np.ndarray):
        assert not block.ordinals.flags.writeable


@pytest.mark.parametrize("ragged", [False, True])
def test_no_way_of_making_a_block_leaves_its_columns_writable(everything, make_block, ragged):
    block = make_block(5, ragged)
    made = [
        block,
        block[1:3],
        block[::2],
        block.select(np.array([0, 2, 3])),
        block.select(np.arange(5) != 2),
        block.stamped(np.array([1, 2, 4, 5, 9])),
        block.stamped(np.array([1, 2, 4, 5, 9]))[1:],
        block.replace(ts=np.arange(5)),
        PhysicalWindow.concat([block, block]),
        PhysicalWindow.pack(everything, list(block)),
        PhysicalWindow.empty(everything),
        PhysicalWindow(everything, {name: copy.deepcopy(column) for name, column in block.columns.items()}),
        pickle.loads(pickle.dumps(block)),
        *block.dense_parts(),
    ]
    for each in made:
        assert_read_only(each)
    for row in PhysicalWindow.concat([block, block]):
        with pytest.raises(ValueError, match="read-only"):
            written(row.f_float32)


def test_blocks_cannot_be_changed(block):
    with pytest.raises(TypeError, match=r"immutable: use replace\(value=…\)"):
        block.value = 3
    with pytest.raises(TypeError, match="immutable"):
        block.halo = 3
    with pytest.raises(TypeError):
        block.columns["value"] = np.zeros(10)


def test_slice_is_a_view_that_keeps_its_places_as_a_range(block):
    part = block[2:8:3]
    assert part.ts.tolist() == [200, 500]
    assert part.ordinals == range(22, 28, 3)
    assert np.shares_memory(part.value, block.value)
    assert list(block[::-1].ordinals) == list(range(29, 19, -1))
    assert len(block[5:2]) == 0


def test_slice_of_irregular_places_keeps_them(block):
    places = np.array([1, 2, 5, 6, 7, 9, 10, 20, 21, 22])
    assert block.stamped(places)[3:6].ordinals.tolist() == [6, 7, 9]


def test_selection_by_mask_or_row_numbers_keeps_places(block):
    mask = np.isin(np.arange(10), [0, 3, 4])
    for rows in (mask, np.array([0, 3, 4]), np.array([-10, 3, -6]), [0, 3, 4], list(mask)):
        part = block.select(rows)
        assert part.ts.tolist() == [0, 300, 400]
        assert part.ordinals.tolist() == [20, 23, 24]
    assert block.stamped(np.arange(10) ** 2).select(mask).ordinals.tolist() == [0, 9, 16]


@pytest.mark.parametrize("rows", [[], np.zeros(10, bool), np.array([], np.intp)])
def test_selection_of_nothing_is_empty(block, rows):
    part = block.select(rows)
    assert len(part) == 0
    assert len(part.ordinals) == 0
    assert part.mark == NO_MARK


def test_selection_of_neighbours_keeps_places_as_a_range(block):
    assert block.select(np.ones(10, bool)).ordinals == range(20, 30)
    assert block.select((np.arange(10) > 2) & (np.arange(10) < 6)).ordinals == range(23, 26)
    assert block.select(np.array([7])).ordinals == range(27, 28)
    assert block[::2].select(np.array([1, 2])).ordinals == range(22, 26, 2)


def test_selection_in_another_order_reorders_places(block):
    assert block.select(np.array([4, 2, 3, 7])).ordinals.tolist() == [24, 22, 23, 27]


@pytest.mark.parametrize("rows", [np.ones(9, bool), np.ones(11, bool), np.array([10]), np.array([-11])])
def test_selection_outside_the_block_is_an_index_error(block, rows):
    with pytest.raises(IndexError):
        block.select(rows)


def test_row_numbers_must_be_integers(block):
    with pytest.raises(TypeError):
        block.select(np.array([1.5]))


@pytest.mark.parametrize("ragged", [False, True])
def test_cutting_a_block_and_joining_the_pieces_gives_the_block(make_block, assert_same, ragged):
    block = make_block(9, ragged).stamped(range(5, 14))
    for cuts in ([0, 9], [0, 4, 9], [0, 1, 2, 3, 9], [0, 0, 5, 5, 9]):
        pieces = [block[a:b] for a, b in itertools.pairwise(cuts)]
        joined = PhysicalWindow.concat(pieces)
        assert_same(joined, block)
        assert joined.ordinals == range(5, 14)


def test_joined_blocks_take_the_first_halo_and_the_greatest_mark(block):
    joined = PhysicalWindow.concat([block[:3].stamped(halo=2), block[3:5].stamped(mark=40)])
    assert (joined.halo, joined.mark) == (2, 40)
    joined = PhysicalWindow.concat([block[:3], PhysicalWindow.empty(block.type, mark=25)])
    assert (joined.halo, joined.mark) == (None, 25)


def test_joined_blocks_without_place_have_none_and_count_from_zero(level):
    fresh = level.block(ts=[1, 2], value=[1, 2])
    joined = PhysicalWindow.concat([fresh, PhysicalWindow.empty(level), fresh])
    assert not joined.placed
    assert joined.ordinals == range(4)
    assert PhysicalWindow.concat([fresh, fresh.stamped(range(2, 4))]).placed


@pytest.mark.parametrize(
    ("parts", "joined"),
    [
        ([], range(0)),
        ([range(0)], range(0)),
        ([range(3, 5), range(5, 9)], range(3, 9)),
        ([range(3, 5), range(0), range(5, 9)], range(3, 9)),
        ([range(0, 6, 2), range(6, 10, 2)], range(0, 10, 2)),
        ([range(4, 5), range(7, 8), range(10, 11)], range(4, 11, 3)),
        ([range(4, 5), range(7, 13, 3)], range(4, 13, 3)),
        ([range(0, 6, 2), range(6, 7)], range(0, 7, 2)),
    ],
)
def test_regular_ordinals_join_to_a_range(parts, joined):
    assert join_ordinals(parts) == joined
    assert isinstance(join_ordinals(parts), range)


@pytest.mark.parametrize(
    "parts",
    [
        [range(3), range(4, 6)],
        [range(3), range(2, 6)],
        [range(0, 6, 2), range(6, 9)],
        [range(3), np.array([3, 4])],
        [np.array([0, 1]), range(2, 4)],
        [range(5, 6), range(5, 6)],
        [range(5, 6), range(4, 5)],
        [np.array([1, 5]), np.array([7])],
    ],
)
def test_irregular_ordinals_join_to_an_array(parts):
    joined = join_ordinals(parts)
    assert isinstance(joined, np.ndarray)
    assert joined.tolist() == [int(number) for part in parts for number in part]
    assert joined.dtype == np.int64


def test_ordinals_as_an_array():
    assert as_array(range(2, 8, 3)).tolist() == [2, 5]
    array = np.array([1, 4])
    assert as_array(array) is array


def test_fresh_block_has_no_place_and_counts_from_zero(level):
    fresh = level.block(ts=[1, 2], value=[1, 2])
    assert not fresh.placed
    assert fresh.ordinals == range(2)
    assert fresh.stamped(range(5, 7)).placed


def test_part_of_a_block_without_place_has_none_either(level):
    fresh = level.block(ts=range(5), value=range(5))
    for part in (fresh[2:], fresh[::2], fresh.select(np.array([1, 3])), fresh.select(fresh.ts > 1)):
        assert not part.placed
        assert part.ordinals == range(len(part))


def test_mark_is_at_least_the_last_ordinal(block, level):
    assert block.mark == 29
    assert block.stamped(mark=40).mark == 40
    assert block.stamped(mark=3).mark == 29
    assert PhysicalWindow.empty(level).mark == NO_MARK
    assert PhysicalWindow.empty(level, mark=7).mark == 7
    assert type(block.stamped(mark=np.int64(50)).mark) is int
    assert type(block.stamped(np.arange(10)).mark) is int


def test_part_of_a_block_has_neither_mark_nor_halo(block):
    whole = block.stamped(mark=40, halo=2)
    assert (whole.mark, whole.halo) == (40, 2)
    assert (whole[:5].mark, whole[:5].halo) == (24, None)
    assert (whole.select(np.array([1])).mark, whole.select(np.array([1])).halo) == (21, None)


def test_stamping_keeps_ordinals_and_mark_unless_given_but_never_the_halo(block):
    whole = block.stamped(mark=40, halo=np.int64(2))
    assert type(whole.halo) is int
    assert (whole.stamped().mark, whole.stamped().halo) == (40, None)
    assert whole.stamped(range(10)).ordinals == range(10)
    assert np.shares_memory(whole.stamped(halo=1).value, block.value)


def test_changed_columns_are_checked_and_keep_the_place(block):
    whole = block.stamped(mark=40, halo=2)
    changed = whole.replace(value=np.arange(10, dtype=np.float32))
    assert changed.value.dtype == np.float64
    assert (changed.ordinals, changed.mark, changed.halo) == (range(20, 30), 40, 2)
    assert changed.ts is block.ts
    with pytest.raises(SchemaError, match="attribute 'value': expected 10 windows, got 3"):
        block.replace(value=[1.0, 2.0, 3.0])
    with pytest.raises(SchemaError, match="attribute 'value'"):
        block.replace(value=["x"] * 10)
    with pytest.raises(UnknownAttribute, match="'volume'"):
        block.replace(volume=np.zeros(10))


def test_block_of_another_type_keeps_what_both_have_and_casts_like_a_window(block, registry):
    narrow = create_stream_type("Narrow", {"value": "float32", "n": "int8"}, registry=registry)
    made = block.as_type(narrow, n=np.arange(10))
    assert made.value.dtype == np.float32
    assert made.ts is block.ts
    assert [made[row] for row in range(10)] == [block[row].as_type(narrow, n=row) for row in range(10)]
    with pytest.raises(SchemaError, match="stream type 'Narrow', attribute 'n': expected int8, got nothing"):
        block.as_type(narrow)
    whole = create_stream_type("Whole", {"value": "int64"}, registry=registry)
    with pytest.raises(SchemaError, match=r"stream type 'Whole', attribute 'value': expected .*int64.*got float64"):
        block.as_type(whole)


def test_dense_block_is_its_only_dense_part(make_block):
    block = make_block(4)
    assert block.dense_parts()[0] is block
    assert len(block.dense_parts()) == 1


def test_ragged_block_falls_into_parts_of_equal_lengths(signal, assert_same):
    vectors = [[1, 2], [3, 4], [5], [6, 7, 8], [9, 1, 2], []]
    block = signal.block(ts=range(6), name=list("abcdef"), x=vectors).stamped(range(10, 16), 20, 1)
    parts = block.dense_parts()
    assert [part.x.shape for part in parts] == [(2, 2), (1, 1), (2, 3), (1, 0)]
    assert all(np.shares_memory(part.x, block.x.values) for part in parts[:-1])
    assert_same(PhysicalWindow.concat(parts), block)
    single = block[:2].dense_parts()
    assert [part.x.tolist() for part in single] == [[[1, 2], [3, 4]]]
    assert [part.x.shape for part in block[:0].dense_parts()] == [(0, 0)]


def test_dense_parts_of_a_block_without_place_have_none(signal):
    block = signal.block(ts=[0, 1], name=["", ""], x=[[1], [1, 2]])
    assert not any(part.placed for part in block.dense_parts())


@pytest.mark.parametrize("ragged", [False, True])
def test_blocks_survive_pickling(make_block, assert_same, ragged):
    block = make_block(6, ragged)
    for each in (block, block.stamped(np.array([1, 2, 4, 8, 16, 32]), 40, 2), block[1:4], block[::2]):
        again = pickle.loads(pickle.dumps(each))
        assert_same(again, each)
        assert again.placed == each.placed


def test_pickled_slice_does_not_carry_the_rest_of_the_block(registry):
    wide = create_stream_type("Wide", {"x": "vector of float64", "r": "vector of int8"}, registry=registry)
    block = wide.block(ts=range(100), x=np.zeros((100, 1000)), r=[[0] * (n * 10) for n in range(100)])
    assert len(pickle.dumps(block[3:5])) < 30_000


def test_size_counts_the_rows_of_the_block_only(signal):
    block = signal.block(ts=[0, 1], name=["ab", "c"], x=[[1, 2, 3], [4]])
    assert block.nbytes == 2 * 8 + (3 + 24) + (4 * 4 + 24)
    assert block[1:].nbytes == 8 + (1 + 16) + (4 + 16)
    assert repr(block[1:]) == "<1 × Signal, 45 bytes, mark 0>"
