"""Shares of a stream from a sample, with bounds on the side that does not starve anybody."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsdm_grid.errors import QueryError
from gsdm_grid.splitting.split_sample import SplitSample, bounds, joined


@given(st.integers(1, 10_000).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total))))
def test_the_bounds_enclose_the_share_that_was_seen(seen):
    count, total = seen
    low, high = bounds(count, total)
    assert 0 <= low <= count / total <= high <= 1


def test_a_larger_sample_says_more():
    small, large = SplitSample(100, 40, 0), SplitSample(10_000, 4_000, 0)
    assert small.o_at_least < large.o_at_least < 0.4
    assert large.o_at_least == pytest.approx(0.4, abs=0.01)


def test_shares_are_taken_on_the_safe_side():
    shares = SplitSample(1000, 5, 5).shares(n=500)
    assert shares.o < 0.005 < shares.b
    assert shares.n == 500
    assert SplitSample(1000, 0, 0).shares(1).b == 0  # no broadcast was seen: none is planned for
    everything = SplitSample(10, 0, 10).shares(1)
    assert (everything.b, everything.o) == (1.0, 0.0)


@given(st.integers(1, 1000).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(0, n))))
def test_shares_of_any_sample_fit_together(counts):
    total, omitted, broadcast = counts
    shares = SplitSample(total, min(omitted, total - broadcast), broadcast).shares(1)
    assert shares.o + shares.r + shares.b == pytest.approx(1)


def test_the_hot_output_is_named():
    assert SplitSample(100, 0, 0, (5, 90, 5)).hot == (1, 0.9)
    assert SplitSample(100, 100, 0, (0, 0)).hot is None
    assert SplitSample(10, 0, 0, (1, 9)).to_json()["hot_output"] == 1


def test_samples_of_several_splitters_are_one():
    whole = joined([SplitSample(100, 10, 0, (90,), 1e-9), SplitSample(300, 0, 30, (200, 70), 3e-9)])
    assert (whole.tuples, whole.omitted, whole.broadcast, whole.per_output) == (400, 10, 30, (290, 70))
    assert whole.deciding_s == pytest.approx(2.5e-9)
    with pytest.raises(QueryError, match="no sample yet"):
        joined([])


def test_counts_that_cannot_be_are_refused():
    with pytest.raises(QueryError, match="a sample of 3 tuples cannot have 2 omitted and 2 broadcast"):
        SplitSample(3, 2, 2)
