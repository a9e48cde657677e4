"""S-Merge as pure logic: blocks are pushed, time is told."""

import itertools

import numpy as np
import pytest

from gsdm_grid import PhysicalWindow, Radio
from gsdm_grid.operators import SMerge


@pytest.fixture
def rows(readings):
    """Readings placed at these ordinals (also their timestamps), ids from ``first``."""

    def make(keys, first=0, mark=-1):
        return readings(ts=keys, first=first).stamped(ordinals=np.asarray(keys, np.int64), mark=mark)

    return make


def ids(blocks):
    return [int(value) for block in blocks for value in block.id]


def times(blocks):
    return [int(value) for block in blocks for value in block.ts]


@pytest.mark.parametrize("order", ["ordinal", "time"])
def test_rows_come_out_in_the_order_of_their_keys(rows, reading, order):
    merge = SMerge(2, reading, order)
    out = [*merge.push(0, rows([0, 2, 4])), *merge.push(1, rows([1, 3, 5]))]
    assert times(out) == [0, 1, 2, 3, 4]
    assert times([*merge.close(0), *merge.close(1)]) == [5]


def test_by_ordinal_the_last_row_of_a_stopped_query_does_not_wait(rows, reading):
    merge = SMerge(2, reading)
    out = [*merge.push(0, rows([0, 2], mark=3)), *merge.push(1, rows([1, 3]))]
    assert times(out) == [0, 1, 2, 3]
    assert out[-1].mark == 3


@pytest.mark.parametrize("order", ["ordinal", "time"])
def test_ties_are_ordered_by_port_whatever_the_order_of_arrival(rows, reading, order):
    inputs = [[rows([1], 0), rows([2], 1)], [rows([1], 10), rows([2], 11)], [rows([1, 2], 20)]]
    seen = set()
    turns = [port for port, blocks in enumerate(inputs) for _ in blocks]
    for arrival in set(itertools.permutations(turns)):
        merge, waiting, out = SMerge(3, reading, order), [list(blocks) for blocks in inputs], []
        todo = list(arrival)
        while todo:
            port = next(port for port in todo if merge.wants(port))
            todo.remove(port)
            out += merge.push(port, waiting[port].pop(0))
        for port in range(3):
            out += merge.close(port)
        seen.add(tuple(ids(out)))
    assert seen == {(0, 10, 20, 1, 11, 21)}


def test_by_time_a_lower_port_may_repeat_its_timestamp(rows, reading):
    merge = SMerge(2, reading, "time")
    out = [*merge.push(0, rows([5], 0)), *merge.push(1, rows([5], 10)), *merge.push(0, rows([5], 1))]
    out += merge.push(0, rows([6], 2))
    assert ids(out) == [0, 1, 10]


def test_a_filter_that_lets_nothing_through_does_not_hold_up_the_merge(rows, reading):
    merge = SMerge(2, reading)
    assert times(merge.push(0, rows([0, 2, 4]))) == []
    out = merge.push(1, PhysicalWindow.empty(reading, mark=5))
    assert times(out) == [0, 2, 4]
    assert out[-1].mark == 4


def test_marks_are_passed_on_when_nothing_comes_at_all(reading):
    merge = SMerge(2, reading)
    assert not merge.push(0, PhysicalWindow.empty(reading, mark=7))
    (told,) = merge.push(1, PhysicalWindow.empty(reading, mark=5))
    assert (len(told), told.mark) == (0, 5)


def test_no_block_promises_more_than_what_follows_keeps(radio_block):
    """Long runs are passed on uncopied; the mark of a port's own block must not go with them."""
    whole = radio_block(12, 1024)
    merge = SMerge(3, Radio)
    out = []
    for port in range(3):
        run = whole[port * 4 : port * 4 + 4].stamped(ordinals=range(port * 4, port * 4 + 4), mark=11)
        out += merge.push(port, run)
    assert [int(o) for block in out for o in block.ordinals] == list(range(12))
    assert len(out) == 3
    for block, following in itertools.pairwise(out):
        assert block.mark < following.ordinals[0]
    assert out[-1].mark == 11


def test_memory_is_bounded_because_a_port_that_waits_is_not_wanted(rows, reading):
    merge = SMerge(2, reading)
    assert merge.wants(0)
    assert merge.wants(1)
    merge.push(0, rows([0, 2]))
    assert not merge.wants(0)
    assert merge.wants(1)
    assert merge.floor(0) == 0
    merge.push(1, rows([1, 3]))
    assert merge.wants(0)
    assert merge.floor(0) is None


