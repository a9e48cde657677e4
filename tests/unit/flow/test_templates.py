"""Templates: what they construct, and what they refuse."""

import pytest

from gsdm_grid import (
    PCC,
    STREAM,
    DataFlow,
    central,
    lpipe,
    parallel,
    parallelize,
    partition,
    pipe,
    sliding_window,
    sqf,
)
from gsdm_grid.errors import FlowError, QueryError, UnknownName
from gsdm_grid.flow import TEMPLATES, build
from gsdm_grid.flow.templates import at_most


@sqf(STREAM, register=False)
def branch(s, number, rest=None):
    """A function that is told its branch."""


@sqf(STREAM, register=False)
def neighbours(s, size):
    """A function that uses neighbouring windows."""
    return sliding_window(s, size)[0]


def roles(flow):
    return [site.role for site in flow.sites]


def names(flow):
    return [vertex.function_name for vertex in flow.vertices]


def test_central_is_one_function_on_one_site():
    flow = central("fft3")
    assert (flow.arity, flow.width, names(flow), roles(flow)) == (1, 1, ["fft3"], ["compute"])


def test_a_combining_function_can_be_central_over_several_streams():
    flow = central("S-Merge", 0.1, inputs=3)
    assert (flow.arity, flow.vertices[0].inputs, flow.vertices[0].params) == (3, (0, 1, 2), {"timeout": 0.1})


def test_partition_shares_one_site_and_one_input():
    flow = partition(3, "RRpart")
    assert (flow.arity, flow.width, roles(flow)) == (1, 3, ["partition"])
    assert [(v.params["n"], v.params["i"], v.inputs) for v in flow.vertices] == [(3, i, (0,)) for i in range(3)]


def test_parallel_has_a_site_and_a_stream_per_branch():
    flow = parallel(3, "fft3")
    assert (flow.arity, flow.width, roles(flow)) == (3, 3, ["compute"] * 3)
    assert [v.inputs for v in flow.vertices] == [(0,), (1,), (2,)]


def test_window_distribute_of_the_thesis():
    flow = PCC(2, "RRpart", "fft3", {}, "S-Merge", 0.1)
    assert (flow.arity, flow.width) == (1, 1)
    assert roles(flow) == ["partition", "compute", "compute", "combine"]
    assert flow.by_id["fft3.1"].inputs == ("RRpart.1",)
    assert flow.by_id["S-Merge.0"].inputs == ("fft3.0", "fft3.1")
    assert flow.by_id["S-Merge.0"].params == {"timeout": 0.1}
    assert flow.outputs == ("S-Merge.0",)


def test_window_split_of_the_thesis():
    flow = PCC(2, "fft3part", "fft3", {}, "OS-Join", {"fft3combine"})
    assert flow.by_id["OS-Join.0"].params["combine"] == {"$function": {"name": "fft3combine"}}


def test_the_tree_of_the_thesis():
    flow = PCC(2, "RRpart", "PCC", [2, "RRpart", "fft3", {}, "S-Merge", 0.1], "S-Merge", 0.1)
    assert roles(flow).count("compute") == 4
    assert names(flow).count("RRpart") == 6
    assert names(flow).count("S-Merge") == 3
    assert max(flow.levels.values()) == 4
    assert flow.by_id[flow.outputs[0]].function_name == "S-Merge"
    merged = flow.by_id[flow.outputs[0]].producers
    assert {flow.by_id[name].function_name for name in merged} == {"S-Merge"}


def test_a_nested_flow_and_a_nested_template_are_the_same():
    inner = PCC(2, "RRpart", "fft3", {}, "S-Merge", 0.1)
    by_flow = PCC(2, "RRpart", inner, None, "S-Merge", 0.1)
    assert by_flow == PCC(2, "RRpart", "PCC", [2, "RRpart", "fft3", {}, "S-Merge", 0.1], "S-Merge", 0.1)
    by_name = {"n": 2, "partfun": "RRpart", "fun": "fft3", "params": {}, "combfun": "S-Merge", "combparams": 0.1}
    assert by_flow == PCC(2, "RRpart", "PCC", by_name, "S-Merge", 0.1)


