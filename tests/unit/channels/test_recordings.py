import json
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsdm_grid.errors import ChannelError, QueryError, SchemaError
from gsdm_grid.interfaces import EndOfStream, InterfaceContext, interfaces
from gsdm_grid.interfaces.player import PlayerSource
from gsdm_grid.interfaces.raw_iq import RawIqSource, SampleFormat
from gsdm_grid.interfaces.recorder import RecorderSink
from gsdm_grid.interfaces.sigmf import SigmfInterface
from gsdm_grid.model import PhysicalWindow, create_stream_type
from gsdm_grid.testing import FakeClock

Plain = create_stream_type("RecordedPlain", {"gain": "float32", "x": "vector[4] of complex64"})
Mixed = create_stream_type(
    "RecordedMixed", {"ok": "bool", "v": "vector of int16", "name": "string", "m": "vector[2,3] of float64"}
)
Radio = create_stream_type("RecordedRadio", {"x": "vector of complex64"})
Radio3 = create_stream_type(
    "RecordedRadio3", {"x": "vector of complex64", "y": "vector of complex64", "z": "vector of complex64"}
)
Real = create_stream_type("RecordedReal", {"v": "vector of float32"})


def plain(count, start=0):
    rows = np.arange(start, start + count)
    x = (rows[:, None] + 1j * np.arange(4)).astype(np.complex64)
    return Plain.block(ts=rows * 10, gain=rows.astype(np.float32), x=x)


def read_all(source, limit=7):
    windows = []
    try:
        while True:
            block = source.next(limit)
            assert block is not None
            assert 1 <= len(block) <= limit
            windows += list(block)
    except EndOfStream:
        return windows


def record(sink, blocks):
    sink.open(InterfaceContext())
    for block in blocks:
        assert sink.ready()
        sink.insert(block)
    sink.finish()
    sink.close()
    sink.close()


def opened(source, clock=None):
    source.open(InterfaceContext(clock=clock) if clock else InterfaceContext())
    return source


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
@settings(max_examples=25)
@given(sizes=st.lists(st.integers(0, 5), max_size=6), limit=st.integers(1, 9))
def test_the_player_replays_what_the_recorder_took(tmp_path_factory, suffix, sizes, limit):
    path = tmp_path_factory.mktemp("recording") / f"r{suffix}"
    starts = np.concatenate([[0], np.cumsum(sizes)])
    blocks = [plain(size, int(start)) for size, start in zip(sizes, starts)]
    record(RecorderSink(Plain, {"path": path}), blocks)
    source = opened(PlayerSource(Plain, {"path": str(path)}))
    assert read_all(source, limit) == [window for block in blocks for window in block]
    source.close()


words = st.text(st.characters(exclude_categories=("C", "Z")), max_size=5)
mixed_windows = st.lists(
    st.tuples(st.booleans(), st.lists(st.integers(-9, 9), max_size=4), words), min_size=1, max_size=8
)


@settings(max_examples=25)
@given(groups=st.lists(mixed_windows, max_size=4))
def test_text_and_vectors_of_different_lengths_are_replayed(tmp_path_factory, groups):
    path = tmp_path_factory.mktemp("recording") / "r.npz"
    ts, blocks = 0, []
    for group in groups:
        made = []
        for ok, v, name in group:
            made.append(Mixed.window(ts, ok, np.array(v, np.int16), name, np.full((2, 3), ts)))
            ts += 1
        blocks.append(PhysicalWindow.pack(Mixed, made))
    record(RecorderSink(Mixed, {"path": path}), blocks)
    assert read_all(opened(PlayerSource(Mixed, {"path": path}))) == [w for block in blocks for w in block]


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_a_paused_recording_goes_on_and_a_new_one_starts_anew(tmp_path, suffix):
    path = tmp_path / f"r{suffix}"
    sink = RecorderSink(Plain, {"path": path})
    sink.open(InterfaceContext())
    sink.close()
    assert read_all(opened(PlayerSource(Plain, {"path": path}))) == []
    for part in (plain(3), plain(2, 3)):
        sink.open(InterfaceContext())
        sink.insert(part)
        sink.close()
    assert read_all(opened(PlayerSource(Plain, {"path": path}))) == list(plain(5))
    record(RecorderSink(Plain, {"path": path, "append": True}), [plain(1, 5)])
    assert read_all(opened(PlayerSource(Plain, {"path": path}))) == list(plain(6))
    record(RecorderSink(Plain, {"path": path}), [plain(1)])
    assert read_all(opened(PlayerSource(Plain, {"path": path}))) == list(plain(1))
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_npy_recording_is_valid_after_every_block(tmp_path):
    sink = RecorderSink(Plain, {"path": tmp_path / "r.npy"})
    sink.open(InterfaceContext())
    for start in range(12):
        sink.insert(plain(1, start))
        assert len(np.load(tmp_path / "r.npy")) == start + 1
    sink.close()


