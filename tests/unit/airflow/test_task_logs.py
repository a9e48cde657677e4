from datetime import UTC, datetime

import pytest

from gsdm_grid.airflow import task_logs
from gsdm_grid.client import ApiProblem, SiteCost, Trial, TrialResult


def trial(result=None, error=None):
    status = "succeeded" if result else "failed"
    return Trial("trial-1", "q", {}, 100, status, datetime.now(UTC), result, error)


@pytest.fixture
def result():
    sites = (
        SiteCost("partition.0", "partition", "thread", ("RRpart",), 0.1, 0.2, 0.1),
        SiteCost("compute.0", "compute", "thread", ("fft3", "fft3"), 1.2, 0.3, 0.1),
    )
    return TrialResult(100, 2.0, 3.5, 50.0, 1.6, 62.5, "compute.0", sites)


def tried(key, count, cost_s, error=None):
    figures = {} if error else {"cost_s": cost_s, "throughput": 1 / cost_s, "hosts": 3.0}
    return {
        "key": key,
        "count": count,
        "predicted_s": None,
        "figures": figures,
        "error": error,
        "busiest": "compute.0",
    }


@pytest.fixture
def choice():
    best, second = tried("window_split-4", 1000, 0.001), tried("central", 1000, 0.004)
    return {
        "key": "window_split-4",
        "winner": best,
        "runner_up": second,
        "margin": 3.0,
        "summary": "fft3 by window split in 4: ahead of central by 300 %, measured only once each",
        "verified": None,
        "verification": None,
        "skipped": [{"plan": "window_split-8", "why": "more than the pool has"}],
        "table": [second, tried("RRpart-2", 125, 1, error="boom"), tried("window_split-2", 125, 0.002), best],
    }


def test_a_trial_is_shown_site_by_site_with_the_busiest_marked(result):
    head, columns, _rule, first, second, *rest = task_logs.trial_lines(trial(result))
    assert head == "100 windows in 2.00 s"
    assert columns.split() == ["site", "role", "does", "processing", "communication", "system", "CPU", "ms"]
    assert first.split() == ["partition.0", "partition", "RRpart", "100.0", "200.0", "100.0", "400.0", "█" * 5]
    assert second.split() == ["▸", "compute.0", "compute", "fft3", "1,200.0", "300.0", "100.0", "1,600.0", "█" * 20]
    assert rest[0].startswith("cost: 1,600.0 CPU ms, of the busiest site ▸; with a core per site 62 windows/s")


def test_a_trial_without_a_result_says_why():
    failed = trial(error=ApiProblem("user-code", 422, "boom"))
    assert task_logs.trial_lines(failed) == ["trial trial-1 of q failed: boom"]


def test_the_best_of_the_longest_trials_comes_first_and_the_chosen_plan_is_marked(choice):
    lines = task_logs.choice_lines(choice)
    plans = [line[2:].split()[0] for line in lines[2:6]]
    assert plans == ["window_split-4", "central", "window_split-2", "RRpart-2"]
    assert [line[0] for line in lines[2:6]] == ["▸", " ", " ", " "]
    assert lines[3].endswith("█" * 20)
    assert lines[5].endswith("failed: boom")


def test_the_outcome_says_what_was_chosen_and_how_sure_that_is_and_what_was_not_tried(choice):
    lines = task_logs.choice_lines(choice)
    assert f"chosen by all measurements together: {choice['summary']}" in lines
    assert lines[-1].split("  ") == ["window_split-8", "more than the pool has"]


def test_the_outcome_shows_what_both_plans_cost_when_they_were_run_again(choice):
    figures = {"window_split-4": {"cost_s": 0.0011}, "central": {"cost_s": 0.0041}}
    again = {"verified": True, "verification": {"figures": figures, "better": "central", "margin": 0.1}}
    lines = task_logs.choice_lines({**choice, **again})
    assert "run again in turn, ms/window: window_split-4 1.1, central 4.1" in lines


def test_a_round_without_trials_says_that_the_search_is_over():
    assert task_logs.requests_lines([]) == ["no trials: the search is over"]


def test_a_round_lists_its_trials_with_what_is_predicted():
    lines = task_logs.requests_lines([{"label": "central", "count": 1000, "predicted": 0.0025}])
    assert lines[-1].split() == ["central", "1,000", "2.5"]
