import inspect
import pickle
import traceback

import pytest

from gsdm_grid import errors
from gsdm_grid.ids import IdFactory

EXAMPLES = [
    errors.GsdmError("plain"),
    errors.QueryError("plain"),
    errors.SchemaError("T", "a", "int8", "float32"),
    errors.SchemaError("T", None, "int8", "float32"),
    errors.UnknownName("function", "ff3", {"fft3", "dft3"}),
    errors.UnknownAttribute("T", "b", {"ts": 1, "a": 2}),
    errors.FlowError("vertex 3", "two inputs"),
    errors.InvalidTransition("q1", "activate", "dropped", ["nothing"]),
    errors.PlanError("plain"),
    errors.ResourceError("plain"),
    errors.FunctionError("v1", "fft3", "ValueError: x", "Traceback …"),
    errors.NodeLost("n1", "killed"),
    errors.ChannelError("plain"),
    errors.InternalError("plain"),
]


def test_every_error_of_the_tree_has_an_example_here():
    defined = {kind for _, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__}
    assert {type(example) for example in EXAMPLES} == defined
    assert all(issubclass(kind, errors.GsdmError) for kind in defined)


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_error_survives_pickling(error, protocol):
    copy = pickle.loads(pickle.dumps(error, protocol))
    assert type(copy) is type(error)
    assert copy.args == error.args
    assert str(copy) == str(error)
    assert str(type(error)(*error.args)) == str(error)  # as nodes report it
    assert getattr(copy, "__notes__", None) == getattr(error, "__notes__", None)


def test_every_error_is_drawn_in_the_tree():
    for example in EXAMPLES:
        assert type(example).__name__ in errors.__doc__


def test_messages_name_the_thing_what_came_and_what_is_allowed():
    assert str(EXAMPLES[2]) == "stream type 'T', attribute 'a': expected int8, got float32"
    assert str(EXAMPLES[3]) == "stream type 'T': expected int8, got float32"
    assert str(EXAMPLES[4]) == "unknown function 'ff3'; did you mean 'fft3'? known: dft3, fft3"
    assert str(errors.UnknownName("host", "x", [])) == "unknown host 'x'; known: none"
    assert str(EXAMPLES[6]) == "vertex 3: two inputs"
    assert str(EXAMPLES[7]) == "query 'q1' is dropped: cannot activate; allowed now: nothing"
    assert str(EXAMPLES[10]) == "vertex 'v1', function 'fft3': ValueError: x"
    assert EXAMPLES[10].trace == "Traceback …"
    assert traceback.format_exception(EXAMPLES[10])[-1] == "Traceback …\n"
    assert str(EXAMPLES[11]) == "working node 'n1' was lost: killed"


def test_an_unknown_name_tells_where_it_stands():
    error = EXAMPLES[4].at("flow.args[2]")
    assert str(error).startswith("flow.args[2]: unknown function 'ff3'; did you mean")
    assert (error.place, error.similar[0]) == ("flow.args[2]", "fft3")


def test_long_lists_of_known_names_are_cut():
    text = str(errors.UnknownName("type", "x", [f"t{n:03}" for n in range(100)]))
    assert "t019, …" in text
    assert "t020" not in text


def test_ids_count_up_and_carry_the_token_of_their_factory():
    factory = IdFactory(lambda: "abc")
    assert [factory.new("query"), factory.new("query"), factory.new("stream")] == [
        *("query-abc-1", "query-abc-2", "stream-abc-3")
    ]
    assert IdFactory().new("q") != IdFactory().new("q")