def test_what_a_npy_file_cannot_hold_is_refused(tmp_path):
    with pytest.raises(QueryError, match="text"):
        RecorderSink(Mixed, {"path": tmp_path / "r.npy"}).open(InterfaceContext())
    with pytest.raises(QueryError, match=r"\.npy and \.npz"):
        RecorderSink(Plain, {"path": "r.txt"})
    with pytest.raises(ChannelError, match="cannot write"):
        RecorderSink(Plain, {"path": tmp_path / "no" / "r.npy"}).open(InterfaceContext())
    sink = RecorderSink(Radio, {"path": tmp_path / "v.npy"})
    sink.open(InterfaceContext())
    sink.insert(Radio.block(ts=[0], x=np.zeros((1, 4), np.complex64)))
    with pytest.raises(SchemaError, match="as in the blocks before"):
        sink.insert(Radio.block(ts=[1], x=np.zeros((1, 5), np.complex64)))
    sink.close()


def test_large_stored_archives_are_read_piece_by_piece_and_compressed_ones_at_once(tmp_path):
    x = np.arange(200_000 * 4).reshape(-1, 4).astype(np.complex64)
    columns = {"ts": np.arange(200_000), "gain": np.zeros(200_000, np.float32), "x": x}
    np.savez(tmp_path / "stored.npz", **columns)
    np.savez_compressed(tmp_path / "packed.npz", **columns)
    for name in ("stored", "packed"):
        source = opened(PlayerSource(Plain, {"path": tmp_path / f"{name}.npz"}))
        source.seek(150_000)
        block = source.next(10)
        assert np.array_equal(block.x, x[150_000:150_010])
        assert block.x.flags.aligned
        source.close()
        assert np.array_equal(block.x, x[150_000:150_010])


def test_a_plain_array_plays_for_a_type_with_one_attribute(tmp_path):
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.save(tmp_path / "v.npy", values)
    source = opened(PlayerSource(Real, {"path": tmp_path / "v.npy", "start_ts": 100, "interval_ns": 5}))
    block = source.next(10)
    assert block.ts.tolist() == [100, 105, 110]
    assert np.array_equal(block.v, values)
    with pytest.raises(QueryError, match="one attribute beside"):
        PlayerSource(Plain, {"path": tmp_path / "v.npy"}).next(1)


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_timestamps_may_be_recorded_as_dates(tmp_path, unit):
    dates = np.array(["2026-01-01T00:00:05", "2026-01-01T00:00:07"], f"datetime64[{unit}]")
    np.savez(tmp_path / "a.npz", ts=dates, v=np.zeros((2, 3), np.float32))
    windows = read_all(opened(PlayerSource(Real, {"path": tmp_path / "a.npz", "repeat": 2})))
    assert np.diff([int(window.ts) for window in windows]).tolist() == [2_000_000_000] * 3


