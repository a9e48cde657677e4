"""Splitstream plans at work on threads: skew, errors, merges by key."""

import numpy as np
import pytest

from gsdm_grid import (
    Grid,
    PhysicalWindow,
    Settings,
    create_stream_type,
    pipe,
    register_input_stream,
    register_result_stream,
)
from gsdm_grid.channels import data_plane
from gsdm_grid.errors import FunctionError
from gsdm_grid.flow import exptree, fsplit, mapstream, mergestream, parasplit, splitstream
from gsdm_grid.functions import per_tuple
from gsdm_grid.model import TypeRegistry
from gsdm_grid.testing import eventually

DEADLINE_S = 60.0
PLANS = {
    "fsplit": lambda w, rfn, bfn=None: fsplit(w, rfn, bfn),
    "exptree": lambda w, rfn, bfn=None: exptree(w, rfn, bfn),
    "parasplit": lambda w, rfn, bfn=None: parasplit(2, w, rfn, bfn),
}
Report = create_stream_type(
    "SkewedReport", {"kind": "int8", "xway": "int32", "amount": "int64"}, registry=TypeRegistry()
)
HOT = 5


def skewed(count, first=0):
    """Nine of ten tuples are for one output."""
    numbers = np.arange(first, first + count)
    return Report.block(
        ts=numbers,
        kind=np.zeros(count, np.int8),
        xway=np.where(numbers % 10 == 0, numbers // 10 % 8, HOT),
        amount=numbers,
    )


@pytest.fixture(scope="module")
def small_grid():
    """Little may be under way, so that what holds up what shows soon."""
    with Grid("threads", Settings(block_bytes=8_000, channel_blocks=2)) as grid:
        yield grid


def splitters(query):
    return {
        name: figures
        for site in query.refresh().values()
        for name, figures in site["operators"].items()
        if name.startswith("split.")
    }


@pytest.mark.parametrize("plan", PLANS)
def test_a_skewed_split_neither_stops_nor_fills_the_memory(plan, small_grid):
    read = 0

    def source():
        nonlocal read
        for first in range(0, 80_000, 400):
            read = first
            yield skewed(400, first)

    flow = pipe(PLANS[plan](8, "xway"), mapstream("identity", None, 8), mergestream(8))
    query = small_grid.cq(flow, [register_input_stream(Report, source())], [register_result_stream(blocks=1)])
    try:
        query.run()
        held = []

        def stands_still():
            held.append(read)
            return read > 0 and len(held) > 30 and len(set(held[-30:])) == 1

        eventually(stands_still)  # nobody reads the result
        assert 0 < read < 40_000
        got = PhysicalWindow.concat(list(query.blocks()))
        query.wait(DEADLINE_S)
        assert got.amount.tolist() == list(range(80_000))
        hot = [figures["hot"] for figures in splitters(query).values() if figures["hot"] is not None]
        assert hot
        if plan != "exptree":
            assert {one["output"] for one in hot} == {HOT}
            assert all(one["share"] > 0.9 for one in hot)
    finally:
        query.drop()


@pytest.mark.parametrize("plan", PLANS)
def test_an_output_out_of_range_fails_the_query_and_names_the_tuple(plan, threads_grid):
    outputs = [register_result_stream(name=f"o{k}", interface="null") for k in range(4)]
    query = threads_grid.cq(PLANS[plan](4, "xway"), [register_input_stream(Report, [skewed(50)])], outputs)
    number = r"(\d+)" if plan == "parasplit" else "(1)"  # of two window splitters either may be the first to fail
    told = rf"tuple {number} SkewedReport\(ts=\1, .*xway=5.*: output 5 is outside 0…3"
    try:
        with pytest.raises(FunctionError, match=told):
            query.run().wait(DEADLINE_S)
    finally:
        query.drop()


def test_a_function_over_single_tuples_works_and_the_statistics_say_so(threads_grid):
    def by_hand(one):
        return one.xway % 2

    outputs = [register_result_stream(name=f"o{k}", interface="null") for k in range(2)]
    flow = splitstream(2, per_tuple(by_hand))
    query = threads_grid.cq(flow, [register_input_stream(Report, [skewed(50)])], outputs)
    try:
        query.run().wait(DEADLINE_S)
        told = splitters(query)["split.0"]
        assert told["per_tuple"] == ["by_hand"]
        assert sum(told["per_output"]) == 50
    finally:
        query.drop()


QUESTION = 2


def with_questions(count):
    """Every tenth tuple is a question to all sites."""
    numbers = np.arange(count)
    return Report.block(
        ts=numbers // 4, kind=np.where(numbers % 10 == 9, QUESTION, 0), xway=numbers % 3, amount=np.ones(count, int)
    )


def test_answers_of_all_sites_are_joined_by_key(run_in_threads):
    source = with_questions(100)
    questions = source.select(source.kind == QUESTION)
    flow = pipe(
        fsplit(3, None, f"kind == {QUESTION}"),
        mapstream("identity", None, 3),
        mergestream(3, "join", key="ts", how={"amount": "sum"}),
    )
    got = run_in_threads(flow, Report, [source])
    assert got.ts.tolist() == questions.ts.tolist()
    assert got.amount.tolist() == [3] * len(questions)


@pytest.mark.parametrize("plan", PLANS)
def test_parts_are_aggregated_by_time_and_key(plan, run_in_threads):
    source = with_questions(100)
    flow = pipe(
        PLANS[plan](3, "xway if kind == 0 else None"),
        mapstream("identity", None, 3),
        mergestream(3, "aggregate", key="kind", how={"amount": "sum"}),
    )
    got = run_in_threads(flow, Report, [source])
    times, counts = np.unique(source.ts[source.kind == 0], return_counts=True)
    assert got.ts.tolist() == times.tolist()
    assert got.amount.tolist() == counts.tolist()


def test_a_union_gives_everything_in_any_order(run_in_threads):
    source = with_questions(100)
    flow = pipe(fsplit(3, "xway"), mapstream("identity", None, 3), mergestream(3, "union"))
    got = run_in_threads(flow, Report, [source])
    assert sorted(got.ts.tolist()) == source.ts.tolist()


def test_a_stopped_split_goes_on_where_it_was(threads_grid):
    outputs = [register_result_stream(name=f"o{k}", blocks=1000) for k in range(8)]
    source = register_input_stream(Report, [skewed(100, first) for first in range(0, 1000, 100)])
    query = threads_grid.cq(parasplit(2, 8, "xway"), [source], outputs)
    try:
        got = [[] for _ in outputs]
        for _ in range(2):
            query.run(count=500).wait(DEADLINE_S)
            for number, output in enumerate(outputs):
                got[number] += [int(amount) for block in query.blocks(output.name) for amount in block.amount]
        whole = skewed(1000)
        assert got == [whole.amount[whole.xway == number].tolist() for number in range(8)]
    finally:
        query.drop()


@pytest.fixture
def through_shared_memory(monkeypatch):
    """Threads that exchange windows as processes of one machine do."""
    nobody = type("Nobody", (dict,), {"__setitem__": lambda *_: None, "get": lambda *_: None})
    monkeypatch.setattr(data_plane, "_planes", nobody())
    monkeypatch.setattr(data_plane.DataPlane, "is_neighbour", lambda self, endpoint: False)
    with Grid("threads", Settings(block_bytes=100_000)) as grid:
        yield grid


@pytest.mark.parametrize("plan", PLANS)
def test_splits_go_through_shared_memory_and_routers_leave_windows_where_they_are(plan, through_shared_memory):
    source = [skewed(5000, first) for first in range(0, 100_000, 5000)]
    split = PLANS[plan](8, "xway", "amount % 97 == 0")
    flow = pipe("identity", split, mapstream("identity", None, 8, sites=2), mergestream(8))
    query = through_shared_memory.cq(
        flow, [register_input_stream(Report, source)], [register_result_stream(blocks=10_000)]
    )
    try:
        got = PhysicalWindow.concat(list(query.run().wait(DEADLINE_S).blocks()))
        numbers = np.arange(100_000)
        assert got.amount.tolist() == np.repeat(numbers, np.where(numbers % 97 == 0, 8, 1)).tolist()
        sent = [
            stream for site in query.statistics().values() for stream in site["streams"].values() if "shared" in stream
        ]
        assert sum(stream["shared"] for stream in sent) > 0
        first = query.statistics()["partition.0"]  # the router, or the splitter that the stream comes to first
        passed_on = sum(stream.get("passed_on", 0) for stream in first["streams"].values())
        assert passed_on > 0 if plan == "parasplit" else passed_on == 0
    finally:
        query.drop()
