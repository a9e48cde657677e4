import math

import numpy as np
import pytest
from scipy import fft

from gsdm_grid.errors import QueryError
from gsdm_grid.functions import functions
from gsdm_grid.functions.library.radio import (
    CHANNELS,
    Channel,
    Polar,
    Radio,
    dft3,
    dft3combine,
    dft3part,
    fft3,
    fft3combine,
    fft3part,
    polar,
    polarcombine,
    polarization,
    polarize,
    slicepart,
    xchannel,
    xmagn,
)
from gsdm_grid.model import Ragged, TypeRegistry, create_stream_type

RAGGED = (12, 12, 24, 0, 6, 6, 36)


def close(got, expected, scale):
    np.testing.assert_allclose(got, expected, rtol=0, atol=scale * 2e-6)


def assert_windows_close(got, expected, names=CHANNELS):
    assert len(got) == len(expected)
    assert list(got.ordinals) == list(expected.ordinals)
    assert got.ts.tolist() == expected.ts.tolist()
    for name in names:
        for one, other in zip(got[name], expected[name], strict=True):
            assert one.dtype == other.dtype
            close(one, other, np.abs(other).max(initial=1))


@pytest.mark.parametrize("length", [256, 512, 1024, 1000, 2048, 4096, 8192, 16384])
def test_fft3_is_the_transform_of_each_channel(radio, run, length):
    block = radio(length, length, length)
    got = run(fft3, block)
    assert got.type == Radio
    for channel in CHANNELS:
        assert got[channel].dtype == np.complex64
        expected = fft.fft(block[channel].astype(np.complex128), axis=-1)
        close(got[channel], expected, np.abs(expected).max())


def test_fft3_keeps_places_marks_and_timestamps(radio, run):
    for lengths in ([8, 8], [8, 4]):
        block = radio(*lengths).stamped(range(4, 6), mark=9)
        got = run(fft3, block)
        assert (got.ordinals, got.mark, got.ts.tolist()) == (range(4, 6), 9, [0, 1000])


def test_fft3_of_windows_of_different_lengths_is_that_of_each(radio, run):
    block = radio(*RAGGED)
    assert isinstance(block.x, Ragged)
    got = run(fft3, block)
    for row, window in enumerate(block):
        if len(window.x):
            close(got[row].x, fft.fft(window.x), 20)
        else:
            assert len(got[row].x) == 0


def test_dft3_is_the_same_transform_by_its_definition(radio, run):
    for lengths in ([96, 96], [60], RAGGED):
        block = radio(*lengths)
        assert_windows_close(run(dft3, block), run(fft3, block))


SPLITS = [(length, ways) for length in (96, 120, 256) for ways in range(1, length + 1) if length % ways == 0]


@pytest.mark.parametrize(("length", "ways"), SPLITS)
@pytest.mark.parametrize(
    ("part", "transform", "combine"),
    [(fft3part, fft3, fft3combine), (dft3part, dft3, dft3combine)],
    ids=["fft", "dft"],
)
def test_split_transform_is_the_whole_transform_for_every_divisor(radio, run, part, transform, combine, length, ways):
    block = radio(length, length)
    parts = [run(transform, run(part, block, ways, i)) for i in range(ways)]
    assert_windows_close(combine(parts), run(fft3, block))


@pytest.mark.parametrize("ways", [2, 3, 4, 5, 6, 8])
def test_split_transform_of_large_windows_is_the_whole_transform(radio, run, ways):
    block = radio(7680, 7680)
    parts = [run(fft3, run(fft3part, block, ways, i)) for i in range(ways)]
    assert_windows_close(fft3combine(parts), run(fft3, block))


@pytest.mark.parametrize("ways", [1, 2, 3, 6])
@pytest.mark.parametrize(
    ("part", "transform", "combine"),
    [(fft3part, fft3, fft3combine), (dft3part, dft3, dft3combine)],
    ids=["fft", "dft"],
)
def test_split_transform_of_windows_of_different_lengths(radio, run, part, transform, combine, ways):
    block = radio(*RAGGED).stamped(range(10, 17), mark=20)
    parts = [run(transform, run(part, block, ways, i)) for i in range(ways)]
    combined = combine(parts)
    assert_windows_close(combined, run(fft3, block))
    assert combined.mark == 20


def test_combining_parts_of_no_windows_gives_none(radio, run):
    for lengths in ([8, 8], [8, 4]):
        empty = radio(*lengths)[:0]
        for combine in (fft3combine, dft3combine):
            assert len(combine([empty, empty])) == 0


@pytest.mark.parametrize("part", [fft3part, dft3part])
def test_window_that_cannot_be_split_evenly_is_refused(radio, run, part):
    with pytest.raises(QueryError, match="a window of 8 samples cannot be split in 3 equal parts"):
        run(part, radio(8), 3, 0)