def test_a_recording_without_room_in_its_header_is_not_gone_on_with(tmp_path):
    record(RecorderSink(Plain, {"path": tmp_path / "r.npy"}), [plain(3)])
    rows = np.load(tmp_path / "r.npy")
    header = f"{{'descr': {rows.dtype.descr}, 'fortran_order': False, 'shape': (3,), }}"
    header = header.ljust(-(-(len(header) + 11) // 64) * 64 - 11) + "\n"
    with (tmp_path / "r.npy").open("wb") as file:
        file.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode() + rows.tobytes())
    assert np.array_equal(np.load(tmp_path / "r.npy"), rows)
    with pytest.raises(QueryError, match="no room for more rows"):
        RecorderSink(Plain, {"path": tmp_path / "r.npy", "append": True}).open(InterfaceContext())


@pytest.mark.parametrize("name", ["missing.npz", "junk.npz", "junk.npy", "empty.npy", "wrong.txt"])
def test_a_file_that_cannot_be_played_is_named(tmp_path, name):
    (tmp_path / "junk.npz").write_bytes(b"PK\3\4 nothing")
    (tmp_path / "junk.npy").write_bytes(b"\x93NUMPY but not really")
    (tmp_path / "empty.npy").write_bytes(b"")
    with pytest.raises(QueryError, match=name):
        PlayerSource(Plain, {"path": tmp_path / name}).next(1)


def test_arrays_that_do_not_fit_the_type_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", ts=np.arange(3), gain=np.zeros(3), x=np.zeros((3, 5), np.complex64))
    with pytest.raises(SchemaError, match="'x'"):
        PlayerSource(Plain, {"path": tmp_path / "a.npz"}).next(1)
    np.savez(tmp_path / "b.npz", ts=np.arange(3), gain=np.zeros(3))
    with pytest.raises(SchemaError, match="nothing in"):
        PlayerSource(Plain, {"path": tmp_path / "b.npz"}).next(1)
    np.savez(tmp_path / "c.npz", ts=np.arange(2), gain=np.zeros(3), x=np.zeros((3, 4), np.complex64))
    with pytest.raises(SchemaError, match="equally many"):
        PlayerSource(Plain, {"path": tmp_path / "c.npz"}).next(1)


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_timestamps_go_on_rising_when_a_recording_repeats(tmp_path, suffix):
    record(RecorderSink(Plain, {"path": tmp_path / f"r{suffix}"}), [plain(4)])
    source = opened(PlayerSource(Plain, {"path": tmp_path / f"r{suffix}", "repeat": 3}))
    windows = read_all(source, 3)
    assert [int(w.ts) for w in windows] == [10 * i for i in range(12)]
    assert [int(w.gain) for w in windows] == [0, 1, 2, 3] * 3
    source.seek(6)
    assert [int(w.ts) for w in read_all(source)] == [10 * i for i in range(6, 12)]
    endless = opened(PlayerSource(Plain, {"path": tmp_path / f"r{suffix}", "repeat": "forever"}))
    endless.seek(4_000_001)
    assert endless.next(1).ts.tolist() == [40_000_010]


@pytest.mark.parametrize("repeat", [0, -1, "often", 1.5])
def test_a_wrong_repeat_is_refused(repeat):
    with pytest.raises(QueryError, match="'forever'"):
        PlayerSource(Plain, {"path": "r.npy", "repeat": repeat})


def test_a_rate_and_real_time_are_kept_by_the_clock(tmp_path):
    path = tmp_path / "r.npz"
    ts = np.array([0, 1, 1, 5]) * 1_000_000_000
    record(RecorderSink(Plain, {"path": path}), [plain(4).replace(ts=ts)])
    clock = FakeClock(0.0)
    source = opened(PlayerSource(Plain, {"path": path, "realtime": True}), clock)
    assert len(source.next(9)) == 1
    assert source.next(9) is None
    clock.s = 1.0
    assert len(source.next(9)) == 2
    clock.s = 4.9
    assert source.next(9) is None
    clock.s = 5.0
    assert len(source.next(9)) == 1
    with pytest.raises(EndOfStream):
        source.next(9)
    source.close()
    clock.s = 0.0
    source = opened(PlayerSource(Plain, {"path": path, "rate": 2}), clock)
    assert [len(source.next(9)), source.next(9)] == [1, None]
    clock.s = 1.0
    assert len(source.next(9)) == 2
    source.close()
    with pytest.raises(QueryError, match="not both"):
        PlayerSource(Plain, {"path": path, "rate": 2, "realtime": True})


def test_a_player_that_waits_knows_when_the_next_window_is_due(tmp_path):
    record(RecorderSink(Plain, {"path": tmp_path / "r.npy"}), [plain(3).replace(ts=np.arange(3) * 20_000_000)])
    clock = FakeClock(0.0)
    source = opened(PlayerSource(Plain, {"path": tmp_path / "r.npy", "realtime": True}), clock)
    began = clock.s
    assert len(source.next(10)) == 1
    assert source.next(10) is None
    assert source.due_s() == pytest.approx(began + 0.02)
    clock.s = source.due_s()
    assert len(source.next(10)) == 1


class CountedPlayer(PlayerSource):
    """Counts the windows that it reads from its file."""

    def load(self):
        recording, self.read_windows = super().load(), 0
        read = recording.read

        def counted(start, stop):
            block = read(start, stop)
            self.read_windows += len(block)
            return block

        recording.read = counted
        return recording


def test_a_player_in_real_time_reads_each_window_once(tmp_path):
    record(RecorderSink(Plain, {"path": tmp_path / "r.npy"}), [plain(40).replace(ts=np.arange(40) * 1_000_000)])
    clock = FakeClock(0.0)
    source = opened(CountedPlayer(Plain, {"path": tmp_path / "r.npy", "realtime": True}), clock)
    played, step = [], 0
    while len(played) < 40:
        step += 1
        clock.s = step * 0.0005
        if (block := source.next(2 if step % 7 else 16)) is not None:
            played += list(block)
    assert played == list(plain(40).replace(ts=np.arange(40) * 1_000_000))
    assert source.read_windows == 40
    source.seek(39)
    assert [int(window.ts) for window in source.next(10)] == [39_000_000]


def test_a_reopened_player_goes_on_where_it_was(tmp_path):
    record(RecorderSink(Plain, {"path": tmp_path / "r.npy"}), [plain(5)])
    source = opened(PlayerSource(Plain, {"path": tmp_path / "r.npy"}))
    first = list(source.next(2))
    source.close()
    assert first + read_all(opened(source)) == list(plain(5))


# Raw samples


@pytest.mark.parametrize(
    ("dtype", "raw", "expected"),
    [
        ("cu8", bytes([128, 0, 192, 64]), [0 - 1j, 0.5 - 0.5j]),
        ("ci8", struct.pack("4b", 64, -128, 0, 32), [0.5 - 1j, 0.25j]),
        ("ci16_le", struct.pack("<4h", 16384, -32768, 0, 8192), [0.5 - 1j, 0.25j]),
        ("ci16_be", struct.pack(">4h", 16384, -32768, 0, 8192), [0.5 - 1j, 0.25j]),
        ("cu16_le", struct.pack("<4H", 32768, 0, 49152, 16384), [0 - 1j, 0.5 - 0.5j]),
        ("ci32_le", struct.pack("<4i", 1 << 30, -(1 << 31), 0, 0), [0.5 - 1j, 0]),
        ("cf32_le", struct.pack("<4f", 1, 2, 3, 4), [1 + 2j, 3 + 4j]),
        ("cf32_be", struct.pack(">4f", 1, 2, 3, 4), [1 + 2j, 3 + 4j]),
        ("cf64_le", struct.pack("<4d", 1, 2, 3, 4), [1 + 2j, 3 + 4j]),
        ("rf32_le", struct.pack("<2f", 1, 2), None),
    ],
)
def test_samples_of_every_format_become_complex_vectors(tmp_path, dtype, raw, expected):
    (tmp_path / "a.iq").write_bytes(raw)
    options = {"path": tmp_path / "a.iq", "dtype": dtype, "window": 2, "sample_rate": 2}
    if expected is None:
        expected = [1, 2]
    block = opened(RawIqSource(Radio, options)).next(5)
    assert block.x.dtype == np.complex64
    assert block.x.tolist() == [expected]


def test_integers_can_be_kept_as_they_are(tmp_path):
    (tmp_path / "a.iq").write_bytes(bytes([1, 2, 255, 4]))
    options = {"path": tmp_path / "a.iq", "dtype": "cu8", "window": 2, "sample_rate": 2, "scale": "none"}
    assert opened(RawIqSource(Radio, options)).next(5).x.tolist() == [[1 + 2j, 255 + 4j]]


def test_interleaved_channels_become_the_vector_attributes_in_order(tmp_path):
    samples = np.arange(3 * 10).astype(np.complex64)
    (tmp_path / "a.iq").write_bytes(samples.tobytes() + b"more")
    options = {
        "path": tmp_path / "a.iq",
        "dtype": "cf32_le",
        "channels": 3,
        "window": 4,
        "sample_rate": 3,
        "start_ts": 7,
    }
    source = opened(RawIqSource(Radio3, options))
    block = source.next(9)
    assert block.y.tolist() == [[1, 4, 7, 10], [13, 16, 19, 22]]
    assert block.z[0].tolist() == [2, 5, 8, 11]
    assert block.ts.tolist() == [7, 7 + 1_333_333_333]
    assert source.statistics()["dropped_tail_samples"] == 2
    with pytest.raises(EndOfStream):
        source.next(9)
    source.seek(1)
    assert source.next(9).x.tolist() == [[12, 15, 18, 21]]


def test_samples_that_are_what_the_type_wants_are_not_copied_once_they_were_read():
    layout = SampleFormat.make("raw_iq", Radio, {"dtype": "cf32_le", "window": 8})
    raw = np.arange(16).astype(np.complex64).view(np.uint8)
    assert np.shares_memory(layout.decode(Radio, raw, [0, 1]).x, raw)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "ci16"}, "cf32_le"),
        ({"dtype": "cu8_le"}, "cf32_le"),
        ({"channels": 3}, "vector attributes"),
        ({"window": None}, "samples per window"),
        ({"sample_rate": None}, "sample_rate"),
        ({"sample_rate": -1}, "positive"),
        ({"scale": "big"}, "'unit' or 'none'"),
        ({"header_bytes": -4}, "'header_bytes': expected 0, 1, …; got -4"),
        ({"header_bytes": "4"}, "'header_bytes': expected 0, 1, …; got '4'"),
    ],
)
def test_wrong_options_of_raw_files_are_explained(options, message):
    good = {"path": "a.iq", "dtype": "cf32_le", "window": 8, "sample_rate": 1}
    with pytest.raises(QueryError, match=message):
        RawIqSource(Radio, {**good, **options})


