"""The document that people submit as a query."""

import pytest

from gsdm_grid import PCC, central, template
from gsdm_grid.errors import FlowError, QueryError, UnknownName
from gsdm_grid.flow import TEMPLATES
from gsdm_grid.interfaces import interfaces, register_stream_interface
from gsdm_grid.model import TypeRegistry, create_stream_type
from gsdm_grid.plan import ARRIVAL, ORDERED, Demands, StreamOrder
from gsdm_grid.spec import Stop, parse, with_degree

RADIO = {"type": "Radio", "interface": "gsdm_grid.apps.radio:SyntheticRadio", "options": {"window": 64}}
SOURCES = {"antenna": RADIO}
SINKS = {"away": {"interface": "null"}}


def registered(kind, name):
    found = {"source": SOURCES, "sink": SINKS}[kind]
    if name not in found:
        raise FlowError(kind, f"there is no registered {kind} {name!r}")
    return found[name]


def specification(**members):
    return {"name": "q", "inputs": [RADIO], "function": "fft3", **members}


def test_a_function_alone_is_a_central_plan_whose_result_is_kept():
    made = parse(specification(), registered)
    assert made.name == "q"
    assert len(made.flow.vertices) == 1
    assert made.kept == ("results",)
    assert [stream.interface for stream in made.outputs] == ["log"]
    assert made.stop == Stop()


def test_a_nested_template_call_is_built():
    inner = {"template": "PCC", "args": [2, "RRpart", "fft3", {}, "S-Merge"]}
    flow = {"template": "PCC", "args": [2, "RRpart", inner, None, "S-Merge"]}
    made = parse({"name": "tree", "inputs": [RADIO], "flow": flow}, registered)
    assert sum(vertex.function_name == "fft3" for vertex in made.flow.vertices) == 4


@pytest.mark.parametrize(("cores", "computing"), [(1, 1), (2, 2), (4, 4)])
def test_an_auto_plan_uses_the_cores_that_there_are(cores, computing):
    made = parse(specification(plan="auto"), registered, cores)
    assert sum(vertex.function_name == "fft3" for vertex in made.flow.vertices) == computing


def test_a_plan_may_name_strategy_and_degree():
    made = parse(specification(plan={"strategy": "window_split", "degree": 4}), registered)
    assert sum(vertex.function_name == "fft3part" for vertex in made.flow.vertices) == 4


def test_registered_streams_are_named():
    made = parse(specification(inputs=["antenna"], outputs=["away", {"name": "here"}]), registered)
    assert made.inputs[0].name == "antenna"
    assert [(stream.name, stream.interface) for stream in made.outputs] == [("away", "null"), ("here", "log")]
    assert made.kept == ("here",)


def test_types_may_be_given_inline():
    wave = {"name": "Wave", "attributes": {"x": "vector[64] of float32"}}
    stream = {"type": wave, "interface": "udp", "options": {"bind": "127.0.0.1:0"}}
    made = parse({"name": "q", "inputs": [stream], "function": "identity"}, registered)
    assert str(made.inputs[0].type.attributes["x"]) == "vector[64] of float32"


def test_the_overload_policy_goes_to_sources_that_have_one():
    stream = {"type": "Radio", "interface": "udp", "options": {"bind": "127.0.0.1:0"}}
    made = parse({"name": "q", "inputs": [stream], "function": "fft3", "overload": "sample"}, registered)
    assert made.inputs[0].options["overload"] == "sample"
    assert "overload" not in parse(specification(overload="sample"), registered).inputs[0].options


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("ordered", ORDERED),
        ("arrival", ARRIVAL),
        ({"within": 2}, StreamOrder(2.0)),
        ({"within": 0.5, "late": "drop"}, StreamOrder(0.5, "drop")),
    ],
)
def test_an_input_stream_declares_its_order_of_time(order, expected):
    source = {**RADIO, "order": order}
    query = parse(specification(inputs=[source, "late"], function="S-Merge"), lambda _kind, _name: source)
    assert [stream.order for stream in query.inputs] == [expected, expected]
    assert parse(specification(), registered).inputs[0].order == ORDERED


