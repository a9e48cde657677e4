"""The compiler: types, streams, levels, and what it refuses."""

import json

import pytest

from gsdm_grid import (
    PCC,
    Channel,
    Polar,
    Radio,
    central,
    create_stream_type,
    current_window,
    lpipe,
    parallel,
    partition,
    pipe,
    register_input_stream,
    sqf,
)
from gsdm_grid.compiler import compile_flow
from gsdm_grid.errors import FlowError, QueryError
from gsdm_grid.flow import DataFlow
from gsdm_grid.functions import Traits, equal_parts
from gsdm_grid.plan import StreamSpec


def inp(name="in", stream_type=Radio):
    return StreamSpec(name, "udp", stream_type)


def out(name="out", stream_type=None):
    return StreamSpec(name, "tcp", stream_type)


def compiled(flow, inputs=None, outputs=None):
    return compile_flow("q", flow, inputs or [inp()], outputs or [out()])


def operators(plan):
    return {operator.id: operator for site in plan.sites for operator in site.operators}


def kinds(plan, kind):
    return [stream.name for stream in plan.streams if stream.kind == kind]


def test_types_are_derived_from_level_to_level():
    plan = compiled(pipe("fft3", "polarize"))
    assert operators(plan)["fft3.0"].output_type == Radio
    assert operators(plan)["polarize.0"].output_type == Polar
    assert plan.stream("out").type == Polar


@sqf(Radio, returns=Radio, traits=Traits(spectra=True), register=False)
def own_transform(s):
    return current_window(s)


@sqf(Radio, returns=Radio, traits=Traits(spectra=False), register=False)
def back_transform(s):
    return current_window(s)


@pytest.mark.parametrize(
    ("flow", "spectra"),
    [
        (central("fft3"), True),
        (central("identity"), False),
        (central(own_transform), True),
        (pipe("fft3", "aggregate", {"size": 4}), True),
        (pipe(own_transform, back_transform), False),
        (PCC(2, "RRpart", own_transform, {}, "S-Merge"), True),
        (PCC(2, "fft3part", "fft3", {}, "OS-Join", {"fft3combine"}), True),
        (PCC(2, "slicepart", "identity", {}, "OS-Join", {"combine": "slicecombine"}), False),
    ],
)
def test_a_result_stream_holds_spectra_where_a_function_before_it_declares_so(flow, spectra):
    assert compiled(flow).stream("out").spectra is spectra


def test_a_type_mismatch_names_the_vertex_and_both_types():
    with pytest.raises(FlowError) as error:
        compiled(pipe("polarize", "fft3"))
    assert "vertex 'fft3.0'" in str(error.value)
    assert "'Radio'" in str(error.value)
    assert "'Polar'" in str(error.value)


def test_a_merge_of_different_types_names_the_vertex():
    with pytest.raises(FlowError, match=r"vertex 'S-Merge.0'"):
        compiled(central("S-Merge", None, 2), [inp("a"), inp("b", Channel)])


def test_levels_decide_the_order_of_operators_and_sites():
    plan = compiled(lpipe("fft3", "xmagn", [1], "polarize"))
    assert [operator.id for operator in plan.sites[0].operators] == ["fft3.0", "xmagn.0", "polarize.0"]
    tree = compiled(PCC(2, "RRpart", "fft3", {}, "S-Merge"))
    assert {site.role: site.level for site in tree.sites} == {"partition": 0, "compute": 1, "combine": 2}


def test_streams_inside_a_site_are_memory_and_between_sites_channels():
    assert kinds(compiled(lpipe("fft3", "polarize")), "memory") == ["fft3.0→compute.0"]
    plan = compiled(pipe("fft3", "polarize"))
    assert kinds(plan, "channel") == ["fft3.0→compute.1"]
    assert not kinds(plan, "memory")
    channel = plan.stream("fft3.0→compute.1")
    assert (channel.from_site, channel.to_site) == ("compute.0", "compute.1")


