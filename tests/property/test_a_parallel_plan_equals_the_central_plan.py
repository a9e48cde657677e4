"""Law 1: same windows, same order, for every template, strategy and degree."""

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gsdm_grid import PCC, STREAM, Radio, central, current_window, parallelize, pipe, sqf

RUN = settings(
    max_examples=30,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@sqf(STREAM, register=False)
def doubled(s):
    v = current_window(s)
    return v.replace(value=v.value * 2)


@sqf(STREAM, register=False)
def repeated(s):
    """Between no and three windows for one, as a generator."""
    v = current_window(s)
    for k in range(v.id % 4):
        yield v.replace(value=v.value + k)


@sqf(STREAM, register=False)
def repeated_blocks(s):
    """Several windows for one, as a block."""
    v = current_window(s)
    return v.type.block(ts=[v.ts] * 2, id=[v.id] * 2, value=[v.value, -v.value])


@sqf(STREAM, register=False, whole=True)
def positive(s):
    v = current_window(s)
    return v.select(v.value > 0)


FUNCTIONS = [doubled, repeated, repeated_blocks, positive, "identity"]
functions = st.sampled_from(FUNCTIONS)
degrees = st.integers(1, 8)
sizes = st.lists(st.integers(1, 20), min_size=1, max_size=4)
timestamps = st.lists(st.sampled_from([0, 0, 1, 7]), max_size=60).map(lambda d: np.cumsum([0, *d])[: len(d)])
partitions = st.one_of(
    st.integers(1, 5).map(lambda run: ("RRpart", {"run": run})),
    st.sampled_from(["ts", "id", "value"]).map(lambda key: ("hashpart", {"key": key})),
)


@st.composite
def trees(draw, function, depth):
    """A PCC of PCCs: the function at the leaves."""
    inner = function if depth == 1 else draw(trees(function, depth - 1))
    top = 8 if depth == 1 else 3
    return PCC(draw(st.integers(1, top)), draw(partitions), inner, None, "S-Merge")


@RUN
@given(data=st.data(), function=functions, depth=st.integers(1, 3), ts=timestamps, sizes=sizes)
def test_window_distribution_in_trees_of_any_depth(
    data, function, depth, ts, sizes, run_in_threads, readings, cut, reading, assert_equal_streams
):
    source = cut(readings(ts=ts), sizes)
    flow = data.draw(trees(function, depth))
    expected = run_in_threads(central(function), reading, source)
    assert_equal_streams(run_in_threads(flow, reading, source), expected)


@RUN
@given(
    first=functions,
    second=functions,
    third=functions,
    one=partitions,
    two=partitions,
    n=degrees,
    m=degrees,
    ts=timestamps,
    sizes=sizes,
)
def test_pipes_of_parallel_plans(
    first, second, third, one, two, n, m, ts, sizes, run_in_threads, readings, cut, reading, assert_equal_streams
):
    source = cut(readings(ts=ts), sizes)
    flow = pipe(PCC(min(n, 4), one, first, None, "S-Merge"), second, PCC(min(m, 4), two, third, None, "S-Merge"))
    expected = run_in_threads(pipe(first, second, third), reading, source)
    assert_equal_streams(run_in_threads(flow, reading, source), expected)


@RUN
@given(
    n=degrees,
    size=st.integers(1, 9),
    step=st.integers(1, 9),
    chunk=st.integers(1, 6),
    ts=timestamps,
    sizes=sizes,
    how=st.sampled_from(["mean", "max"]),
)
def test_sliding_windows(
    n, size, step, chunk, ts, sizes, how, run_in_threads, readings, cut, reading, assert_equal_streams
):
    source = cut(readings(ts=ts), sizes)
    params = {"size": size, "step": step, "how": how}
    flow = PCC(n, ("overlap_part", {"size": size, "step": step, "chunk": chunk}), "aggregate", params, "S-Merge")
    expected = run_in_threads(central("aggregate", params), reading, source)
    assert len(expected) == max(0, (len(ts) - size) // step + 1)
    assert_equal_streams(run_in_threads(flow, reading, source), expected)


@RUN
@given(n=degrees, span=st.sampled_from([0, 1, 5, 20, 1000]), chunk=st.integers(1, 6), ts=timestamps, sizes=sizes)
def test_time_windows(n, span, chunk, ts, sizes, run_in_threads, readings, cut, reading, assert_equal_streams):
    source = cut(readings(ts=ts), sizes)
    params = {"span": span * 1e-9, "how": "sum"}
    flow = PCC(n, ("time_overlap_part", {"span": span * 1e-9, "chunk": chunk}), "time_aggregate", params, "S-Merge")
    expected = run_in_threads(central("time_aggregate", params), reading, source)
    assert len(expected) == len(ts)
    assert_equal_streams(run_in_threads(flow, reading, source), expected)


def radio(count, length):
    rng = np.random.default_rng(count * 1000 + length)
    waves = {c: rng.normal(size=(count, length)) + 1j * rng.normal(size=(count, length)) for c in "xyz"}
    return Radio.block(ts=np.arange(count) // 2, **{c: w.astype(np.complex64) for c, w in waves.items()})


@RUN
@given(
    n=degrees,
    count=st.integers(0, 20),
    length=st.integers(1, 6),
    sizes=sizes,
    function=st.sampled_from(["fft3", "dft3", "polarize"]),
    strategy=st.sampled_from(["window_split", "window_split", "window_distribute"]),
)
def test_the_strategies_of_radio_functions(
    n, count, length, sizes, function, strategy, run_in_threads, cut, assert_equal_streams
):
    source = cut(radio(count, length * n), sizes)
    expected = run_in_threads(central(function), Radio, source)
    made = run_in_threads(parallelize(function, None, strategy, n), Radio, source)
    assert_equal_streams(made, expected, 1e-3, 1e-4)


@RUN
@given(
    n=st.integers(1, 4),
    m=st.integers(1, 4),
    count=st.integers(0, 20),
    sizes=sizes,
    limit=st.sampled_from([0, 6, 7, 99]),
)
def test_filters_and_window_splits_inside_a_distribution(
    n, m, count, sizes, limit, run_in_threads, cut, assert_equal_streams
):
    source = cut(radio(count, 12), sizes)
    split = PCC(m, "fft3part", "fft3", {}, "OS-Join", {"fft3combine"})
    flow = PCC(n, "RRpart", pipe("xmagn", {"threshold": limit}, split), None, "S-Merge")
    expected = run_in_threads(pipe("xmagn", {"threshold": limit}, "fft3"), Radio, source)
    assert_equal_streams(run_in_threads(flow, Radio, source), expected, 1e-3, 1e-4)


@pytest.mark.parametrize("count", [0, 1, 2, 100])
def test_aggregates_by_their_registered_strategies(count, run_in_threads, readings, cut, reading, assert_equal_streams):
    source = cut(readings(count), [7])
    for name, params in (("aggregate", {"size": 5}), ("time_aggregate", {"span": 35e-9}), ("sample", {"n": 3})):
        expected = run_in_threads(central(name, params), reading, source)
        made = run_in_threads(parallelize(name, params, "window_distribute", 3), reading, source)
        assert_equal_streams(made, expected)