def test_documents_that_earlier_versions_took_are_taken_still():
    nothing = dict.fromkeys(("outputs", "stop", "overload", "placement", "schedule", "flush_s", "labels", "autoscale"))
    query = parse(specification(**nothing, resources=None, block_bytes=None), registered)
    assert (query.stop, query.kept) == (Stop(), ("results",))
    empty = specification(schedule=[], labels=[], inputs=[{**RADIO, "shared": 0}], resources={"sites": []})
    assert parse(empty, registered).specification.demands == Demands()
    by_yaml = parse(specification(block_bytes=1e6, stop={"count": None, "time_s": 3}), registered)
    assert (by_yaml.specification.block_bytes, by_yaml.stop) == (1_000_000, Stop(time_s=3))
    played = {"type": "Radio", "interface": "player", "options": {"path": "a.npz"}}
    segment = parse(specification(inputs=[{"segment": "s", "repeat": "forever"}]), lambda _kind, _name: played)
    assert segment.inputs[0].options["repeat"] == "forever"


WRONG = {
    "no mapping": (3, "expected a mapping, got int"),
    "no name": ({"inputs": [RADIO], "function": "fft3"}, "name: must be a letter"),
    "a bad name": (specification(name="../etc"), "name: must be a letter"),
    "no inputs": ({"name": "q", "function": "fft3"}, "inputs: expected a list, got nothing"),
    "empty inputs": (specification(inputs=[]), "at least one input stream"),
    "an unknown member": (specification(colour="red"), "no member 'colour'"),
    "neither flow nor function": ({"name": "q", "inputs": [RADIO]}, "either a flow"),
    "flow and function": (specification(flow="fft3"), "either a flow"),
    "an unknown function": (specification(function="fft9"), "unknown function 'fft9'"),
    "an unknown template": ({"name": "q", "inputs": [RADIO], "flow": {"template": "X"}}, "unknown template 'X'"),
    "an unknown type": (specification(inputs=[{**RADIO, "type": "Radioo"}]), "unknown stream type 'Radioo'"),
    "an unknown option": (specification(inputs=[{**RADIO, "options": {"windo": 3}}]), "unknown option of interface"),
    "a wrong option": (specification(inputs=[{**RADIO, "options": {"window": 0}}]), "window must be an integer"),
    "a local interface": (specification(inputs=[{"type": "Radio", "interface": "memory"}]), "cannot be submitted"),
    "an unknown source": (specification(inputs=["nobody"]), "no registered source 'nobody'"),
    "a stop of two kinds": (specification(stop={"count": 1, "time_s": 1}), "not both"),
    "a count of none": (specification(stop={"count": 0}), "stop.count: must be a whole number"),
    "a count of true": (specification(stop={"count": True}), "stop.count: must be a whole number"),
    "an unknown policy": (specification(overload="explode"), "unknown overload policy 'explode'"),
    "an unknown placement": (specification(placement="moon"), "unknown placement 'moon'"),
    "a negative flush time": (specification(flush_s=-1), "flush_s: must be a number"),
    "a label that is a list": (specification(labels={"a": []}), "labels.a: expected text"),
    "an unknown strategy": (specification(plan={"strategy": "luck"}), "unknown parallel strategy"),
    "a degree of half": (specification(plan={"strategy": "window_split", "degree": 0.5}), "plan.degree"),
    "a huge degree": (specification(plan={"strategy": "window_split", "degree": 10**9}), "vertices"),
    "a block of nothing": (specification(block_bytes=0), "block_bytes: must be a whole number from 4096 to 268435456"),
    "half a schedule": (specification(schedule={"period_s": 1}), "schedule: a fixed-length period needs both"),
    "a period that is text": (
        specification(schedule={"period_s": "a", "repetition": 1}),
        "schedule.period_s: must be a number greater than zero, got 'a'",
    ),
    "bounds in the wrong order": (specification(autoscale={"min": 3, "max": 2}), "autoscale: min is 3, but max is 2"),
    "sharing what scales": (specification(autoscale={}, share=True), "share: does not go with autoscale"),
    "parameters of a flow": (
        {"name": "q", "inputs": [RADIO], "flow": "fft3", "params": {"a": 1}},
        "params: goes with a function",
    ),
    "a source with a type": (
        specification(inputs=[{"source": "antenna", "type": "Radio"}]),
        r"inputs\[0\]: has no member 'type'; allowed: name, source",
    ),
    "an unknown order": (
        specification(inputs=[{**RADIO, "order": "random"}]),
        r"inputs\[0\].order: expected 'ordered'",
    ),
    "a wrong order": (
        specification(inputs=[{**RADIO, "order": {"within": -1}}]),
        r"inputs\[0\].order.within: expected a number of seconds from 0 to 1e9, got -1",
    ),
    "code": (
        {"name": "q", "inputs": [RADIO], "flow": {"vertices": [{"function": {"name": "f", "code": "gASV"}}]}},
        "must not carry code",
    ),
    "code in parameters": (specification(params={"f": {"$function": {"code": "gASV"}}}), "must not carry code"),
    "nonsense for a flow": (
        {"name": "q", "inputs": [RADIO], "flow": {"template": "PCC", "args": [[], {}]}},
        "flow|PCC",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named_with_its_place(case):
    document, message = WRONG[case]
    with pytest.raises(QueryError, match=message):
        parse(document, registered)


def test_a_bottomless_flow_is_refused():
    flow = "fft3"
    for _ in range(500):
        flow = {"template": "central", "args": [flow]}
    with pytest.raises(FlowError, match="nested more than"):
        parse({"name": "q", "inputs": [RADIO], "flow": flow}, registered)


def test_unknown_names_say_what_is_known():
    with pytest.raises(UnknownName) as caught:
        parse(specification(placement="moon"), registered)
    assert "grid" in str(caught.value)


def test_an_unknown_function_is_refused_with_its_path_and_a_similar_name():
    flow = {"template": "PCC", "args": [2, "fft3part", "fft3", {}, "OS-Join", {"combine": "fft3combin"}]}
    with pytest.raises(UnknownName) as refused:
        parse({"name": "q", "inputs": [RADIO], "flow": flow}, registered)
    assert (refused.value.place, refused.value.similar[0]) == ("flow.args[5].combine", "fft3combine")


@pytest.mark.parametrize("path", [7, None, ["a.npz"]])
def test_a_recorder_whose_path_is_no_text_is_refused_at_once(path):
    outputs = [{"name": "out", "interface": "recorder", "options": {"path": path}}]
    with pytest.raises(FlowError, match=r"outputs\[0\]\.options\.path: expected text, got (int|nothing|list)"):
        parse({"name": "q", "inputs": [RADIO], "function": "fft3", "outputs": outputs}, registered)


def test_a_count_that_is_too_large_is_refused_with_the_bounds():
    with pytest.raises(FlowError, match=r"stop\.count: must be a whole number from 1 to 2\*\*62 - 1, got 92233"):
        parse({"name": "q", "inputs": [RADIO], "function": "fft3", "stop": {"count": 2**63 - 1}}, registered)


def test_an_interface_bound_to_a_type_refuses_other_streams():
    level = create_stream_type("SpecifiedLevel", {"value": "float64"}, registry=TypeRegistry())
    register_stream_interface(level, "specified_levels", next=lambda _: None, insert=lambda _, window: None)
    try:
        stream = {"type": "Radio", "interface": "specified_levels"}
        with pytest.raises(FlowError, match=r"inputs\[0\].type: .* as interface 'specified_levels' takes, got 'Radio'"):
            parse(specification(inputs=[stream]), registered)
        with pytest.raises(FlowError, match=r"outputs\[0\].type: .*'SpecifiedLevel' or a subtype"):
            parse(specification(outputs=[stream]), registered)
    finally:
        interfaces.remove("specified_levels")


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ({"args": ["fft3", 2]}, {"args": ["fft3", 5]}),
        ({"args": ["fft3"], "n": 2}, {"args": ["fft3"], "n": 5}),
        ({"fun": "fft3"}, {"fun": "fft3", "n": 5}),
    ],
)
def test_the_degree_of_an_own_template_is_its_parameter_n(call, expected):
    @template(name="specified_spread")
    def spread(fun, n=3):
        return PCC(n, "RRpart", fun, {}, "S-Merge")

    @template(name="specified_alone")
    def alone():
        return central("fft3")

    try:
        document = {"name": "q", "flow": {"template": "specified_spread", **call}}
        assert with_degree(document, 5)["flow"] == {"template": "specified_spread", **expected}
        with pytest.raises(FlowError, match="has no degree of parallelism: it is template 'specified_alone'"):
            with_degree({"name": "q", "flow": {"template": "specified_alone"}}, 5)
    finally:
        TEMPLATES.remove("specified_spread")
        TEMPLATES.remove("specified_alone")