def test_a_type_that_samples_cannot_fill_is_refused():
    options = {"path": "a.iq", "dtype": "cf32_le", "window": 8, "sample_rate": 1}
    with pytest.raises(QueryError, match="'gain'"):
        RawIqSource(Plain, options)
    with pytest.raises(QueryError, match="cannot read"):
        RawIqSource(Radio, {**options, "path": "/nowhere/a.iq"}).next(1)


# SigMF


def radio3(count, ts):
    values = np.arange(count * 24).reshape(3, count, 8).astype(np.complex64)
    return Radio3.block(ts=ts, x=values[0], y=values[1] * 1j, z=values[2])


@settings(max_examples=30)
@given(
    steps=st.lists(st.sampled_from([8_000_000, 8_000_000, 8_000_000, 9_000_001, 1]), min_size=1, max_size=12),
    start=st.integers(0, 2_000_000_000_000_000_000),
    limit=st.integers(1, 5),
    cut=st.integers(0, 12),
    rate=st.sampled_from([None, 1000, 44100.5]),
)
def test_a_sigmf_recording_round_trips(tmp_path_factory, *, steps, start, limit, cut, rate):
    base = tmp_path_factory.mktemp("sigmf") / "take.1"
    block = radio3(len(steps), start + np.cumsum(steps))
    options = {"path": base, **({"sample_rate": rate} if rate else {})}
    record(SigmfInterface(Radio3, options), [block[:cut], block[cut:]])
    for path in (base, f"{base}.sigmf-meta", f"{base}.sigmf-data"):
        source = opened(SigmfInterface(Radio3, {"path": path}))
        assert read_all(source, limit) == list(block)
    source.seek(len(steps) // 2)
    assert read_all(source, limit) == list(block)[len(steps) // 2 :]
    source.close()


def test_a_steady_stream_is_one_capture_and_its_metadata_say_so(tmp_path):
    record(
        SigmfInterface(Radio, {"path": tmp_path / "a"}),
        [Radio.block(ts=i * 8000 + np.arange(4) * 2000, x=np.ones((4, 2), np.complex64)) for i in range(3)],
    )
    meta = json.loads((tmp_path / "a.sigmf-meta").read_text())
    assert meta["global"]["core:datatype"] == "cf32_le"
    assert meta["global"]["core:sample_rate"] == 1_000_000
    assert meta["global"]["core:num_channels"] == 1
    assert meta["captures"] == [{"core:sample_start": 0, "core:datetime": "1970-01-01T00:00:00.000000000Z"}]
    assert (tmp_path / "a.sigmf-data").stat().st_size == 12 * 2 * 8


def test_a_paused_sigmf_recording_goes_on(tmp_path):
    sink = SigmfInterface(Radio3, {"path": tmp_path / "a"})
    block = radio3(6, np.arange(6) * 8_000_000)
    for part in (block[:1], block[1:4], block[4:]):
        sink.open(InterfaceContext())
        sink.insert(part)
        sink.close()
    assert read_all(opened(SigmfInterface(Radio3, {"path": tmp_path / "a"}))) == list(block)


def write_sigmf(path, captures, samples, **common):
    meta = {"global": {"core:datatype": "ci16_be", "core:sample_rate": 4, "core:version": "1.0.0", **common}}
    path.with_suffix(".sigmf-meta").write_text(json.dumps({**meta, "captures": captures, "annotations": []}))
    path.with_suffix(".sigmf-data").write_bytes(samples)


def test_recordings_of_others_are_read_capture_by_capture(tmp_path):
    pairs = np.arange(22, dtype=">i2")
    raw = b"HEAD" + pairs[:10].tobytes() + b"MORE!!" + pairs[10:].tobytes() + b"xyz"
    captures = [
        {"core:sample_start": 0, "core:datetime": "2024-05-01T12:00:00.5Z", "core:header_bytes": 4},
        {"core:sample_start": 5, "core:header_bytes": 6},
        {"core:sample_start": 8, "core:datetime": "2024-05-01T13:00:00Z"},
    ]
    write_sigmf(tmp_path / "b", captures, raw, **{"core:trailing_bytes": 3})
    source = opened(SigmfInterface(Radio, {"path": tmp_path / "b", "window": 2, "scale": "none"}))
    windows = read_all(source)
    assert [w.x[0].real for w in windows] == [0, 4, 10, 16]
    noon = int(np.datetime64("2024-05-01T12:00:00", "ns").astype(np.int64))
    assert [int(w.ts) - noon for w in windows] == [
        500_000_000,
        1_000_000_000,
        1_750_000_000,
        3600_000_000_000,
    ]
    assert source.statistics()["dropped_tail_samples"] == 3


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        ("{", "not valid"),
        ("[]", "not valid"),
        ('{"global": {}}', "core:datatype"),
        ('{"global": {"core:datatype": "cf99", "core:sample_rate": 1}}', "cf32_le"),
        ('{"global": {"core:datatype": "cf32_le"}}', "core:sample_rate"),
        ('{"global": {"core:datatype": "cf32_le", "core:sample_rate": "x"}}', "positive"),
        (
            '{"global": {"core:datatype": "cf32_le", "core:sample_rate": 1},'
            ' "captures": [{"core:sample_start": 0, "core:datetime": "yesterday"}]}',
            "yesterday",
        ),
        (
            '{"global": {"core:datatype": "cf32_le", "core:sample_rate": 1, "core:trailing_bytes": -8}}',
            "trailing_bytes",
        ),
        (
            '{"global": {"core:datatype": "cf32_le", "core:sample_rate": 1},'
            ' "captures": [{"core:sample_start": 5}, {"core:sample_start": 0}]}',
            "order",
        ),
    ],
)
def test_metadata_that_make_no_sense_are_explained(tmp_path, meta, message):
    (tmp_path / "a.sigmf-meta").write_text(meta)
    (tmp_path / "a.sigmf-data").write_bytes(bytes(800))
    with pytest.raises(QueryError, match=message):
        SigmfInterface(Radio, {"path": tmp_path / "a", "window": 4}).next(1)
    with pytest.raises(QueryError, match="cannot read"):
        SigmfInterface(Radio, {"path": tmp_path / "b"}).next(1)


