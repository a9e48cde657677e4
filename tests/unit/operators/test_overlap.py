"""Overlap partitions: what each partition is sent, whatever the blocks were."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsdm_grid.engine.execute import Execute
from gsdm_grid.errors import InternalError, QueryError
from gsdm_grid.functions import functions
from gsdm_grid.operators import SlidingOverlap, SMerge, Snapshot, TimeOverlap

RNG = np.random.default_rng(1)


def placed(block, cut, sizes):
    return cut(block.stamped(ordinals=range(len(block))), sizes)


def sent(partition, blocks):
    return [out for block in blocks for out in partition.push(0, block)]


def segments(blocks):
    """Ids of each segment, context marked with a minus."""
    found = []
    for block in blocks:
        if block.halo is not None:
            found.append([-int(k) for k in block.id[: block.halo]])
            block = block[block.halo :]
        found[-1] += [int(k) for k in block.id]
    return [segment for segment in found if segment]


@pytest.mark.parametrize("sizes", [[1], [4], [100], [1, 5, 2]])
@pytest.mark.parametrize(
    ("size", "step", "expected"),
    [
        (3, 1, [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]),
        (2, 2, [[0, 1, 2, 3], [8, 9, 10, 11]]),
        (2, None, [[0, 1, 2, 3], [8, 9, 10, 11]]),
        (1, 3, [[0, 1, 2, 3]]),
    ],
    ids=["size>step", "size=step", "jumping", "size<step"],
)
def test_a_partition_of_sliding_windows_gets_what_its_results_need(readings, cut, reading, size, step, expected, sizes):
    partition = SlidingOverlap(reading, 2, 0, size, step, chunk=2)
    assert segments(sent(partition, placed(readings(12), cut, sizes))) == expected


@pytest.mark.parametrize("sizes", [[1], [3], [100]])
def test_a_partition_of_time_windows_gets_its_history_as_context(readings, cut, reading, sizes):
    partition = TimeOverlap(reading, 2, 1, span_s=20e-9, chunk=2)
    assert segments(sent(partition, placed(readings(8), cut, sizes))) == [[0, -1, 2, 3], [-4, -5, 6, 7]]


def test_equal_timestamps_are_all_context(readings, cut, reading):
    partition = TimeOverlap(reading, 2, 1, span_s=0.0, chunk=2)
    assert segments(sent(partition, placed(readings(ts=[5, 5, 5, 6]), cut, [4]))) == [[0, -1, 2, 3]]


def test_marks_go_on_while_it_is_the_turn_of_others(readings, cut, reading):
    partition = SlidingOverlap(reading, 2, 1, 1, 1, chunk=4)
    out = sent(partition, placed(readings(4), cut, [1]))
    assert [(len(block), block.mark, block.halo) for block in out] == [(0, k, 0) for k in range(4)]


def test_what_is_no_longer_needed_is_forgotten(readings, cut, reading):
    sliding = SlidingOverlap(reading, 2, 0, 3, 1, chunk=2)
    timed = TimeOverlap(reading, 2, 0, 20e-9, chunk=2)
    for block in placed(readings(200), cut, [1]):
        sliding.push(0, block)
        timed.push(0, block)
        assert len(sliding._held) <= 4
        assert len(timed._held) <= 5
    assert timed.floor(0) > 190


def test_a_chunk_needs_at_least_one_result(reading):
    with pytest.raises(QueryError, match="chunk must be at least 1, got 0"):
        SlidingOverlap(reading, 2, 0, 1, 1, chunk=0)


@pytest.mark.parametrize(("size", "step"), [(0, 1), (3, 0), (3, -1), (-2, None)])
def test_sizes_and_steps_that_sliding_windows_refuse_are_refused(reading, size, step):
    with pytest.raises(QueryError, match="size and step must be at least 1"):
        SlidingOverlap(reading, 2, 0, size, step, chunk=1)


@pytest.mark.parametrize("span_s", [-1.0, float("nan"), float("inf")])
def test_spans_that_time_windows_refuse_are_refused(reading, span_s):
    with pytest.raises(QueryError, match="span must be a number of seconds"):
        TimeOverlap(reading, 2, 0, span_s, chunk=1)


def test_a_span_longer_than_timestamps_can_tell_keeps_all_history(readings, cut, reading):
    partition = TimeOverlap(reading, 2, 1, span_s=1e11, chunk=2)
    assert segments(sent(partition, placed(readings(8), cut, [3]))) == [[0, -1, 2, 3], [0, -1, -2, -3, -4, -5, 6, 7]]


def test_forgetting_more_than_is_held_is_an_error(readings, cut, reading):
    class Hasty(SlidingOverlap):
        def keep_from(self, row):
            return row + 5

    with pytest.raises(InternalError, match="rows 8 to 3 of 3"):
        Hasty(reading, 2, 0, 1, 1, chunk=3).push(0, placed(readings(3), cut, [3])[0])


class Plan:
    """A function in so many overlapping partitions and a merge; without partitions if there are none."""

    def __init__(self, reading, degree, chunk, name, size, step):
        params = {"size": size, "step": step} if name == "aggregate" else {"span": size * 1e-9}
        function = functions.get(name)
        bound = function.bind(params)
        made = function.result_type([reading], bound)
        self.parts = [
            SlidingOverlap(reading, degree, i, size, step, chunk)
            if name == "aggregate"
            else TimeOverlap(reading, degree, i, size * 1e-9, chunk)
            for i in range(degree)
        ]
        self.copies = [Execute(f"f{i}", function, bound, [reading], made) for i in range(degree or 1)]
        self.merge = SMerge(degree or 1, made)

    @property
    def keepers(self):
        return self.parts or self.copies

    def push(self, block):
        for i, copy in enumerate(self.copies):
            for piece in self.parts[i].push(0, block) if self.parts else [block]:
                for result in copy.push(0, piece):
                    yield from (window for out in self.merge.push(i, result) for window in out)

    def flush(self):
        for i in range(len(self.copies)):
            yield from (window for out in self.merge.close(i) for window in out)

    def hold(self, before):
        kept = min((one.snapshot().kept[0] for one in before.keepers), key=lambda one: one.at)
        for one in self.keepers:
            one.restore(Snapshot((kept,)))


@pytest.mark.parametrize("trial", range(30))
def test_the_function_gives_the_same_results_in_partitions(readings, cut, reading, trial):
    rng = np.random.default_rng(trial)
    n, chunk, size, step = (int(k) for k in rng.integers(1, 6, 4))
    ts = np.cumsum(rng.integers(0, 3, int(rng.integers(0, 50))))
    blocks = placed(readings(ts=ts), cut, [int(k) for k in rng.integers(1, 9, 3)])
    name = "aggregate" if trial % 2 else "time_aggregate"
    central, plan = Plan(reading, 0, 1, name, size, step), Plan(reading, n, chunk, name, size, step)
    expected = [window for block in blocks for window in central.push(block)]
    got = [window for block in blocks for window in plan.push(block)]
    assert got == expected[: len(got)]
    assert [*got, *plan.flush()] == expected


@given(st.data())
def test_what_partitions_hold_moves_to_any_other_number_of_them(readings, cut, reading, data):
    few = st.integers(1, 6)
    name, size, step = data.draw(st.sampled_from(["aggregate", "time_aggregate"])), data.draw(few), data.draw(few)
    ts = np.cumsum(data.draw(st.lists(st.integers(0, 3), max_size=60)), dtype=np.int64)
    blocks = placed(readings(ts=ts), cut, data.draw(st.lists(few, min_size=1, max_size=3)))
    central = Plan(reading, 0, 1, name, size, step)
    expected = [window for block in blocks for window in central.push(block)]
    plan, got = Plan(reading, 0, 1, name, size, step), []
    for block in blocks:
        if data.draw(st.booleans()):
            got += plan.flush()
            after = Plan(reading, data.draw(st.integers(0, 4)), data.draw(few), name, size, step)
            after.hold(plan)
            plan = after
        got += plan.push(block)
    got += plan.flush()
    assert got == expected
