"""Taps between two data planes: readers come and go between blocks, and go on exactly where that can be."""

import numpy as np
import pytest
import zmq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gsdm_grid.channels.channel import ChannelLimits
from gsdm_grid.channels.data_plane import DataPlane
from gsdm_grid.channels.keys import InstallationKey
from gsdm_grid.interfaces import EndOfStream, InterfaceContext
from gsdm_grid.interfaces.tap import Tap, Taps, TapSource

LIMITS = ChannelLimits(blocks=2, bytes=1 << 20)


class Both:
    """A part's end and readers' ends in one process, whose messages are handed over by `pump`."""

    def __init__(self, reading):
        key, self.context = InstallationKey(), zmq.Context()
        self.reading = reading
        self.here, self.there = (DataPlane(key, self.context, "127.0.0.1", lambda: None) for _ in range(2))
        self.taps = Taps(reading, {})
        self.taps.open(InterfaceContext(plane=self.here))
        self.fed = 0

    def unopened(self):
        source = TapSource(self.reading, {"part": "p"})
        source.name, source.runs = f"r{id(source)}", 0
        return source

    def reader(self, replayable=False):
        source = self.unopened()
        self.open(source, replayable)
        return source

    def open(self, source, replayable=False, limits=LIMITS, **options):
        source.runs += 1
        channel = f"{source.name}#{source.runs}"
        source.listen(channel, replayable)
        source.open(InterfaceContext(plane=self.there))
        outlet = self.here.outlet(channel, self.there.endpoint, limits, False, epoch=1)
        return self.taps.attach(channel, Tap(outlet, options, lambda: self.here.forget([channel])))

    def put(self, ordinals):
        ordinals = np.asarray(ordinals)
        ids = np.arange(self.fed, self.fed + len(ordinals))
        self.fed += len(ids)
        block = self.reading.block(ts=ids, id=ids, value=ids.astype(float)).stamped(ordinals=ordinals)
        assert self.taps.ready()
        self.taps.insert(block)
        self.pump()

    def pump(self):
        while self.here.receive() + self.there.receive():
            pass

    def take(self, source, limit=1000):
        taken = []
        while limit > len(taken):
            block = source.next(limit - len(taken))
            if block is None:
                break
            taken += block.id.tolist()
        self.pump()
        return taken


@pytest.fixture
def both(reading):
    made = Both(reading)
    yield made
    made.here.close()
    made.there.close()
    made.context.term()


def test_without_a_reader_nothing_is_taken_in(both):
    assert not both.taps.ready()
    both.reader()
    assert both.taps.ready()


def test_a_reader_is_told_which_ordinal_comes_next(both):
    source = both.reader()
    both.put([0, 1, 4])
    assert both.take(source) == [0, 1, 2]
    assert both.open(both.unopened()) == 5


def test_a_reader_that_has_no_credit_left_holds_the_others_until_it_rests(both):
    slow, quick = both.reader(), both.reader()
    both.put([0])
    both.put([1])
    assert both.take(quick) == [0, 1]
    assert not both.taps.ready()
    slow.rest()
    both.pump()
    assert both.taps.ready()
    both.put([2])
    assert both.take(quick) == [2]


def test_a_reader_that_rested_before_it_was_attached_leaves_with_the_first_block(both):
    quick, late = both.reader(), both.unopened()
    late.listen("late#1", False)
    late.open(InterfaceContext(plane=both.there))
    late.rest()
    outlet = both.here.outlet("late#1", both.there.endpoint, LIMITS, False, epoch=1)
    both.taps.attach("late#1", Tap(outlet, {}, lambda: None))
    for ordinal in range(6):
        both.put([ordinal])
        both.take(quick)
    assert set(both.taps.readers()) == {"late#1", f"{quick.name}#1"}, "what was counted for it is kept until asked for"
    assert both.taps.detach("late#1")["windows"] == 1


