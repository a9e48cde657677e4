"""Splitstream templates: shapes, parameters, what is refused; and all of them from JSON."""

import json
import re

import pytest

from gsdm_grid import PCC, central, create_stream_type, pipe, sqf
from gsdm_grid.compiler import compile_flow
from gsdm_grid.errors import FlowError, GsdmError, UnknownName
from gsdm_grid.flow import (
    TEMPLATES,
    DataFlow,
    arcs,
    autosplit,
    build,
    exptree,
    fsplit,
    mapstream,
    maxtree,
    mergestream,
    parasplit,
    splitstream,
    splittree,
)
from gsdm_grid.functions import per_tuple
from gsdm_grid.model import TypeRegistry
from gsdm_grid.plan import Plan, StreamSpec

Report = create_stream_type("SplitReport", {"kind": "int8", "xway": "int32"}, registry=TypeRegistry())


def compiled(flow):
    return compile_flow(
        "q", flow, [StreamSpec("in", "memory", Report)], [StreamSpec(f"out{k}", "null") for k in range(flow.width)]
    )


def splitters(flow):
    return [(v.width, v.params["below"]) for v in flow.vertices if v.function_name == "split"]


def test_fsplit_is_one_vertex_with_numbered_result_streams():
    flow = fsplit(3, "xway", "kind == 2")
    assert flow.outputs == ("split.0[0]", "split.0[1]", "split.0[2]")
    assert [site.role for site in flow.sites] == ["partition"]
    assert flow.vertices[0].params == {"w": 3, "rfn": "xway", "bfn": "kind == 2", "total": None, "below": 1}


def test_with_one_output_the_stream_has_the_name_of_its_vertex():
    assert fsplit(1, "xway").outputs == exptree(1, "xway").outputs == ("split.0",)


@pytest.mark.parametrize("w", [1, 2, 3, 7, 8, 16, 64, 100])
@pytest.mark.parametrize("plan", [exptree, maxtree, autosplit])
def test_trees_have_the_outputs_asked_for(plan, w):
    flow = plan(w, "xway", "kind == 2")
    assert flow.width == w
    assert len(set(flow.outputs)) == w
    assert all(width > 1 or w == 1 for width, _ in splitters(flow))  # nodes of one output are left out


def test_shapes_of_trees():
    assert splitters(exptree(64, "xway", "kind == 2")) == [(2, 1), *[(4, 2)] * 2, *[(8, 8)] * 8]
    assert splitters(maxtree(64, "xway", "kind == 2", b=0.005)) == [(2, 1), (32, 2), (32, 2)]
    assert splitters(splittree([2, 3], 5, "xway")) == [(2, 1), (3, 2), (2, 2)]


def test_autosplit_is_a_tree_only_if_something_is_broadcast():
    assert len(autosplit(64, "xway").sites) == 1
    assert len(autosplit(64, "xway", "kind == 2").sites) == 11


def test_parasplit_is_a_lattice():
    flow = parasplit(3, 8, "xway", "kind == 2", "identity")
    assert [site.role for site in flow.sites] == ["partition"] * 4 + ["compute"] * 8
    assert flow.by_id["S-Merge.5"].inputs == ("split.0[5]", "split.1[5]", "split.2[5]")
    assert flow.by_id["split.2"].inputs == ("route.0[2]",)
    assert flow.outputs[5] == "identity.5"


def test_routers_can_form_a_tree():
    flow = parasplit(6, 2, "xway", routers=[2, 3])
    routers = [(v.width, v.params["below"]) for v in flow.vertices if v.function_name == "route"]
    assert routers == [(2, 1), (3, 2), (3, 2)]
    with pytest.raises(FlowError, match=re.escape("fanouts [2, 2] give 4 streams, not p = 6")):
        parasplit(6, 2, "xway", routers=[2, 2])


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (lambda: fsplit(0, "xway"), "at least 1"),
        (lambda: fsplit(2, None), "needs a routing function"),
        (lambda: fsplit(20_000, "xway"), "at most 10000"),
        (lambda: splittree([2, 2], 5, "xway"), "has 4 outputs, fewer than 5"),
        (lambda: splitstream(4, "xway", plan="maxitree"), "unknown split plan 'maxitree'"),
        (lambda: splitstream(4, "xway", plan="fsplit", p=3), "unexpected keyword argument 'p'"),
        (lambda: mergestream(2, "mix"), "unknown kind of mergestream 'mix'; known: aggregate, join, ordered, union"),
        (lambda: parasplit(2, 2, "xway", fun=fsplit(2, "xway")), "needs arity 1 and width 1, has 1 and 2"),
        (lambda: fsplit(2, "xway +"), "rfn 'xway +': invalid syntax"),
        (lambda: central(per_tuple(lambda one: 1)), "it is a parameter of splitstream"),
    ],
)
def test_what_makes_no_sense_is_refused(made, reason):
    with pytest.raises(GsdmError) as refused:
        made()
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    ("rfn", "reason"),
    [
        ("xwy", "vertex 'split.0': rfn 'xwy': unknown attribute 'xwy' of stream type 'SplitReport'"),
        ("xway / 2", "is a number, where a whole number is needed"),
    ],
)
def test_functions_are_checked_against_the_stream_type_when_the_query_is_compiled(rfn, reason):
    with pytest.raises(FlowError) as refused:
        compiled(exptree(4, rfn, "kind == 2"))
    assert reason in str(refused.value)


