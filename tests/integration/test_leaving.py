"""User code that raises what ends a program (`SystemExit` and its like) fails its query with a reason."""

import asyncio

import pytest

from gsdm_grid import (
    PCC,
    central,
    create_stream_type,
    current_window,
    pipe,
    register_input_stream,
    register_result_stream,
    register_stream_interface,
    sqf,
)
from gsdm_grid.errors import FunctionError, QueryError
from gsdm_grid.flow import fsplit
from gsdm_grid.functions import per_tuple
from gsdm_grid.interfaces import StreamInterface

WAIT_S = 20.0
Level = create_stream_type("LeavingLevel", {"value": "float64"})
RAISED = [SystemExit(3), KeyboardInterrupt("now"), GeneratorExit("now"), asyncio.CancelledError("now")]


def levels(count=20):
    return [Level.window(ts=k, value=float(k)) for k in range(count)]


def leaving(error):
    @sqf(Level, returns=Level, register=False)
    def leave(s):
        raise error

    return leave


@pytest.fixture
def run(threads_grid):
    """Run a data flow until it has failed; gives why."""

    def run(flow, source=None, result=None):
        inputs = [source or register_input_stream(Level, levels())]
        query = threads_grid.cq(flow, inputs, [result or register_result_stream()])
        try:
            with pytest.raises((FunctionError, QueryError)) as caught:
                query.run().wait(WAIT_S)
            assert query.state in ("failed", "compiled")
        finally:
            query.drop()
        return caught.value

    return run


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_whatever_a_function_raises_fails_its_query(run, error):
    failure = run(pipe("identity", leaving(error)))
    assert failure.args[:3] == ("leave.0", "leave", f"{type(error).__name__}: {error}")


def test_a_function_that_makes_its_state_may_raise_anything(run):
    def init():
        raise SystemExit(3)

    @sqf(Level, returns=Level, register=False, init=init)
    def count(s, state):
        return current_window(s)

    assert run(central(count)).args[:3] == ("count.0", "count", "SystemExit: 3")


def test_a_partitioning_function_may_raise_anything(run):
    @sqf(Level, returns=Level, register=False, kind="partitioning")
    def part(s, n, i):
        raise SystemExit(3)

    assert run(PCC(2, part, "identity", {}, "S-Merge")).args[1:3] == ("part", "SystemExit: 3")


def test_a_combine_function_may_raise_anything(run):
    @sqf(Level, returns=Level, register=False, kind="combine")
    def join(parts):
        raise SystemExit(3)

    @sqf(Level, returns=Level, register=False, kind="partitioning")
    def same(s, n, i):
        return current_window(s)

    assert run(PCC(2, same, "identity", {}, "OS-Join", {"combine": join})).args[1:3] == ("join", "SystemExit: 3")


@pytest.mark.parametrize("mark", [lambda function: function, per_tuple], ids=["over columns", "per tuple"])
def test_a_routing_function_may_raise_anything(run, mark):
    @mark
    def route(block):
        raise SystemExit(3)

    failure = run(pipe(fsplit(2, route), central("S-Merge", inputs=2)))
    assert failure.args[0] == "split.0"
    assert "SystemExit: 3" in failure.args[2]


class Leaving(StreamInterface):
    def __init__(self, stream_type, options):
        super().__init__(stream_type, options)
        self._method = options["address"]

    def _leave(self, method):
        if self._method == method:
            raise SystemExit(3)

    def open(self, context):
        super().open(context)
        self._leave("open")

    def next(self, limit):
        self._leave("next")

    def insert(self, block):
        self._leave("insert")


register_stream_interface("leaving", Leaving)


@pytest.mark.parametrize("method", ["open", "next"])
def test_a_source_may_raise_anything(run, method):
    failure = run(central("identity"), register_input_stream(Level, method, "leaving", name="antenna"))
    assert str(failure) == "input stream 'antenna': SystemExit: 3"


@pytest.mark.parametrize("method", ["open", "insert"])
def test_a_result_stream_may_raise_anything(run, method):
    failure = run(central("identity"), result=register_result_stream(method, "leaving", name="disk"))
    assert str(failure) == "result stream 'disk': SystemExit: 3"


def test_a_generator_may_raise_anything(run):
    def windows():
        raise SystemExit(3)
        yield

    assert "SystemExit(3)" in str(
        run(central("identity"), register_input_stream(Level, interface="generator", function=windows))
    )