def test_an_input_that_several_vertices_share_is_consumed_once():
    plan = compiled(PCC(3, "RRpart", "fft3", {}, "S-Merge"))
    assert kinds(plan, "source") == ["in"]
    assert [operators(plan)[f"RRpart.{i}"].inputs for i in range(3)] == [("in",)] * 3


def test_a_result_that_two_vertices_of_one_site_share_is_sent_once():
    plan = compiled(pipe("fft3", PCC(2, "RRpart", "fft3", {}, "S-Merge")))
    assert operators(plan)["fft3.0"].outputs == ("fft3.0→partition.0",)


def test_an_input_that_several_sites_share_is_read_once_and_relayed():
    flow = DataFlow.from_json(
        {
            **parallel(2, "fft3").to_json(),
            "arity": 1,
            "vertices": [{**vertex, "inputs": [0]} for vertex in parallel(2, "fft3").to_json()["vertices"]],
        }
    )
    plan = compiled(flow, outputs=[out("a"), out("b")])
    assert plan.stream("in").to_site == "source.0"
    assert len(operators(plan)["source.0"].outputs) == 2


def test_several_result_streams_of_one_output_replicate_it():
    plan = compiled(central("fft3"), outputs=[out("a"), out("b"), out("c")])
    assert operators(plan)["fft3.0"].outputs == ("a", "b", "c")


def test_each_output_of_a_wide_flow_has_a_result_stream_of_its_own():
    plan = compiled(partition(2, "RRpart"), outputs=[out("a"), out("b")])
    assert [operators(plan)[f"RRpart.{i}"].outputs for i in range(2)] == [("a",), ("b",)]


@pytest.mark.parametrize(
    ("flow", "inputs", "outputs", "message"),
    [
        (central("fft3"), [inp("a"), inp("b")], None, "takes 1 input streams, got 2"),
        (partition(2, "RRpart"), None, [out()], "2 output streams, got 1"),
        (partition(2, "RRpart"), None, [out("a"), out("b"), out("c")], "2 output streams, got 3"),
        (central("fft3"), [inp("same")], [out("same")], "'same' is used twice"),
        (central("fft3"), [StreamSpec("in", "udp")], None, "'in' needs a stream type"),
        (central("fft3"), None, [out("o", Polar)], "result is of type 'Radio'.*'o' takes 'Polar'"),
        (central("OS-Join", {"combine": "fft3"}, 2), [inp("a"), inp("b")], None, "vertex 'OS-Join.0'.*kind 'combine'"),
    ],
)
def test_what_does_not_fit_the_streams_is_refused(flow, inputs, outputs, message):
    with pytest.raises(FlowError, match=message):
        compiled(flow, inputs, outputs)


def test_a_query_needs_a_result_stream():
    with pytest.raises(FlowError, match="at least one result stream"):
        compile_flow("q", central("fft3"), [inp()], [])


def changed(flow, **changes):
    data = json.loads(json.dumps(flow.to_json()))
    data["vertices"][0].update(changes)
    return DataFlow.from_json({**data, "arity": 2})


def test_an_input_stream_that_nothing_reads_is_refused():
    with pytest.raises(FlowError, match="nothing reads input stream 'b'"):
        compiled(changed(central("fft3")), [inp("a"), inp("b")])


def test_a_function_of_one_stream_with_two_inputs_is_refused():
    with pytest.raises(FlowError, match=r"'fft3.0': 'fft3' takes one stream, but gets 2"):
        compiled(changed(central("fft3"), inputs=[0, 1]), [inp("a"), inp("b")])


def test_a_function_that_is_unknown_here_is_refused():
    with pytest.raises(QueryError, match="ghost"):
        compiled(changed(central("S-Merge", None, 2), function={"name": "ghost"}), [inp("a"), inp("b")])


def radio_of(length):
    return StreamSpec("in", "udp", Radio, lengths=dict.fromkeys("xyz", length))


