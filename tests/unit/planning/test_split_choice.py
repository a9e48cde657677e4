"""Which plan of a splitstream is taken, and the reason that is given."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsdm_grid.splitting.split_choice import PLANS, choose_split
from gsdm_grid.splitting.split_cost import PAPER, Coefficients, StreamShares

HERE = Coefficients(cc=5e-9, cp=2e-8, ce=1e-9, crW=2e-5, ceW=1e-5, cr=1e-9, cm=2e-8, cmW=3e-5, cpoll=1e-6, router=5e-5)
SHARES = StreamShares(b=0.005, n=30_000)


def test_all_plans_are_predicted():
    choice = choose_split(HERE, SHARES, 64, has_bfn=True)
    assert tuple(one.plan for one in choice.predictions) == PLANS
    told = choice.to_json()
    assert {one["plan"] for one in told["plans"]} == set(PLANS)
    assert all(one["tuples_s"] > 0 and one["cpu_s_per_tuple"] > 0 and one["bottleneck"] for one in told["plans"])


def test_autosplit_is_fsplit_without_a_broadcasting_function_and_exptree_with_one():
    without = choose_split(PAPER, StreamShares(), 64, has_bfn=False, desired_rate=0.1)
    assert without.named("autosplit").shape["is"] == "fsplit"
    assert without.named("autosplit").rate == without.named("fsplit").rate
    with_one = choose_split(PAPER, StreamShares(b=0.005), 64, has_bfn=True, desired_rate=0.1)
    assert with_one.named("autosplit").shape["is"] == "exptree"
    assert with_one.named("autosplit").cost_s == with_one.named("exptree").cost_s


def test_the_cheapest_plan_that_is_fast_enough_is_taken():
    choice = choose_split(HERE, SHARES, 64, has_bfn=True, desired_rate=1e7)
    assert choice.chosen.plan == "fsplit"
    assert "costs least CPU" in choice.reason
    faster = choose_split(HERE, SHARES, 64, has_bfn=True, desired_rate=3e7)
    assert faster.chosen.plan == "maxtree"
    assert "too slow: fsplit" in faster.reason
    fastest = choose_split(HERE, SHARES, 64, has_bfn=True, desired_rate=1e8)
    assert fastest.chosen.plan == "parasplit"
    assert fastest.chosen.shape["p"] == 6
    assert "equation 6 would say 4" in fastest.p_reason  # it does not know what an output costs


def test_a_rate_that_nothing_reaches_is_said_to_be_out_of_reach():
    choice = choose_split(HERE, SHARES, 64, has_bfn=True, desired_rate=1e12)
    assert choice.reason == "no plan reaches 1,000,000,000,000 tuples/s; this one comes closest"
    assert choice.chosen.rate == max(one.rate for one in choice.predictions)


def test_a_given_number_of_splitters_is_taken_as_it_is():
    choice = choose_split(HERE, SHARES, 64, has_bfn=True, p=2)
    assert (choice.named("parasplit").shape["p"], choice.p_reason) == (2, "as given")


def test_the_channel_limits_every_plan():
    choice = choose_split(HERE, SHARES, 64, has_bfn=True, channel_rate=1e6)
    assert {one.rate for one in choice.predictions} == {1e6}
    assert choice.chosen.plan == "fsplit"  # equally fast, and the cheapest
    assert choice.chosen.bottleneck == "channel"


@given(st.integers(1, 300), st.floats(0, 0.6), st.floats(0, 0.4), st.floats(1, 1e6), st.none() | st.floats(1, 1e9))
def test_what_is_chosen_is_never_slower_than_it_must_be(w, b, o, n, desired):
    choice = choose_split(HERE, StreamShares(b, o, n), w, has_bfn=b > 0, desired_rate=desired)
    fastest = max(one.rate for one in choice.predictions)
    assert choice.chosen.rate >= min(fastest * 0.99, desired or fastest)


def test_costs_that_are_not_known_do_not_divide_by_zero():
    choice = choose_split(PAPER, StreamShares(b=0.1), 8, has_bfn=True)
    assert choice.chosen.rate == pytest.approx(max(one.rate for one in choice.predictions))
