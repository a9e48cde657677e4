"""Every kind of host keeps the same promises: threads, Ray actors, Spark tasks, and all of them together."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.fft

from gsdm_grid import (
    PCC,
    PhysicalWindow,
    Radio,
    central,
    create_stream_type,
    current_window,
    lpipe,
    parallelize,
    pipe,
    register_input_stream,
    register_result_stream,
    sqf,
)
from gsdm_grid.errors import FunctionError, InvalidTransition

PLACEMENTS = ["threads", "processes", "ray", "spark", "grid"]
FLOWS = {
    "central": lambda: central("fft3"),
    "window distribute": lambda: PCC(2, "RRpart", "fft3", {}, "S-Merge"),
    "window split": lambda: PCC(2, "fft3part", "fft3", {}, "OS-Join", {"fft3combine"}),
    "tree": lambda: PCC(2, "RRpart", "PCC", [2, "fft3part", "fft3", {}, "OS-Join", {"fft3combine"}], "S-Merge"),
}

Level = create_stream_type("ContractLevel", {"value": "float64"})


@sqf(Level, returns=Level, register=False)
def halve(s):
    v = current_window(s)
    return v.replace(value=v.value / 2)


@sqf(Level, returns=Level, register=False)
def raise_at_seven(s):
    v = current_window(s)
    if v.value == 7:
        raise ZeroDivisionError("seven is not allowed")
    return v


@sqf(Level, returns=Level, register=False)
def leave(s):
    current_window(s)
    raise SystemExit(3)


@sqf(Level, returns=Level, register=False)
def return_nonsense(s):
    current_window(s)
    return 42


@sqf(Level, returns=Level, register=False)
def ask_for_unknown(s):
    return current_window(s).colour


@pytest.fixture(params=PLACEMENTS)
def grid(request, make_grid):
    grid = make_grid(request.param)
    yield grid
    for query in list(grid.queries.values()):
        query.drop()


def levels(count):
    return [Level.window(ts=k, value=float(k)) for k in range(count)]


def collect(query):
    return PhysicalWindow.concat(list(query.blocks()))


@pytest.mark.parametrize("flow", FLOWS)
def test_a_plan_gives_the_windows_of_scipy_in_order(grid, flow, radio_block):
    given = radio_block(101)
    result = collect(grid.cq(FLOWS[flow](), [register_input_stream(Radio, given)]).run())
    assert result.ts.tolist() == given.ts.tolist()
    for channel in ("x", "y", "z"):
        np.testing.assert_allclose(result[channel], scipy.fft.fft(given[channel]), atol=1e-3)


def test_a_function_from_a_script_reaches_the_host(grid):
    query = grid.cq(central(halve), [register_input_stream(Level, levels(10))])
    assert [w.value for w in query.run()] == [k / 2 for k in range(10)]


def test_a_sliding_window_split_over_four_sites_gives_the_windows_of_the_central_plan(grid):
    params = {"size": 7, "step": 2, "how": "sum"}
    wanted = [sum(range(k, k + 7)) for k in range(0, 294, 2)]
    query = grid.cq(
        parallelize("aggregate", params, "window_distribute", 4), [register_input_stream(Level, levels(300))]
    )
    assert [w.value for w in query.run()] == wanted


def test_a_stopped_query_resumes_where_it_was(grid):
    query = grid.cq(PCC(2, "RRpart", halve, {}, "S-Merge"), [register_input_stream(Level, levels(30))])
    first = [w.value for w in query.run(count=11)]
    query.wait(60)
    assert query.state == "installed"
    second = [w.value for w in query.run()]
    assert first == [k / 2 for k in range(11)]
    assert second == [k / 2 for k in range(11, 30)]


def test_an_endless_query_stops_when_told(grid):
    def forever():
        k = 0
        while True:
            yield Level.window(ts=k, value=1.0)
            k += 1

    query = grid.cq(central(halve), [register_input_stream(Level, forever())]).run()
    got = next(query.results())
    assert got.value == 0.5
    query.deactivate()
    assert all(w.value == 0.5 for w in query.results())
    query.wait(60)
    assert query.state == "installed"


@pytest.mark.parametrize(
    ("function", "cause"),
    [
        (raise_at_seven, "ZeroDivisionError: seven is not allowed"),
        (leave, "SystemExit: 3"),
        (return_nonsense, "promised windows of 'ContractLevel', returned int"),
        (ask_for_unknown, "unknown attribute 'colour' of stream type 'ContractLevel'"),
    ],
)
def test_a_failing_function_fails_its_query_and_no_other(grid, function, cause):
    good = grid.cq(central(halve), [register_input_stream(Level, levels(50))], name="good")
    bad = grid.cq(pipe(halve, function), [register_input_stream(Level, levels(50))], name="bad")
    good.install()
    with pytest.raises(FunctionError) as caught:
        list(bad.run().results())
    vertex, name, reason, trace = caught.value.args
    assert (vertex, name) == (f"{function.name}.0", function.name)
    assert cause in reason
    assert (f'File "{__file__}"' in trace) == (not cause.startswith("promised"))
    assert bad.state == "failed"
    assert len(list(good.run().results())) == 50


def test_several_result_streams_replicate_the_result(grid):
    seen = []
    outs = [register_result_stream(), register_result_stream(lambda block: seen.extend(block.value.tolist()))]
    query = grid.cq(lpipe(halve, halve), [register_input_stream(Level, levels(20))], outs)
    assert [w.value for w in query.run()] == [k / 4 for k in range(20)]
    query.wait(60)
    assert seen == [k / 4 for k in range(20)]


def test_wrong_transitions_say_what_is_allowed(grid):
    query = grid.cq(central(halve), [register_input_stream(Level, levels(5))])
    with pytest.raises(InvalidTransition, match="cannot activate; allowed now: compile, install, run, drop"):
        query.activate()
    query.drop()
    with pytest.raises(InvalidTransition, match="is dropped"):
        query.compile()


def test_statistics_count_every_window(grid):
    query = grid.cq(PCC(2, "RRpart", halve, {}, "S-Merge"), [register_input_stream(Level, levels(101))])
    assert len(list(query.run().results())) == 101
    query.wait(60)
    operators = {name: told for site in query.statistics().values() for name, told in site["operators"].items()}
    assert operators["halve.0"]["windows_in"] + operators["halve.1"]["windows_in"] == 101
    assert operators["halve.0"]["executions"] == 51
    assert operators["S-Merge.0"]["windows_out"] == 101
    assert operators["S-Merge.0"]["late"] == 0
