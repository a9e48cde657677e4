"""Law 4: a result stream never goes back in time.

What S-Merge gives up waiting for is counted and recorded as a gap.
"""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gsdm_grid import PCC, central, pipe
from gsdm_grid.operators import SMerge

RUN = settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
TIMEOUT_S = 1.0
streams = st.lists(st.lists(st.integers(0, 30), max_size=25), min_size=1, max_size=4)
waits = st.lists(st.sampled_from([0.0, 0.0, 0.4, 1.5]), min_size=1, max_size=10)


@RUN
@given(data=st.data(), streams=streams, waits=waits, order=st.sampled_from(["time", "ordinal"]), in_order=st.booleans())
def test_a_merge_with_silent_and_disorderly_inputs(data, streams, waits, order, in_order, reading, readings, cut):
    queues = []
    for number, keys in enumerate(streams):
        keys = np.array(sorted(keys) if in_order else keys, np.int64)
        queues.append(cut(readings(ts=keys, first=100 * number).stamped(ordinals=keys), [3, 1, 2]))
    merge = SMerge(len(streams), reading, order, TIMEOUT_S)
    out, now, step = [], 0.0, 0
    while any(queues):
        now += waits[step % len(waits)]
        step += 1
        out += merge.tick(now)
        ready = [port for port, waiting in enumerate(queues) if waiting and merge.wants(port)]
        if ready and data.draw(st.booleans()):
            port = data.draw(st.sampled_from(ready))
            out += merge.push(port, queues[port].pop(0))
        elif not any(waits):
            waits = [1.5]
        elif step > 500:
            break
    for port in range(len(streams)):
        out += merge.close(port)
    times = [int(ts) for block in out for ts in block.ts]
    assert times == sorted(times)
    if merge.late and in_order:
        assert merge.gap_count
    for gap in merge.gaps:
        assert "until" not in gap or gap["until"] >= gap["after"]


@settings(RUN, max_examples=15)
@given(
    one=st.lists(st.integers(0, 20), max_size=20).map(sorted),
    two=st.lists(st.integers(0, 20), max_size=20).map(sorted),
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    n=st.integers(1, 3),
)
def test_two_sources_merged_by_time_then_distributed(one, two, sizes, n, run_in_threads, reading, readings, cut):
    sources = [cut(readings(ts=one), sizes), cut(readings(ts=two, first=100), sizes)]
    got = run_in_threads(
        pipe(central("S-Merge", None, 2), PCC(n, "RRpart", "identity", {}, "S-Merge")), reading, *sources
    )
    ties = [(t, k) for t, k in zip(one, range(100), strict=False)] + [(t, 100 + k) for k, t in enumerate(two)]
    assert list(zip(got.ts.tolist(), got.id.tolist(), strict=True)) == sorted(ties)
