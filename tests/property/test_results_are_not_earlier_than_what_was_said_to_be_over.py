"""What a function's stream has passed holds for its results, however its input is cut into blocks.

Functions without state are held to it, and told what to write if it does not apply to them; others promise nothing.
"""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsdm_grid import Traits, create_stream_type, current_window, sliding_window, sqf, time_window
from gsdm_grid.engine.execute import Execute
from gsdm_grid.errors import FunctionError
from gsdm_grid.model import NO_TIME_MARK, TypeRegistry

Level = create_stream_type("Level", {"value": "float64"}, registry=TypeRegistry())
SPAN_NS = 40


@sqf(Level, register=False)
def kept(s):
    return current_window(s)


@sqf(Level, register=False)
def start_of_span(s):
    return time_window(s, SPAN_NS * 1e-9)[0]


@sqf(Level, register=False)
def last_of_three(s):
    return sliding_window(s, 3, 2)[2]


@sqf(Level, whole=True, uses_neighbours=True, register=False)
def threes_at_their_start(s):
    three = sliding_window(s, 3, 3)
    return three.replace(ts=np.full(3, three.ts[0]))


@sqf(Level, register=False, init=lambda: {"begin": 0, "sum": 0.0})
def per_hundred(s, state):
    """Sums of intervals: each comes with the first window of the next, and has the time at which it began."""
    window, result = current_window(s), None
    begin = int(window.ts) // 100 * 100
    if begin != state["begin"]:
        result = window.replace(ts=state["begin"], value=state["sum"])
        state.update(begin=begin, sum=0.0)
    state["sum"] += float(window.value)
    return result


@sqf(Level, register=False)
def earlier(s):
    window = current_window(s)
    return window.replace(ts=int(window.ts) - 15)


@sqf(Level, whole=True, register=False)
def earlier_blocks(s):
    block = current_window(s)
    return block.replace(ts=block.ts - 15)


@sqf(Level, whole=True, register=False)
def earlier_odd_blocks(s):
    block = current_window(s).select(current_window(s).ts % 2 == 1)
    return block.replace(ts=block.ts - 1)


@sqf(Level, register=False, traits=Traits(keeps_time=False))
def declared_earlier(s):
    return earlier.code(s)


PROMISE = (kept, start_of_span, last_of_three, threes_at_their_start)
PROMISE_NOTHING = (per_hundred, declared_earlier)


@st.composite
def ordered_streams(draw):
    """Timestamps in order, and two ways to cut them into blocks."""
    count, rng = draw(st.integers(1, 40)), np.random.default_rng(draw(st.integers(0, 2**32)))
    ts = np.cumsum(rng.integers(0, 30, count)) + 20
    cuts = [sorted(rng.choice(count, draw(st.integers(0, min(6, count))), replace=False)) for _ in range(2)]
    return ts, [sorted({0, *map(int, places), count}) for places in cuts]


def results(function, ts, bounds):
    """Results and time marks in the order in which they come."""
    execute = Execute("v", function, {}, [Level], Level)
    block = Level.block(ts=ts, value=np.arange(len(ts)) * 1.0).stamped(ordinals=range(len(ts)))
    coming = [block[start:stop].stamped(time_mark=int(ts[stop - 1]) - 1) for start, stop in pairwise(bounds)]
    return [(out.ts.tolist(), out.value.tolist(), out.time_mark) for given in coming for out in execute.push(0, given)]


@pytest.mark.parametrize("function", [*PROMISE, *PROMISE_NOTHING], ids=lambda function: function.name)
@given(stream=ordered_streams())
def test_results_come_after_what_was_passed_and_do_not_depend_on_cuts(function, stream):
    ts, (bounds, others) = stream
    out, mark = results(function, ts, bounds), NO_TIME_MARK
    for times, _, time_mark in out:
        assert all(time > mark for time in times)
        mark = max(mark, time_mark)
    assert (mark > NO_TIME_MARK) == (function in PROMISE)
    if function is kept:
        assert mark == ts[-1] - 1
    values = [value for _, block, _ in out for value in block]
    assert values == [value for _, block, _ in results(function, ts, others) for value in block]


@pytest.mark.parametrize("function", [earlier, earlier_blocks, earlier_odd_blocks], ids=lambda function: function.name)
@given(stream=ordered_streams())
def test_a_function_whose_results_are_earlier_is_refused_however_the_stream_is_cut(function, stream):
    ts, cuts = stream
    if function is earlier_odd_blocks and not (ts % 2).any():
        return
    for bounds in cuts:
        with pytest.raises(FunctionError, match=r"traits=Traits\(keeps_time=False\)"):
            results(function, ts, bounds)
