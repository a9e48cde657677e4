"""Placement: host kinds by role, and relays where an interface cannot be opened."""

import pytest

from gsdm_grid import PCC, STREAM, Radio, central, pipe, sqf
from gsdm_grid.compiler import compile_flow
from gsdm_grid.plan import (
    GRID,
    POLICIES,
    RAY,
    SPARK,
    THREADS,
    StreamSpec,
)

WD = PCC(2, "RRpart", "fft3", {}, "S-Merge")


def plan_of(flow, policy, live=(False, False), outputs=1):
    inputs = [StreamSpec(f"in{k}", "udp", Radio, live=live[0]) for k in range(flow.arity)]
    results = [StreamSpec(f"out{k}", "tcp", live=live[1]) for k in range(outputs)]
    return compile_flow("q", flow, inputs, results, policy)


def hosts(plan):
    return {site.id: site.host for site in plan.sites}


def test_in_threads_nothing_is_relayed():
    for live in ((False, False), (True, True)):
        plan = plan_of(WD, THREADS, live)
        assert set(hosts(plan).values()) == {"thread"}
        assert len(plan.sites) == 4


def test_on_the_grid_partition_and_combine_run_on_ray_and_compute_on_spark():
    assert hosts(plan_of(WD, GRID)) == {
        "partition.0": "ray",
        "compute.0": "spark",
        "compute.1": "spark",
        "combine.0": "ray",
    }


def test_live_streams_are_opened_in_this_process_and_relayed():
    plan = plan_of(WD, GRID, (True, True))
    assert hosts(plan)["source.0"] == hosts(plan)["sink.0"] == "local"
    assert plan.stream("in0").to_site == "source.0"
    assert plan.stream("out0").from_site == "sink.0"
    assert plan.stream("source.0→partition.0").kind == "channel"


@pytest.mark.parametrize("policy", [GRID, SPARK], ids=lambda policy: policy.name)
@pytest.mark.parametrize("flow", [central("fft3"), pipe("fft3", "polarize"), WD], ids=["central", "pipe", "PCC"])
@pytest.mark.parametrize("live", [(False, False), (True, False), (True, True)])
def test_a_compute_site_never_opens_an_interface(policy, flow, live):
    plan = plan_of(flow, policy, live, outputs=2)
    for stream in plan.streams:
        if stream.kind in ("source", "sink"):
            site = plan.site(stream.to_site or stream.from_site)
            assert site.host != "spark"
            assert not stream.live or site.host in ("local", "thread")


@pytest.mark.parametrize("policy", POLICIES.values(), ids=list(POLICIES))
def test_relays_change_neither_types_nor_the_order_of_merges(policy):
    plan = plan_of(WD, policy, (True, True))
    found = {operator.id: operator for site in plan.sites for operator in site.operators}
    assert found["S-Merge.0"].order == "ordinal"
    assert not any(operator.renumber for operator in found.values())
    assert plan.stream("out0").type == Radio


def test_several_live_results_each_have_a_relay():
    plan = plan_of(central("fft3"), RAY, (False, True), outputs=2)
    assert [plan.stream(f"out{k}").from_site for k in range(2)] == ["sink.0", "sink.1"]


def test_functions_may_be_called_like_relays():
    @sqf(STREAM, register=False, name="source")
    def mine(s):
        return None

    plan = plan_of(pipe(mine, "fft3"), GRID, (True, True))
    found = [operator.id for site in plan.sites for operator in site.operators]
    assert len(found) == len(set(found)) == 4
    assert plan.stream("in0").to_site == "source.0"
