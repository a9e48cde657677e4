"""Law 6: runs of some windows each, put together, equal one uninterrupted run; dropping gives everything back."""

import threading

import numpy as np
import psutil
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gsdm_grid import (
    PCC,
    PhysicalWindow,
    Radio,
    central,
    parallel,
    parallelize,
    pipe,
    register_input_stream,
    register_result_stream,
)
from gsdm_grid.testing import eventually

RUN = settings(
    max_examples=8,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
DEADLINE_S = 60.0
COUNT = 40

FLOWS = {
    "central": central("identity"),
    "window distribute": PCC(3, "RRpart", "identity", {}, "S-Merge"),
    "tree": PCC(2, "RRpart", PCC(2, ("hashpart", {"key": "id"}), "identity", {}, "S-Merge"), None, "S-Merge"),
    "pipe": pipe("identity", PCC(2, ("RRpart", {"run": 3}), "identity", {}, "S-Merge")),
    "sliding windows": central("aggregate", {"size": 5, "step": 2}),
    "sliding windows in parallel": PCC(
        2, ("overlap_part", {"size": 5, "step": 2, "chunk": 3}), "aggregate", {"size": 5, "step": 2}, "S-Merge"
    ),
    "time windows in parallel": parallelize("time_aggregate", {"span": 35e-9}, "window_distribute", 2),
    "two sources": central("S-Merge", None, 2),
    "two sources and functions": pipe(parallel(2, "identity"), "S-Merge"),
}


def ran(grid, flow, inputs, counts):
    """Results of runs of so many windows each, and of one to the end."""
    query = grid.cq(flow, inputs, [register_result_stream(blocks=100_000)])
    try:
        blocks = []
        for count in counts:
            blocks += query.run(count=count).wait(DEADLINE_S).blocks()
            assert query.state == "installed"
        blocks += query.run().wait(DEADLINE_S).blocks()
        made = next(stream.type for stream in query.plan.streams if stream.kind == "sink")
        return PhysicalWindow.concat([PhysicalWindow.empty(made), *blocks])
    finally:
        query.drop()


counts_of_runs = st.lists(st.integers(1, 15), min_size=1, max_size=4)


@pytest.mark.parametrize("name", FLOWS)
@RUN
@given(counts=counts_of_runs, sizes=st.lists(st.integers(1, 9), min_size=1, max_size=3), shift=st.integers(0, 500))
def test_a_stopped_query_is_resumable(
    name, counts, sizes, shift, threads_grid, reading, readings, cut, assert_equal_streams
):
    flow = FLOWS[name]
    sources = [cut(readings(COUNT), sizes)]
    if flow.arity == 2:
        sources.append(cut(readings(ts=np.arange(COUNT - 15) * 13 + shift, first=1000), sizes))

    def inputs():
        return [register_input_stream(reading, blocks) for blocks in sources]

    expected = ran(threads_grid, flow, inputs(), [])
    assert_equal_streams(ran(threads_grid, flow, inputs(), counts), expected)


@RUN
@given(counts=counts_of_runs, n=st.integers(1, 4))
def test_a_stopped_window_split_is_resumable(counts, n, threads_grid, cut, assert_equal_streams):
    samples = np.random.default_rng(n).normal(size=(COUNT, 12)).astype(np.complex64)
    source = cut(Radio.block(ts=np.arange(COUNT), x=samples, y=samples, z=samples), [4])
    flow = parallelize("fft3", None, "window_split", n)
    expected = ran(threads_grid, flow, [register_input_stream(Radio, source)], [])
    assert_equal_streams(ran(threads_grid, flow, [register_input_stream(Radio, source)], counts), expected)


def test_a_count_is_a_number_of_windows_of_the_input(threads_grid, reading, readings, cut):
    inputs = [register_input_stream(reading, cut(readings(20), [3]))]
    query = threads_grid.cq(FLOWS["window distribute"], inputs, [register_result_stream(blocks=100_000)])
    try:
        for count, expected in ((4, 4), (1, 1), (7, 7), (100, 8), (1, 0)):
            assert sum(len(block) for block in query.run(count=count).wait(DEADLINE_S).blocks()) == expected
    finally:
        query.drop()


def held(shared_memory):
    """What a process holds that a query might leave behind."""
    process = psutil.Process()
    return {
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "sockets": len(process.net_connections("all")),
        "files": process.num_fds(),
        "shared memory": sorted(shared_memory()),
    }


@pytest.mark.parametrize("moment", ["specified", "compiled", "installed", "active", "stopped", "ended"])
@pytest.mark.parametrize("name", ["central", "window distribute", "two sources and functions"])
def test_a_dropped_query_leaves_nothing_behind(name, moment, threads_grid, reading, readings, cut, shared_memory):
    def endless():
        while True:
            yield from cut(readings(100), [10])

    before = held(shared_memory)
    unending = moment in ("active", "stopped")
    sources = [endless() if unending else cut(readings(30), [3]) for _ in range(FLOWS[name].arity)]
    query = threads_grid.cq(FLOWS[name], [register_input_stream(reading, source) for source in sources])
    try:
        if moment == "compiled":
            query.compile()
        elif moment == "installed":
            query.install()
        elif moment == "active":
            next(query.run().blocks())
        elif moment == "stopped":
            query.run(count=50).wait(DEADLINE_S)
        elif moment == "ended":
            query.run().wait(DEADLINE_S)
    finally:
        query.drop()
    assert query.state == "dropped"
    assert query.id not in threads_grid.queries
    eventually(lambda: held(shared_memory), lambda now: now == before)