@pytest.mark.parametrize("cut", range(1, 9))
def test_what_was_read_of_a_stream_that_can_be_read_again_is_left_out(both, cut):
    ordinals = [0, 1, 1, 1, 2, 2, 5, 5, 6]
    source = both.reader(replayable=True)
    both.put(ordinals[:6])
    both.put(ordinals[6:])
    first = both.take(source, cut)
    assert first == list(range(len(first)))
    assert cut <= len(first) < cut + 3
    source.rest()
    source.close()
    both.pump()
    both.fed = 0
    both.open(source, replayable=True)
    both.put(ordinals[:3])
    both.put(ordinals[3:])
    assert first + both.take(source) == list(range(9)), "the part began anew at 0"


def test_windows_of_one_ordinal_are_read_together_whatever_the_limit(both):
    source = both.reader()
    both.put([0, 1, 1, 1, 2, 2, 5])
    blocks = [source.next(limit).id.tolist() for limit in (2, 1, 2, 3)]
    assert blocks == [[0], [1, 2, 3], [4, 5], [6]]


def test_a_site_that_dies_between_two_blocks_that_were_read_loses_no_window(both):
    source, received = both.reader(), []
    both.put([0, 1, 1, 2])
    both.here.inlet("onward", both.reading, received.append)
    both.there.outlet("onward", both.here.endpoint, LIMITS, False, epoch=1).put(source.next(2))
    both.pump()
    both.there.forget(["onward"])  # it had sent the first block, which was acknowledged and will not be sent again
    both.there.outlet("onward", both.here.endpoint, LIMITS, False, epoch=2).put(source.next(10))
    both.pump()
    assert [n for block in received for n in block.id] == [0, 1, 2, 3]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_wherever_a_reader_was_stopped_it_sees_every_window_once_under_its_ordinal(both, data):
    ordinals = np.cumsum(data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=40), "steps"))
    source, seen = both.unopened(), []
    while len(seen) < len(ordinals):
        again = data.draw(st.integers(0, int(ordinals[len(seen) - 1]) if seen else 0), "the part begins at ordinal")
        both.fed = int(np.searchsorted(ordinals, again))
        both.open(source, replayable=True, limits=ChannelLimits(blocks=1000, bytes=1 << 20))
        stop = data.draw(st.integers(len(seen) + 1, len(ordinals)), "stop after")
        while len(seen) < stop:
            block = source.next(data.draw(st.integers(1, stop - len(seen)), "limit"))
            if block is None:
                assert both.fed < len(ordinals), "windows are missing"
                both.put(ordinals[both.fed : both.fed + data.draw(st.integers(1, 9), "block")])
                continue
            assert list(block.ordinals) == ordinals[block.id].tolist()
            assert block.ts.tolist() == block.id.tolist()
            seen += block.id.tolist()
            assert len(seen) <= stop or ordinals[len(seen) - 1] == ordinals[stop - 1]
        source.rest()
        source.close()
        both.pump()
        both.taps.ready()
    assert seen == list(range(len(ordinals)))


def test_seeking_leaves_out_what_comes_before(both):
    source = both.reader(replayable=True)
    source.seek(5)
    both.put([0, 1, 2, 3, 4, 4, 5, 5, 6])
    assert both.take(source) == [6, 7, 8]


def test_the_end_comes_after_what_waits_and_to_those_who_come_later(both):
    source = both.reader()
    both.put([0, 1])
    both.taps.finish()
    both.pump()
    assert both.take(source, 2) == [0, 1]
    with pytest.raises(EndOfStream):
        source.next(10)
    late = both.unopened()
    both.open(late)
    both.pump()
    with pytest.raises(EndOfStream):
        late.next(10)


def test_a_reader_that_may_drop_never_holds_the_others_and_counts_what_it_lost(both):
    lossy = both.unopened()
    both.open(lossy, overload="drop_oldest", buffer_blocks=3)
    for ordinal in range(20):
        both.put([ordinal])
    seen = []
    for _ in range(20):
        seen += both.take(lossy)
        both.taps.ready()
        both.pump()
    [counted] = both.taps.readers().values()
    assert counted["dropped_oldest"] == 20 - len(seen) > 0
    assert seen[-3:] == [17, 18, 19]
    assert counted["stalled_s"] == 0
