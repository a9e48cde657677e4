"""Queries that share a source, or sites: read once, each served in order, none disturbed by the others."""

import contextlib
import threading
from collections import deque
from dataclasses import replace

import numpy as np
import pytest

from gsdm_grid import PCC, Grid, Settings, central, pipe, register_input_stream, register_result_stream, sqf
from gsdm_grid.errors import GsdmError, PlanError, QueryError
from gsdm_grid.interfaces import EndOfStream, StreamInterface, register_stream_interface
from gsdm_grid.testing import eventually

DEADLINE_S = 60.0


class Tape:
    """What a test feeds to a live source, and what it learns of it."""

    def __init__(self, reading):
        self.reading = reading
        self.opened = 0
        self.open_now = 0
        self.fed = 0
        self.waiting = deque()
        self.wake = lambda: None

    def feed(self, *sizes):
        """Another block for each size; its windows are numbered by ``id``."""
        for size in sizes:
            ids = np.arange(self.fed, self.fed + size)
            self.waiting.append(self.reading.block(ts=ids * 1_000_000, id=ids, value=ids.astype(float)))
            self.fed += size
        self.wake()

    def end(self, error=None):
        self.waiting.append(error or EndOfStream())
        self.wake()


class TapeSource(StreamInterface):
    """Reads a tape that tests put windows on."""

    local = True

    def open(self, context):
        super().open(context)
        tape = self.options["tape"]
        tape.wake = context.wake
        tape.opened += 1
        tape.open_now += 1

    def next(self, limit):
        tape = self.options["tape"]
        if not tape.waiting:
            return None
        if isinstance(tape.waiting[0], Exception):
            raise tape.waiting[0]
        block = tape.waiting.popleft()
        if len(block) > limit:
            tape.waiting.appendleft(block[limit:])
            block = block[:limit]
        return block

    def close(self):
        if self.context.wake is self.options["tape"].wake:
            self.options["tape"].open_now = 0


register_stream_interface("tape", TapeSource)


class Reader:
    """A query, and the ids that it has given."""

    def __init__(self, grid, flow, stream, name, **options):
        self.ids = []
        self.blocks = []
        self.sink = register_result_stream(self._take, name=f"to-{name}")
        self.query = grid.cq(flow, [stream], [self.sink], name=name, **options)

    def _take(self, block):
        self.blocks.append(block)
        self.ids.extend(block.id.tolist())

    def got(self, count):
        eventually(lambda: len(self.ids) >= count)
        return self.ids


@pytest.fixture
def tape(reading):
    return Tape(reading)


@pytest.fixture
def grid():
    with Grid("threads", Settings(channel_blocks=4)) as made:
        yield made
        for query in list(made.queries.values()):
            query.drop()
        assert not made.queries


@pytest.fixture
def stream(tape, reading):
    return register_input_stream(reading, None, "tape", tape=tape, name="tape", shared=True)


def parts(grid):
    return [name for name in grid.queries if name.startswith("shared:")]


def test_two_queries_on_a_shared_source_open_it_once_and_both_get_it(grid, stream, tape):
    a, b = Reader(grid, "identity", stream, "a"), Reader(grid, PCC(2, "RRpart", "identity", {}, "S-Merge"), stream, "b")
    a.query.run()
    b.query.run()
    tape.feed(*[3] * 20)
    assert a.got(60) == list(range(60))
    assert b.got(60) == list(range(60))
    assert tape.opened == 1
    assert a.query.shared()["tape"]["with"] == ["b"]
    assert b.query.refresh()["partition.0"]["streams"]["tape"]["with"] == ["a"]


def test_without_sharing_each_query_opens_the_source_itself(grid, tape, reading):
    stream = register_input_stream(reading, None, "tape", tape=tape)
    for name in "ab":
        Reader(grid, "identity", stream, name).query.run()
    eventually(lambda: tape.opened == 2)
    assert not parts(grid)


def test_a_query_joins_at_the_next_physical_window(grid, stream, tape):
    a, b = Reader(grid, "identity", stream, "a"), Reader(grid, "identity", stream, "b")
    a.query.run()
    tape.feed(2, 2, 2)
    a.got(6)
    b.query.run()
    tape.feed(3, 3)
    assert a.got(12) == list(range(12))
    assert b.got(6) == list(range(6, 12))


