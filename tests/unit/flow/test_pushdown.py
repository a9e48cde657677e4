"""Selections behind a split are pushed into it, and nothing changes but the cost."""

import pytest

from gsdm_grid.compiler import compile_flow
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
from gsdm_grid.plan import StreamSpec

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


def test_a_condition_that_does_not_fit_is_still_refused():
    flow = pipe(fsplit(2, RFN), mapstream("where", ["speed < 3"], 2))
    sinks = [StreamSpec(f"out{number}", "null") for number in range(2)]
    with pytest.raises(FlowError, match="unknown attribute 'speed'"):
        compile_flow("q", flow, [StreamSpec("in", "memory", Car)], sinks)
