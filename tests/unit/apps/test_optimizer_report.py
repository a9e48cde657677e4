"""The optimizer's report: a picture and a page, from the document of an optimization."""

import pytest

from gsdm_grid.optimizer.candidates import Candidate, Parallel
from gsdm_grid.optimizer.choice import Failure, Tried, choose
from gsdm_grid.optimizer.criteria import Criteria
from gsdm_grid.optimizer.trial_result import SiteCost, TrialResult
from gsdm_grid.reports.optimizer_report import report_html, report_png


def result(compute_s, sites=1):
    made = [
        SiteCost(f"compute.{k}", "compute", "thread", ("fft3",), compute_s / sites, 0.01, 0.0) for k in range(sites)
    ]
    return TrialResult(100, 1000, 1.0, tuple(made), p99_ms=2.5)


@pytest.fixture
def optimization():
    tried = [
        Tried(Candidate((None,)), 100, result(1.0)),
        Tried(Candidate((Parallel("window_distribute", 2),)), 100, result(1.0, 2), 0.005),
        Tried(Candidate((Parallel("window_split", 2),)), 100, Failure("<it> fell over")),
    ]
    choice = choose(tried, Criteria(), {"window_split-4": "not reached"})
    return {
        "id": "opt-1",
        "query": "fft3",
        "status": "chosen",
        "choice": choice.to_json(),
        "machine": {"cores": 2},
        "stale": ["it was chosen elsewhere"],
    }


def test_the_page_has_plans_choice_failures_and_what_was_skipped(optimization):
    page = report_html(optimization)
    assert "window distribute in 2: 2 times as fast as the central plan, ahead of central by 98 %" in page
    assert "<tr class='winner'><td>window_distribute-2</td><td>100</td><td>5.1</td><td>5</td>" in page
    assert "&lt;it&gt; fell over" in page
    assert "<td class='text'>window_split-4</td><td class='text'>not reached</td>" in page
    assert "Stale: it was chosen elsewhere." in page


def test_the_picture_is_a_png(optimization):
    assert report_png(optimization).startswith(b"\x89PNG")


@pytest.mark.parametrize("choice", [None, {"table": [], "skipped": []}])
def test_a_search_without_results_has_a_report_too(choice):
    unfinished = {"id": "opt-2", "query": "q", "status": "failed", "choice": choice, "error": {"detail": "no hosts"}}
    assert "failed: no hosts" in report_html(unfinished)
