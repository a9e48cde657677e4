"""Measured runs of splitstream plans: what was counted is what was sent, without what it took to get started."""

import numpy as np
import pytest

from gsdm_grid.splitting.split_choice import PLANS
from gsdm_grid.trials.split_trials import run_split, split_flow, tuple_pool

N, W, B, OMITTED = 400, 6, 0.05, 0.1


@pytest.mark.parametrize("plan", PLANS)
def test_a_run_counts_what_was_sent_after_it_got_started(threads_grid, plan):
    run = run_split(threads_grid, split_flow(plan, W, p=2, b=B), 8 * N, N, B, OMITTED)
    kinds = np.concatenate([block.kind for block in tuple_pool(N, W, B, OMITTED)])
    broadcast, omitted = 2 * int((kinds == 2).sum()), 2 * int((kinds == 4).sum())  # the pool has gone round twice
    delivered = 8 * N - broadcast - omitted + W * broadcast
    processors = [one for one in run.observed.values() if one.kind == "processor"]
    assert run.tuples == 8 * N
    assert sum(one.tuples for one in processors) == delivered
    assert sum(one.members for one in processors) == W
    assert run.derived_rate > 0
    assert run.spent_s("splitter") > 0
    assert (run.spent_s("router") > 0) == (plan == "parasplit")


def test_sites_that_do_the_same_are_one_observation(threads_grid):
    run = run_split(threads_grid, split_flow("parasplit", W, p=3, b=B), 8 * N, N, B, OMITTED)
    kinds = [kind for kind, _, _ in run.alike]
    assert sorted(kinds) == ["processor", "router", "splitter"]
    splitters = next(one for (kind, _, _), one in run.alike.items() if kind == "splitter")
    assert (splitters.members, splitters.tuples) == (3, 8 * N)
    assert splitters.cost_s == pytest.approx(run.spent_s("splitter"))
