import numpy as np
import pytest

from gsdm_grid.apps.demo.comparison import difference, well_defined
from gsdm_grid.apps.radio import RadioSynthesizer
from gsdm_grid.errors import QueryError
from gsdm_grid.functions.library.radio import CHANNELS, Polar, polarization
from gsdm_grid.model import STREAM, PhysicalWindow


def spectra(noise=0.0, window=512):
    block = RadioSynthesizer(window=window, pool=4).block(0, 4)
    random = np.random.default_rng(1)
    made = {}
    for channel in CHANNELS:
        spectrum = np.fft.fft(block[channel])
        strength = np.sqrt(np.mean(np.abs(spectrum) ** 2))
        off = random.standard_normal(spectrum.shape) + 1j * random.standard_normal(spectrum.shape)
        made[channel] = spectrum + noise * strength * off
    return block, made


def polar(noise=0.0):
    block, fields = spectra(noise)
    return block.as_type(Polar, **polarization(*fields.values())).stamped(ordinals=range(4))


def changed(block, **attributes):
    return block.replace(**{name: change(np.array(block[name])) for name, change in attributes.items()})


def at(block, row, where, change):
    def apply(values):
        values[row][where] = change(values[row][where])
        return values

    return apply


def test_a_stream_equals_itself():
    assert difference(polar(), polar()) is None


def test_rounding_of_single_precision_makes_no_difference():
    assert difference(polar(), polar(noise=3e-7)) is None


def test_a_small_real_difference_is_one():
    assert difference(polar(), polar(noise=1e-2)) is not None


def test_most_frequencies_are_compared_in_all_attributes():
    block = polar()
    masks = [well_defined({n: np.asarray(getattr(w, n)) for n in ("I", "V", "theta")})[1] for w in block]
    assert np.mean(masks) > 0.6


def test_angles_are_compared_modulo_a_turn():
    assert difference(polar(), changed(polar(), phi=lambda v: np.where(v > 0, v - 2 * np.pi, v))) is None


@pytest.mark.parametrize("name", ["phi", "theta", "I", "Q", "U", "V"])
def test_every_attribute_is_compared(name):
    block = polar()
    row = {n: np.asarray(getattr(block[2], n)) for n in ("I", "V", "theta")}
    where = int(np.argmax(well_defined(row)[1]))
    step = 0.01 if name in ("phi", "theta") else 0.01 * row["I"][where]
    other = changed(block, **{name: at(block, 2, where, lambda v: v + step)})
    assert difference(block, other) == f"{name} differs in window 2"


def test_a_value_that_is_no_number_differs():
    block = polar()
    assert difference(block, changed(block, I=at(block, 1, 7, lambda v: np.nan))) == "I differs in window 1"


def test_missing_windows_differ():
    assert difference(polar(), polar()[:3].stamped(ordinals=range(3))) == "4 windows against 3"


def test_order_matters():
    block = polar()
    swapped = block.select(np.array([0, 2, 1, 3]))
    assert difference(block, swapped) == "the ordinals differ"
    assert difference(block, swapped.stamped(ordinals=range(4))) == "the timestamps differ"


def radio(**attributes):
    block, fields = spectra(window=64)
    return changed(block.replace(**fields).stamped(ordinals=range(4)), **attributes)


@pytest.mark.parametrize("channel", CHANNELS)
def test_spectra_may_differ_by_rounding_and_no_more(channel):
    strength = np.sqrt(np.mean(np.abs(radio()[channel][1]) ** 2))
    rounded = radio(**{channel: at(radio(), 1, 5, lambda value: value + 1e-6 * strength)})
    assert difference(radio(), rounded) is None
    wrong = radio(**{channel: at(radio(), 1, 5, lambda value: value + 1e-2 * strength)})
    assert difference(radio(), wrong) == f"{channel} differs in window 1"


def test_a_spectrum_that_is_no_number_differs():
    assert difference(radio(), radio(x=at(radio(), 2, 0, lambda _: np.nan))) == "x differs in window 2"


def test_other_windows_are_refused():
    timestamps = PhysicalWindow.empty(STREAM)
    with pytest.raises(QueryError, match="'Stream'"):
        difference(timestamps, timestamps)
    with pytest.raises(QueryError, match="'Radio' and 'Polar'"):
        difference(radio(), polar())
