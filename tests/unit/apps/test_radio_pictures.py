import doctest

import numpy as np
import pytest

from gsdm_grid.apps.radio import (
    CarrierWave,
    RadioSynthesizer,
    draw_waterfall,
    pictures,
    spectral_power,
    spectrum_text,
)
from gsdm_grid.errors import QueryError
from gsdm_grid.functions.library.radio import CHANNELS, Channel, Polar, polarization

PNG = b"\x89PNG"


def transformed(block):
    return block.replace(**{channel: np.fft.fft(block[channel]).astype(np.complex64) for channel in CHANNELS})


@pytest.fixture(scope="module")
def spectra():
    carriers = [CarrierWave(frequency=0.25, amplitude=1.0)]
    block = RadioSynthesizer(window=512, pool=8, carriers=carriers).block(0, 8)
    return transformed(block)


def test_power_is_the_same_from_spectra_and_from_polarizations(spectra):
    polar = spectra.as_type(Polar, **polarization(*(spectra[channel] for channel in CHANNELS)))
    assert spectral_power(polar) == pytest.approx(spectral_power(spectra), rel=1e-4)


def test_power_of_noise_is_its_variance_in_each_channel():
    block = RadioSynthesizer(window=512, pool=8, carriers=()).block(0, 8)
    assert spectral_power(transformed(block)).mean() == pytest.approx(3, rel=0.1)


def test_power_of_other_windows_is_refused(spectra):
    with pytest.raises(QueryError, match="Channel"):
        spectral_power(spectra.as_type(Channel))


@pytest.mark.parametrize(("width", "height"), [(20, 4), (40, 8), (80, 16), (200, 50)])
@pytest.mark.parametrize("length", [1, 2, 100, 8192])
def test_a_text_spectrum_fits_the_space_it_is_given(width, height, length):
    lines = spectrum_text(np.random.default_rng(1).exponential(size=length), 2e6, width, height).split("\n")
    assert len(lines) == height
    assert max(map(len, lines)) <= width


def test_a_text_spectrum_has_its_peak_at_the_carrier(spectra):
    lines = spectrum_text(spectral_power(spectra).mean(axis=0), 1e6, width=88, height=20).split("\n")
    highest = next(line for line in lines if any(block in line for block in "▁▂▃▄▅▆▇█"))
    assert max(highest.find(block) for block in "▁▂▃▄▅▆▇█") == pytest.approx(8 + 80 * 0.75, abs=1)
    assert lines[-1].split() == ["-500", "-250", "0", "250", "500", "kHz"]
    assert " 0 dB " in lines[-2]


def test_a_spectrum_of_silence_can_be_drawn():
    assert "dB" in spectrum_text(np.zeros(64), 1000)


def test_the_example_of_a_text_spectrum_is_true():
    assert doctest.testmod(pictures).failed == 0


@pytest.mark.parametrize("count", [1, 8])
def test_a_waterfall_is_drawn_from_any_number_of_windows(spectra, count, tmp_path):
    path = draw_waterfall(spectra[:count], tmp_path / "fall.png", sample_rate=1e6)
    assert path.read_bytes().startswith(PNG)


def test_a_waterfall_of_nothing_is_refused(spectra, tmp_path):
    with pytest.raises(QueryError, match="at least one window"):
        draw_waterfall(spectra[:0], tmp_path / "fall.png", sample_rate=1e6)