def test_the_partitioning_function_may_have_parameters_of_its_own():
    flow = PCC(2, ("hashpart", {"key": "id"}), "identity", {}, "S-Merge")
    assert [v.params for v in flow.vertices[:2]] == [{"n": 2, "i": i, "key": "id"} for i in (0, 1)]
    assert partition(2, "RRpart", [4]).vertices[1].params["run"] == 4


def test_the_hash_sign_is_the_branch_number_at_any_depth_of_the_parameters():
    flow = parallel(3, branch, {"number": "#", "rest": {"deep": ["#", "x"]}})
    assert [v.params for v in flow.vertices] == [{"number": i, "rest": {"deep": [i, "x"]}} for i in range(3)]


@pytest.mark.parametrize(
    "inner",
    [
        ("PCC", [2, "RRpart", branch, {"number": "#"}, "S-Merge"]),
        (PCC(2, "RRpart", branch, {"number": "#"}, "S-Merge"), None),
    ],
    ids=["by name", "as a flow"],
)
def test_in_nested_templates_the_hash_sign_is_the_innermost_branch(inner):
    flow = PCC(3, "RRpart", *inner, "S-Merge")
    assert [v.params["number"] for v in flow.vertices if v.function_name == "branch"] == [0, 1] * 3


@pytest.mark.parametrize(
    "inner", [("central", [branch, {"number": "#"}]), (central(branch, {"number": "#"}), None)], ids=["name", "flow"]
)
def test_the_hash_sign_of_a_template_without_branches_is_the_outer_branch(inner):
    assert [v.params["number"] for v in parallel(3, *inner).vertices] == [0, 1, 2]


def test_pipe_puts_stages_on_sites_of_their_own_and_lpipe_on_one():
    assert len(pipe("fft3", "polarize").sites) == 2
    local = lpipe("fft3", {}, "polarize", {})
    assert roles(local) == ["compute"]
    assert local.by_id["polarize.0"].inputs == ("fft3.0",)
    assert pipe(central("fft3"), "polarize") == pipe("fft3", {}, "polarize", {})


def test_lpipe_brings_a_whole_flow_to_one_site():
    assert len(lpipe("xmagn", {"threshold": 1}, PCC(2, "RRpart", "fft3", {}, "S-Merge")).sites) == 1


def test_parallelize_uses_the_strategies_that_a_function_registered():
    flow = parallelize("aggregate", {"size": 10, "step": 3}, "window_distribute", 4)
    assert {k: flow.vertices[0].params[k] for k in ("size", "step")} == {"size": 10, "step": 3}
    assert parallelize("fft3", None, "window_split", 2) == PCC(2, "fft3part", "fft3", {}, "OS-Join", {"fft3combine"})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PCC(0, "RRpart", "fft3", {}, "S-Merge"), "at least 1, got 0"),
        (lambda: parallel(True, "fft3"), "whole number"),
        (lambda: partition(2.0, "RRpart"), "whole number"),
        (lambda: partition(2, "fft3"), "no partitioning function"),
        (lambda: parallel(2, PCC(2, "RRpart", "fft3", {}, "S-Merge"), {"x": 1}), "takes no parameters"),
        (lambda: parallel(2, partition(2, "RRpart")), "arity 1 and width 1"),
        (lambda: pipe("fft3"), "at least two stages, got 1"),
        (lambda: pipe(partition(2, "RRpart"), "fft3"), "of one stream, but gets 2"),
        (lambda: pipe("fft3", parallel(2, "fft3")), "takes 2 streams, but gets 1"),
        (lambda: central("fft3", inputs=2), "gets 2"),
        (lambda: central("fft3combine"), "parameter of OS-Join"),
        (lambda: central("fft3", {"bogus": 1}), "no parameter 'bogus'"),
        (lambda: central("xmagn"), "needs a value for parameter 'threshold'"),
        (lambda: central(branch, {"number": object()}), "cannot be sent"),
        (lambda: central(42), "got int"),
        (lambda: PCC(2, "RRpart", "PCC", [2], "S-Merge"), "template 'PCC'"),
        (lambda: parallelize("fft3", None, "magic", 2), "unknown parallel strategy of 'fft3' 'magic'"),
        (
            lambda: parallelize(branch, {"number": 1}, "window_split", 2),
            "window_split of 'branch': the function does not declare window split (it declares window_distribute); if "
            "it can run so: @sqf(…, strategies=(window_split('PARTITIONING FUNCTION', 'COMBINE FUNCTION'),))",
        ),
        (
            lambda: parallelize(neighbours, {"size": 2}, "window_distribute", 2),
            "does not declare window distribute; if it can run so: "
            "@sqf(…, strategies=(window_distribute('overlap_part', size='$size'),))",
        ),
        (
            lambda: parallelize("timestamp_it", None, "window_distribute", 2),
            "'timestamp_it': the function does not declare window distribute",
        ),
        (lambda: central("no_such_function"), "unknown function 'no_such_function'"),
    ],
)
def test_what_does_not_fit_together_is_refused_with_its_place(make, message):
    with pytest.raises(QueryError) as error:
        make()
    assert message in str(error.value)


