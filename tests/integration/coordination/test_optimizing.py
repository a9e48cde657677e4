"""Finding the best plan in this process: real trials on threads."""

import pytest

from gsdm_grid import Grid, cq, opt, register_input_stream, sqf
from gsdm_grid.errors import FlowError, PlanError, ResourceError
from gsdm_grid.flow import central, parallelize
from gsdm_grid.functions.library.radio import Radio
from gsdm_grid.optimizer.candidates import Stage
from gsdm_grid.optimizer.criteria import Criteria
from gsdm_grid.optimizer.plan_space import Limits
from gsdm_grid.optimizer.search import Search, SearchOptions
from gsdm_grid.spec import parse_criteria
from gsdm_grid.trials.plan_search import optimize, plan_space
from gsdm_grid.trials.trial_runs import TrialRun, pool_limits, run_trial

SOURCE = "gsdm_grid.apps.radio:SyntheticRadio"
QUICK = {"limits": Limits(most=2, shapes=("flat",)), "options": SearchOptions(count=64, repeats=1)}


@pytest.fixture
def radio():
    return register_input_stream("Radio", None, SOURCE, window=64)


class EmptyPool:
    """A pool of Ray hosts whose machines have all gone."""

    def inventory(self):
        return {"started": True, "nodes": [], "total": {}}

    def close(self):
        return None


def test_opt_gives_a_data_flow_that_a_query_runs_with_the_results_of_the_central_plan(threads_grid, radio):
    flow = opt("PCC", "fft3", {}, [radio], grid=threads_grid, **QUICK)
    results = []
    for one in (flow, central("fft3")):
        query = cq(one, [radio], grid=threads_grid)
        results.append([window.x for window in query.run(count=20)])
        query.drop()
    assert len(results[0]) == 20
    for found, expected in zip(*results, strict=True):
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-3)


def test_opt_finds_a_plan_for_a_pipe(threads_grid, radio):
    flow = opt("pipe", ["fft3", "polarize"], [{}, {}], [radio], grid=threads_grid, **QUICK)
    assert {"fft3", "polarize"} <= {vertex.function_name for vertex in flow.vertices}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("star", "fft3", {}), "knows the templates PCC and pipe, got 'star'"),
        (("PCC", ["fft3"], {}), "PCC takes one function"),
        (("pipe", "fft3", {}), "pipe takes a list of functions"),
        (("pipe", ["fft3", "polarize"], [{}]), "there are 2 functions, but parameters for 1"),
    ],
)
def test_opt_refuses_what_it_does_not_know(threads_grid, radio, arguments, reason):
    with pytest.raises(FlowError, match=reason):
        opt(*arguments, [radio], grid=threads_grid)


def test_a_trial_measures_every_site_and_leaves_nothing_behind(threads_grid, radio):
    before = set(threads_grid.queries)
    result = run_trial(threads_grid, TrialRun(parallelize("fft3", {}, "window_split", 2), [radio], count=100))
    assert set(threads_grid.queries) == before
    assert result.windows == 100
    assert {site.role for site in result.sites} == {"partition", "compute", "combine"}
    assert all(site.utilization_s > 0 for site in result.sites)
    figures = result.figures()
    assert figures["cost_s"] == pytest.approx(max(site.utilization_s for site in result.sites) / 100)
    assert figures["hosts"] == 4
    assert result == type(result).from_json(result.to_json())


def test_latency_is_measured_if_it_is_wanted(threads_grid, radio):
    trial = TrialRun(central("fft3"), [radio], count=100, latency=True)
    assert run_trial(threads_grid, trial).p99_ms > 0
    bounded = parse_criteria({"maximize": "throughput", "subject_to": {"p99_ms": 60_000}})
    space = plan_space(threads_grid, (Stage.of("fft3"),), [radio], Limits(most=1))
    choice = optimize(threads_grid, Search(space, bounded, SearchOptions(count=64, repeats=1)), [radio])
    assert choice.plan.key == "central"
    assert choice.winner.figures["p99_ms"] > 0


def test_a_stream_that_is_too_short_fails_the_trial_with_the_reason(threads_grid):
    short = register_input_stream("Radio", None, SOURCE, window=64, limit=4)
    with pytest.raises(PlanError, match="the stream ended after 4 of 8 windows: record a longer segment"):
        opt("PCC", "fft3", {}, [short], grid=threads_grid, **QUICK)


def test_a_function_that_raises_fails_its_trials_with_the_reason(threads_grid, radio):
    @sqf(Radio, register=False)
    def broken(s):
        raise ValueError("no luck")

    with pytest.raises(PlanError, match="no luck"):
        opt("PCC", broken, {}, [radio], grid=threads_grid, **QUICK)


def test_a_pool_with_no_hosts_is_told_at_once(radio):
    with Grid("ray", pools={"ray": EmptyPool()}) as grid:
        with pytest.raises(ResourceError, match="pool 'ray' has no hosts: there is no ray host alive"):
            pool_limits(grid, None)
        with pytest.raises(ResourceError, match="has no hosts"):
            opt("PCC", "fft3", {}, [radio], grid=grid)


def test_an_empty_plan_space_is_told_before_anything_runs(threads_grid, radio):
    with pytest.raises(PlanError, match="the plan space of fft3 is empty"):
        opt("PCC", "fft3", {}, [radio], grid=threads_grid, limits=Limits(strategies=("none",)))


def test_the_same_search_runs_on_any_criteria(threads_grid, radio):
    space = plan_space(threads_grid, (Stage.of("fft3"),), [radio], Limits(most=2, shapes=("flat",)))
    told = []
    search = Search(space, Criteria({"hosts": 1.0}), SearchOptions(count=64, repeats=1))
    choice = optimize(threads_grid, search, [radio], lambda request, outcome: told.append(request.key))
    assert choice.plan.key == "central"
    assert len(told) == len(set(told)) >= 4