def test_what_sigmf_cannot_hold_is_refused(tmp_path):
    with pytest.raises(QueryError, match="complex vectors only"):
        SigmfInterface(Plain, {"path": tmp_path / "a"}).insert(plain(1))
    sink = SigmfInterface(Radio, {"path": tmp_path / "a"})
    sink.insert(Radio.block(ts=[0], x=np.zeros((1, 4), np.complex64)))
    with pytest.raises(SchemaError, match="as before"):
        sink.insert(Radio.block(ts=[0], x=[[1, 2, 3]]))
    sink.close()


# Standard output


def test_stdout_prints_a_line_per_window(capsys):
    sink = interfaces.get("stdout")(Mixed, {})
    sink.insert(PhysicalWindow.pack(Mixed, [Mixed.window(5, True, [1], "a\n", np.zeros((2, 3)))]))
    assert capsys.readouterr().out == "RecordedMixed(ts=5, ok=True, v=<int16 1>, name='a\\n', m=<float64 2×3>)\n"


def test_stdout_prints_json_of_one_window_in_so_many(capsys):
    sink = interfaces.get("stdout")(Radio, {"format": "json", "every": 3})
    for start in (0, 4):
        ts = np.arange(start, start + 4)
        sink.insert(Radio.block(ts=ts, x=np.stack([ts * 1j, ts * np.nan], 1).astype(np.complex64)))
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["ts"] for line in lines] == [0, 3, 6]
    assert lines[1]["x"][0] == [0.0, 3.0]
    assert lines[1]["x"][1][0] is None
    assert sink.statistics() == {"windows": 8, "printed": 3}
    with pytest.raises(QueryError, match="repr, json"):
        interfaces.get("stdout")(Radio, {"format": "xml"})
    with pytest.raises(QueryError, match="'every'"):
        interfaces.get("stdout")(Radio, {"every": 0})


def test_played_windows_can_be_stamped_with_the_times_at_which_they_are_due(tmp_path, readings):
    path = tmp_path / "readings.npz"
    block = readings(4)
    np.savez(path, ts=block.ts, id=block.id, value=block.value)
    clock = FakeClock()
    source = PlayerSource(block.type, {"path": str(path), "rate": 10, "stamp": True})
    source.open(InterfaceContext(clock=clock))
    began_ns = clock.now_ns()
    clock.s += 0.1
    assert (source.next(10).ts - began_ns).tolist() == [0, 100_000_000]
    with pytest.raises(QueryError, match="'stamp' needs a 'rate'"):
        PlayerSource(block.type, {"path": str(path), "stamp": True})
