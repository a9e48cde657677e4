"""Sorting by time, apart from how streams are read: extremes, marks that come along, and how much is held."""

import numpy as np
import pytest

from gsdm_grid import create_stream_type
from gsdm_grid.errors import QueryError
from gsdm_grid.model import NO_TIME_MARK, PhysicalWindow, TypeRegistry, as_array
from gsdm_grid.operators import SMerge, TimeOrder, Union
from gsdm_grid.spec import parse_order

Level = create_stream_type("Level", {"value": "float64"}, registry=TypeRegistry())
LEAST, GREATEST = -(2**63), 2**63 - 1


def levels(ts, **marks):
    return Level.block(ts=ts, value=np.zeros(len(ts))).stamped(ordinals=np.arange(len(ts)), **marks)


def sorting(within_s, **more):
    return TimeOrder(parse_order({"within": within_s, "late": "drop"}), "s", **more)


@pytest.mark.parametrize("within_s", [0.0, 1e-9, 1e9])
def test_timestamps_may_be_as_early_and_as_late_as_there_are(within_s):
    order = sorting(within_s)
    out = order.take(levels([LEAST, LEAST, LEAST + 1, GREATEST]))
    rest = order.rest()
    ts = [*out.ts.tolist(), *(rest.ts.tolist() if rest is not None else [])]
    assert ts == [LEAST, LEAST, LEAST + 1, GREATEST]
    assert NO_TIME_MARK <= out.time_mark < GREATEST


def test_a_time_mark_that_comes_along_lets_windows_go():
    order = sorting(10e-9)
    assert len(order.take(levels([5, 3]))) == 0
    out = order.take(PhysicalWindow.empty(Level, time_mark=4))
    assert (out.ts.tolist(), out.time_mark) == ([3], 4)
    assert order.take(levels([4, 5])).ts.tolist() == []
    assert (order.late, order.rest().ts.tolist()) == (1, [5, 5])


def test_what_is_held_is_bounded():
    order = sorting(1.0, most_bytes=1000)
    order.take(levels(np.arange(50)))
    with pytest.raises(QueryError, match="declare a shorter time"):
        order.take(levels(np.arange(50, 100)))


@pytest.mark.parametrize("within", [1e10, 1e300])
def test_a_time_beyond_what_timestamps_can_say_is_refused(within):
    with pytest.raises(QueryError, match=r"order\.within: expected a number of seconds"):
        parse_order({"within": within})


def test_a_merge_by_time_takes_windows_of_the_earliest_time_there_is():
    merge = SMerge(2, Level, "time", None)
    out = [*merge.push(0, levels([LEAST, 5])), *merge.push(1, levels([LEAST, 6])), *merge.close(0), *merge.close(1)]
    assert [ts for block in out for ts in block.ts.tolist()] == [LEAST, LEAST, 5, 6]
    assert merge.late == 0


def test_a_union_says_what_all_inputs_have_passed_when_the_slowest_ends():
    union = Union(2, Level)
    union.push(0, levels([1], time_mark=10))
    union.push(1, levels([1], time_mark=100))
    assert [block.time_mark for block in union.close(0)] == [100]
    assert list(union.close(1)) == []


def test_windows_keep_their_order_where_timestamps_are_equal():
    order = sorting(3e-9)
    out = [order.take(block) for block in (levels([2, 1]), levels([1, 2]), levels([9]))]
    rows = [(int(ts), int(place)) for block in out for ts, place in zip(block.ts, as_array(block.ordinals))]
    assert rows == [(1, 1), (1, 0), (2, 0), (2, 1)]