def test_build_makes_flows_of_json():
    spec = {
        "template": "PCC",
        "args": [2, "RRpart", {"template": "lpipe", "args": ["fft3", "polarize"]}, None, "S-Merge"],
    }
    assert build(spec) == PCC(2, "RRpart", lpipe("fft3", "polarize"), None, "S-Merge")
    assert build("fft3") == central("fft3")
    assert build({"template": "central", "fun": "xmagn", "params": {"threshold": 1}}) == central("xmagn", [1])
    assert build(build(spec).to_json()) == build(spec)


@pytest.mark.parametrize(
    ("spec", "kind", "message"),
    [
        ({"template": "magic"}, UnknownName, "unknown template 'magic'"),
        ({}, UnknownName, "unknown template"),
        ([], FlowError, "got list"),
        ({"template": "central"}, FlowError, "template 'central'"),
        ({"vertices": []}, FlowError, "to_json"),
        ({"template": "central", "args": ["nope"]}, UnknownName, "nope"),
    ],
)
def test_build_says_what_is_wrong_with_a_specification(spec, kind, message):
    with pytest.raises(kind, match=message):
        build(spec)


def test_every_template_is_known_by_its_name():
    assert all(made.name == name for name, made in TEMPLATES.items())
    assert isinstance(build({"template": "pipe", "args": ["fft3", "fft3"]}), DataFlow)


def test_a_degree_beyond_the_limit_is_refused_before_anything_is_built():
    with at_most(100), pytest.raises(FlowError, match=r"PCC\(50\): would have 101 vertices; at most 100 are allowed"):
        PCC(50, "no such function", "fft3", {}, "S-Merge")


@pytest.mark.parametrize("template", [pipe, lpipe])
def test_a_pipe_beyond_the_limit_is_refused_before_the_rest_of_it_is_built(template):
    stages = ["fft3"] * 101 + ["no such function"]
    with at_most(100), pytest.raises(FlowError, match=r"pipe: would have 101 vertices; at most 100 are allowed"):
        template(*stages)


def test_a_partition_beyond_the_limit_is_refused_after_its_first_part():
    with at_most(100), pytest.raises(FlowError, match=r"partition\(60\): would have 120 vertices"):
        partition(60, lpipe("fft3", "fft3"))


def test_a_graph_beyond_the_limit_is_refused_before_it_is_read():
    graph = {"vertices": [{"no": "vertex"}] * 101}
    with at_most(100), pytest.raises(FlowError, match="data flow: would have 101 vertices; at most 100 are allowed"):
        build(graph)
