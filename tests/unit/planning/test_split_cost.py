"""The cost models of the two papers, against what the papers print and against each other."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gsdm_grid.errors import QueryError
from gsdm_grid.flow.split_shapes import cumulative_fanouts, exptree_fanouts, maxtree_fanouts
from gsdm_grid.splitting.split_cost import (
    PAPER,
    Coefficients,
    StreamShares,
    best,
    fsplit_cost,
    fsplit_prediction,
    level_cost,
    level_shares,
    output_rate,
    tree_prediction,
    with_query_processors,
)

SHARES = st.builds(StreamShares, b=st.floats(0, 1))
COEFFICIENTS = st.builds(Coefficients, cc=st.floats(0.1, 10), cp=st.floats(0.1, 10), ce=st.floats(0.1, 10))
EMIT_CAPACITY = 143e6 / 8 / 83  # tuples/s: 143 Mbit/s in tuples of 83 bytes
TUPLES_PER_EXPRESSWAY = 1670


def test_one_output_gives_the_printed_rate_of_109_000_tuples_a_second():
    rate = EMIT_CAPACITY * fsplit_prediction(PAPER, StreamShares(), 1).rate
    assert rate == pytest.approx(109_000, rel=0.02)
    assert rate / TUPLES_PER_EXPRESSWAY == pytest.approx(65, rel=0.02)


def test_fsplit_in_64_with_half_a_percent_broadcast_falls_below_the_100_000_of_linear_road():
    measured = Coefficients(cc=1.08, cp=0.5, ce=0.5)  # a = 1.08, as the paper measured
    single = fsplit_prediction(measured, StreamShares(), 1).rate
    wide = fsplit_prediction(measured, StreamShares(b=0.005), 64).rate
    assert 109_000 * wide / single == pytest.approx(100_000, rel=0.06)


def test_the_table_of_linear_road_gives_the_rates_of_the_outputs():
    assert output_rate(StreamShares(b=0.005), 64) == pytest.approx(0.005 + 0.995 / 64)


@given(SHARES, st.integers(1, 512))
def test_what_is_routed_and_broadcast_on_a_level_is_everything(shares, cumulative):
    routed, broadcast = level_shares(shares, cumulative)
    assert routed + broadcast == pytest.approx(1)
    arriving = output_rate(shares, cumulative)
    assert arriving * broadcast == pytest.approx(shares.b)  # every node gets all that is broadcast


@given(COEFFICIENTS, SHARES, st.integers(2, 512))
def test_no_level_of_a_maxtree_costs_more_than_its_root(given, shares, w):
    fanouts = maxtree_fanouts(w, shares.b, given.a)
    sites = tree_prediction("maxtree", given, shares, fanouts).sites
    assert all(site.cost_s <= sites[0].cost_s * (1 + 1e-9) for site in sites)


@given(COEFFICIENTS, st.floats(0.001, 1), st.integers(4, 512))
def test_one_output_more_on_a_level_of_a_maxtree_would_make_it_the_bottleneck(given, b, w):
    shares = StreamShares(b=b)
    fanouts = maxtree_fanouts(w, b, given.a)
    cumulative = cumulative_fanouts(fanouts)
    inner = range(2, len(fanouts))  # the last level has no more outputs than are missing
    assume(len(inner))
    root = level_cost(given, shares, 1, 2)
    for level in inner:
        assert level_cost(given, shares, cumulative[level - 1], fanouts[level - 1] + 1) > root * (1 - 1e-9)


@given(COEFFICIENTS, SHARES, st.integers(1, 512))
def test_a_tree_of_one_level_is_fsplit(given, shares, w):
    tree, single = tree_prediction("tree", given, shares, (w,)), fsplit_prediction(given, shares, w)
    assert tree.rate == pytest.approx(single.rate)
    assert level_cost(given, shares, 1, w) == pytest.approx(fsplit_cost(given, shares, w))


@given(COEFFICIENTS, SHARES, st.integers(2, 512))
def test_no_tree_is_faster_than_maxtree_or_cheaper_than_fsplit(given, shares, w):
    single = fsplit_prediction(given, shares, w)
    fastest = tree_prediction("maxtree", given, shares, maxtree_fanouts(w, shares.b, given.a))
    exponential = tree_prediction("exptree", given, shares, exptree_fanouts(w))
    for tree in (fastest, exponential):
        assert tree.rate <= fastest.rate * (1 + 1e-9)
        assert tree.cost_s >= single.cost_s * (1 - 1e-9)
    assert single.rate <= fastest.rate * (1 + 1e-9)


def test_the_curves_of_figure_4_have_the_described_form():
    def rates(b, w):
        shares = StreamShares(b=b)
        made = (
            fsplit_prediction(PAPER, shares, w),
            tree_prediction("exptree", PAPER, shares, exptree_fanouts(w), w),
            tree_prediction("maxtree", PAPER, shares, maxtree_fanouts(w, b), w),
        )
        return [one.rate for one in made], [one.cost_s for one in made]

    assert rates(0.0, 64)[0] == pytest.approx([0.5] * 3)  # the same throughput without broadcast
    for b in (0.001, 0.01, 0.05):  # "for moderate values of b … the same as that of maxtree"
        _, exponential, fastest = rates(b, 64)[0]
        assert exponential == pytest.approx(fastest, rel=0.02)
    single, exponential, fastest = rates(0.8, 64)[0]  # "lower, however much better than fsplit"
    assert 2 * single < exponential < fastest
    scale_up = [rates(0.005, w)[0] for w in (2, 16, 64, 256)]
    assert [one[0] for one in scale_up] == sorted((one[0] for one in scale_up), reverse=True)
    assert [one[1] for one in scale_up] == pytest.approx([scale_up[0][1]] * 4)
    assert rates(0.005, 16)[1][1] > rates(0.005, 8)[1][1] + 0.5  # "when a new tree level is added"
    assert rates(0.005, 64)[1][2] < rates(0.005, 64)[1][1]  # maxtree is shallower
    assert rates(0.95, 64)[1][2] > 1.5 * rates(0.95, 64)[1][1]  # "increases sharply when b increases"


def test_what_the_root_omits_costs_nothing_below_it():
    shares = StreamShares(b=0.01, o=0.5)
    all_kept = tree_prediction("exptree", PAPER, StreamShares(b=0.02), exptree_fanouts(64))
    half_kept = tree_prediction("exptree", PAPER, shares, exptree_fanouts(64))
    for kept, omitted in zip(all_kept.sites[1:], half_kept.sites[1:], strict=True):
        assert omitted.cost_s == pytest.approx(kept.cost_s / 2)


def test_everything_omitted_leaves_the_reading():
    prediction = tree_prediction("exptree", PAPER, StreamShares(o=1.0), exptree_fanouts(8))
    assert prediction.bottleneck == "level 1"
    assert prediction.sites[1].cost_s == 0


def test_small_physical_windows_make_every_output_expensive():
    given = Coefficients(cc=1e-8, cp=1e-8, ce=0.0, crW=1e-5, ceW=1e-5)
    large = fsplit_prediction(given, StreamShares(n=1e6), 64).rate
    small = fsplit_prediction(given, StreamShares(n=1e3), 64).rate
    assert large == pytest.approx(1 / (2e-8 + 65e-11), rel=1e-6)
    assert small == pytest.approx(1 / (2e-8 + 65e-8), rel=1e-6)


def test_the_bottleneck_is_the_site_that_sets_the_pace():
    given = Coefficients(cc=1.0, cp=0.5, ce=0.5, cr=100.0)
    plain = fsplit_prediction(PAPER, StreamShares(), 4)
    assert plain.bottleneck == "fsplit"
    read = with_query_processors(fsplit_prediction(given, StreamShares(), 4), given, StreamShares(), 4)
    assert read.bottleneck == "query processor"
    assert read.rate == pytest.approx(4 / 100)
    assert read.site_count == 5


def test_among_equally_fast_plans_the_cheapest_is_best():
    shares = StreamShares()
    single = fsplit_prediction(PAPER, shares, 64)
    assert best([tree_prediction("exptree", PAPER, shares, exptree_fanouts(64)), single]) is single


def test_shares_that_do_not_fit_together_are_refused():
    with pytest.raises(QueryError, match=r"b = 0.8 and o = 0.3"):
        StreamShares(b=0.8, o=0.3)
    with pytest.raises(QueryError, match="n = 0"):
        StreamShares(n=0)
    with pytest.raises(QueryError, match="b = nan"):
        StreamShares(b=math.nan)
