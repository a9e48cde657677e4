import json

import pytest

from gsdm_grid.errors import FlowError, QueryError, SchemaError, UnknownName
from gsdm_grid.functions import (
    Strategy,
    StreamFunction,
    current_window,
    functions,
    sqf,
    window_distribute,
    window_split,
)
from gsdm_grid.functions.library.radio import Polar, Radio
from gsdm_grid.model import STREAM, TypeRegistry, create_stream_type


@pytest.fixture
def scale(level_type):
    @sqf(level_type, returns=level_type, register=False)
    def scale(s, factor, offset=0.0):
        """Scale levels."""
        v = current_window(s)
        return v.replace(value=v.value * factor + offset)

    return scale


def test_decorated_function_is_a_description_that_can_be_called(scale, levels, view_of, level_type):
    assert isinstance(scale, StreamFunction)
    assert scale(view_of(levels(4, 5)), factor=3, offset=1).value == 7
    assert (scale.name, scale.kind, scale.input, scale.output) == (
        "scale",
        "transforming",
        level_type,
        level_type,
    )
    assert [(p.name, p.required) for p in scale.parameters] == [("factor", True), ("offset", False)]


def test_decorator_works_without_arguments():
    try:

        @sqf
        def bare_function_of_this_test(s):
            return current_window(s)

        assert functions.get("bare_function_of_this_test") is bare_function_of_this_test
        assert bare_function_of_this_test.result_type([Radio], {}) == Radio
    finally:
        functions._functions.pop("bare_function_of_this_test", None)


def test_function_may_have_another_name_than_its_code():
    @sqf(Radio, name="S-Other", register=False)
    def other(s):
        return current_window(s)

    assert other.name == "S-Other"
    assert not functions.has("S-Other")


@pytest.mark.parametrize("wrong", ["Radio", 3, None])
def test_decorator_takes_a_stream_type_or_a_function(wrong):
    with pytest.raises(QueryError, match="expected a stream type or a function"):
        sqf(wrong)


def test_unknown_kind_is_refused():
    with pytest.raises(QueryError, match="unknown kind 'transform'; known: transforming, combining"):
        sqf(Radio, kind="transform")


def no_stream():
    return None


def by_name_only(*, s):
    return s


def any_number(s, *more):
    return s, more


def any_name(s, **more):
    return s, more


def by_position_only(s, a, /):
    return s, a


@pytest.mark.parametrize("code", [no_stream, by_name_only, any_number, any_name, by_position_only])
def test_functions_whose_parameters_cannot_be_given_by_name_are_refused(code):
    with pytest.raises(QueryError, match=f"@sqf: .*{code.__name__}"):
        sqf(register=False)(code)


def test_state_needs_both_an_init_and_a_parameter():
    def with_state(s, size, state):
        return s, size, state

    made = sqf(init=lambda size: [0] * size, register=False)(with_state)
    assert [parameter.name for parameter in made.parameters] == ["size"]
    assert made.strategies == ()
    with pytest.raises(QueryError, match="both init= and a parameter 'state'"):
        sqf(register=False)(with_state)
    with pytest.raises(QueryError, match="both init= and a parameter 'state'"):
        sqf(init=list, register=False)(any)


@pytest.mark.parametrize(
    ("given", "bound"),
    [
        ({"factor": 2}, {"factor": 2, "offset": 0.0}),
        ({"offset": 1, "factor": 2}, {"factor": 2, "offset": 1}),
        ([2], {"factor": 2, "offset": 0.0}),
        ((2, 3), {"factor": 2, "offset": 3}),
        ({7}, {"factor": 7, "offset": 0.0}),
        (7, {"factor": 7, "offset": 0.0}),
        ("word", {"factor": "word", "offset": 0.0}),
        (b"word", {"factor": b"word", "offset": 0.0}),
    ],
)
def test_parameters_are_bound_by_name_in_order_or_as_one_value(scale, given, bound):
    assert scale.bind(given) == bound


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "'scale' needs a value for parameter 'factor'"),
        ([], "needs a value for parameter 'factor'"),
        ({"offset": 1}, "needs a value for parameter 'factor'"),
        ({"factor": 1, "gain": 2}, "'scale' has no parameter 'gain'; its parameters: factor, offset"),
        ([1, 2, 3], r"takes at most 2 parameters \(factor, offset\), got 3"),
        ({1, 2}, "a set has no order"),
    ],
)
def test_parameters_that_do_not_fit_are_explained(scale, given, message):
    with pytest.raises(FlowError, match=message):
        scale.bind(given)


