"""How streams are split, put together and numbered decides how merges order them."""

import json

import pytest

from gsdm_grid import PCC, Radio, central, lpipe, parallel, pipe
from gsdm_grid.compiler import compile_flow
from gsdm_grid.flow import DataFlow
from gsdm_grid.plan import StreamSpec


def operators(flow):
    inputs = [StreamSpec(f"in{k}", "udp", Radio) for k in range(flow.arity)]
    plan = compile_flow("q", flow, inputs, [StreamSpec("out", "tcp")])
    return {operator.id: operator for site in plan.sites for operator in site.operators}


def test_parts_of_one_stream_are_merged_by_ordinal():
    merge = operators(PCC(2, "RRpart", "fft3", {}, "S-Merge"))["S-Merge.0"]
    assert (merge.order, merge.renumber) == ("ordinal", False)


def test_streams_of_different_sources_are_merged_by_time_and_numbered_anew():
    for flow in (central("S-Merge", None, 2), pipe(parallel(2, "fft3"), "S-Merge")):
        merge = operators(flow)["S-Merge.0"]
        assert (merge.order, merge.renumber) == ("time", True)


def test_what_was_merged_by_time_can_be_split_and_merged_by_ordinal():
    found = operators(pipe(parallel(2, "fft3"), "S-Merge", PCC(2, "RRpart", "fft3", {}, "S-Merge")))
    assert (found["S-Merge.1"].order, found["S-Merge.1"].renumber) == ("ordinal", False)


def test_a_stream_is_numbered_anew_before_it_is_split_if_a_function_has_come_since():
    found = operators(pipe("fft3", PCC(2, "RRpart", "fft3", {}, "S-Merge")))
    assert found["fft3.0"].renumber
    assert not found["fft3.1"].renumber
    found = operators(pipe(PCC(2, "RRpart", "fft3", {}, "S-Merge"), PCC(2, "RRpart", "fft3", {}, "S-Merge")))
    assert found["S-Merge.0"].renumber
    assert not found["S-Merge.1"].renumber


def test_a_part_of_a_split_keeps_its_numbers_through_an_inner_split():
    inner = lpipe("fft3", PCC(2, "RRpart", "fft3", {}, "S-Merge"))
    found = operators(PCC(2, "RRpart", inner, None, "S-Merge"))
    assert not any(operator.renumber for operator in found.values())
    assert {operator.order for operator in found.values()} == {"ordinal"}


def strides(flow):
    return [op.params["stride"] for op in operators(flow).values() if op.function["name"] == "RRpart"]


def test_nested_round_robin_counts_by_the_distance_that_ordinals_have():
    tree = PCC(2, "RRpart", PCC(3, "RRpart", PCC(2, "RRpart", "fft3", {}, "S-Merge"), None, "S-Merge"), None, "S-Merge")
    assert sorted(set(strides(tree))) == [1, 2, 6]
    assert strides(tree).count(2) == 6


@pytest.mark.parametrize("outer", ["fft3part", "hashpart"])
def test_other_partitions_do_not_change_the_distance(outer):
    assert set(strides(PCC(2, outer, PCC(2, "RRpart", "fft3", {}, "S-Merge"), None, "S-Merge"))) == {1}


def test_round_robin_after_a_merge_counts_every_ordinal_again():
    inner = pipe(PCC(3, "RRpart", "fft3", {}, "S-Merge"), PCC(2, "RRpart", "fft3", {}, "S-Merge"))
    assert sorted(set(strides(PCC(2, "RRpart", inner, None, "S-Merge")))) == [1, 2]


def graph(*vertices):
    made = [
        {"id": name, "function": {"name": function}, "params": params, "inputs": inputs, "site": name}
        for name, function, params, inputs in vertices
    ]
    sites = [{"id": vertex["id"], "role": "compute"} for vertex in made]
    return DataFlow.from_json(
        json.loads(json.dumps({"arity": 1, "outputs": [made[-1]["id"]], "vertices": made, "sites": sites}))
    )


def part(n, i):
    return {"n": n, "i": i, "run": 1, "stride": 1}


def on_site(flow, site, *names):
    data = json.loads(json.dumps(flow.to_json()))
    for vertex in data["vertices"]:
        if vertex["id"] in names:
            vertex["site"] = site
    data["sites"] = [s for s in data["sites"] if s["id"] not in names or s["id"] == site]
    return DataFlow.from_json(data)


def test_two_functions_over_the_same_part_leave_the_split_open():
    merge = {"timeout": None}
    flow = graph(
        ("p0", "RRpart", part(2, 0), [0]),
        ("p1", "RRpart", part(2, 1), [0]),
        ("f", "fft3", {}, ["p0"]),
        ("g", "fft3", {}, ["p0"]),
        ("fg", "S-Merge", merge, ["f", "g"]),
        ("i0", "RRpart", part(2, 0), ["fg"]),
        ("i1", "RRpart", part(2, 1), ["fg"]),
        ("im", "S-Merge", merge, ["i0", "i1"]),
        ("end", "S-Merge", merge, ["im", "p1"]),
    )
    found = operators(on_site(on_site(flow, "p0", "p0", "p1"), "i0", "i0", "i1"))
    assert not found["fg"].renumber
    assert found["end"].order == "ordinal"


def test_parts_that_are_put_together_step_by_step_end_the_split_when_all_are_there():
    merge = {"timeout": None}
    flow = graph(
        *((f"p{i}", "RRpart", part(4, i), [0]) for i in range(4)),
        ("a", "S-Merge", merge, ["p0", "p1"]),
        ("b", "S-Merge", merge, ["p2", "p3"]),
        ("all", "S-Merge", merge, ["a", "b"]),
        ("i0", "RRpart", part(2, 0), ["all"]),
        ("i1", "RRpart", part(2, 1), ["all"]),
        ("end", "S-Merge", merge, ["i0", "i1"]),
    )
    found = operators(on_site(on_site(flow, "p0", "p0", "p1", "p2", "p3"), "i0", "i0", "i1"))
    assert {name: found[name].renumber for name in ("a", "b", "all", "end")} == {
        "a": False,
        "b": False,
        "all": True,
        "end": False,
    }
    assert {found[name].order for name in ("a", "b", "all", "end")} == {"ordinal"}
