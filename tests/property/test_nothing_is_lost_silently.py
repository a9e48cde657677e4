"""Law 5: produced = delivered + dropped (counted by reason) + in flight."""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gsdm_grid import PCC, central, pipe, register_input_stream, register_result_stream
from gsdm_grid.operators import OSJoin, SMerge

RUN = settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
TIMEOUT_S = 1.0
waits = st.lists(st.sampled_from([0.0, 0.0, 0.4, 1.5]), min_size=1, max_size=10)


def play(data, operator, queues, waits):
    """Push some of the blocks and let time pass in between; yields after each step what came out."""
    now = 0.0
    for step in range(60):
        now += waits[step % len(waits)]
        out = list(operator.tick(now))
        ready = [port for port, waiting in enumerate(queues) if waiting and operator.wants(port)]
        pushed = 0
        if ready and data.draw(st.booleans()):
            port = data.draw(st.sampled_from(ready))
            block = queues[port].pop(0)
            pushed = len(block)
            out += operator.push(port, block)
        yield pushed, sum(len(block) for block in out)


def held(operator):
    return sum(len(port.keys) for port in operator.ports)


@RUN
@given(
    data=st.data(),
    streams=st.lists(st.lists(st.integers(0, 30), max_size=25), min_size=1, max_size=4),
    waits=waits,
    order=st.sampled_from(["time", "ordinal"]),
)
def test_a_merge_with_time_outs(data, streams, waits, order, reading, readings, cut):
    queues = [cut(readings(ts=keys).stamped(ordinals=np.array(sorted(keys), np.int64)), [3, 1, 2]) for keys in streams]
    merge = SMerge(len(streams), reading, order, TIMEOUT_S)
    produced = delivered = 0
    for pushed, came in play(data, merge, queues, waits):
        produced, delivered = produced + pushed, delivered + came
        assert produced == delivered + merge.late + held(merge)
    delivered += sum(len(block) for port in range(len(streams)) for block in merge.close(port))
    assert produced == delivered + merge.late


@RUN
@given(
    data=st.data(),
    streams=st.lists(st.sets(st.integers(0, 20)), min_size=1, max_size=4),
    waits=waits,
    order=st.sampled_from(["time", "ordinal"]),
    repeats=st.integers(1, 2),
)
def test_a_join_with_missing_parts_and_time_outs(data, streams, waits, order, repeats, reading, readings, cut):
    queues = []
    for keys in streams:
        keys = np.repeat(np.array(sorted(keys), np.int64), repeats if order == "time" else 1)
        queues.append(cut(readings(ts=keys).stamped(ordinals=keys), [3, 1, 2]))
    incomplete = []

    def note(parts):
        incomplete.append(sum(part is not None for part in parts))

    join = OSJoin(len(streams), reading, lambda parts: parts[0], order, TIMEOUT_S, note)
    produced = delivered = 0

    def check():
        assert produced == delivered * len(streams) + sum(incomplete) + join.late + held(join)
        assert join.incomplete == len(incomplete)

    for pushed, came in play(data, join, queues, waits):
        produced, delivered = produced + pushed, delivered + came
        check()
    delivered += sum(len(block) for port in range(len(streams)) for block in join.close(port))
    check()


@settings(RUN, max_examples=20)
@given(
    one=st.lists(st.integers(0, 50), max_size=30),
    two=st.lists(st.integers(0, 50), max_size=30),
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    n=st.integers(1, 3),
)
def test_a_query_over_disorderly_sources(one, two, sizes, n, threads_grid, reading, readings, cut):
    sources = [cut(readings(ts=ts), sizes) for ts in (one, two)]
    inputs = [register_input_stream(reading, source, order="arrival") for source in sources]
    flow = pipe(central("S-Merge", None, 2), PCC(n, "RRpart", "identity", {}, "S-Merge"))
    query = threads_grid.cq(flow, inputs, [register_result_stream(blocks=100_000)])
    try:
        delivered = sum(len(block) for block in query.run().wait(60).blocks())
        operators = {name: told for site in query.refresh().values() for name, told in site["operators"].items()}
        late = sum(told.get("late", 0) for told in operators.values())
        assert len(one) + len(two) == delivered + late
        assert operators["S-Merge.0"]["windows_in"] == operators["S-Merge.0"]["windows_out"] + late
    finally:
        query.drop()