def split_fft(n, fun="fft3", params=None):
    return PCC(n, "fft3part", fun, params, "OS-Join", {"combine": "fft3combine"})


def test_a_degree_that_does_not_divide_the_vector_is_refused_where_its_length_is_known():
    with pytest.raises(FlowError, match=r"vertex 'fft3part.0': fft3part: a window of 63 samples .* in 2 equal parts"):
        compiled(split_fft(2), [radio_of(63)])
    compiled(split_fft(3), [radio_of(63)])
    compiled(split_fft(2))  # nothing is known of its length


def test_lengths_are_followed_through_functions_splits_and_combinations():
    tree = split_fft(2, "PCC", [4, "fft3part", "fft3", {}, "OS-Join", {"combine": "fft3combine"}])
    compiled(tree, [radio_of(64)])
    with pytest.raises(FlowError, match="a window of 6 samples cannot be split in 4"):
        compiled(tree, [radio_of(12)])
    with pytest.raises(FlowError, match="a window of 12 samples cannot be split in 5"):
        compiled(pipe(split_fft(2), split_fft(5)), [radio_of(12)])
    with pytest.raises(FlowError, match="a window of 12 samples cannot be split in 5"):
        compiled(pipe(PCC(2, "RRpart", "fft3", {}, "S-Merge"), split_fft(5)), [radio_of(12)])
    compiled(pipe("own_lengths", split_fft(5)), [radio_of(12)])


@sqf(Radio, returns=Radio)
def own_lengths(s):
    return current_window(s)


def test_a_length_that_the_stream_type_fixes_is_known():
    fixed = create_stream_type("FixedPair", {"v": "vector[9] of float32"})

    @sqf(fixed, kind="partitioning", lengths=equal_parts("pairs"), register=False)
    def pairs(s, n, i):
        return current_window(s)

    with pytest.raises(FlowError, match="pairs: a window of 9 samples cannot be split in 2"):
        compiled(PCC(2, pairs, "identity", {}, "S-Merge"), [inp(stream_type=fixed)])


def test_vectors_to_slice_must_be_equally_long_where_their_lengths_are_known():
    uneven = StreamSpec("in", "udp", Radio, lengths={"x": 8, "y": 8, "z": 7})
    with pytest.raises(FlowError, match=r"differ in length \(x 8, y 8, z 7\)"):
        compiled(PCC(2, "slicepart", "fft3", {}, "S-Merge"), [uneven])
    compiled(PCC(3, "slicepart", "polarize", {}, "OS-Join", {"combine": "polarcombine"}), [radio_of(8)])


@pytest.mark.parametrize(
    ("interface", "options", "length"),
    [
        ("synthetic_radio", {"window": 63}, 63),
        ("synthetic_radio", {}, 8192),
        ("synthetic_radio", {"window": "long"}, None),
        ("raw_iq", {"window": 10}, 10),
        ("sigmf", {"window": 10}, 10),
        ("sigmf", {"path": "recording"}, 77),
        ("sigmf", {"path": "nowhere"}, None),
        ("udp", {}, None),
    ],
)
def test_sources_tell_the_lengths_that_their_options_or_recordings_have(tmp_path, interface, options, length):
    (tmp_path / "recording.sigmf-meta").write_text(json.dumps({"global": {"gsdm:window": 77}}))
    located = {name: str(tmp_path / value) if name == "path" else value for name, value in options.items()}
    stream = register_input_stream("Radio", None, interface, **located)
    assert stream.spec().lengths == ({} if length is None else dict.fromkeys("xyz", length))


def test_a_result_of_another_type_than_its_interface_takes_is_refused():
    sink = StreamSpec("out", "seen", accepts=Polar)
    with pytest.raises(FlowError, match=r"'fft3.0': its result is of type 'Radio', but interface 'seen' of .*'Polar'"):
        compiled(central("fft3"), outputs=[sink])