@pytest.mark.parametrize("leave", ["stop", "drop", "uninstall"])
def test_when_the_first_query_leaves_the_other_goes_on(grid, stream, tape, leave):
    a, b = Reader(grid, "identity", stream, "a"), Reader(grid, "identity", stream, "b")
    a.query.run()
    b.query.run()
    tape.feed(*[2] * 10)
    getattr(a.query, leave)()
    tape.feed(*[2] * 10)
    assert b.got(40) == list(range(40))
    assert a.ids == list(range(len(a.ids)))
    assert tape.opened == 1


def test_when_the_first_query_fails_the_other_goes_on(grid, stream, tape, reading):
    @sqf(reading, returns=reading, name="fails_at_seven", whole=True)
    def fails_at_seven(s):
        from gsdm_grid import current_window

        block = current_window(s)
        if 7 in block.id:
            raise ValueError("seven")
        return block

    a, b = Reader(grid, fails_at_seven, stream, "a"), Reader(grid, "identity", stream, "b")
    a.query.run()
    b.query.run()
    tape.feed(*[2] * 10)
    eventually(lambda: a.query.state == "failed")
    tape.feed(*[2] * 10)
    assert b.got(40) == list(range(40))
    assert b.query.state == "active"
    assert b.query.shared()["tape"]["with"] == []


def test_a_stopped_query_comes_back_to_a_live_source_while_the_other_reads_on(grid, stream, tape):
    a, b = Reader(grid, "identity", stream, "a"), Reader(grid, "identity", stream, "b")
    a.query.run()
    b.query.run()
    tape.feed(2, 2)
    a.got(4)
    b.got(4)
    a.query.stop()
    tape.feed(2, 2)
    b.got(8)
    a.query.run()
    tape.feed(2, 2)
    assert a.got(8) == [0, 1, 2, 3, 8, 9, 10, 11]
    ordinals = [ordinal for block in a.blocks for ordinal in block.ordinals]
    assert ordinals == list(range(8)), "a query counts the windows of a live source itself"
    assert b.got(12) == list(range(12))
    assert tape.opened == 1


def test_with_its_last_reader_the_source_is_closed_and_the_next_reader_opens_it_anew(grid, stream, tape):
    a = Reader(grid, "identity", stream, "a")
    a.query.run()
    tape.feed(2)
    a.got(2)
    a.query.stop()
    eventually(lambda: not parts(grid) and not tape.open_now)
    a.query.run()
    tape.feed(2)
    assert a.got(4) == [0, 1, 2, 3]
    assert tape.opened == 2
    a.query.drop()
    assert not grid.queries


def test_stop_conditions_are_each_query_s_own(grid, stream, tape):
    a, b, c = (Reader(grid, "identity", stream, name) for name in "abc")
    a.query.run(count=5)
    b.query.run(count=9)
    c.query.run()
    tape.feed(*[4] * 5)
    a.query.wait(DEADLINE_S)
    b.query.wait(DEADLINE_S)
    assert (a.ids, b.ids) == (list(range(5)), list(range(9)))
    assert c.got(20) == list(range(20))
    assert tape.opened == 1


def test_the_end_of_the_source_ends_all_queries(grid, stream, tape):
    a, b = Reader(grid, "identity", stream, "a"), Reader(grid, "identity", stream, "b")
    a.query.run()
    b.query.run()
    tape.feed(*[5] * 30)
    tape.end()
    for one in (a, b):
        one.query.wait(DEADLINE_S)
        assert one.ids == list(range(150))
    eventually(lambda: not parts(grid))


def test_an_error_of_the_source_fails_all_its_queries_and_they_can_run_again(grid, stream, tape):
    a, b = Reader(grid, "identity", stream, "a"), Reader(grid, "identity", stream, "b")
    a.query.run()
    b.query.run()
    tape.end(QueryError("the antenna fell"))
    for one in (a, b):
        eventually(lambda one=one: one.query.state == "failed")
        assert "the antenna fell" in str(one.query.error)
    eventually(lambda: not parts(grid))
    tape.waiting.clear()
    a.query.run()
    tape.feed(3)
    assert a.got(3) == [0, 1, 2]


class Slow:
    """A result stream that takes windows only when it is told to."""

    def __init__(self):
        self.taken = []
        self.may = 0


class SlowSink(StreamInterface):
    local = True

    def ready(self):
        return len(self.options["slow"].taken) < self.options["slow"].may

    def insert(self, block):
        self.options["slow"].taken.append(block)


register_stream_interface("slow", SlowSink)


