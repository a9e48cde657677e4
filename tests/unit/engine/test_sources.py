"""Input streams read from interfaces: the places that their windows get."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsdm_grid import StreamInterface
from gsdm_grid.channels.channel import End
from gsdm_grid.engine.buffers import SourceStream
from gsdm_grid.errors import InternalError
from gsdm_grid.interfaces import EndOfStream, InterfaceContext
from gsdm_grid.interfaces.memory import MemorySource
from gsdm_grid.testing import FakeClock


class Generous(StreamInterface):
    """A source that does not heed how many windows it is asked for: it gives twelve, five times."""

    def __init__(self, stream_type, options):
        super().__init__(stream_type, options)
        self.given = 0

    def next(self, limit):
        if self.given == 60:
            raise EndOfStream
        rows = np.arange(self.given, self.given + 12)
        self.given += 12
        return self.stream_type.block(ts=rows, id=rows, value=rows)


@given(st.lists(st.integers(1, 20), max_size=8))
def test_a_source_that_gives_too_much_is_read_as_far_as_it_was_to_be(reading, counts):
    stream, taken = SourceStream("s", Generous(reading, {}), 1 << 10), []
    stream.cursors["r"] = 0
    for count in [*counts, None]:
        stream.open(InterfaceContext())
        stream.stop_at = None if count is None else stream.position + count
        before = len(taken)
        while True:
            stream.refill()
            item = stream.peek("r")
            stream.advance("r")
            if isinstance(item, End):
                break
            taken += zip(item.ordinals, item.id.tolist(), strict=True)
        assert count is None or len(taken) - before == min(count, 60 - before)
        stream.close()
        if stream.finished:
            break
    assert taken == [(row, row) for row in range(60)]


class Placed(StreamInterface):
    """A source whose windows come with their places, several of them at one; it does not heed what it is asked for."""

    placed = True

    def next(self, limit):
        ordinals = np.array([0, 1, 1, 1, 2, 2, 5])
        return self.stream_type.block(ts=ordinals, id=range(7), value=range(7)).stamped(ordinals=ordinals)


@pytest.mark.parametrize(("count", "read"), [(1, 1), (2, 4), (4, 4), (5, 6), (7, 7)])
def test_a_count_that_ends_among_windows_of_one_place_ends_behind_them(reading, count, read):
    stream, ids = SourceStream("s", Placed(reading, {}), 1 << 20), []
    stream.cursors["r"] = 0
    stream.open(InterfaceContext())
    stream.stop_at = count
    while not isinstance(item := _refilled(stream), End):
        ids += item.id.tolist()
    assert ids == list(range(read))


def _refilled(stream):
    stream.refill()
    item = stream.peek("r")
    stream.advance("r")
    return item


def test_a_stream_cannot_begin_before_its_first_window(reading):
    with pytest.raises(InternalError, match="cannot begin at window -1"):
        SourceStream("s", MemorySource(reading, {"items": []}), 1 << 20, -1)


def test_a_source_of_empty_blocks_lets_others_work_and_is_asked_again_at_once(readings, reading):
    clock = FakeClock()

    def blocks():
        for _ in range(5):
            clock.s += 1.0
            yield readings(0)
        yield readings(2)

    source = MemorySource(reading, {"items": blocks()})
    source.open(InterfaceContext(clock=clock))
    taken = []
    while not sum(taken):
        taken.append(len(source.next(10)))
        assert source.due_s() == (None if taken[-1] else clock.s)
    assert taken == [0, 0, 2]
