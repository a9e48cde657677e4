"""Parasplit's cost model: equations of the paper and what follows from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsdm_grid.splitting.parasplit_cost import (
    ProcessCosts,
    cost_model_p,
    efficiency,
    heuristic_p,
    heuristic_splitter_cost,
    parasplit_prediction,
    predicted_efficiency,
    process_cost,
    query_processor_cost,
    router_cost,
    router_fanouts,
    splitter_cost,
)
from gsdm_grid.splitting.split_cost import Coefficients, StreamShares

SCSQ = Coefficients(cc=0.0, cp=0.5, ce=0.5)  # reading windows is taken as free, cs + ce = 1 / Φ_PS
MEASURED = Coefficients(
    cc=5e-9, cp=2e-8, ce=1e-9, crW=2e-5, ceW=1e-5, cr=1e-9, cm=2e-8, cmW=3e-5, cpoll=1e-6, router=5e-5
)
SHARES = st.builds(StreamShares, b=st.floats(0, 0.5), o=st.floats(0, 0.5), n=st.floats(1, 1e6))


@given(SHARES, st.integers(1, 512), st.floats(0, 5), st.floats(0, 5), st.floats(0, 5))
def test_router_splitter_and_query_processor_are_special_cases_of_a_stream_process(shares, q, cr, cs, ce):
    moved = process_cost(ProcessCosts(cs=cs, ce=ce), shares, q=q)
    splitter = process_cost(ProcessCosts(cr=cr), shares, q=q) + (1 - shares.uncopied) * moved
    assert splitter == pytest.approx(splitter_cost(Coefficients(cc=cr, cp=cs, ce=ce), shares, q))
    windows = StreamShares(n=1)
    router = process_cost(ProcessCosts(cr=cr, cs=cs, ce=ce), windows)
    assert router == pytest.approx(router_cost(Coefficients(0, 0, 0, router=cr + cs + ce), windows))


def test_windows_that_are_broadcast_as_a_whole_are_not_copied():
    copied, whole = StreamShares(b=1.0), StreamShares(b=1.0, n=1000)
    assert splitter_cost(MEASURED, copied, 64) > 64 * MEASURED.cp
    assert splitter_cost(MEASURED, whole, 64) == pytest.approx(MEASURED.cc + (MEASURED.crW + 64 * MEASURED.ceW) / 1000)


def test_a_query_processor_polls_and_merges_all_its_input_streams():
    single = process_cost(ProcessCosts(cr=1, cp=2, cm=3, cq=4), StreamShares(o=1.0), u=1)
    eight = process_cost(ProcessCosts(cr=1, cp=2, cm=3, cq=4), StreamShares(o=1.0), u=8)
    assert (single, eight) == (10, 45)


def test_the_heuristic_is_equation_3_without_reading_and_omitting():
    shares = StreamShares(b=0.01)
    assert heuristic_splitter_cost(SCSQ, 512) == pytest.approx(splitter_cost(SCSQ, shares, 512))


def test_the_heuristic_chooses_the_printed_number_of_splitters():
    in_mbit = Coefficients(cc=0.0, cp=1 / 123.7, ce=0.0)
    assert heuristic_p(in_mbit, StreamShares(b=0.01), 512, 500) == 25
    assert heuristic_p(in_mbit, StreamShares(b=0.01), 512, 1000) == 50


def test_a_measured_lower_bound_of_the_omitted_share_saves_splitters():
    in_mbit = Coefficients(cc=0.0, cp=1 / 123.7, ce=0.0)
    assert heuristic_p(in_mbit, StreamShares(b=0.01), 16, 1000) == 10
    assert heuristic_p(in_mbit, StreamShares(b=0.01, o=0.4), 16, 1000) == 7


@given(SHARES, st.integers(1, 512), st.floats(1e3, 1e8))
def test_as_many_splitters_as_the_full_model_asks_for_reach_the_desired_rate(shares, q, desired):
    p = cost_model_p(MEASURED, shares, q, desired)
    assert p / splitter_cost(MEASURED, shares, q) >= desired * (1 - 1e-9)
    assert p == 1 or (p - 1) / splitter_cost(MEASURED, shares, q) < desired * (1 + 1e-9)


@given(SHARES, st.integers(1, 32), st.integers(1, 512))
def test_the_rate_is_that_of_the_slowest_kind_of_process(shares, p, q):
    prediction = parasplit_prediction(MEASURED, shares, p, q)
    rates = [
        1 / router_cost(MEASURED, shares),
        p / splitter_cost(MEASURED, shares, q),
        1 / ((shares.b + shares.r / q) * query_processor_cost(MEASURED, shares, p, q)) if shares.o < 1 else 1e99,
    ]
    assert prediction.rate == pytest.approx(min(rates))
    assert 0 <= predicted_efficiency(prediction) <= 1


def test_more_splitters_than_needed_make_parasplit_less_efficient():
    shares = StreamShares(b=0.005, n=30_000)
    some, many = (predicted_efficiency(parasplit_prediction(MEASURED, shares, p, 64)) for p in (4, 64))
    assert many < some


def test_the_channel_can_be_the_bottleneck():
    shares = StreamShares(b=0.005, n=30_000)
    free = parasplit_prediction(MEASURED, shares, 1000, 64)
    bound = parasplit_prediction(MEASURED, shares, 1000, 64, channel_rate=free.rate / 2)
    assert bound.bottleneck == "channel"
    assert bound.rate == free.rate / 2
    assert free.bottleneck != "channel"


def test_many_splitters_get_a_tree_of_routers():
    assert router_fanouts(64) == [64]
    assert router_fanouts(512) == [23, 23]
    sites = {site.name: site for site in parasplit_prediction(MEASURED, StreamShares(n=1e4), 512, 64).sites}
    assert sites["window router, level 2"].count == 23
    assert sites["window router, level 2"].cost_s == pytest.approx(sites["window router"].cost_s / 23)


def test_efficiency_is_the_share_of_the_splitters():
    assert efficiency(1.0, 6.0, 3.0) == 0.6
    assert efficiency(0.0, 0.0, 0.0) == 0.0
