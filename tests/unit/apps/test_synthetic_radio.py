import numpy as np
import pytest
from scipy import fft

from gsdm_grid.apps.radio import CarrierWave, RadioSynthesizer, SyntheticRadio
from gsdm_grid.errors import QueryError, SchemaError
from gsdm_grid.functions.library.radio import CHANNELS, Channel, Polar, Radio, polarization
from gsdm_grid.interfaces import EndOfStream, InterfaceContext, interfaces
from gsdm_grid.model import PhysicalWindow, seconds
from gsdm_grid.testing import FakeClock


def same(one, other):
    return all(np.array_equal(one[name], other[name]) for name in ("ts", *CHANNELS))


def opened(stream_type=Radio, context=None, **options):
    interface = SyntheticRadio(stream_type, {"window": 64, "pool": 8, **options})
    interface.open(context or InterfaceContext())
    return interface


@pytest.mark.parametrize("pool", [0, 1, 5, 8])
@pytest.mark.parametrize("step", [1, 3, 8, 13])
def test_a_window_does_not_depend_on_the_blocks_it_is_read_in(pool, step):
    whole = RadioSynthesizer(window=32, seed=3, pool=pool).block(0, 26)
    synthesizer = RadioSynthesizer(window=32, seed=3, pool=pool)
    blocks = [synthesizer.block(start, min(step, 26 - start)) for start in range(0, 26, step)]
    assert same(PhysicalWindow.concat(blocks), whole)


def test_another_seed_gives_another_stream():
    one, other = (RadioSynthesizer(window=32, seed=seed).block(0, 1) for seed in (1, 2))
    assert not np.array_equal(one.x, other.x)


def test_a_pool_comes_again_with_later_timestamps():
    synthesizer = RadioSynthesizer(window=32, pool=4)
    first, second = synthesizer.block(0, 4), synthesizer.block(4, 4)
    assert np.array_equal(first.x, second.x)
    assert second.ts[0] > first.ts[-1]


def test_without_a_pool_no_noise_comes_twice():
    block = RadioSynthesizer(window=32, pool=0, carriers=()).block(0, 600)
    assert len({row.tobytes() for row in block.x}) == 600


def test_timestamps_follow_the_sample_rate_even_after_years():
    synthesizer = RadioSynthesizer(window=100, sample_rate=1_000)
    assert synthesizer.block(0, 3).ts.tolist() == [0, seconds(0.1), seconds(0.2)]
    years = 10 * 60 * 60 * 24 * 365 * 20
    assert synthesizer.timestamps(years, 1)[0] == years * seconds(1) // 10


def test_windows_cannot_be_written_to():
    block = RadioSynthesizer(window=32, pool=4).block(0, 2)
    with pytest.raises(ValueError, match="read-only"):
        block.x[0, 0] = 0


def test_a_carrier_shows_its_frequency_and_the_normal_of_its_plane():
    carrier = CarrierWave(frequency=0.125, amplitude=1, axial_ratio=0.5, theta=1.0, phi=0.5)
    block = RadioSynthesizer(window=1024, pool=64, carriers=[carrier]).block(0, 8)
    spectra = [fft.fft(block[channel], axis=-1) for channel in CHANNELS]
    power = sum(np.abs(spectrum) ** 2 for spectrum in spectra)
    assert set(power.argmax(axis=-1)) == {128}
    ellipse = polarization(*(spectrum[:, 128] for spectrum in spectra))
    normals = [carrier.normal((k + 0.5) / 64) for k in range(8)]
    assert ellipse["theta"] == pytest.approx([theta for theta, _ in normals], abs=0.15)
    assert ellipse["phi"] == pytest.approx([phi for _, phi in normals], abs=0.15)
    assert ellipse["V"] / ellipse["I"] == pytest.approx([0.8] * 8, abs=0.1)


def test_a_carrier_goes_on_without_a_jump_from_window_to_window_and_from_cycle_to_cycle():
    carrier = CarrierWave(frequency=0.1, drift=0.01, theta=np.pi / 2)  # so z shows nothing of the turning plane
    cycle = 16 * 64
    wave = np.concatenate([carrier.field(start % cycle, 64, cycle)[2] for start in range(0, 2 * cycle, 64)])
    phase_steps = np.angle(wave[1:] * wave[:-1].conj())
    assert phase_steps == pytest.approx(np.full(2 * cycle - 1, 0.2 * np.pi), abs=0.07)


def test_drawn_carriers_stay_in_the_band_and_do_not_cross():
    for seed in range(20):
        carriers = RadioSynthesizer(seed=seed).carriers
        edges = [edge for c in carriers for edge in (c.frequency - c.drift, c.frequency + c.drift)]
        assert edges == sorted(edges)
        assert max(map(abs, edges)) < 0.5


def test_the_interface_is_registered_under_its_name():
    assert interfaces.get("synthetic_radio") is SyntheticRadio
    assert SyntheticRadio.replayable
    assert not SyntheticRadio.local


def test_the_stream_ends_after_its_limit():
    interface = opened(limit=10)
    assert [len(interface.next(4)) for _ in range(3)] == [4, 4, 2]
    for _ in range(2):
        with pytest.raises(EndOfStream):
            interface.next(4)


def test_a_stream_read_again_from_any_place_is_the_same():
    whole = RadioSynthesizer(window=64, pool=8).block(0, 20)
    interface = opened(limit=20)
    interface.next(20)
    for ordinal in (0, 7, 19):
        interface.seek(ordinal)
        assert same(interface.next(20), whole[ordinal:])


def test_a_reopened_interface_goes_on_where_it_stopped():
    interface = opened()
    interface.next(5)
    interface.close()
    interface.close()
    interface.open(InterfaceContext())
    assert same(interface.next(2), RadioSynthesizer(window=64, pool=8).block(5, 2))


def test_a_rate_holds_windows_back_until_they_are_due():
    clock = FakeClock()
    interface = opened(rate=2.0, context=InterfaceContext(clock=clock))
    assert len(interface.next(10)) == 1
    assert interface.next(10) is None
    clock.s += 0.5
    assert len(interface.next(10)) == 1
    clock.s += 100
    assert len(interface.next(150)) == 150
    assert len(interface.next(150)) == 50
    interface.close()


def test_a_source_that_waits_knows_when_the_next_window_is_due():
    clock = FakeClock()
    interface = opened(rate=200.0, context=InterfaceContext(clock=clock))
    began = clock.monotonic_s()
    assert len(interface.next(10)) == 1
    assert interface.next(10) is None
    assert interface.due_s() == pytest.approx(began + 0.005)


def test_other_types_with_the_same_channels_can_be_filled():
    assert opened(Channel).next(2).type == Channel
    with pytest.raises(SchemaError, match="phi"):
        opened(Polar)


@pytest.mark.parametrize(
    "options", [{"window": 0}, {"window": 1.5}, {"pool": -1}, {"sample_rate": 0}, {"limit": 0}, {"rate": 0}]
)
def test_options_out_of_range_are_refused_by_name(options):
    with pytest.raises(QueryError, match=next(iter(options))):
        opened(**options)
