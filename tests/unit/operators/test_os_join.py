"""OS-Join as pure logic."""

import numpy as np
import pytest

from gsdm_grid import PhysicalWindow
from gsdm_grid.operators import OSJoin


@pytest.fixture
def rows(readings):
    def make(keys, value=1.0, mark=-1):
        made = readings(ts=keys).replace(value=np.full(len(keys), value))
        return made.stamped(ordinals=np.asarray(keys, np.int64), mark=mark)

    return make


@pytest.fixture
def join(reading):
    """A join that adds the values up; what is missing adds nothing, where partial results are wanted."""

    def make(ports, order="ordinal", timeout_s=None, partial=False):
        def combine(parts):
            return parts[0].replace(value=sum(part.value for part in parts))

        def patch(parts):
            return combine([part for part in parts if part is not None])

        return OSJoin(ports, reading, combine, order, timeout_s, patch if partial else None)

    return make


def told(blocks):
    return [(int(w.ts), float(w.value)) for block in blocks for w in block]


@pytest.mark.parametrize("order", ["ordinal", "time"])
def test_parts_of_the_same_window_are_combined_in_order(join, rows, order):
    op = join(3, order)
    assert told([*op.push(2, rows([0, 1], 100)), *op.push(0, rows([0], 1))]) == []
    assert told(op.push(1, rows([0, 1], 10))) == [(0, 111)]
    (out,) = op.push(0, rows([1], 1))
    assert told([out]) == [(1, 111)]
    assert list(out.ordinals) == [1]


def test_a_part_that_was_left_out_makes_a_gap(join, rows):
    op = join(2)
    op.push(0, rows([0, 1, 2]))
    assert told(op.push(1, rows([0, 2]))) == [(0, 2), (2, 2)]
    assert op.statistics() == {
        "late": 0,
        "gaps": 1,
        "gap_list": [{"input": 1, "after": 0, "until": 2}],
        "partial_results": 0,
        "incomplete": 1,
    }


def test_a_part_that_was_left_out_makes_a_partial_result_where_there_is_a_function_for_it(join, rows):
    op = join(2, partial=True)
    op.push(0, rows([0, 1, 2]))
    assert told(op.push(1, rows([0, 2, 3], mark=9))) == [(0, 2), (1, 1), (2, 2)]
    assert told(op.close(0)) == [(3, 1)]
    assert (op.partial_results, op.gap_count) == (2, 0)


def test_a_mark_says_that_a_part_will_not_come(join, rows, reading):
    op = join(2)
    op.push(0, rows([0, 1]))
    (out,) = op.push(1, PhysicalWindow.empty(reading, mark=1))
    assert (len(out), out.mark) == (0, 1)
    assert op.incomplete == 2


def test_a_silent_input_is_left_behind_and_its_part_does_not_make_a_second_result(join, rows):
    op = join(2, timeout_s=1.0, partial=True)
    op.push(0, rows([0, 1]))
    op.tick(0.0)
    assert told(op.tick(1.0)) == [(0, 1), (1, 1)]
    assert told(op.push(1, rows([0, 1, 2]))) == []
    assert op.late == 2
    assert op.gaps[0] == {"input": 1, "after": -1, "until": 2}
    assert told(op.push(0, rows([2]))) == [(2, 2)]


def test_without_partial_results_a_timeout_makes_gaps(join, rows):
    op = join(2, timeout_s=1.0)
    op.push(0, rows([0]))
    op.tick(0.0)
    assert told(op.tick(1.0)) == []
    assert op.incomplete == 1


def test_by_time_the_nth_window_of_a_timestamp_joins_the_nth_of_the_others(join, rows):
    whole, pieces = join(2, "time"), join(2, "time")
    out = [*whole.push(0, rows([5, 5, 6])), *whole.push(1, rows([5, 5, 6]))]
    parts = [*pieces.push(0, rows([5, 5, 6])), *pieces.push(1, rows([5])), *pieces.push(1, rows([5]))]
    parts += pieces.push(1, rows([6]))
    assert told(out) == told(parts) == [(5, 2), (5, 2), (6, 2)]
    assert whole.gap_count == pieces.gap_count == 0


def test_by_time_a_surplus_window_of_a_timestamp_is_not_lost_silently(join, rows):
    op = join(2, "time")
    op.push(0, rows([5, 5, 6]))
    assert told(op.push(1, rows([5, 6]))) == [(5, 2), (6, 2)]
    assert op.incomplete == 1
    assert op.gaps[0] == {"input": 1, "after": 4, "until": 6}


def test_memory_is_bounded_because_a_port_that_waits_is_not_wanted(join, rows):
    op = join(2)
    op.push(0, rows([0]))
    assert not op.wants(0)
    assert op.wants(1)
    op.push(1, rows([0]))
    assert op.wants(0)