def test_channels_may_differ_in_length(run):
    vectors = {
        "x": np.ones((1, 12), np.complex64),
        "y": np.ones((1, 6), np.complex64),
        "z": np.ones((1, 24), np.complex64),
    }
    block = Radio.block(ts=[0], **vectors)
    for part, transform, combine in ((fft3part, fft3, fft3combine), (dft3part, dft3, dft3combine)):
        parts = [run(transform, run(part, block, 3, i)) for i in range(3)]
        assert_windows_close(combine(parts), run(fft3, block))


# -- polarization: an independent reference, one frequency at a time, from the definition


def turned(field, phi, theta):
    """The field in the frame whose third axis points towards (theta, phi)."""
    about_z = np.array([[math.cos(phi), math.sin(phi), 0], [-math.sin(phi), math.cos(phi), 0], [0, 0, 1]])
    about_y = np.array([[math.cos(theta), 0, -math.sin(theta)], [0, 1, 0], [math.sin(theta), 0, math.cos(theta)]])
    return about_y @ about_z @ field


def normal_of(field):
    rotation = np.imag(np.cross(field, np.conj(field)))
    power = np.vdot(field, field).real
    if np.linalg.norm(rotation) > 1e-6 * power:
        return rotation / np.linalg.norm(rotation)
    line = max(field.real, field.imag, key=np.linalg.norm)
    if np.linalg.norm(line) == 0:
        return np.array([0.0, 0.0, 1.0])
    line = line / np.linalg.norm(line)
    upright = np.array([0.0, 0.0, 1.0]) - line[2] * line
    if np.linalg.norm(upright) < 1e-6:
        return np.array([1.0, 0.0, 0.0])
    return upright / np.linalg.norm(upright)


def reference(field):
    field = np.asarray(field, np.complex128)
    normal = normal_of(field)
    theta = math.acos(max(-1.0, min(1.0, normal[2])))
    phi = math.atan2(normal[1], normal[0]) if math.hypot(normal[0], normal[1]) > 0 else 0.0
    one, two, across = turned(field, phi, theta)
    assert abs(across) <= 1e-6 * np.linalg.norm(field)
    return {
        "phi": phi,
        "theta": theta,
        "I": abs(one) ** 2 + abs(two) ** 2,
        "Q": abs(one) ** 2 - abs(two) ** 2,
        "U": 2 * (one * two.conjugate()).real,
        "V": 2 * (one * two.conjugate()).imag,
    }


def of_one(field):
    x, y, z = np.asarray(field, np.complex64)
    return {name: float(value[0]) for name, value in polarization(*(np.array([e]) for e in (x, y, z))).items()}


def approx(values):
    return pytest.approx(values, rel=2e-6, abs=2e-6 * max(values["I"], 1))


def test_circular_polarization_in_the_plane_of_x_and_y():
    assert of_one([1, 1j, 0]) == approx({"phi": 0, "theta": math.pi, "I": 2, "Q": 0, "U": 0, "V": 2})
    assert of_one([1, -1j, 0]) == approx({"phi": 0, "theta": 0, "I": 2, "Q": 0, "U": 0, "V": 2})


def test_circular_polarization_about_the_x_and_y_axes():
    assert of_one([0, 1, -1j]) == approx({"phi": 0, "theta": math.pi / 2, "I": 2, "Q": 0, "U": 0, "V": 2})
    assert of_one([0, 1, 1j]) == approx({"phi": math.pi, "theta": math.pi / 2, "I": 2, "Q": 0, "U": 0, "V": 2})
    assert of_one([-1j, 0, 1]) == approx({"phi": math.pi / 2, "theta": math.pi / 2, "I": 2, "Q": 0, "U": 0, "V": 2})


def test_linear_polarization_along_x_has_its_normal_on_z():
    assert of_one([3, 0, 0]) == approx({"phi": 0, "theta": 0, "I": 9, "Q": 9, "U": 0, "V": 0})
    assert of_one([3j, 0, 0]) == approx({"phi": 0, "theta": 0, "I": 9, "Q": 9, "U": 0, "V": 0})


def test_linear_polarization_along_z_has_its_normal_on_x():
    assert of_one([0, 0, 2]) == approx({"phi": 0, "theta": math.pi / 2, "I": 4, "Q": 4, "U": 0, "V": 0})


def test_no_field_has_no_polarization_and_its_normal_on_z():
    assert of_one([0, 0, 0]) == {"phi": 0, "theta": 0, "I": 0, "Q": 0, "U": 0, "V": 0}


