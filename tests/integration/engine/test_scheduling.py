"""Scheduling periods: variable and greedy by default; fixed periods with a fixed number of windows hold a rate."""

from __future__ import annotations

import time

import pytest

from gsdm_grid import central, create_stream_type, current_window, register_input_stream, sqf
from gsdm_grid.errors import QueryError
from gsdm_grid.model import TypeRegistry

Beat = create_stream_type("Beat", {"value": "int64"}, registry=TypeRegistry())


@sqf(Beat, returns=Beat, register=False)
def pass_on(s):
    return current_window(s)


@sqf(Beat, returns=Beat, register=False)
def dawdle(s):
    window = current_window(s)
    time.sleep(0.01)
    return window


def beats(count):
    return [Beat.window(ts=k, value=k) for k in range(count)]


def run(grid, function, schedule):
    query = grid.cq(central(function), [register_input_stream(Beat, beats(20))], schedule=schedule).run()
    assert [int(w.value) for w in query.results()] == list(range(20))
    query.wait(60)
    told = query.refresh()["compute.0"]
    query.drop()
    return told


def test_a_fixed_period_reads_at_most_its_number_of_windows(threads_grid):
    told = run(threads_grid, pass_on, {"period_s": 0.01, "repetition": 2})
    assert told["operators"]["pass_on.0"]["windows_in"] == 20
    assert told["periods"] >= 10


def test_greedy_execution_reads_all_that_is_there(threads_grid):
    told = run(threads_grid, pass_on, None)
    assert told["operators"]["pass_on.0"]["executions"] == 20
    assert told["overloads"] == 0


def test_work_that_is_longer_than_the_period_is_reported_as_overload(threads_grid):
    told = run(threads_grid, dawdle, {"period_s": 0.005, "repetition": 1})
    assert told["overloads"] >= 10


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ({"period_s": 0.1}, "needs both"),
        ({"period_s": 0, "repetition": 1}, "greater than zero"),
        ({"turn_around": 1}, "unknown option 'turn_around'"),
    ],
)
def test_a_wrong_schedule_is_refused(threads_grid, schedule, message):
    with pytest.raises(QueryError, match=message):
        threads_grid.cq(central(pass_on), [register_input_stream(Beat, beats(1))], schedule=schedule)
