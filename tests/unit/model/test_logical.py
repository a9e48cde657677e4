import copy
import pickle

import numpy as np
import pytest

from gsdm_grid.errors import SchemaError, UnknownAttribute, UnknownName
from gsdm_grid.model import create_stream_type


@pytest.fixture
def reading(registry):
    return create_stream_type("Reading", {"name": "string", "x": "vector of float32"}, registry=registry)


def test_attributes_are_read_by_name(reading):
    window = reading.window(5, "a", [1, 2])
    assert (window.ts, window.name, window.x.tolist()) == (5, "a", [1, 2])
    assert window.type is reading
    assert (window["ts"], window["name"]) == (5, "a")
    with pytest.raises(UnknownAttribute):
        _ = window["y"]


def test_every_kind_of_attribute_is_stored_with_its_dtype(everything, make_block):
    for row in make_block(6, ragged=True):
        again = everything.window(**row.values())
        assert again == row
        for name, kind in everything.attributes.items():
            if kind.is_string:
                assert type(getattr(again, name)) is str
            else:
                assert getattr(again, name).dtype == kind.numpy


def test_windows_cannot_be_changed(reading):
    window = reading.window(5, "a", [1, 2])
    with pytest.raises(TypeError, match=r"immutable: use replace\(x=…\)"):
        window.x = 3
    with pytest.raises(ValueError, match="read-only"):
        window.x[0] = 3
    with pytest.raises(TypeError):
        window.values()["x"] = 3


def test_constructing_a_window_leaves_the_given_array_writable(reading):
    array = np.zeros(2, np.float32)
    reading.window(5, "a", array)
    array[0] = 1


def test_replace_makes_a_checked_copy(reading):
    window = reading.window(5, "a", [1, 2])
    assert window.replace(name="b") == reading.window(5, "b", [1, 2])
    assert window.name == "a"
    with pytest.raises(SchemaError, match="attribute 'name': expected a string, got int 3"):
        window.replace(name=3)
    with pytest.raises(UnknownAttribute, match="'y'"):
        window.replace(y=3)


def test_window_of_another_type_keeps_what_both_have(reading, registry):
    other = create_stream_type("Other", {"x": "vector of float64", "n": "int8"}, registry=registry)
    made = reading.window(5, "a", [1, 2]).as_type(other, n=3)
    assert made == other.window(5, [1, 2], 3)
    assert made.x.dtype == np.float64
    with pytest.raises(SchemaError, match="stream type 'Other', attribute 'n': expected int8, got nothing"):
        reading.window(5, "a", [1, 2]).as_type(other)


def test_unknown_attribute_is_an_error_of_ours_and_an_attribute_error(reading):
    window = reading.window(5, "a", [])
    with pytest.raises(UnknownName, match=r"unknown attribute 'y' of stream type 'Reading'; known: name, ts, x"):
        window.y
    assert not hasattr(window, "y")
    assert getattr(window, "_repr_html_", None) is None
    assert not hasattr(window, "__array__")


def test_windows_are_equal_by_type_and_values(reading, registry):
    window = reading.window(5, "a", [1, 2])
    assert window == reading.window(5, "a", [1, 2])
    assert window != reading.window(5, "a", [1, 3])
    assert window != reading.window(5, "a", [1, 2, 3])
    assert window != create_stream_type("Same", {"name": "string", "x": "vector of float32"}, registry=registry).window(
        5, "a", [1, 2]
    )
    assert window != 5
    with pytest.raises(TypeError, match="unhashable"):
        hash(window)


def test_windows_survive_pickling_and_stay_immutable(make_block):
    for window in make_block(4, ragged=True):
        for again in (pickle.loads(pickle.dumps(window)), copy.copy(window), copy.deepcopy(window)):
            assert again == window
            assert not again.f_int8.flags.writeable
            with pytest.raises(TypeError):
                again.ts = 3


def test_window_shows_its_values_briefly(reading, registry):
    assert repr(reading.window(5, "a", [1, 2])) == "Reading(ts=5, name='a', x=<float32 2>)"
    matrix = create_stream_type("M", {"m": "vector[2,3] of int8"}, registry=registry)
    assert repr(matrix.window(0, np.zeros((2, 3), int))) == "M(ts=0, m=<int8 2×3>)"
