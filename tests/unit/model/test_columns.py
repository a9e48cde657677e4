import datetime as dt
import pickle

import numpy as np
import pytest

from gsdm_grid.errors import SchemaError
from gsdm_grid.model import AttributeType, Ragged, Text
from gsdm_grid.model.columns import as_dense, as_ragged, check_column, check_value, concatenate, empty, pack

UTC = dt.UTC


def kind(text):
    return AttributeType.parse(text)


def value(text, given):
    return check_value("T", "a", kind(text), given)


def column(text, given):
    return check_column("T", "a", kind(text), given)


@pytest.fixture
def ragged():
    return Ragged(np.arange(6, dtype=np.float32), np.array([0, 2, 2, 5, 6]))


@pytest.fixture
def text():
    return pack(["a", "", "€uro", "🙂"], kind("string"))


def lists(rows):
    return [list(row) for row in rows]


@pytest.mark.parametrize(
    ("text", "given", "stored"),
    [
        ("int8", -128, np.int8(-128)),
        ("uint64", 2**64 - 1, np.uint64(2**64 - 1)),
        ("int32", np.uint64(7), np.int32(7)),
        ("int8", True, np.int8(1)),
        ("float32", 1, np.float32(1)),
        ("float32", np.float64(0.5), np.float32(0.5)),
        ("bool", True, np.True_),
        ("complex64", 2, np.complex64(2)),
        ("complex128", 1j, np.complex128(1j)),
        ("string", "ä", "ä"),
        ("string", np.str_("a"), "a"),
        ("timestamp", 5, np.int64(5)),
    ],
)
def test_scalar_is_stored_with_the_dtype_of_its_attribute(text, given, stored):
    got = value(text, given)
    assert got == stored
    assert np.asarray(got).dtype == np.asarray(stored).dtype


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("int8", 128),
        ("uint8", -1),
        ("uint64", -1),
        ("uint64", 2**64),
        ("int64", 2**63),
        ("int8", 1.5),
        ("int8", None),
        ("int8", "1"),
        ("int8", [1]),
        ("bool", 1),
        ("float32", 1j),
        ("float32", "x"),
        ("complex64", "x"),
        ("string", 3),
        ("string", b"x"),
        ("string", None),
        ("string", "\ud800"),
        ("timestamp", 1.5),
        ("timestamp", True),
        ("timestamp", "2024-01-01"),
        ("timestamp", np.uint64(2**63)),
        ("timestamp", np.datetime64("NaT")),
        ("timestamp", np.datetime64("3000-01-01")),
        ("vector of int8", 3),
        ("vector of int8", [[1, 2]]),
        ("vector of int8", [1, 300]),
        ("vector of int8", [1, [2, 3]]),
        ("vector[3] of int8", [1, 2]),
        ("vector[2,2] of int8", [1, 2, 3, 4]),
        ("vector of float32", ["x"]),
        ("vector of timestamp", [1, [2, 3]]),
    ],
)
def test_value_that_does_not_fit_names_type_attribute_and_what_came(text, given):
    with pytest.raises(SchemaError) as caught:
        value(text, given)
    assert str(caught.value).startswith("stream type 'T', attribute 'a': expected ")
    assert ", got " in str(caught.value)
    assert pickle.loads(pickle.dumps(caught.value)).args == caught.value.args


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("int8", 3),
        ("int8", [1, 300]),
        ("int8", [[1], [2]]),
        ("string", "abc"),
        ("string", 3),
        ("string", ["a", 3]),
        ("string", Ragged(np.zeros(2, np.uint8), np.array([0, 2]))),
        ("vector of int8", 3),
        ("vector of int8", [1, 2]),
        ("vector of int8", np.arange(3)),
        ("vector of int8", np.zeros((2, 2, 2), np.int8)),
        ("vector of int8", [[1], [300]]),
        ("vector of int8", Ragged(np.array([1.5]), np.array([0, 1]))),
        ("vector of int8", pack(["a"], AttributeType("string"))),
        ("vector[2] of int8", np.zeros((2, 3), np.int8)),
        ("vector[2] of int8", Ragged(np.zeros(2, np.int8), np.array([0, 2]))),
        ("vector[2,3] of int8", np.zeros((4, 3, 2), np.int8)),
        ("float32", np.zeros(2, complex)),
        ("timestamp", [1.5]),
        ("timestamp", [dt.datetime.now(UTC), "x"]),
    ],
)
def test_column_that_does_not_fit_names_type_attribute_and_what_came(text, given):
    with pytest.raises(SchemaError) as caught:
        column(text, given)
    assert str(caught.value).startswith("stream type 'T', attribute 'a': expected ")


def test_large_unsigned_integers_in_lists_keep_every_bit():
    assert column("uint64", [1, 2**64 - 1]).tolist() == [1, 2**64 - 1]
    with pytest.raises(SchemaError):
        column("uint64", [1, 2**64])
    with pytest.raises(SchemaError):
        column("uint64", [1.0, 2.0])


def test_times_are_taken_from_datetime64_and_datetime():
    moment = dt.datetime(2024, 5, 6, 7, 8, 9, 123456, UTC)
    exact = 1714979289123456000
    assert value("timestamp", moment) == exact
    assert value("timestamp", np.datetime64("2024-05-06T07:08:09.123456")) == exact
    assert column("timestamp", [moment, moment]).tolist() == [exact, exact]
    assert column("timestamp", np.array(["2024-05-06"], "M8[D]")).tolist() == [1714953600000000000]


def test_array_of_the_right_dtype_is_not_copied_and_cannot_be_written_through_the_column():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    for text in ("vector of float32", "vector[3] of float32"):
        stored = column(text, array)
        assert np.shares_memory(stored, array)
        with pytest.raises(ValueError, match="read-only"):
            stored[0] = 1
    assert array.flags.writeable


