"""Measured runs of splitstream plans: what was counted is what was sent, without what it took to get started."""

import itertools

import numpy as np
import pytest

from gsdm_grid.splitting.split_fit import Observed
from gsdm_grid.trials.split_trials import (
    BFN,
    PROFILE_RUNS,
    RFN,
    SplitTuple,
    deciding_seconds,
    split_flow,
    tuple_pool,
    tuple_stream,
    typical,
)

N, W, B, OMITTED = 400, 6, 0.05, 0.1


def test_the_pool_has_the_shares_that_were_asked_for():
    kinds = np.concatenate([block.kind for block in tuple_pool(20_000, W, B, OMITTED)])
    assert (kinds == 2).mean() == pytest.approx(B, abs=0.01)
    assert (kinds == 4).mean() == pytest.approx(OMITTED, abs=0.01)


def test_the_stream_goes_on_with_rising_timestamps():
    blocks = list(itertools.islice(tuple_stream(N, W, B, OMITTED), 6))
    assert np.concatenate([block.ts for block in blocks]).tolist() == list(range(6 * N))
    assert blocks[0].vid.tolist() == blocks[4].vid.tolist()


def test_without_broadcast_there_is_no_broadcasting_function():
    assert split_flow("autosplit", W).vertices[0].params["bfn"] is None
    assert split_flow("autosplit", W, b=B).vertices[0].params["bfn"] == BFN


def test_deciding_takes_time():
    assert deciding_seconds(RFN, BFN, tuple_pool(N, W, B, OMITTED), W) > 0
    assert tuple_pool(N, W, B, OMITTED)[0].type == SplitTuple


def test_of_several_rounds_the_middle_one_counts_for_each_kind_of_site():
    def spent(seconds):
        return Observed("splitter", 10, 10, 10, 2, 4, 1, seconds, 0.0)

    rounds = [{"a": spent(1.0), "b": spent(9.0)}, {"a": spent(5.0), "b": spent(8.0)}, {"a": spent(2.0)}]
    assert [one.cost_s for one in typical(rounds)] == [2.0, 8.0]


def test_the_runs_of_a_profile_tell_all_coefficients_apart():
    splitters = {(w, b) for name, w, _, b in PROFILE_RUNS if name == "fsplit"}
    assert len({w for w, _ in splitters}) > 2
    assert len({b for _, b in splitters}) > 2
    assert len({p for name, _, p, _ in PROFILE_RUNS if name == "parasplit"}) > 1
