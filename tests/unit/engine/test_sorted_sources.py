"""Input streams that are sorted as they enter: read on while windows wait for their turn, resumed, ended."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gsdm_grid import create_stream_type
from gsdm_grid.channels import End
from gsdm_grid.engine.buffers import SourceStream
from gsdm_grid.interfaces import EndOfStream, InterfaceContext, StreamInterface
from gsdm_grid.interfaces.memory import MemorySource
from gsdm_grid.model import PhysicalWindow, TypeRegistry
from gsdm_grid.spec import parse_order

Level = create_stream_type("Level", {"value": "float64"}, registry=TypeRegistry())


def blocks(ts, size):
    whole = Level.block(ts=ts, value=np.arange(len(ts)) * 1.0)
    return [PhysicalWindow(Level, whole[at : at + size].columns) for at in range(0, len(whole), size)]


def opened(interface, within_s, start_at=0):
    stream = SourceStream("s", interface, 1 << 20, start_at, parse_order({"within": within_s, "late": "drop"}))
    stream.cursors["r"] = 0
    stream.open(InterfaceContext())
    return stream


def read(stream):
    """All windows as (ordinal, timestamp), and how often nothing came."""
    windows, nothing = [], 0
    while True:
        nothing += not stream.refill()
        item = stream.peek("r")
        if item is None:
            continue
        stream.advance("r")
        if isinstance(item, End):
            return windows, nothing
        windows += zip(item.ordinals, item.ts.tolist(), strict=True)


def test_a_source_whose_windows_wait_for_their_turn_is_read_on_at_once():
    stream = opened(MemorySource(Level, {"items": blocks(np.arange(100), 3)}), 50e-9)
    assert read(stream) == ([(at, at) for at in range(100)], 0)


class EndsOnce(StreamInterface):
    """Says once that it has ended, and has nothing to say after that."""

    def open(self, context):
        super().open(context)
        self.given = [*blocks(np.array([3, 1, 2]), 2), None]

    def next(self, limit):
        if not self.given:
            return None
        if (block := self.given.pop(0)) is None:
            raise EndOfStream
        return block


def test_a_source_that_says_once_that_it_has_ended_is_believed():
    assert read(opened(EndsOnce(Level, {}), 1.0)) == ([(0, 1), (1, 2), (2, 3)], 0)


@given(
    ts=st.lists(st.integers(0, 60), max_size=40),
    within_ns=st.integers(1, 20),
    start_at=st.integers(0, 40),
    size=st.integers(1, 7),
)
def test_a_sorted_source_that_is_read_again_goes_on_and_counts_no_late_window_twice(ts, within_ns, start_at, size):
    def source():
        return MemorySource(Level, {"items": blocks(np.array(ts, np.int64), size)})

    first = opened(source(), within_ns * 1e-9)
    windows, _ = read(first)
    again = opened(source(), within_ns * 1e-9, start_at)
    assert read(again)[0] == windows[start_at:]
    assert again.time_order.late <= first.time_order.late
    if start_at > len(windows):
        assert again.time_order.late == 0


def test_what_waits_for_its_turn_is_told():
    stream = opened(MemorySource(Level, {"items": blocks(np.arange(10), 10)}), 4e-9)
    stream.refill()
    assert (len(stream.peek("r")), stream.time_order.held) == (5, 5)
