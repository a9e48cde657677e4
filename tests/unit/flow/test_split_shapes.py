"""Shapes of splitstream trees, and how many window splitters parasplit needs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsdm_grid.errors import QueryError
from gsdm_grid.flow.split_shapes import (
    autosplit_choice,
    cumulative_fanouts,
    exptree_fanouts,
    maxtree_fanouts,
    tree_nodes,
    window_splitters,
)

WIDTHS = st.integers(1, 2000)


@pytest.mark.parametrize(
    ("w", "fanouts"),
    [(1, (1,)), (2, (2,)), (3, (2, 2)), (8, (2, 4)), (16, (2, 4, 2)), (64, (2, 4, 8)), (512, (2, 4, 8, 8))],
)
def test_an_exptree_doubles_its_fanout_on_every_level(w, fanouts):
    assert exptree_fanouts(w) == fanouts


def test_a_maxtree_is_binary_where_everything_is_broadcast_and_shallow_where_little_is():
    assert maxtree_fanouts(64, b=1.0) == (2,) * 6
    assert maxtree_fanouts(64, b=0.005) == (2, 32)
    assert maxtree_fanouts(64, b=0.0) == (2, 32)
    assert maxtree_fanouts(256, b=0.1, a=1.0) == (2, 11, 12)  # 2 + ⌊9 · 2 · (1 - 1/λ)⌋ with λ = 2, then 22


@given(WIDTHS, st.floats(0, 1), st.floats(0, 10))
def test_every_tree_has_enough_outputs_and_no_level_too_many(w, b, a):
    for fanouts in (exptree_fanouts(w), maxtree_fanouts(w, b, a)):
        cumulative = cumulative_fanouts(fanouts)
        assert cumulative[-1] >= w
        assert len(fanouts) == 1 or cumulative[-2] < w
        assert all(fanout >= 2 for fanout in fanouts) or w == 1


@given(WIDTHS, st.floats(0, 1))
def test_a_tree_that_is_cut_has_exactly_the_outputs_that_are_wanted(w, b):
    for fanouts in (exptree_fanouts(w), maxtree_fanouts(w, b)):
        levels = tree_nodes(fanouts, w)
        wide = sum(outputs * count for outputs, count in levels[-1].items())
        places = cumulative_fanouts(fanouts)[-2]  # nodes of the last level, if none were left out
        assert wide + places - sum(levels[-1].values()) == w
        assert w == 1 or all(outputs > 1 for level in levels for outputs in level)


def test_autosplit_builds_a_tree_only_where_something_is_broadcast():
    assert autosplit_choice(has_bfn=False) == "fsplit"
    assert autosplit_choice(has_bfn=True) == "exptree"


def test_equation_6_gives_the_printed_number_of_window_splitters():
    assert window_splitters(512, 500, 123.7) == 25
    # the paper prints 55 for Φ_D = 1 Gbit/s; its own equation gives 50
    assert window_splitters(512, 1000, 123.7) == 50


@given(WIDTHS, st.floats(0.01, 1e4), st.floats(0.01, 1e4), st.floats(0, 0.5), st.floats(0, 0.5))
def test_a_known_omitted_share_never_asks_for_more_splitters(q, phi_d, phi_ps, b, o):
    assert 1 <= window_splitters(q, phi_d, phi_ps, b, o) <= window_splitters(q, phi_d, phi_ps, b)


def test_one_output_at_the_rate_of_one_splitter_needs_one_splitter():
    assert window_splitters(1, 123.7, 123.7) == 1


@pytest.mark.parametrize("w", [0, -1, 2.0, True, "4", 10_001])
def test_a_width_that_is_none_is_refused(w):
    with pytest.raises(QueryError, match="whole number from 1 to"):
        exptree_fanouts(w)


def test_wrong_shares_and_rates_are_refused_by_name():
    with pytest.raises(QueryError, match=r"broadcast share b must be from 0 to 1, got 1.5"):
        maxtree_fanouts(4, 1.5)
    with pytest.raises(QueryError, match="must not be negative, got -1"):
        maxtree_fanouts(4, 0.5, -1)
    with pytest.raises(QueryError, match="Φ_D = 0"):
        window_splitters(4, 0, 1)
    with pytest.raises(QueryError, match=r"b = 0.6 and o = 0.6"):
        window_splitters(4, 1, 1, 0.6, 0.6)