def slow_query(grid, stream, slow, name="slow"):
    sink = register_result_stream(None, "slow", slow=slow)
    return grid.cq("identity", [stream], [sink], name=name)


def test_by_default_nothing_is_lost_and_the_wait_for_a_slow_reader_is_counted(grid, stream, tape):
    slow, a = Slow(), Reader(grid, "identity", stream, "a")
    waiting = slow_query(grid, stream, slow)
    waiting.run()
    a.query.run()
    tape.feed(*[2] * 60)
    eventually(lambda: waiting.shared()["tape"].get("stalled_s", 0) > 0)
    assert len(a.ids) < 120, "they go at the pace of the slowest"
    eventually(lambda: a.query.shared()["tape"]["stalled_s"] < waiting.shared()["tape"]["stalled_s"])
    slow.may = 1_000
    assert a.got(120) == list(range(120))
    eventually(lambda: sum(map(len, slow.taken)) == 120)
    assert [i for block in slow.taken for i in block.id] == list(range(120))


@pytest.mark.parametrize("leave", ["stop", "drop"])
def test_a_slow_reader_that_leaves_lets_the_others_go_on_at_once(grid, stream, tape, leave):
    slow, a = Slow(), Reader(grid, "identity", stream, "a")
    waiting = slow_query(grid, stream, slow)
    waiting.run()
    a.query.run()
    tape.feed(*[2] * 60)
    eventually(lambda: waiting.shared()["tape"].get("stalled_s", 0) > 0)
    if leave == "drop":
        waiting.drop()
    else:
        waiting.deactivate()  # and it cannot come to rest, because nobody takes its results
    assert a.got(120) == list(range(120))


@pytest.mark.parametrize("policy", ["drop_oldest", "sample"])
def test_a_slow_reader_that_may_drop_windows_holds_nobody_up_and_counts_them(grid, tape, reading, policy):
    stream = register_input_stream(reading, None, "tape", tape=tape, name="tape", shared=True, buffer_blocks=8)
    lossy = replace(stream, overload=policy, identity=stream.spec().identity)
    slow, a = Slow(), Reader(grid, "identity", stream, "a")
    query = slow_query(grid, lossy, slow)
    query.run()
    a.query.run()
    tape.feed(*[2] * 600)
    assert a.got(1200) == list(range(1200))
    slow.may = 1_000
    tape.end()
    query.wait(DEADLINE_S)
    kept = [i for block in slow.taken for i in block.id]
    reason = {"drop_oldest": "dropped_oldest", "sample": "dropped_sampled"}[policy]

    def dropped():
        [site] = query.statistics().values()
        return site["streams"]["tape"].get(reason, 0)

    eventually(lambda: len(kept) + dropped() == 1200)
    assert dropped() > 0
    assert kept == sorted(set(kept))
    assert kept[-1] == 1199 or policy == "sample"


def test_what_was_dropped_is_told_after_the_run_too_and_adds_up(grid, tape, reading):
    stream = register_input_stream(reading, None, "tape", tape=tape, name="tape", shared=True, buffer_blocks=8)
    stream.overload = "drop_oldest"
    slow = Slow()
    query = slow_query(grid, stream, slow)
    told = [0]
    for _ in range(2):
        slow.may = len(slow.taken)
        query.run()
        tape.feed(*[2] * 600)
        eventually(lambda: not tape.waiting)
        query.deactivate()
        slow.may += 1_000
        query.wait(DEADLINE_S)
        eventually(lambda: not parts(grid))
        eventually(lambda: query.shared()["tape"]["dropped_oldest"] > told[-1])
        told.append(query.shared()["tape"]["dropped_oldest"])


# -- sources that can be read again -----------------------------------------------------------------------------------


def readings_again(reading, count=4000, pace=None):
    """A source that can be read again from any place; it counts how often it was opened."""
    opened = []

    class Again(StreamInterface):
        local = True
        replayable = True

        def __init__(self, stream_type, options):
            super().__init__(stream_type, options)
            self._at = 0

        def open(self, context):
            super().open(context)
            opened.append(self._at)

        def seek(self, ordinal):
            self._at = opened[-1] = ordinal

        def next(self, limit):
            if self._at >= count:
                raise EndOfStream
            size = min(limit, 10, count - self._at)
            if pace is not None:
                size = min(size, pace[0] - self._at)
            if size <= 0:
                return None
            ids = np.arange(self._at, self._at + size)
            self._at += size
            return reading.block(ts=ids, id=ids, value=ids.astype(float))

        def due_s(self):
            return self.context.clock.monotonic_s() + 0.001

    register_stream_interface("again", Again)
    return register_input_stream(reading, None, "again", name="again", shared=True), opened


