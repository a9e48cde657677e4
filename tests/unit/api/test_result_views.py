import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from api.results.json_windows import (
    decimate,
    last_view,
    projected,
    to_json,
    windows_of,
    windows_per_event,
)
from gsdm_grid.errors import UnknownAttribute
from gsdm_grid.model import Ragged, TypeRegistry, create_stream_type
from gsdm_grid.storage.result_log import ResultLog

Shown = create_stream_type(
    "Shown",
    {
        "ok": "bool",
        "big": "uint64",
        "c": "complex64",
        "name": "string",
        "v": "vector of float32",
        "z": "vector of complex64",
        "m": "vector[2,3] of float16",
    },
    registry=TypeRegistry(),
)


def block(count=3, length=4):
    rows = np.arange(count)
    return Shown.block(
        ts=rows * 10**18,
        ok=rows % 2 == 0,
        big=np.full(count, 2**64 - 1, np.uint64),
        c=rows + 2j,
        name=[f"ü{row}" for row in rows],
        v=(rows[:, None] + np.arange(length)).astype(np.float32),
        z=(rows[:, None] + 1j * np.arange(length)).astype(np.complex64),
        m=np.ones((count, 2, 3), np.float16),
    ).stamped(range(5, 5 + count))


def shown(blocks, points, stream_type=Shown, parts=False):
    return json.loads(to_json(windows_of(blocks, stream_type, points, parts)))


def test_every_kind_of_value_is_plain_json():
    windows = shown([(7, block())], 100)
    assert [window["seq"] for window in windows] == [7, 8, 9]
    assert [window["ordinal"] for window in windows] == [5, 6, 7]
    assert windows[1]["values"] == {
        "ts": 10**18,
        "ok": False,
        "big": 2**64 - 1,
        "c": {"re": 1.0, "im": 2.0},
        "name": "ü1",
        "v": [1, 2, 3, 4],
        "z": {"re": [1, 1, 1, 1], "im": [0, 1, 2, 3]},
        "m": [[1, 1, 1], [1, 1, 1]],
    }


def test_longer_vectors_are_reduced_and_say_so():
    values = shown([(0, block(2, 100))], 5)[0]["values"]
    assert values["v"] == {"minmax": [0, 49, 50, 99], "length": 100}
    assert values["z"] == {"magnitude": [0, 49, 50, 99], "length": 100}
    assert values["m"] == {"minmax": [1, 1, 1, 1], "length": 6}
    assert shown([(0, block(2, 100))], 0)[0]["values"]["z"] == {"length": 100}


def test_reduced_complex_vectors_keep_both_parts_on_request():
    values = shown([(0, block(2, 100))], 5, parts=True)[1]["values"]
    assert values["z"] == {"re": [1, 1, 1, 1], "im": [0, 49, 50, 99], "length": 100}
    assert values["v"] == {"minmax": [1, 50, 51, 100], "length": 100}
    short = shown([(0, block())], 5, parts=True)[1]["values"]
    assert short == shown([(0, block())], 5)[1]["values"]
    assert shown([(0, block(2, 100))], 0, parts=True)[0]["values"]["z"] == {"length": 100}


@given(
    nps.arrays(
        np.complex64,
        st.tuples(st.just(1), st.integers(1, 60)),
        elements={"max_magnitude": 1e6, "allow_subnormal": False},
    )
)
def test_the_parts_of_a_reduced_vector_are_samples_of_it_with_the_magnitudes_of_the_default(vector):
    window = block(1).replace(z=vector)
    parts = shown([(0, window)], 8, parts=True)[0]["values"]["z"]
    samples = np.array(parts["re"], np.float32) + 1j * np.array(parts["im"], np.float32)
    assert set(samples.tolist()) <= set(vector[0].tolist())
    default = shown([(0, window)], 8)[0]["values"]["z"]
    if "magnitude" in default:
        np.testing.assert_allclose(np.abs(samples), default["magnitude"], rtol=1e-6)


def test_what_json_has_no_number_for_is_null():
    odd = block(1).replace(v=np.array([[np.nan, np.inf, -np.inf, 1]], np.float32), c=[complex(np.nan, np.inf)])
    values = shown([(0, odd)], 10)[0]["values"]
    assert values["v"] == [None, None, None, 1.0]
    assert values["c"] == {"re": None, "im": None}
    assert shown([(0, odd)], 2)[0]["values"]["v"] == {"minmax": [None, None], "length": 4}


@pytest.mark.parametrize("points", [0, 1, 2, 3, 100])
def test_vectors_of_different_lengths_are_shown_one_by_one(points):
    ragged = Ragged(np.arange(6, dtype=np.float32), np.array([0, 1, 1, 6]))
    lengths = [1, 0, 5]
    values = [window["values"]["v"] for window in shown([(0, block().replace(v=ragged))], points)]
    for value, length in zip(values, lengths, strict=True):
        if isinstance(value, list):
            assert len(value) == length <= points
        else:
            assert value["length"] == length
            assert len(value.get("minmax", [])) <= points


def test_only_what_is_wanted_is_shown():
    few = projected(Shown, ("v", "c"))
    assert list(shown([(0, block())], 10, few)[0]["values"]) == ["ts", "c", "v"]
    with pytest.raises(UnknownAttribute, match="'w'"):
        projected(Shown, ("w",))


@given(
    values=nps.arrays(np.float64, st.tuples(st.integers(1, 3), st.integers(1, 200)), elements=st.floats(-9, 9)),
    points=st.integers(2, 50),
)
def test_down_sampling_keeps_least_and_greatest(values, points):
    reduced = decimate(values, points)
    assert reduced.shape[1] <= points
    assert (reduced.min(1) == values.min(1)).all()
    assert (reduced.max(1) == values.max(1)).all()


def test_a_few_unknown_numbers_hide_no_peak():
    values = np.zeros((1, 100))
    values[0, 10], values[0, 11], values[0, 60:] = np.nan, 7, np.nan
    reduced = decimate(values, 10)[0]
    assert np.nanmax(reduced) == 7
    assert np.isnan(reduced[-2:]).all()


def test_the_last_windows_are_bounded_in_size(tmp_path):
    log = ResultLog(tmp_path, Shown)
    for first in range(0, 1000, 100):
        log.append(block(100, 5000).stamped(range(first, first + 100)))
    view = last_view(log, Shown, 0, 1000, 5000, 1 << 20)
    assert view["points"] * 3 * 1000 <= 2_000_000
    assert [window["seq"] for window in view["windows"]] == list(range(1000))
    few = last_view(log, Shown, 0, 3, 5000, 1 << 20)
    assert (few["points"], len(few["windows"]), few["next"]) == (5000, 3, 1000)
    assert len(few["windows"][0]["values"]["v"]) == 5000
    assert windows_per_event(Shown, 10_000, 256) == 1
    assert windows_per_event(Shown, 64, 100) == 100
    log.close()
