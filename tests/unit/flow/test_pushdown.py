"""Selections behind a split are pushed into it, and nothing changes but the cost."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsdm_grid import register_input_stream, register_result_stream
from gsdm_grid.errors import FlowError
from gsdm_grid.flow import build, pipe
from gsdm_grid.flow.pushdown import push_selections, selecting
from gsdm_grid.flow.split_templates import (
    exptree,
    fsplit,
    mapstream,
    mergestream,
    parasplit,
)
from gsdm_grid.model import TypeRegistry, create_stream_type

Car = create_stream_type("PushedCar", {"kind": "int32", "xway": "int32", "spd": "int32"}, registry=TypeRegistry())
RFN, BFN, SLOW = "xway if kind == 0 else None", "kind == 2", "spd < 40"


def names(flow):
    return sorted(vertex.function_name for vertex in flow.vertices)


def entries(flow):
    return [v for v in flow.vertices if v.function_name == "split" and v.params["below"] == 1]


FLOWS = {
    "fsplit": lambda: pipe(fsplit(4, RFN, BFN), mapstream("where", [SLOW], 4)),
    "exptree": lambda: pipe(exptree(8, RFN, BFN), mapstream("where", [SLOW], 8)),
    "parasplit": lambda: parasplit(3, 4, RFN, BFN, "where", [SLOW]),
    "parasplit, then merged": lambda: pipe(parasplit(2, 4, RFN, BFN), mapstream("where", [SLOW], 4), mergestream(4)),
}


@pytest.mark.parametrize("name", FLOWS)
def test_a_selection_behind_every_output_is_pushed_into_the_split(name):
    flow = push_selections(FLOWS[name]())
    assert "where" not in names(flow)
    assert entries(flow)
    for entry in entries(flow):
        assert (entry.params["rfn"], entry.params["bfn"]) == selecting(RFN, BFN, SLOW)
    below = [v for v in flow.vertices if v.function_name == "split" and v.params["below"] > 1]
    assert all(v.params["rfn"] == RFN for v in below)  # what the root omits does not come here
    assert flow.checked() is flow


def test_without_a_broadcasting_function_there_is_none_afterwards():
    flow = push_selections(pipe(fsplit(4, RFN), mapstream("where", [SLOW], 4)))
    assert entries(flow)[0].params["bfn"] is None


LEFT_ALONE = {
    "different conditions": lambda: pipe(fsplit(2, RFN), mapstream("where", ["spd < #"], 2)),
    "an output that nobody selects from": lambda: fsplit(4, RFN),
    "another function": lambda: pipe(fsplit(2, RFN), mapstream("identity", {}, 2)),
    "a condition that can fail": lambda: pipe(fsplit(2, RFN), mapstream("where", ["spd // kind > 1"], 2)),
    "a routing function that is no expression": lambda: pipe(
        fsplit(2, lambda block: block.xway % 2), mapstream("where", [SLOW], 2)
    ),
    "no split": lambda: build({"template": "pipe", "args": ["identity", "where", [SLOW]]}),
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_a_flow_is_left_alone_where_pushing_could_change_something(name):
    flow = LEFT_ALONE[name]()
    assert push_selections(flow) is flow


TUPLES = st.lists(st.tuples(st.sampled_from([0, 0, 2, 4]), st.integers(0, 3), st.integers(0, 80)), max_size=60)


@settings(max_examples=20)
@given(TUPLES, st.sampled_from(["fsplit", "parasplit"]))
def test_the_result_is_the_same_and_what_was_dropped_is_omitted(threads_grid, tuples, name):
    if not tuples:
        return
    kind, xway, spd = (np.array(column, np.int32) for column in zip(*tuples, strict=True))
    block = Car.block(ts=np.arange(len(kind)), kind=kind, xway=xway, spd=spd)
    expected = [
        [t for t, one in enumerate(tuples) if one[2] < 40 and (one[0] == 2 or (one[0] == 0 and one[1] == output))]
        for output in range(4)
    ]
    flow = FLOWS[name]()
    sinks = [register_result_stream(name=f"out{number}", blocks=1000) for number in range(4)]
    query = threads_grid.cq(flow, [register_input_stream(Car, [block])], sinks)
    try:
        query.run().wait(60)
        got = [[int(t) for block in query.blocks(sink.name) for t in block.ts] for sink in sinks]
        assert got == expected
        assert not any(o.function["name"] == "where" for site in query.plan.sites for o in site.operators)
        counted = [
            operator
            for site in query.refresh().values()
            for operator in site["operators"].values()
            if "omitted" in operator
        ]
        kept = {t for output in expected for t in output}
        assert sum(one["omitted"] for one in counted) == len(tuples) - len(kept)
    finally:
        query.drop()


def test_a_condition_that_does_not_fit_is_still_refused(threads_grid):
    flow = pipe(fsplit(2, RFN), mapstream("where", ["speed < 3"], 2))
    query = threads_grid.cq(flow, [register_input_stream(Car, [])], [register_result_stream() for _ in range(2)])
    with pytest.raises(FlowError, match="unknown attribute 'speed'"):
        query.compile()
    query.drop()
