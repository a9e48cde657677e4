"""The law: whatever blocks were recorded, in however many sittings, the player gives under each number the window that
was recorded under it: from any place, in any portions, repeated, and after a recorder was killed."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsdm_grid.errors import QueryError
from gsdm_grid.interfaces import EndOfStream, InterfaceContext
from gsdm_grid.interfaces.player import PlayerSource
from gsdm_grid.interfaces.raw_iq import RawIqSource
from gsdm_grid.interfaces.recorder import RecorderSink
from gsdm_grid.interfaces.sigmf import SigmfInterface
from gsdm_grid.model import TypeRegistry, create_stream_type

REGISTRY = TypeRegistry()
Fixed = create_stream_type("FixedRecording", {"n": "int16", "v": "vector of float32"}, registry=REGISTRY)
Varying = create_stream_type(
    "VaryingRecording", {"n": "int64", "v": "vector of float32", "name": "string"}, registry=REGISTRY
)
Samples = create_stream_type("SampleRecording", {"x": "vector of complex64"}, registry=REGISTRY)
STEP = 1000
WINDOW = 3


def fixed(first, count):
    rows = np.arange(first, first + count)
    return Fixed.block(ts=rows * STEP, n=rows, v=np.repeat(rows[:, None], 5, axis=1).astype(np.float32))


def varying(first, count):
    rows = np.arange(first, first + count)
    vectors = [np.full(row % 4, row, np.float32) for row in rows]
    return Varying.block(ts=rows * STEP, n=rows, v=vectors, name=[f"w{row}" for row in rows])


def samples(first, count):
    rows = np.arange(first, first + count)
    return Samples.block(ts=rows * STEP, x=np.repeat(rows[:, None], WINDOW, axis=1).astype(np.complex64))


sittings = st.lists(st.lists(st.integers(0, 9), max_size=5), min_size=1, max_size=4)


def record(sink, sizes, block, first):
    sink.open(InterfaceContext())
    for size in sizes:
        sink.insert(block(first, size))
        first += size
    sink.close()
    return first


def played(data, source, start):
    """All windows from a place on, in portions that are drawn."""
    source.open(InterfaceContext())
    if data.draw(st.booleans(), "read before"):
        with suppress(EndOfStream):
            source.next(1)
        source.seek(start)
    elif start:
        source.seek(start)
    windows = []
    try:
        while True:
            limit = data.draw(st.integers(1, 12), "limit")
            block = source.next(limit)
            assert 1 <= len(block) <= limit
            windows += list(block)
            if data.draw(st.integers(0, 9), "closed") == 0:  # as when a query stops and goes on
                source.close()
                source.open(InterfaceContext())
    except EndOfStream:
        source.close()
        return windows


def expected(block, count, repeat, start):
    windows = []
    for turn in range(repeat):
        again = block(0, count)
        windows += list(again.replace(ts=again.ts + turn * count * STEP))
    return windows[start:]


@settings(max_examples=30)
@pytest.mark.parametrize(("suffix", "block"), [(".npy", fixed), (".npz", fixed), (".npz", varying)])
@given(data=st.data())
def test_a_recording_of_several_sittings_is_played_from_any_place(tmp_path_factory, suffix, block, data):
    path = tmp_path_factory.mktemp("recording") / f"r{suffix}"
    stream_type = block(0, 0).type
    sink, count = RecorderSink(stream_type, {"path": path}), 0
    for sizes in data.draw(sittings, "sittings"):
        count = record(sink, sizes, block, count)
        if suffix == ".npy" and data.draw(st.booleans(), "killed"):  # with rows that the header does not count yet
            with path.open("ab") as file:
                file.write(data.draw(st.binary(max_size=150), "torn"))
        if data.draw(st.booleans(), "another query"):
            sink = RecorderSink(stream_type, {"path": path, "append": True})
    repeat = data.draw(st.integers(1, 3), "repeat")
    start = data.draw(st.integers(0, count * repeat + 2), "start")
    options = {"path": path, "repeat": repeat, "interval_ns": STEP}
    assert played(data, PlayerSource(stream_type, options), start) == expected(block, count, repeat, start)


@settings(max_examples=30)
@pytest.mark.parametrize(("suffix", "block"), [(".npy", fixed), (".npz", varying)])
@given(data=st.data())
def test_a_recording_that_lost_its_end_is_refused_or_played_as_it_was_recorded(tmp_path_factory, suffix, block, data):
    path = tmp_path_factory.mktemp("recording") / f"r{suffix}"
    stream_type = block(0, 0).type
    count = record(RecorderSink(stream_type, {"path": path}), data.draw(sittings, "sizes")[0], block, 0)
    content = path.read_bytes()
    path.write_bytes(content[: data.draw(st.integers(0, len(content)), "length")])
    try:
        windows = played(data, PlayerSource(stream_type, {"path": path, "interval_ns": STEP}), 0)
    except QueryError as error:
        assert str(path) in str(error)  # noqa: PT017 - either is right
    else:
        assert windows == list(block(0, count))
    sink = RecorderSink(stream_type, {"path": path, "append": True})
    try:
        whole = record(sink, [2, 1], block, count)
    except QueryError as error:
        assert str(path) in str(error)  # noqa: PT017 - either is right
    else:
        windows = played(data, PlayerSource(stream_type, {"path": path, "interval_ns": STEP}), 0)
        assert windows == list(block(0, whole))


@settings(max_examples=30)
@given(data=st.data())
def test_raw_samples_are_played_from_any_place_as_far_as_they_go(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("recording")
    count, header = data.draw(st.integers(0, 20), "count"), data.draw(st.binary(max_size=20), "header")
    length = data.draw(st.integers(0, count * WINDOW * 8), "length")
    (folder / "r.iq").write_bytes(header + samples(0, count).x.tobytes()[:length])
    left = length // (WINDOW * 8)
    repeat = data.draw(st.integers(1, 3), "repeat")
    start = data.draw(st.integers(0, left * repeat + 2), "start")
    options = {"path": folder / "r.iq", "dtype": "cf32_le", "window": WINDOW, "sample_rate": WINDOW * 1e9 / STEP}
    source = RawIqSource(Samples, {**options, "header_bytes": len(header), "repeat": repeat})
    assert played(data, source, start) == expected(samples, left, repeat, start)
    assert source.statistics() == {"dropped_tail_samples": length // 8 % WINDOW}


@settings(max_examples=30)
@given(data=st.data())
def test_a_sigmf_recording_is_played_from_any_place_as_far_as_it_goes(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("recording") / "r"
    sink, count = SigmfInterface(Samples, {"path": path, "sample_rate": WINDOW * 1e9 / STEP}), 0
    for sizes in data.draw(sittings, "sittings"):
        count = record(sink, [*sizes, 1], samples, count)
    content = path.with_suffix(".sigmf-data").read_bytes()
    length = data.draw(st.integers(0, len(content)) | st.just(len(content)), "length")
    path.with_suffix(".sigmf-data").write_bytes(content[:length])
    left = length // (WINDOW * 8)
    repeat = data.draw(st.integers(1, 3), "repeat")
    start = data.draw(st.integers(0, left * repeat + 2), "start")
    source = SigmfInterface(Samples, {"path": path, "repeat": repeat})
    assert played(data, source, start) == expected(samples, left, repeat, start)