@pytest.mark.parametrize("phase", np.linspace(0, 6, 13))
@pytest.mark.parametrize("line", [[1, 2, 0.5], [-3, 0.1, 4], [1, 1, 0], [1e-3, 0, 1], [5, -4, -3]])
def test_linear_polarization_is_told_in_single_precision_whatever_its_phase(line, phase):
    field = np.array(line) * np.exp(1j * phase)
    got = of_one(field)
    power = float(np.dot(line, line))
    along = np.array(line) / math.sqrt(power)
    upright = np.array([0, 0, 1]) - along[2] * along
    upright /= np.linalg.norm(upright)
    assert got["theta"] == pytest.approx(math.acos(upright[2]), abs=1e-3)
    assert got["phi"] == pytest.approx(math.atan2(upright[1], upright[0]) if upright[2] < 1 else 0, abs=1e-3)
    assert got["I"] == pytest.approx(power, rel=1e-5)
    assert got["V"] == pytest.approx(0, abs=1e-5 * power)
    assert math.hypot(got["Q"], got["U"]) == pytest.approx(power, rel=1e-5)


@pytest.mark.parametrize("seed", range(20))
def test_elliptic_polarization_in_a_tilted_plane_is_described_in_that_plane(seed):
    rng = np.random.default_rng(seed)
    normal = rng.standard_normal(3)
    normal /= np.linalg.norm(normal)
    major = np.cross(normal, rng.standard_normal(3))
    major /= np.linalg.norm(major)
    minor = np.cross(normal, major)
    field = (3 * major - 1.5j * minor) * np.exp(1j * rng.uniform(0, 6))
    got = of_one(field)
    assert got["theta"] == pytest.approx(math.acos(normal[2]), abs=1e-5)
    assert got["phi"] == pytest.approx(math.atan2(normal[1], normal[0]), abs=1e-4)
    assert got["I"] == pytest.approx(9 + 2.25, rel=1e-5)
    assert got["V"] == pytest.approx(2 * 3 * 1.5, rel=1e-5)


def fields(seed, count):
    rng = np.random.default_rng(seed)
    made = (rng.standard_normal((3, count)) + 1j * rng.standard_normal((3, count))).astype(np.complex64)
    made[:, ::7] = made[:, ::7].real  # linear
    made[:, ::11] = 0
    made[2, ::5] = 0
    return made * np.float32(10) ** rng.integers(-3, 4, count).astype(np.float32)


def test_polarization_is_that_of_the_reference_at_every_frequency():
    field = fields(0, 500)
    got = polarization(*field)
    for number in range(field.shape[1]):
        expected = reference(field[:, number])
        for name, value in expected.items():
            scale = max(expected["I"], 1e-30) if name in "IQUV" else math.pi
            difference = got[name][number] - value
            if name == "phi":
                difference = math.remainder(difference, 2 * math.pi)
            assert abs(difference) <= 1e-5 * scale, (name, number)


def test_light_is_fully_polarized_and_lies_in_the_plane_of_its_normal():
    field = fields(1, 2000)
    got = {name: values.astype(np.float64) for name, values in polarization(*field).items()}
    power = np.maximum(got["I"], 1e-30)
    total = np.sqrt(got["Q"] ** 2 + got["U"] ** 2 + got["V"] ** 2)
    np.testing.assert_allclose(total / power, got["I"] / power, atol=1e-5)
    normal = [
        np.sin(got["theta"]) * np.cos(got["phi"]),
        np.sin(got["theta"]) * np.sin(got["phi"]),
        np.cos(got["theta"]),
    ]
    across = np.abs(sum(n * e for n, e in zip(normal, field, strict=True)))
    assert (across <= 2e-6 * np.sqrt(power) + 1e-12).all()
    assert (got["V"] >= 0).all()
    assert ((got["theta"] >= 0) & (got["theta"] <= np.float32(math.pi))).all()
    assert (np.abs(got["phi"]) <= np.float32(math.pi)).all()


def test_polarization_does_not_depend_on_a_common_phase():
    field = fields(2, 300)
    field = field[:, (np.abs(field).sum(axis=0) > 0) & (np.arange(300) % 7 > 0)]
    one = polarization(*field)
    other = polarization(*(field.astype(complex) * np.exp(0.7j)))
    for name in "IQUV":
        np.testing.assert_allclose(other[name] / one["I"], one[name] / one["I"], atol=1e-5)


def test_polarize_of_a_block_works_at_every_frequency_of_every_window(radio, run):
    for lengths in ([16, 16, 16], RAGGED):
        block = radio(*lengths)
        got = run(polarize, block)
        assert got.type == Polar
        for row, window in enumerate(block):
            expected = polarization(window.x, window.y, window.z)
            for name, values in expected.items():
                assert np.array_equal(got[row].values()[name], values)


def test_polar_is_polarize_of_fft3(radio, run):
    for lengths in ([64, 64], RAGGED):
        block = radio(*lengths)
        got, expected = run(polar, block), run(polarize, run(fft3, block))
        for name in ("phi", "theta", "I", "Q", "U", "V"):
            assert all(np.array_equal(one, other) for one, other in zip(got[name], expected[name], strict=True))


