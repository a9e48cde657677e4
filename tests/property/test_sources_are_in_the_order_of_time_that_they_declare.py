"""What a source declares of its order holds behind it, in every plan: sorted within a bound, checked, or left alone."""

import itertools
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsdm_grid import (
    central,
    create_stream_type,
    parallel,
    parallelize,
    pipe,
    register_input_stream,
    register_result_stream,
)
from gsdm_grid.errors import QueryError
from gsdm_grid.model import PhysicalWindow, TypeRegistry
from gsdm_grid.operators import TimeOrder
from gsdm_grid.spec import parse_order

Level = create_stream_type("Level", {"value": "float64"}, registry=TypeRegistry())
SPAN_NS = 40


def late_by(ts, within_ns):
    """Rows that are earlier than one before them by more than the bound: one after the other, as people would look."""
    latest, late = -(10**9), []
    for row, one in enumerate(ts):
        if one < latest - within_ns:
            late.append(row)
        latest = max(latest, one)
    return late


def sums(ts, values):
    """For each window of a sorted stream the sum over those of the last `SPAN_NS` up to it."""
    return [sum(v for t, v in zip(ts[: k + 1], values) if t >= ts[k] - SPAN_NS) for k in range(len(ts))]


@st.composite
def jittered(draw):
    """Timestamps as they arrive, and by how much they are out of order at most."""
    count, rng = draw(st.integers(0, 60)), np.random.default_rng(draw(st.integers(0, 2**32)))
    jitter_ns = draw(st.integers(0, 60))
    sent = np.cumsum(rng.integers(0, 12, count))
    arrival = np.argsort(sent + rng.integers(0, jitter_ns + 1, count), kind="stable")
    return sent[arrival], jitter_ns


def stream(ts, sizes):
    block = Level.block(ts=ts, value=np.arange(len(ts)) * 1.0)
    bounds = [0]
    for size in itertools.cycle(sizes):
        if bounds[-1] >= len(block):
            break
        bounds.append(min(bounds[-1] + size, len(block)))
    return [PhysicalWindow(Level, block[a:b].columns) for a, b in itertools.pairwise(bounds)]


@given(given=jittered(), within_ns=st.integers(0, 60), sizes=st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_what_is_late_and_in_which_order_does_not_depend_on_how_a_stream_is_cut(given, within_ns, sizes):
    ts, _ = given
    order = TimeOrder(parse_order({"within": within_ns * 1e-9, "late": "drop"}), "s")
    out, mark = [], None
    for block in stream(ts, sizes):
        if (sorted_block := order.take(block)) is not None:
            assert mark is None or (sorted_block.ts > mark).all()
            mark = sorted_block.time_mark
            out += [(int(w.ts), float(w.value)) for w in sorted_block]
    out += [(int(w.ts), float(w.value)) for w in order.rest() or ()]
    late = late_by(ts, within_ns)
    kept = [(int(ts[row]), float(row)) for row in range(len(ts)) if row not in late]
    assert out == sorted(kept, key=lambda one: one[0])
    assert order.late == len(late)


@settings(max_examples=15)
@given(
    given=jittered(),
    within_ns=st.none() | st.integers(0, 30),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    degree=st.integers(1, 3),
)
def test_time_windows_over_jittered_timestamps_are_those_of_the_sorted_stream(
    threads_grid, given, within_ns, sizes, degree
):
    ts, jitter_ns = given
    within_ns = jitter_ns if within_ns is None else within_ns
    late = late_by(ts, within_ns)
    kept = np.array([row for row in range(len(ts)) if row not in late], np.intp)
    kept = kept[np.argsort(ts[kept], kind="stable")]
    params = {"span": SPAN_NS * 1e-9, "how": "sum"}
    for flow in (
        central("time_aggregate", params),
        parallelize("time_aggregate", params, "window_distribute", degree),
    ):
        order = {"within": within_ns * 1e-9, "late": "drop"}
        source = register_input_stream(Level, stream(ts, sizes), name="levels", order=order)
        query = threads_grid.cq(flow, [source], [register_result_stream(blocks=100_000)])
        try:
            got = [float(value) for block in query.run().wait(60).blocks() for value in block.value]
            assert got == sums(ts[kept].tolist(), kept.astype(float).tolist())
            query.refresh()
            assert query.totals()["read"]["levels"]["dropped"] == ({"late": len(late)} if late else {})
        finally:
            query.drop()


def test_a_source_that_is_declared_in_order_and_is_not_fails_with_what_to_write(threads_grid):
    source = register_input_stream(Level, stream(np.array([5, 7, 6]), [3]), name="levels")
    query = threads_grid.cq(central("identity"), [source])
    try:
        with pytest.raises(QueryError, match=r"'levels': a window with timestamp 6 ns .* order: \{within: SECONDS\}"):
            query.run().wait(60)
    finally:
        query.drop()


def test_a_sorted_source_goes_on_where_it_stopped(threads_grid):
    ts = np.arange(40) + 7 * (np.arange(40) % 3)
    source = register_input_stream(Level, stream(ts, [3, 5]), order={"within": 20e-9})
    query = threads_grid.cq(central("identity"), [source], [register_result_stream(blocks=100_000)])
    try:
        got = []
        for _ in range(4):
            got += [int(one) for block in query.run(count=10).wait(60).blocks() for one in block.ts]
        assert got == sorted(ts.tolist())
    finally:
        query.drop()


@pytest.mark.parametrize("share", [False, True], ids=["alone", "shared"])
def test_a_merge_by_time_does_not_wait_for_a_source_of_which_nothing_passes(threads_grid, share):
    def levels(value):
        return ({"ts": number * 1_000_000, "value": value} for number in itertools.count())

    sources = [
        register_input_stream(Level, None, "generator", name=name, function=levels, params={"value": value}, rate=1000)
        for name, value in (("high", 1.0), ("low", -1.0))
    ]
    flow = pipe(parallel(2, "where", {"condition": "value > 0"}), central("S-Merge", None, 2))
    query = threads_grid.cq(flow, sources, share=share)
    came, enough = [], threading.Event()

    def read():
        for block in query.blocks():
            came.extend(block.ts.tolist())
            if len(came) >= 200:
                enough.set()

    try:
        query.run()
        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        assert enough.wait(60), len(came)
        query.stop(60)
        reader.join(60)
        assert came == [number * 1_000_000 for number in range(len(came))]
    finally:
        query.drop()


@pytest.mark.parametrize(
    ("order", "complaint"),
    [
        ("sorted", "expected 'ordered', 'arrival' or"),
        ({"within": -1}, "expected a number of seconds"),
        ({"within": "2 s"}, "expected a number of seconds"),
        ({"within": True}, "expected a number of seconds"),
        ({"within": 1, "late": "ignore"}, "expected one of fail, drop"),
        ({"bound": 1}, "unknown member 'bound'; allowed: within, late"),
    ],
)
def test_an_order_that_is_not_understood_is_refused_at_once(order, complaint):
    with pytest.raises(QueryError, match=complaint):
        register_input_stream(Level, [], order=order)
