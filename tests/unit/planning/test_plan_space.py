"""The plan space: what is in it, and why the rest is not."""

import pytest

from gsdm_grid import Radio, sqf
from gsdm_grid.errors import PlanError
from gsdm_grid.optimizer.candidates import Stage
from gsdm_grid.optimizer.plan_space import Limits, PlanSpace
from gsdm_grid.plan import StreamSpec, placement_policy
from gsdm_grid.trials.plan_search import hosts_counter

FFT3 = (Stage.of("fft3"),)


def keys(space):
    return [plan.key for plan in space.plans()]


def test_the_space_of_a_function_is_its_strategies_by_degree_and_shape():
    assert keys(PlanSpace(FFT3, Limits(most=4))) == [
        "central",
        "window_distribute-2",
        "window_split-2",
        "window_distribute-4",
        "window_distribute-4-tree",
        "window_split-4",
        "window_split-4-tree",
    ]


def test_windows_in_turn_multiply_round_robin_only():
    found = keys(PlanSpace(FFT3, Limits(most=2, runs=(1, 10))))
    assert found == ["central", "window_distribute-2", "window_distribute-2-run10", "window_split-2"]


def test_degrees_strategies_and_shapes_can_be_limited():
    limits = Limits(most=6, degrees=(3, 6, 9), strategies=("window_split",), shapes=("flat",))
    assert keys(PlanSpace(FFT3, limits)) == ["window_split-3", "window_split-6"]


def test_plans_that_need_too_many_hosts_are_left_out_and_named():
    space = PlanSpace(FFT3, Limits(most=4, hosts=5))
    assert keys(space) == ["central", "window_distribute-2", "window_split-2"]
    assert space.left_out()["window_split-4"] == "needs 6 hosts, at most 5 are allowed"


def test_a_pool_limits_each_kind_of_host():
    def hosts_of(flow):
        compute = sum(site.role == "compute" for site in flow.sites)
        return {"spark": compute, "ray": len(flow.sites) - compute}

    space = PlanSpace(FFT3, Limits(most=8, pool={"spark": 4}), hosts_of=hosts_of)
    assert "window_split-4" in keys(space)
    assert space.left_out()["window_split-8"] == "needs 8 spark hosts, the pool has 4"


def test_a_function_without_strategies_has_the_central_plan():
    assert keys(PlanSpace((Stage.of("timestamp_it"),))) == ["central"]


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(strategies=("window_shatter",)), "empty .no strategy is allowed"),
        (Limits(hosts=0), "central: needs 1 hosts, at most 0 are allowed"),
    ],
)
def test_an_empty_space_says_why(limits, reason):
    with pytest.raises(PlanError, match=f"the plan space of fft3 is {reason}" if "empty" in reason else reason):
        PlanSpace(FFT3, limits).plans()


def test_a_pipe_is_parallelized_by_stage_or_fused():
    space = PlanSpace((Stage.of("fft3"), Stage.of("polarize")), Limits(most=2))
    found = keys(space)
    assert len(found) == 3 * 3 + 2
    assert {"central+central", "window_split-2+window_distribute-2", "fused-window_distribute-2"} <= set(found)
    assert "fused-window_split-2" not in found


def test_a_function_of_several_streams_stays_central():
    assert keys(PlanSpace((Stage.of("S-Merge"),), inputs=2)) == ["central"]


def test_each_plan_comes_in_every_size_of_physical_windows():
    space = PlanSpace(FFT3, Limits(most=2, block_bytes=(None, 1 << 18)))
    central = space.plans()[0]
    assert [plan.key for plan in space.sized(central)] == ["central-256KiB"]


def test_a_function_of_your_own_can_be_distributed():
    @sqf(register=False)
    def mine(s):
        return s

    assert keys(PlanSpace((Stage.of(mine),), Limits(most=2))) == ["central", "window_distribute-2"]


def test_a_space_that_is_too_large_is_not_listed_but_has_beginnings():
    space = PlanSpace(tuple(Stage.of("fft3") for _ in range(3)), Limits(most=8, runs=(1, 4)))
    assert space.size > 1000
    assert not space.listed
    with pytest.raises(PlanError, match="too many to try them all"):
        space.plans()
    begun = [plan.key for plan in space.beginnings()]
    assert begun[:2] == ["central+central+central", "fused-central"]
    assert "fused-window_distribute-2-run4" in begun
    assert all(space.holds(plan) for plan in space.beginnings())


def test_a_plan_that_does_not_compile_is_left_out_with_the_reason():
    inputs = [StreamSpec("in", "udp", Radio, lengths=dict.fromkeys("xyz", 6))]
    space = PlanSpace(
        FFT3, Limits(most=4, shapes=("flat",)), hosts_of=hosts_counter(inputs, placement_policy("threads"))
    )
    assert keys(space) == ["central", "window_distribute-2", "window_split-2", "window_distribute-4"]
    assert "a window of 6 samples cannot be split in 4 equal parts" in space.left_out()["window_split-4"]