@pytest.mark.parametrize("ways", [1, 2, 3, 5, 8, 20])
@pytest.mark.parametrize("lengths", [(16, 16), (17, 17), (1,), RAGGED])
def test_slices_put_together_are_the_polarization_of_the_window(radio, run, lengths, ways):
    block = radio(*lengths)
    parts = [run(polarize, run(slicepart, block, ways, i)) for i in range(ways)]
    got, expected = polarcombine(parts), run(polarize, block)
    for name in ("phi", "theta", "I", "Q", "U", "V"):
        for one, other in zip(got[name], expected[name], strict=True):
            assert np.array_equal(one, other)


def test_slices_are_contiguous_complete_and_nearly_equal(radio, run):
    block = radio(17)
    parts = [run(slicepart, block, 5, i) for i in range(5)]
    assert np.array_equal(np.concatenate([part.x[0] for part in parts]), block.x[0])
    assert {part.x.shape[1] for part in parts} == {3, 4}
    assert all(np.shares_memory(part.x, block.x) for part in parts)


def test_xchannel_is_a_projection_without_copy(radio, run):
    for lengths in ([8, 8], [8, 4]):
        block = radio(*lengths)
        got = run(xchannel, block)
        assert got.type == Channel
        assert got.x is block.x
        assert got.ordinals == block.ordinals


def test_xmagn_keeps_windows_with_a_strong_line_and_their_places(run):
    def tone(strength):
        return strength * np.exp(2j * np.pi * 3 * np.arange(16) / 16)

    strengths = [0.5, 2.0, 1.0, 3.0]
    quiet = np.zeros((4, 16), np.complex64)
    block = Radio.block(ts=range(4), x=np.array([tone(s) for s in strengths]), y=quiet + 9, z=quiet)
    block = block.stamped(range(10, 14))
    got = run(xmagn, block, 16 * 1.5)
    assert list(got.ordinals) == [11, 13]
    assert got.ts.tolist() == [1, 3]
    assert len(run(xmagn, block, 1e9)) == 0
    assert run(xmagn, block, 0).ordinals == range(10, 14)


def test_xmagn_of_windows_of_different_lengths(radio, run):
    block = radio(8, 0, 16)
    assert list(run(xmagn, block, 0).ordinals) == [0, 2]


def test_windows_of_a_subtype_keep_their_other_attributes(radio, run):
    station = create_stream_type("NamedRadio", {"station": "string"}, under=Radio, registry=TypeRegistry())
    for lengths in ([8, 8], [8, 4]):
        block = radio(*lengths)
        named = station.block(ts=block.ts, x=block.x, y=block.y, z=block.z, station=["LOFAR", "Kiruna"])
        got = run(fft3, named)
        assert list(got.station) == ["LOFAR", "Kiruna"]
        assert_windows_close(got, run(fft3, block))


Trace = create_stream_type("Trace", {"name": "string", "a": "vector of float32", "b": "vector of int16"})


def test_slices_are_cut_of_the_vectors_of_any_type(run):
    block = Trace.block(ts=[0, 1], name=["p", "q"], a=[[1, 2, 3, 4]] * 2, b=[[5, 6, 7, 8]] * 2)
    parts = [run(slicepart, block, 2, i) for i in range(2)]
    assert [part.a.tolist()[0] for part in parts] == [[1, 2], [3, 4]]
    assert [part.b.tolist()[0] for part in parts] == [[5, 6], [7, 8]]
    assert list(parts[1].name) == ["p", "q"]


def test_slices_are_cut_of_the_vectors_that_are_named(run):
    block = Trace.block(ts=[0], name=["p"], a=[[1, 2, 3, 4]], b=[[5, 6, 7]])
    part = run(slicepart, block, 2, 1, ["a"])
    assert (part.a.tolist(), part.b.tolist()) == ([[3, 4]], [[5, 6, 7]])
    with pytest.raises(QueryError, match=r"differ in length \(a 4, b 3\): name some in 'vectors'"):
        run(slicepart, block, 2, 1)


def test_slices_of_any_type_are_put_together_again():
    Pair = create_stream_type("SlicedPair", {"a": "vector of float32", "b": "vector of int32", "name": "string"})
    a, b = np.arange(14, dtype=np.float32).reshape(2, 7), np.arange(14, dtype=np.int32).reshape(2, 7)
    block = Pair.block(ts=[0, 1], a=a, b=b, name=["u", "v"])
    cuts = [slice(0, 2), slice(2, 4), slice(4, 7)]
    whole = functions.get("slicecombine")([block.replace(a=a[:, cut], b=b[:, cut]) for cut in cuts])
    np.testing.assert_array_equal(whole.a, a)
    np.testing.assert_array_equal(whole.b, b)
    assert list(whole.name) == ["u", "v"]