def test_error_about_parameters_names_the_place(scale):
    with pytest.raises(FlowError, match=r"^vertex 3: "):
        scale.bind(None, "vertex 3")
    with pytest.raises(FlowError, match=r"^function 'scale': "):
        scale.bind(None)


def test_function_without_parameters_says_so(scale):
    with pytest.raises(FlowError, match="its parameters: none"):
        functions.get("fft3").bind({"n": 3})


def test_result_type_follows_the_declaration(level_type):
    fft3, polarize, identity = map(functions.get, ["fft3", "polarize", "identity"])
    assert fft3.result_type([Radio], {}) == Radio
    assert polarize.result_type([Radio], {}) == Polar
    assert identity.result_type([level_type], {}) == level_type


def test_subtypes_fit_where_their_parents_do(level_type):
    station = create_stream_type("Station", {"name": "string"}, under=Radio, registry=TypeRegistry())
    assert functions.get("identity").result_type([station], {}) == station
    assert functions.get("polarize").result_type([station], {}) == Polar


def test_wrong_input_type_is_explained(level_type):
    with pytest.raises(SchemaError, match="'Radio' or a subtype, as 'fft3' takes, got 'FunctionsLevel' as input 0"):
        functions.get("fft3").result_type([level_type], {})
    with pytest.raises(SchemaError, match="got 'FunctionsLevel' as input 1"):
        functions.get("fft3combine").result_type([Radio, level_type], {})
    with pytest.raises(SchemaError):
        functions.get("fft3").result_type([STREAM], {})


def test_merge_takes_streams_of_one_type_and_join_the_type_of_its_combine_function(level_type):
    merge, join = functions.get("S-Merge"), functions.get("OS-Join")
    assert merge.result_type([Radio, Radio], {"timeout": None}) == Radio
    with pytest.raises(SchemaError, match="expected 'Radio', as input 0 has, got 'FunctionsLevel' as input 1"):
        merge.result_type([Radio, level_type], {})
    assert join.result_type([Polar, Polar], join.bind({"combine": "polarcombine"})) == Polar
    assert join.result_type([Radio, Radio], join.bind(["fft3combine"])) == Radio
    with pytest.raises(QueryError, match=r"expected a function of kind 'combine', got 'fft3' \(transforming\)"):
        join.result_type([Radio, Radio], {"combine": "fft3"})
    with pytest.raises(UnknownName, match="unknown function 'nothing'"):
        join.result_type([Radio, Radio], {"combine": "nothing"})


@pytest.mark.parametrize("name", ["S-Merge", "OS-Join", "overlap_part", "time_overlap_part"])
def test_work_of_builtin_operators_is_not_done_by_their_code(name):
    function = functions.get(name)
    assert function.builtin == name
    with pytest.raises(NotImplementedError):
        function([], *[0] * sum(parameter.required for parameter in function.parameters))


def test_stateless_transforming_functions_can_always_be_distributed(scale):
    assert scale.strategy("window_distribute") == window_distribute()
    assert scale.strategy("window_split") is None
    assert functions.get("fft3").strategy("window_split").partition == "fft3part"
    assert functions.get("RRpart").strategies == ()


def test_strategy_takes_parameters_of_the_function(scale):
    strategy = window_distribute("overlap_part", size="$size", step="$step", chunk=8)
    assert strategy.resolve({"size": 4, "step": None}) == ({"size": 4, "step": None, "chunk": 8}, {})
    with pytest.raises(UnknownName, match=r"unknown parameter in strategy 'window_distribute' '\$step'; known: size"):
        strategy.resolve({"size": 4})
    split = window_split("fft3part", "fft3combine", (2, 4))
    assert split.resolve({}) == ({}, {"combine": "fft3combine"})
    assert split.describe()["degrees"] == [2, 4]
    assert hash(split) == hash(Strategy(**vars(split)))


def test_every_function_of_the_library_describes_itself_as_json():
    library = [name for name in functions.names() if functions.get(name).code.__module__.startswith("gsdm_grid.")]
    assert {"fft3", "RRpart", "S-Merge", "sample"} <= set(library)
    for name in library:
        described = json.loads(json.dumps(functions.get(name).describe()))
        assert described["name"] == name
        assert described["doc"]
    parameters = functions.get("RRpart").describe()["parameters"]
    assert parameters[0] == {"name": "n", "required": True}
    assert parameters[2] == {"name": "run", "required": False, "default": "1"}
    assert functions.get("aggregate").describe()["output"] == "derived from the input"