SPECS = {
    "splitstream": {"w": 4, "rfn": "xway", "bfn": "kind == 2", "plan": "parasplit", "p": 2},
    "fsplit": {"args": [4, "xway", "kind == 2"]},
    "splittree": {"fanouts": [2, 2], "w": 4, "rfn": {"expression": "xway"}},
    "exptree": {"w": 4, "rfn": "xway"},
    "maxtree": {"w": 4, "rfn": "xway", "b": 0.5},
    "autosplit": {"w": 4, "rfn": "xway"},
    "parasplit": {"p": 2, "q": 4, "rfn": "xway", "fun": "aggregate", "params": {"size": 2}},
    "mapstream": {"fun": "identity", "w": 4},
    "mergestream": {"w": 4, "kind": "join", "key": "xway", "how": {"kind": "max"}},
}


@pytest.mark.parametrize("template", SPECS)
def test_every_template_can_be_built_from_json(template):
    assert template in TEMPLATES
    flow = build(json.loads(json.dumps({"template": template, **SPECS[template]})))
    assert DataFlow.from_json(json.loads(json.dumps(flow.to_json()))) == flow
    assert build(flow.to_json()) == flow


def test_split_map_and_merge_compose_and_their_plan_round_trips():
    flow = build(
        {
            "template": "pipe",
            "args": [
                {"template": "splitstream", "w": 4, "rfn": "xway", "bfn": "kind == 2"},
                {"template": "mapstream", "fun": "identity", "w": 4},
                {"template": "mergestream", "w": 4},
            ],
        }
    )
    plan = compiled(flow)
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    merge = next(operator for site in plan.sites for operator in site.operators if operator.id == "S-Merge.0")
    assert merge.order == "ordinal"
    root = next(operator for site in plan.sites for operator in site.operators if operator.id == "split.0")
    assert (root.carries, root.outputs) == ((0, 1), ("split.0[0]→partition.1", "split.0[1]→partition.2"))


def test_a_parallel_query_inside_parasplit_is_merged_by_ordinal():
    query = PCC(2, "RRpart", "identity", {}, "S-Merge")
    plan = compiled(pipe(parasplit(2, 3, "xway"), mapstream(query, None, 3), mergestream(3)))
    merges = [operator for site in plan.sites for operator in site.operators if operator.function["name"] == "S-Merge"]
    assert {merge.order for merge in merges} == {"ordinal"}


def test_a_union_is_numbered_anew():
    plan = compiled(pipe(fsplit(2, "xway"), mergestream(2, "union")))
    union = next(operator for site in plan.sites for operator in site.operators if operator.id == "union.0")
    assert (union.order, union.renumber) == ("arrival", True)


def test_drawings_show_each_output():
    flow = pipe(fsplit(2, "xway"), mapstream("identity", None, 2), mergestream(2))
    assert "split.0: split(w=2, rfn=xway) ← in[0]" in flow.to_text()
    assert "identity.1: identity() ← split.0[1]" in flow.to_text()
    assert arcs(flow).count(("split.0", "identity.1")) == 1
    assert '"split.0" -> "identity.0"' in flow.to_dot()
    assert "-->" in flow.to_mermaid()
    assert "out[1]" in fsplit(2, "xway").to_text()


def test_drawings_name_functions_and_do_not_show_their_code():
    def by_area(block, w, size=2):
        return block.xway // size % w

    made = sqf(Report, kind="routing", whole=True, register=False)(by_area)
    assert "split(w=2, rfn=by_area)" in fsplit(2, by_area).to_text()
    flow = fsplit(2, {"function": made, "params": {"size": 3}})
    assert "split(w=2, rfn=by_area(size=3))" in flow.to_text()
    assert DataFlow.from_json(json.loads(json.dumps(flow.to_json()))) == flow
    assert compiled(flow).sites[0].operators[0].carries == (0, 1)


@pytest.mark.parametrize("width", [0, -1, 100_000, "many", None])
def test_a_graph_with_a_wrong_number_of_result_streams_is_refused(width):
    given = fsplit(2, "xway").to_json()
    given["vertices"][0]["width"] = width
    with pytest.raises(FlowError, match="result streams"):
        DataFlow.from_json(given)


def test_a_graph_whose_streams_do_not_fit_its_parameters_is_refused():
    given = fsplit(2, "xway").to_json()
    given["vertices"][0]["params"]["w"] = 3
    with pytest.raises(FlowError, match="has 2 result streams where 3 follow from its parameters"):
        compiled(DataFlow.from_json(given))


def test_merges_by_key_check_their_parameters():
    for params, reason in (
        ({"key": "xwy", "how": {}}, "unknown attribute 'xwy'"),
        ({"key": "xway", "how": {"kind": "median"}}, "unknown aggregate 'median' of 'kind'; known: sum, min, max"),
        ({"key": "xway", "how": {"ts": "sum"}}, "neither 'ts' nor the key"),
    ):
        with pytest.raises(GsdmError) as refused:
            compiled(pipe(fsplit(2, "xway"), mergestream(2, "aggregate", **params)))
        assert reason in str(refused.value)
    with pytest.raises(UnknownName):
        mergestream(2, "joins")
