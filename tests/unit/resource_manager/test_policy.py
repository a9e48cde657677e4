"""The policy that changes the degree of parallelism of a running query."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_manager.policy import AutoscalePolicy, Load, LoadMeter, decide

POLICY = AutoscalePolicy(least=1, most=8)


def loads(*busiest, degree=2, start_s=100.0, dropped=0):
    return [Load(start_s + number, degree, share, dropped) for number, share in enumerate(busiest)]


def test_a_busy_query_grows_to_where_its_load_would_be_at_the_target():
    made = decide(POLICY, loads(0.95, 0.97, 0.96), 0.0)
    assert made.degree == 4
    assert "95%" in made.reason


def test_one_busy_moment_is_not_enough():
    assert decide(POLICY, loads(0.5, 0.5, 0.99), 0.0) is None
    assert decide(POLICY, loads(0.99, 0.99), 0.0) is None


def test_an_idle_query_shrinks_by_one():
    assert decide(POLICY, loads(0.1, 0.1, 0.1, degree=4), 0.0).degree == 3


def test_it_does_not_shrink_to_where_it_would_have_to_grow_again():
    assert decide(POLICY, loads(0.45, 0.45, 0.45), 0.0) is None


def test_after_a_change_it_pauses():
    assert decide(POLICY, loads(0.99, 0.99, 0.99), 99.0) is None


@pytest.mark.parametrize(("degree", "wanted"), [(1, 3), (9, 5)])
def test_bounds_are_kept(degree, wanted):
    policy = AutoscalePolicy(least=3, most=5)
    assert decide(policy, loads(0.5, 0.5, 0.5, degree=degree), 0.0).degree == wanted


def test_dropped_windows_are_a_reason_to_grow_earlier():
    assert decide(POLICY, loads(0.7, 0.7, 0.7), 0.0) is None
    assert "dropped" in decide(POLICY, loads(0.7, 0.7, 0.7, dropped=5), 0.0).reason


@given(st.lists(st.floats(0, 1), min_size=3, max_size=6), st.integers(1, 8))
def test_the_degree_stays_within_its_bounds_and_a_decision_changes_it(shares, degree):
    made = decide(POLICY, loads(*shares, degree=degree), 0.0)
    assert made is None or (1 <= made.degree <= 8 and made.degree != degree)


@given(st.floats(0.01, 7.0))
def test_a_steady_stream_comes_to_a_steady_degree(work):
    """Work spread evenly over the sites: the degree settles, and does not oscillate."""
    degree, at_s, history = 1, 0.0, []
    for _ in range(40):
        share = min(work / degree, 1.0)
        made = decide(POLICY, loads(share, share, share, degree=degree, start_s=at_s), -100.0)
        degree = made.degree if made else degree
        history.append(degree)
        at_s += 10
    assert len(set(history[-20:])) == 1


def site(active_s, idle_s, dropped=0):
    return {"active_s": active_s, "idle_s": idle_s, "streams": {"in": {"dropped_oldest": dropped}}}


def test_the_meter_gives_the_share_since_the_last_reading():
    meter = LoadMeter()
    assert meter.read(0, {"a", "b"}, {"a": site(10, 5), "b": site(10, 5)}) is None
    load = meter.read(1, {"a", "b"}, {"a": site(11, 5.1), "b": site(11, 5.5, dropped=3)})
    assert load.busiest == pytest.approx(0.9)
    assert (load.degree, load.dropped) == (2, 3)


def test_the_meter_waits_for_new_sites():
    meter = LoadMeter()
    meter.read(0, {"a"}, {"a": site(1, 1)})
    assert meter.read(1, {"a", "b"}, {"a": site(2, 1)}) is None
