"""Where queries are cut, and which parts are the same."""

import pytest

from gsdm_grid import PCC, central, lpipe, pipe, register_input_stream, register_result_stream
from gsdm_grid.compiler import (
    compile_query,
    flow_of,
    keeps_ordinals,
    replayable_inputs,
)
from gsdm_grid.plan import (
    GRID,
    Demands,
    Needs,
    Plan,
)


def radio(shared=False, name="s", **options):
    return register_input_stream("Radio", None, "synthetic_radio", name=name, shared=shared, **options).spec()


def compiled(flow, *inputs, share=False, name="q", **more):
    sink = register_result_stream(interface="null", name="out").spec()
    return compile_query(name, flow, inputs or [radio()], [sink], share=share, **more)


def functions(plan):
    return [operator.function["name"] for site in plan.sites for operator in site.operators]


def test_without_anything_shared_the_plan_has_no_parts():
    plan = compiled(PCC(2, "RRpart", "fft3", {}, "S-Merge"))
    assert plan.parts == ()
    assert plan.whole == [plan]


def test_a_shared_source_is_read_by_a_part_whatever_queries_call_it():
    one = compiled(central("fft3"), radio(shared=True, name="a"))
    two = compiled(PCC(2, "RRpart", "polarize", {}, "S-Merge"), radio(shared=True, name="b"), name="other")
    assert one.parts == two.parts
    assert [stream.name for stream in one.streams if stream.kind == "source"] == ["a"]
    assert functions(one.parts[0]) == ["identity"]


def test_a_query_knows_that_it_reads_spectra_from_a_part():
    both = compiled(pipe("fft3", "aggregate", {"size": 4}), share=True)
    assert functions(both) == ["identity"]
    assert both.stream("out").spectra


@pytest.mark.parametrize("other", [radio(shared=True, window=512), radio(shared=True, seed=7)])
def test_other_options_are_another_source(other):
    assert compiled(central("fft3"), radio(shared=True)).parts != compiled(central("fft3"), other).parts


def test_a_pipe_is_cut_behind_each_stage_and_common_stages_have_the_same_id():
    one = compiled(pipe("fft3", {}, "polarize", {}), share=True)
    two = compiled(pipe("fft3", {}, "sample", {"n": 2}), share=True)
    assert [functions(plan) for plan in one.whole] == [["identity"], ["polarize"], ["fft3"]]
    assert one.whole[2].query == two.whole[2].query
    assert one.whole[1].query != two.whole[1].query


def test_stages_on_one_site_are_not_cut_apart():
    plan = compiled(lpipe("fft3", {}, "polarize", {}), share=True)
    assert [functions(one) for one in plan.whole] == [["identity"], ["fft3", "polarize"]]


def test_a_parallel_part_is_cut_behind_its_merge_and_nowhere_inside():
    plan = compiled(PCC(2, "RRpart", "fft3", {}, "S-Merge"), share=True)
    assert [len(one.sites) for one in plan.whole] == [1, 4]


def test_another_degree_or_placement_is_another_part():
    ids = {
        compiled(PCC(degree, "RRpart", "fft3", {}, "S-Merge"), share=True, **policy).parts[0].query
        for degree in (2, 3)
        for policy in ({}, {"policy": GRID})
    }
    assert len(ids) == 4


def test_queries_with_other_demands_on_hosts_share_sources_but_not_sites():
    near, far = (Demands("lab", sites={"compute": Needs(labels={"near": place})}) for place in ("a", "b"))
    one, two = (compiled(central("fft3"), radio(shared=True), share=True, demands=demands) for demands in (near, far))
    assert one.parts[0].query != two.parts[0].query
    assert one.parts[0].parts == two.parts[0].parts
    own = Demands("lab", sites={**near.sites, "shared": Needs(cpus=2)})
    same = compiled(central("fft3"), radio(shared=True), share=True, demands=own)
    assert same.parts == one.parts, "what is said of a site of its own does not matter to others"


def test_a_vertex_that_numbers_anew_for_what_comes_after_it_does_so_in_the_part():
    """As in the whole plan: so ordinals are the same whether it is shared or not."""
    flow = pipe("sample", {"n": 2}, PCC(2, "RRpart", "fft3", {}, "S-Merge"))
    alone = compiled(flow)
    shared = compiled(flow, share=True)
    renumbering = lambda plan: {  # noqa: E731
        operator.function["name"]
        for one in plan.whole
        for site in one.sites
        for operator in site.operators
        if operator.renumber
    }
    assert renumbering(alone) == renumbering(shared) == {"sample"}
    assert not keeps_ordinals(shared)


def test_two_sources_that_are_merged_are_each_shared_and_so_is_their_merge():
    flow = pipe(central("S-Merge", {}, 2), "fft3", {})
    plan = compiled(flow, radio(shared=True, name="a", seed=1), radio(name="b", seed=2), share=True)
    by_id = {one.query: one for one in plan.whole}
    assert sorted(tuple(functions(one)) for one in by_id.values()) == [
        ("S-Merge",),
        ("fft3",),
        ("identity",),
        ("identity",),
    ]


def test_an_input_is_replayable_if_all_that_it_comes_from_is():
    flow = pipe(central("S-Merge", {}, 2), "fft3", {})
    plan = compiled(flow, radio(name="a", seed=1), radio(name="b", seed=2), share=True)
    [entry] = [stream.name for stream in plan.streams if stream.kind == "source"]
    assert replayable_inputs(plan, lambda _: True) == {entry: True}
    assert replayable_inputs(plan, lambda stream: stream.options["seed"] == 1) == {entry: False}


@pytest.mark.parametrize("share", [False, True])
def test_a_plan_with_parts_round_trips_through_json_and_back_to_a_flow(share):
    plan = compiled(pipe("sample", {"n": 2}, PCC(2, "RRpart", "fft3", {}, "S-Merge")), radio(shared=True), share=share)
    assert plan.parts
    assert Plan.from_json(plan.to_json()) == plan
    for one in plan.whole:
        assert {vertex.id for vertex in flow_of(one).vertices} == {o.id for site in one.sites for o in site.operators}