def test_a_query_that_must_go_on_where_it_was_reads_a_source_of_its_own(grid, reading):
    pace = [0]
    stream, opened = readings_again(reading, pace=pace)
    a, b = Reader(grid, "identity", stream, "a"), Reader(grid, "identity", stream, "b")
    a.query.run()
    b.query.run()
    pace[0] = 100
    a.got(100)
    b.got(10)
    b.query.stop()
    read = len(b.ids)
    pace[0] = 400
    a.got(400)
    b.query.run(count=50)
    b.query.wait(DEADLINE_S)
    assert b.ids == list(range(read + 50)), "nothing is lost or doubled in between"
    assert [ordinal for block in b.blocks for ordinal in block.ordinals] == b.ids
    pace[0] = 4000
    a.query.wait(DEADLINE_S)
    assert a.ids == list(range(4000))
    assert len(opened) == 2


def test_a_query_that_joins_a_source_that_can_be_read_again_keeps_the_ordinals_of_the_source(grid, reading):
    pace = [100]
    stream, opened = readings_again(reading, pace=pace)
    a, b = Reader(grid, "identity", stream, "a"), Reader(grid, "identity", stream, "b")
    a.query.run()
    a.got(100)
    b.query.run(count=150)
    pace[0] = 4000
    b.query.wait(DEADLINE_S)
    assert b.ids == list(range(100, 250))
    assert b.blocks[0].ordinals[0] == 100
    assert b.query.positions() == {"again": 250}
    assert b.query.begun_at() == {"again": 100}
    assert opened == [0]


# -- sharing sites ----------------------------------------------------------------------------------------------------


@pytest.fixture
def functions(reading):
    from gsdm_grid import current_window

    @sqf(reading, returns=reading, name="shared_double", whole=True)
    def double(s):
        block = current_window(s)
        return block.replace(value=block.value * 2)

    @sqf(reading, returns=reading, name="shared_odd", whole=True)
    def odd(s):
        block = current_window(s)
        return block.select(block.id % 2 == 1)

    @sqf(reading, returns=reading, name="shared_add", whole=True)
    def add(s, by=1.0):
        block = current_window(s)
        return block.replace(value=block.value + by)

    return double, odd, add


def seen(grid, function):
    """How many windows a function has been given, in all queries and parts together."""
    told = [site for query in list(grid.queries.values()) for site in query.refresh().values()]
    return sum(o["windows_in"] for site in told for name, o in site["operators"].items() if name.startswith(function))


def values(reader):
    return [value for block in reader.blocks for value in block.value.tolist()]


def ordinals(reader):
    return [ordinal for block in reader.blocks for ordinal in block.ordinals]


def test_queries_that_begin_in_the_same_way_share_sites(grid, stream, tape, functions):
    double, odd, add = functions
    a = Reader(grid, pipe(double, {}, odd, {}, add, {"by": 1.0}), stream, "a", share=True)
    b = Reader(grid, pipe(double, {}, odd, {}, add, {"by": 5.0}), stream, "b", share=True)
    a.query.run()
    b.query.run()
    tape.feed(*[4] * 25)
    assert a.got(50) == b.got(50) == list(range(1, 100, 2))
    assert values(a) == [2.0 * i + 1 for i in a.ids]
    assert values(b) == [2.0 * i + 5 for i in b.ids]
    assert (seen(grid, "shared_double"), seen(grid, "shared_odd")) == (100, 100), "once for both"
    assert seen(grid, "shared_add") == 100, "each its own"
    assert tape.opened == 1
    a.query.drop()
    tape.feed(*[4] * 25)
    assert b.got(100) == list(range(1, 200, 2))
    assert seen(grid, "shared_double") == 200
    b.query.drop()
    assert not grid.queries


def test_equal_queries_share_everything_but_their_results(grid, stream, tape, functions):
    double, _, _ = functions
    flow = PCC(2, "RRpart", double, {}, "S-Merge")
    a, b = (Reader(grid, flow, stream, name, share=True) for name in "ab")
    a.query.run()
    b.query.run(count=30)
    tape.feed(*[4] * 25)
    b.query.wait(DEADLINE_S)
    assert b.ids == list(range(30))
    assert a.got(100) == list(range(100))
    assert seen(grid, "shared_double") == 100


