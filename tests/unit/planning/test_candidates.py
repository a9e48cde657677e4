"""Candidate plans: as documents, as data flows, and which ones are valid."""

import pytest

from gsdm_grid import STREAM, sqf
from gsdm_grid.errors import FlowError, UnknownName
from gsdm_grid.functions.strategies import window_distribute, window_split
from gsdm_grid.optimizer.candidates import (
    Candidate,
    Parallel,
    Stage,
    planned_flow,
    sites_of_stages,
    strategies_of,
    tree_obstacle,
)
from gsdm_grid.spec import parse_plan

FFT3 = (Stage.of("fft3"),)
PIPE = (Stage.of("fft3"), Stage.of("polarize"))
PLANS = [
    Candidate((None,)),
    Candidate((Parallel("window_split", 4),)),
    Candidate((Parallel("window_distribute", 8, tree=True, run=3),)),
]
PIPE_PLANS = [
    Candidate((None, Parallel("window_split", 2))),
    Candidate((Parallel("window_distribute", 2),), fused=True),
    Candidate((None,), fused=True),
]


def count(flow, name):
    return sum(vertex.function_name == name for vertex in flow.vertices)


@pytest.mark.parametrize(("plan", "stages"), [(p, 1) for p in PLANS] + [(p, 2) for p in PIPE_PLANS])
def test_a_plan_is_read_back_from_its_document(plan, stages):
    assert parse_plan(plan.to_json(), stages) == plan


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        ({"strategy": "window_split", "degree": 0}, "plan.degree: must be a whole number"),
        ({"strategy": "window_split", "shape": "round"}, "plan.shape: must be flat or tree"),
        ({"strategy": "window_split", "colour": 1}, "no member 'colour'; allowed: strategy"),
        ({"degree": 2}, "plan.strategy: expected text, got nothing"),
        ({"stages": ["central"]}, "a plan for each of 2 stages"),
        ({"strategy": "window_split"}, "is for one function, but there are 2"),
        ("best", "is for one function, but there are 2"),
    ],
)
def test_a_wrong_plan_is_refused_with_the_reason(plan, reason):
    with pytest.raises(FlowError, match=reason):
        parse_plan(plan, 2 if "stages" in plan or "is for" in reason else 1)


def test_a_tree_splits_in_two_levels_as_equal_as_they_can_be():
    assert [Parallel("w", degree, tree=True).fan_outs for degree in (4, 6, 8, 16)] == [(2, 2), (2, 3), (2, 4), (4, 4)]
    flow = planned_flow(FFT3, Candidate((Parallel("window_split", 8, tree=True),)))
    assert (count(flow, "fft3"), count(flow, "fft3part"), count(flow, "OS-Join")) == (8, 2 + 8, 1 + 2)


def test_fused_stages_share_their_sites():
    flow = planned_flow(PIPE, Candidate((Parallel("window_distribute", 2),), fused=True))
    assert len(flow.sites) == 4
    assert {v.site for v in flow.vertices if v.function_name == "fft3"} == {
        v.site for v in flow.vertices if v.function_name == "polarize"
    }


def test_the_sites_of_each_stage_are_known():
    plan = Candidate((Parallel("window_split", 2), None))
    first, second = sites_of_stages(PIPE, plan)
    assert first == {"partition.0", "compute.0", "compute.1", "combine.0"}
    assert second == {"compute.2"}


def test_fused_functions_have_only_strategies_that_keep_windows_whole():
    assert [strategy.name for strategy in strategies_of(PIPE)] == ["window_distribute"]
    with pytest.raises(UnknownName, match="parallel strategy of 'fft3' and 'polarize' 'window_split'"):
        planned_flow(PIPE, Candidate((Parallel("window_split", 2),), fused=True))


def test_functions_that_partition_differently_are_not_fused_in_parallel():
    assert list(strategies_of((Stage.of("aggregate", {"size": 4}), Stage.of("identity")))) == []


def test_windows_in_turn_are_for_round_robin():
    with pytest.raises(FlowError, match="is for round robin"):
        planned_flow(FFT3, Candidate((Parallel("window_split", 2, run=4),)))


def test_which_strategies_can_be_trees():
    assert tree_obstacle(window_distribute(), 4) is None
    assert "counts windows" in tree_obstacle(window_distribute("overlap_part", size=3), 4)
    assert "not a product" in tree_obstacle(window_distribute(), 5)
    assert "valid: [4]" in tree_obstacle(window_split("a", "b", degrees=(4,)), 4)


def test_a_degree_that_is_not_valid_is_refused():
    @sqf(STREAM, strategies=(window_split("fft3part", "fft3combine", degrees=(2,)),), register=False)
    def picky(s):
        return s

    with pytest.raises(FlowError, match=r"degree 4 is not valid; valid: \[2\]"):
        planned_flow((Stage.of(picky),), Candidate((Parallel("window_split", 4),)))
