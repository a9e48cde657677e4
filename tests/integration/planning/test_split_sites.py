"""Which sites of a splitstream plan do what, and what their statistics say."""

import numpy as np
import pytest

from gsdm_grid import register_input_stream, register_result_stream
from gsdm_grid.flow import PCC, build, exptree, fsplit, mapstream, mergestream, parasplit, pipe
from gsdm_grid.splitting.split_sample import joined
from gsdm_grid.splitting.split_sites import observations, samples, scaled_sites, split_kinds
from gsdm_grid.trials.split_trials import BFN, RFN, SplitTuple, tuple_pool

B, OMITTED, N, W = 0.05, 0.2, 500, 8


def reported(grid, flow, blocks=4):
    """The plan of a flow and its statistics after it has run over some tuples."""
    source = register_input_stream(SplitTuple, tuple_pool(N, W, B, OMITTED)[:blocks])
    query = grid.cq(flow, [source], [register_result_stream(None, "null") for _ in range(flow.width)])
    try:
        query.run().wait(60)
        return query.plan, query.refresh()
    finally:
        query.drop()


def counts(plan):
    kinds = list(split_kinds(plan).values())
    return kinds.count("router"), kinds.count("splitter"), kinds.count("processor")


FLOWS = {
    "fsplit": (pipe(fsplit(W, RFN, BFN), mapstream("identity", {}, W)), (0, 1, W)),
    "exptree": (pipe(exptree(W, RFN, BFN), mapstream("identity", {}, W)), (0, 3, W)),
    "parasplit": (parasplit(3, W, RFN, BFN), (1, 3, W)),
    "shared": (parasplit(3, W, RFN, BFN, sites=2), (1, 3, 2)),
    "merged": (pipe(parasplit(2, W, RFN, BFN), mergestream(W)), (1, 2, W)),
}


@pytest.mark.parametrize("name", FLOWS)
def test_routers_splitters_and_query_processors_are_told_apart(threads_grid, name):
    flow, expected = FLOWS[name]
    plan, statistics = reported(threads_grid, flow)
    assert counts(plan) == expected
    told = observations(plan, statistics)
    assert set(told) == set(split_kinds(plan))
    by_kind = {kind: [one for one in told.values() if one.kind == kind] for kind in ("router", "splitter", "processor")}
    kinds, lots = np.concatenate([block.kind for block in tuple_pool(N, W, B, OMITTED)]), 4 * N
    broadcast, omitted = int((kinds == 2).sum()), int((kinds == 4).sum())
    delivered = lots - broadcast - omitted + W * broadcast
    assert sum(one.tuples for one in by_kind["processor"]) == delivered
    if name != "exptree":
        assert sum(one.tuples for one in by_kind["splitter"]) == lots
        assert sum(one.placed for one in by_kind["splitter"]) == delivered + omitted
        assert all(one.outputs == W for one in by_kind["splitter"])
    assert sum(one.windows for one in by_kind["router"]) == (0 if name in ("fsplit", "exptree") else 5)
    assert all(one.inputs == {"parasplit": 3, "shared": 3, "merged": 2}.get(name, 1) for one in by_kind["processor"])
    assert all(one.cost_s > 0 for one in told.values())
    seen = joined(samples(plan, statistics))
    assert (seen.tuples, seen.omitted, seen.broadcast) == (lots, omitted, broadcast)
    assert sum(seen.per_output) == (lots - broadcast - omitted if name != "exptree" else sum(seen.per_output))


def test_the_degree_of_parasplit_is_the_number_of_its_window_splitters(threads_grid):
    plan, _ = reported(threads_grid, FLOWS["parasplit"][0], 1)
    assert len(scaled_sites(plan)) == 3
    assert all(split_kinds(plan)[site] == "splitter" for site in scaled_sites(plan))


def test_the_degree_of_other_plans_is_the_number_of_compute_sites(threads_grid):
    flow = build({"template": "pipe", "args": [PCC(3, "RRpart", "identity", {}, "S-Merge"), "identity"]})
    plan, _ = reported(threads_grid, flow, 1)
    assert split_kinds(plan) == {}
    assert scaled_sites(plan) == {site.id for site in plan.sites if site.role == "compute"}