def test_other_parameters_are_not_shared(grid, stream, tape, functions):
    _, _, add = functions
    readers = [Reader(grid, central(add, {"by": by}), stream, f"add{by}", share=True) for by in (1, 2)]
    for reader in readers:
        reader.query.run()
    tape.feed(*[4] * 5)
    for reader in readers:
        reader.got(20)
    assert seen(grid, "shared_add") == 40
    assert tape.opened == 1


def test_a_query_that_shares_sites_goes_on_exactly_on_a_source_that_can_be_read_again(grid, reading, functions):
    double, odd, _ = functions
    pace = [0]
    stream, opened = readings_again(reading, pace=pace)
    a, b = (Reader(grid, pipe(double, {}, odd, {}), stream, name, share=True) for name in "ab")
    a.query.run()
    b.query.run(count=20)
    pace[0] = 100
    b.query.wait(DEADLINE_S)
    pace[0] = 4000
    b.query.run(count=30)
    b.query.wait(DEADLINE_S)
    assert b.ids == list(range(1, 100, 2))
    assert ordinals(b) == b.ids
    a.query.wait(DEADLINE_S)
    assert a.ids == list(range(1, 4000, 2))
    assert len(opened) == 2


def test_a_query_grows_while_it_shares_its_source(grid, stream, tape):
    a = Reader(grid, PCC(1, "RRpart", "identity", {}, "S-Merge"), stream, "a")
    b = Reader(grid, "identity", stream, "b")
    a.query.run()
    b.query.run()
    for degree in (3, 2):
        tape.feed(*[3] * 40)
        a.query.rescale(PCC(degree, "RRpart", "identity", {}, "S-Merge"))
    tape.feed(*[3] * 40)
    assert a.got(360) == list(range(360))
    assert b.got(360) == list(range(360))
    assert tape.opened == 1


def test_sites_that_are_shared_cannot_be_rescaled(grid, stream, tape):
    a = Reader(grid, PCC(2, "RRpart", "identity", {}, "S-Merge"), stream, "a", share=True)
    a.query.run()
    with pytest.raises(PlanError, match="shares what would change"):
        a.query.rescale(PCC(3, "RRpart", "identity", {}, "S-Merge"))
    tape.feed(4)
    assert a.got(4) == list(range(4))


def test_a_schedule_holds_one_query_s_rate_and_not_the_other_s(grid, stream, tape):
    a = Reader(grid, "identity", stream, "a", schedule={"period_s": 0.01, "repetition": 3})
    b = Reader(grid, "identity", stream, "b")
    a.query.run()
    b.query.run()
    tape.feed(*[2] * 10)
    assert a.got(20) == list(range(20))
    assert b.got(20) == list(range(20))


def test_no_query_can_take_the_name_of_a_part(grid, stream):
    with pytest.raises(QueryError, match="must not begin with 'shared:'"):
        grid.cq("identity", [stream], name="shared:mine")


def test_queries_that_stop_or_are_dropped_in_the_middle_of_starting_leave_the_others_alone(grid, stream, tape):
    a = Reader(grid, "identity", stream, "a")
    a.query.run()
    for number in range(20):
        passing = Reader(grid, "identity", stream, f"passing{number}")
        if number % 2:
            passing.query.run(time_s=0.0001)
            passing.query.wait(DEADLINE_S)
            passing.query.drop()
        else:
            passing.query.install()
            dropping = threading.Thread(target=passing.query.drop)
            dropping.start()
            with contextlib.suppress(GsdmError):
                passing.query.activate()
            dropping.join()
        tape.feed(*[1] * 10)
    assert a.got(200) == list(range(200))
    eventually(lambda: a.query.shared()["tape"]["with"] == [])
    assert len(parts(grid)) == 1
    assert tape.opened == 1


def test_a_query_that_stops_and_runs_over_and_over_leaves_nothing_behind(grid, stream, tape):
    a, b = Reader(grid, "identity", stream, "a"), Reader(grid, "identity", stream, "b")
    a.query.run()
    for number in range(30):
        b.query.run(count=3)
        tape.feed(2, 2)
        b.query.wait(DEADLINE_S)
        assert len(b.ids) == 3 * (number + 1)
    a.got(120)
    b.query.drop()
    a.query.stop()
    eventually(lambda: not parts(grid))
    assert a.ids == list(range(120))
    assert b.ids == sorted(set(b.ids))