def test_array_of_foreign_byte_order_is_stored_natively():
    stored = column("float32", np.array([1, 2], ">f4"))
    assert stored.dtype == np.float32
    assert stored.dtype.isnative
    assert stored.tolist() == [1, 2]


def test_vectors_of_equal_length_are_dense_and_others_ragged():
    assert column("vector of int8", [[1, 2], [3, 4]]).shape == (2, 2)
    assert column("vector of int8", [[], []]).shape == (2, 0)
    assert column("vector of int8", []).shape == (0, 0)
    mixed = column("vector of int8", [[1, 2], [], [3]])
    assert isinstance(mixed, Ragged)
    assert lists(mixed) == [[1, 2], [], [3]]
    assert mixed.values.dtype == np.int8


def test_ragged_column_is_cast_to_the_dtype_of_its_attribute(ragged):
    assert column("vector of float32", ragged) is ragged
    assert column("vector of complex64", ragged).values.dtype == np.complex64
    wide = Ragged(ragged.values.astype(np.float64), ragged.offsets)
    assert column("vector of float32", wide).values.dtype == np.float32


@pytest.mark.parametrize(
    "rows",
    [
        slice(None),
        slice(1, 3),
        slice(2, 2),
        slice(3, 1),
        slice(-2, None),
        slice(None, None, 2),
        slice(None, None, -1),
    ],
)
def test_slices_of_ragged_columns_are_those_of_lists(ragged, text, rows):
    assert lists(ragged[rows]) == lists(ragged)[rows]
    assert list(text[rows]) == list(text)[rows]
    assert type(text[rows]) is Text
    assert len(ragged[rows]) == len(lists(ragged)[rows])


def test_neighbouring_rows_of_a_ragged_column_are_a_view(ragged):
    assert np.shares_memory(ragged[1:3].values, ragged.values)


@pytest.mark.parametrize("row", [0, 1, 3, -1, -4, np.int64(2)])
def test_row_of_a_ragged_column_counts_from_either_end(ragged, text, row):
    assert list(ragged[row]) == lists(ragged)[row]
    assert text[row] == ["a", "", "€uro", "🙂"][row]


@pytest.mark.parametrize("row", [4, -5, 100])
def test_row_outside_a_ragged_column_is_an_index_error(ragged, text, row):
    with pytest.raises(IndexError):
        ragged[row]
    with pytest.raises(IndexError):
        text[row]


def test_taking_rows_of_a_ragged_column_in_any_order(ragged, text):
    rows = np.array([3, 0, 0, -2, 1])
    assert lists(ragged.take(rows)) == [lists(ragged)[row] for row in rows]
    assert list(text.take(rows)) == [list(text)[row] for row in rows]
    assert lists(ragged[1:].take(np.array([1]))) == [lists(ragged)[2]]
    assert lists(ragged.take(np.array([], np.intp))) == []


def test_compact_ragged_column_holds_nothing_else(ragged):
    part = ragged[2:].compact()
    assert part.offsets.tolist() == [0, 3, 4]
    assert part.values.tolist() == [2, 3, 4, 5]
    assert ragged[:2].compact().values.tolist() == [0, 1]
    assert ragged[2:].nbytes == 4 * 4 + 3 * 8


def test_ragged_columns_cannot_be_changed(ragged):
    with pytest.raises(TypeError, match="immutable"):
        ragged.values = np.zeros(3)
    for array in (ragged.values, ragged.offsets, ragged[0], ragged.take(np.array([0])).values):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 9


def test_ragged_columns_survive_pickling_without_values_outside_them(ragged, text):
    copy = pickle.loads(pickle.dumps(ragged[2:]))
    assert lists(copy) == lists(ragged[2:])
    assert len(copy.values) == 4
    assert not copy.values.flags.writeable
    copy = pickle.loads(pickle.dumps(text))
    assert type(copy) is Text
    assert list(copy) == list(text)


def test_concatenating_keeps_dense_columns_dense():
    one, two = np.ones((2, 3)), np.zeros((1, 3))
    assert concatenate([one, two], kind("vector of float64")).shape == (3, 3)
    assert concatenate([one, np.empty((0, 0)), two], kind("vector of float64")).shape == (3, 3)
    assert concatenate([np.empty((0, 0)), np.empty((0, 4))], kind("vector of float64")).shape[0] == 0


def test_concatenating_vectors_of_different_lengths_makes_a_ragged_column(ragged):
    dense = np.ones((2, 3), np.float32)
    joined = concatenate([dense, np.zeros((1, 1), np.float32)[:, :1], ragged[1:3]], kind("vector of float32"))
    assert lists(joined) == [[1, 1, 1], [1, 1, 1], [0], [], [2, 3, 4]]
    assert lists(concatenate([np.empty((0, 0), np.float32), ragged], kind("vector of float32"))) == lists(ragged)
    strided = np.arange(12, dtype=np.float32).reshape(2, 6)[:, ::2]
    assert lists(concatenate([strided, ragged[:1]], kind("vector of float32")))[1] == [6, 8, 10]


def test_concatenating_text_keeps_it_text(text):
    joined = concatenate([text[2:], empty(kind("string")), text[:1]], kind("string"))
    assert type(joined) is Text
    assert list(joined) == ["€uro", "🙂", "a"]


def test_ragged_and_dense_forms_hold_the_same():
    dense = np.arange(6).reshape(2, 3)
    again = as_dense(as_ragged(dense))
    assert np.array_equal(again, dense)
    assert np.shares_memory(again, dense)
    assert as_dense(as_ragged(np.empty((3, 0)))).shape == (3, 0)
    assert as_dense(as_ragged(np.empty((0, 0)))).shape == (0, 0)