@pytest.mark.parametrize("order", ["ordinal", "time"])
def test_a_silent_input_is_left_behind_and_the_gap_is_recorded(rows, reading, order):
    merge = SMerge(2, reading, order, timeout_s=1.0)
    merge.push(1, rows([1]))
    merge.push(0, rows([0, 2]))
    merge.push(0, rows([4])) if merge.wants(0) else None
    assert not merge.tick(10.0)
    assert merge.deadline_s() == 11.0
    assert not merge.tick(10.9)
    assert times(merge.tick(11.0)) == [2]
    assert times(merge.push(0, rows([6]))) == [6]
    assert merge.statistics()["gap_list"] == [{"input": 1, "after": 1}]
    assert times(merge.push(1, rows([3, 5, 7]))) == []
    assert merge.late == 2
    assert merge.statistics()["gap_list"] == [{"input": 1, "after": 1, "until": 7}]
    assert times(merge.push(0, rows([8]))) == [7]


def test_a_block_that_is_all_late_does_not_bring_an_input_back(rows, reading):
    merge = SMerge(2, reading, timeout_s=1.0)
    merge.push(0, rows([5]))
    merge.tick(0.0)
    assert times(merge.tick(1.0)) == [5]
    assert not merge.push(1, rows([1, 2]))
    assert merge.late == 2
    assert times(merge.push(0, rows([6]))) == [6]
    assert "until" not in merge.gaps[0]


def test_an_input_that_only_sends_marks_comes_back_when_it_has_caught_up(rows, reading):
    merge = SMerge(2, reading, timeout_s=1.0)
    merge.push(0, rows([5]))
    merge.tick(0.0)
    merge.tick(1.0)
    merge.push(1, PhysicalWindow.empty(reading, mark=4))
    assert times(merge.push(0, rows([6]))) == [6]
    merge.push(1, PhysicalWindow.empty(reading, mark=8))
    assert merge.gaps[0] == {"input": 1, "after": -1, "until": 9}
    assert times(merge.push(0, rows([8, 10]))) == [8]


def test_by_time_an_input_that_stops_at_a_timestamp_that_others_share_is_left_behind_too(rows, reading):
    merge = SMerge(2, reading, "time", timeout_s=1.0)
    merge.push(0, rows([5], 0))
    merge.push(1, rows([5], 10))
    merge.tick(0.0)
    assert ids(merge.tick(1.0)) == [10]


def test_an_input_that_holds_nobody_up_is_not_waited_for(rows, reading):
    merge = SMerge(2, reading, timeout_s=1.0)
    merge.tick(0.0)
    assert merge.deadline_s() is None
    merge.tick(100.0)
    assert merge.gap_count == 0


def test_waiting_starts_anew_when_a_query_is_resumed(rows, reading):
    merge = SMerge(2, reading, timeout_s=1.0)
    merge.push(0, rows([0, 1]))
    merge.tick(0.0)
    merge.resume()
    assert not merge.tick(5.0)
    assert times(merge.tick(6.0)) == [0, 1]


def test_without_a_timeout_the_merge_waits_for_ever(rows, reading):
    merge = SMerge(2, reading)
    merge.push(0, rows([0]))
    assert not merge.tick(1e9)
    assert merge.deadline_s() is None


def test_by_time_a_row_that_goes_back_in_its_own_input_is_late(rows, reading):
    merge = SMerge(1, reading, "time")
    assert times(merge.push(0, rows([5, 3, 6]))) == [5, 6]
    assert merge.late == 1


def test_closing_an_input_sets_the_others_free(rows, reading):
    merge = SMerge(3, reading)
    merge.push(0, rows([0, 3]))
    merge.push(1, rows([1]))
    assert times(merge.close(2)) == [0, 1]
    assert times(merge.close(1)) == [3]


def test_windows_with_vectors_of_different_lengths_are_merged_too(reading):
    from gsdm_grid import Channel

    def vectors(keys):
        block = Channel.block(ts=keys, x=[np.full(key, key, np.complex64) for key in keys])
        return block.stamped(ordinals=np.array(keys))

    merge = SMerge(2, Channel)
    merge.push(0, vectors([0, 2, 5]))
    (out,) = merge.push(1, vectors([1, 3, 6]))
    assert [len(x) for x in out.x] == [0, 1, 2, 3, 5]
