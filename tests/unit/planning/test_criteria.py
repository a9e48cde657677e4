"""What makes one plan better than another."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsdm_grid.errors import FlowError, UnknownName
from gsdm_grid.optimizer.criteria import FIGURES, Criteria
from gsdm_grid.spec import parse_criteria

positive = st.floats(1e-6, 1e6)
figures = st.fixed_dictionaries(dict.fromkeys(FIGURES, positive))


def test_the_cost_is_minimized_unless_told_otherwise():
    ranked = parse_criteria(None).ranked([("dear", {"cost_s": 2.0}), ("cheap", {"cost_s": 1.0})])
    assert ranked == [("cheap", 1.0), ("dear", 2.0)]


def test_throughput_is_maximized_subject_to_bounds():
    criteria = parse_criteria({"maximize": "throughput", "subject_to": {"hosts": 6, "p99_ms": 50}})
    found = criteria.ranked(
        [
            ("fast", {"throughput": 9.0, "hosts": 10, "p99_ms": 1}),
            ("slow", {"throughput": 3.0, "hosts": 6, "p99_ms": 50}),
            ("late", {"throughput": 6.0, "hosts": 6, "p99_ms": 51}),
            ("unknown", {"throughput": 6.0, "hosts": 6}),
        ]
    )
    assert [item for item, _ in found] == ["slow"]
    assert criteria.needs_latency
    assert criteria.hosts == 6


def test_a_violated_bound_says_by_what():
    criteria = Criteria(subject_to={"hosts": 2, "throughput": 100})
    assert criteria.violation({"hosts": 3}) == "hosts is 3, at most 2 is allowed"
    assert criteria.violation({"hosts": 2, "throughput": 50}) == "throughput is 50, at least 100 is wanted"
    assert criteria.violation({"hosts": 2}) == "throughput was not measured"
    assert criteria.violation({"hosts": 2, "throughput": 100}) is None


def test_weights_trade_figures_against_each_other():
    plans = [("wide", {"cost_s": 1.0, "hosts": 10.0}), ("narrow", {"cost_s": 2.0, "hosts": 1.0})]
    assert parse_criteria({"weights": {"cost_s": 1}}).ranked(plans)[0][0] == "wide"
    assert parse_criteria({"weights": {"cost_s": 1, "hosts": 1}}).ranked(plans)[0][0] == "narrow"


@pytest.mark.parametrize(
    ("given_criteria", "reason"),
    [
        ("cheap", "expected a mapping"),
        ({"minimise": "cost_s"}, "no member 'minimise'; allowed: minimize"),
        ({"minimize": "cost_s", "maximize": "throughput"}, "one goal is enough"),
        ({"maximize": "cost_s"}, "cost_s is a figure to minimize"),
        ({"weights": {}}, "at least one figure"),
        ({"weights": {"cost_s": -1}}, "must be a number of at least 0"),
        ({"subject_to": {"hosts": "few"}}, "criteria.subject_to.hosts: must be a number"),
    ],
)
def test_wrong_criteria_are_refused_with_the_reason(given_criteria, reason):
    with pytest.raises(FlowError, match=reason):
        parse_criteria(given_criteria)


@given(st.lists(figures, min_size=1, max_size=6), st.sampled_from(FIGURES))
def test_the_best_plan_by_one_figure_scores_one_and_the_others_no_less(found, name):
    ranked = Criteria({name: 1.0}).ranked(list(enumerate(found)))
    assert len(ranked) == len(found)
    scores = [score for _, score in ranked]
    assert scores[0] == pytest.approx(1.0)
    assert scores == sorted(scores)


def test_an_unknown_figure_says_which_ones_are_known():
    with pytest.raises(UnknownName, match=r"criteria\.minimize: unknown figure 'costs'.* known: cost_s, cpu_s"):
        parse_criteria({"minimize": "costs"})
    with pytest.raises(UnknownName, match=r"criteria\.subject_to: unknown figure 'beauty'"):
        parse_criteria({"subject_to": {"beauty": 1}})
