"""Law 2: whatever the partitioning function, the blocks, and the order in which parts arrive."""

from itertools import pairwise

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gsdm_grid import Radio
from gsdm_grid.engine.execute import Execute
from gsdm_grid.functions import functions
from gsdm_grid.operators import OSJoin, SlidingOverlap, SMerge, TimeOverlap

RUN = settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
sizes = st.lists(st.integers(1, 20), min_size=1, max_size=4)
timestamps = st.lists(st.sampled_from([0, 0, 1, 7]), max_size=50).map(lambda d: np.cumsum([0, *d])[: len(d)])


def operator(name, stream_type, **params):
    function = functions.get(name)
    return Execute(name, function, function.bind(params), [stream_type], stream_type)


@st.composite
def splits(draw, stream_type):
    """Partition operators of one split."""
    n = draw(st.integers(1, 8))
    kind = draw(st.sampled_from(["RRpart", "hashpart", "sliding", "time"]))
    if kind == "RRpart":
        run, stride = draw(st.integers(1, 5)), draw(st.integers(1, 3))
        return [operator(kind, stream_type, n=n, i=i, run=run, stride=stride) for i in range(n)]
    if kind == "hashpart":
        key = draw(st.sampled_from(["ts", "id", "value"]))
        return [operator(kind, stream_type, n=n, i=i, key=key) for i in range(n)]
    chunk = draw(st.integers(1, 7))
    if kind == "sliding":
        return [SlidingOverlap(stream_type, n, i, 1, 1, chunk) for i in range(n)]
    return [TimeOverlap(stream_type, n, i, draw(st.sampled_from([0.0, 3e-9])), chunk) for i in range(n)]


def merged(data, combine, queues):
    """Push the blocks of each port in any order that the operator wants; then close all ports."""
    out = []
    while True:
        ready = [port for port, waiting in enumerate(queues) if waiting and combine.wants(port)]
        if not ready:
            break
        port = data.draw(st.sampled_from(ready))
        out += combine.push(port, queues[port].pop(0))
        assert all(a.mark < b.ordinals[0] for a, b in pairwise(out) if len(b))
    for port, waiting in enumerate(queues):
        while waiting and combine.wants(port):
            out += combine.push(port, waiting.pop(0))
        if not waiting:
            out += combine.close(port)
    for port, waiting in enumerate(queues):
        for block in waiting:
            out += combine.push(port, block)
        out += combine.close(port)
    return out


@RUN
@given(data=st.data(), ts=timestamps, sizes=sizes)
def test_whole_windows(data, ts, sizes, reading, readings, cut):
    source = readings(ts=ts)
    parts = data.draw(splits(reading))
    copies = [operator("time_aggregate", reading, span=0.0, how="max") for _ in parts]  # honours halos
    queues = [[] for _ in parts]
    for block in cut(source.stamped(ordinals=range(len(source))), sizes):
        for queue, part, copy in zip(queues, parts, copies, strict=True):
            for piece in part.push(0, block):
                queue += copy.push(0, piece)
    out = merged(data, SMerge(len(parts), reading), queues)
    assert [int(k) for block in out for k in block.ordinals] == list(range(len(source)))
    assert [int(k) for block in out for k in block.ts] == list(ts)


@RUN
@given(data=st.data(), n=st.integers(1, 6), count=st.integers(0, 30), length=st.integers(0, 5), sizes=sizes)
def test_parts_of_windows(data, n, count, length, sizes, cut):
    samples = np.arange(count * length * n, dtype=np.complex64).reshape(count, length * n)
    source = Radio.block(ts=np.arange(count), x=samples, y=samples * 2, z=samples * 3)
    parts = [operator("slicepart", Radio, n=n, i=i) for i in range(n)]
    queues = [[] for _ in parts]
    for block in cut(source.stamped(ordinals=range(count)), sizes):
        for queue, part in zip(queues, parts, strict=True):
            queue += part.push(0, block)

    def joined(pieces):
        whole = {c: np.concatenate([piece[c] for piece in pieces], axis=-1) for c in "xyz"}
        return pieces[0].replace(**whole)

    out = merged(data, OSJoin(n, Radio, joined), queues)
    assert [w for block in out for w in block] == list(source)
