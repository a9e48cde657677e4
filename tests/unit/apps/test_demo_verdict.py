import io
import json
from dataclasses import replace

import pytest
import typer
from rich.console import Console

from gsdm_grid.apps import demo
from gsdm_grid.apps.demo.bare_kernel import BareRate
from gsdm_grid.apps.demo.plans import CHEAP, EXPENSIVE, PLANS
from gsdm_grid.apps.demo.report import (
    Delivery,
    DemoReport,
    Growth,
    PlanReport,
    WorkReport,
    work_of,
)
from gsdm_grid.apps.demo.verdict import (
    A_CORE_EACH,
    ON_THIS_MACHINE,
    choice,
    choice_sentences,
    disturbance_sentence,
    growth_sentence,
    report_json,
    transport_sentence,
    verdict,
)
from gsdm_grid.apps.demo.view import show_report
from gsdm_grid.cli.local import demo as demo_command
from gsdm_grid.optimizer.trial_result import SiteCost, TrialResult


def trial(mb_s, compute=(0.97,), moving=0.1):
    """One second in which compute sites were so busy, and another site moved windows."""
    sites = [SiteCost(f"compute.{n}", "compute", "thread", ("fft3",), busy, 0.0, 0.0) for n, busy in enumerate(compute)]
    sites.append(SiteCost("source.0", "source", "thread", ("identity",), 0.0, moving, 0.0))
    return TrialResult(int(mb_s), int(mb_s * 1e6), 1.0, tuple(sites))


def plan_of(workload, name):
    return next(plan for plan in PLANS if plan.workload is workload and plan.name == name)


def work(central, distribute, workload=EXPENSIVE, compute=(0.97,), shared=(0.9, 0.89), moving=0.1):
    """A central plan and window distribute with these rates, round by round."""
    reports = [
        PlanReport(plan_of(workload, "central"), [trial(rate, compute, moving) for rate in central]),
        PlanReport(plan_of(workload, "window_distribute"), [trial(rate, shared) for rate in distribute]),
    ]
    bare = {1: [BareRate(130, 1.0)], 2: [BareRate(250, 1.0)]}
    return WorkReport(workload, reports, bare)


def complete():
    report = DemoReport()
    for number, plan in enumerate(PLANS):
        one = PlanReport(plan, [trial(100 + 7 * number)] * 3, Delivery(10, 10), 10)
        work_of(report, plan).plans.append(one)
    for part in report.works:
        part.bare = {1: [BareRate(130, 1.0)], 2: [BareRate(250, 0.98)]}
    report.transport = PlanReport(None, [trial(2000)], Delivery(10, 10))
    report.growth = Growth(100, 190, 0.2, Delivery(10, 10))
    return report


def shown(report):
    """The last screen in one line, so that its sentences can be found."""
    text = io.StringIO()
    show_report(report, Console(file=text, width=120))
    return " ".join(text.getvalue().split())


def test_the_winner_is_named_with_its_factor_and_the_reason_from_what_was_measured():
    assert verdict(work([100, 110, 90], [180, 200, 170])) == (
        "fft3 and polarize: window distribute won, 1.80 times as fast as central and faster in each of 3 rounds, "
        "because central's compute site was its limit (busy 97% of the time) and 2 sites shared the work (busy 90% and "
        "89%)."
    )


def test_a_winner_whose_rival_was_not_busy_won_by_the_cores_that_it_got():
    sentence = verdict(work([100], [150], compute=(0.5,), shared=(0.7, 0.7)))
    assert sentence.endswith("because its sites kept 1.5 cores busy, those of central 0.6 cores.")


def test_where_no_plan_was_faster_the_sentence_says_so():
    sentence = verdict(work([900], [810], CHEAP, compute=(0.3,), moving=0.9))
    assert sentence.startswith("fft3: no plan was faster than central; the nearest, window distribute, was 0.90 times")
    assert "only 25% of central's CPU time is computing" in sentence


def test_rounds_that_do_not_agree_have_no_winner():
    sentence = verdict(work([100, 100, 100], [150, 160, 90]))
    assert "no plan won" in sentence
    assert "1.50 times as fast as central in the median" in sentence


def test_nothing_is_said_of_what_was_not_measured():
    assert "nothing can be said" in verdict(work([0], [0]))


@pytest.mark.parametrize(
    ("central", "distribute", "chosen"),
    [([100, 101, 99], [180, 181, 182], "window distribute"), ([100, 101, 99], [80, 81, 79], "on one site")],
)
def test_the_optimizer_chooses_by_what_was_measured(central, distribute, chosen):
    best = choice(work(central, distribute, CHEAP), ON_THIS_MACHINE)
    assert chosen in best.summary
    assert best.sure


def test_the_optimizer_may_choose_otherwise_with_a_core_for_each_site():
    both = work([100], [80], CHEAP, compute=(0.95,), shared=(0.4, 0.4))
    assert choice(both, A_CORE_EACH).plan != choice(both, ON_THIS_MACHINE).plan
    here, elsewhere = choice_sentences(both)
    assert here.startswith("The optimizer would choose, for this machine: fft3 on one site")
    assert elsewhere.startswith("With a core for each site it would choose: fft3 by window distribute in 2")


def test_a_source_that_is_faster_than_the_bare_functions_is_said_not_to_be_the_limit():
    report = complete()
    assert transport_sentence(report) == (
        "With nothing to compute, source, channels and sink move 2,000 MB/s, more than the bare functions reach on "
        "2 cores (at most 250 MB/s): they are not the limit."
    )


def test_a_source_that_is_slower_than_bare_functions_is_their_limit_though_it_is_faster_than_all_plans():
    report = complete()
    report.works[1].bare[2] = [BareRate(2400, 1.0)]
    assert transport_sentence(report).endswith(
        "move 2,000 MB/s, no more than the bare fft3 reaches on 2 cores (2,400 MB/s): there they are the limit."
    )


def test_growth_is_told_with_both_rates_and_the_windows_that_were_lost():
    sentence = growth_sentence(Growth(120, 230, 0.21, Delivery(500, 497, missing=3)))
    assert "120 MB/s before, 230 MB/s after" in sentence
    assert "3 of 500 windows lost" in sentence


def test_other_programs_on_the_machine_are_mentioned():
    report = complete()
    assert disturbance_sentence(report) is None
    report.works[0].bare[1] = [BareRate(60, 0.4)]
    assert "got only" in disturbance_sentence(report)


def test_of_a_disturbed_measurement_it_is_said_first_and_no_reasons_are_given():
    report = complete()
    quiet = shown(report)
    assert ", because " in quiet
    assert "they are not the limit" in quiet
    for part in report.works:
        part.bare = {1: [BareRate(60, 0.4)], 2: [BareRate(90, 0.4)]}
    disturbed = shown(report)
    assert disturbed.index("The bare functions got only 40%") < disturbed.index("fft3 and polarize")
    assert ", because " not in disturbed
    assert "the limit." not in disturbed
    assert "because" not in report_json(report)["workloads"]["expensive"]["verdict"]


def test_the_columns_are_explained_on_the_screen():
    assert "of limit: share of what the bare functions reach, in plain loops on 2 cores" in shown(complete())


def test_a_plan_has_one_name_for_people_and_its_query_is_called_by_it():
    assert plan_of(EXPENSIVE, "window_split").label == "fft3 and polarize: window split"
    assert plan_of(EXPENSIVE, "window_split").id == "fft3-and-polarize-window-split"
    assert "window_split" not in shown(complete())


def test_a_report_is_one_json_document():
    document = json.loads(json.dumps(report_json(complete())))
    assert document["ok"] is True
    assert list(document["workloads"]) == ["expensive", "cheap"]
    plans = document["workloads"]["expensive"]["plans"]
    assert list(plans) == ["central", "window_distribute", "window_split", "pipe"]
    assert plans["central"]["of_limit"] == 0.4
    assert document["workloads"]["cheap"]["optimizer"][ON_THIS_MACHINE]["plan"]["strategy"] == "window_distribute"
    assert document["growth"]["lost"] == 0


def test_a_report_is_not_ok_without_all_plans_and_the_growth():
    assert complete().ok
    without = complete()
    without.works[1].plans.pop()
    assert not without.ok
    still = complete()
    still.growth = None
    assert not still.ok


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"arrived": 9}, "1 of 10 windows lost"),
        ({"missing": 2}, "2 of 10 windows lost"),
        ({"misplaced": 1}, "1 window doubled or out of order"),
        ({"arrived": 11}, "1 window doubled or out of order"),
        ({"time_reversals": 2}, "2 windows doubled or out of order"),
        ({"difference": "I differs in window 3"}, "I differs in window 3"),
    ],
)
@pytest.mark.parametrize("where", ["plan", "transport", "growth"])
def test_whatever_is_wrong_with_windows_anywhere_is_said(wrong, words, where):
    report = complete()
    part = {"plan": report.plans[2], "transport": report.transport, "growth": report.growth}[where]
    part.delivery = replace(part.delivery, **wrong)
    assert not report.ok
    text = io.StringIO()
    show_report(report, Console(file=text, width=120))
    assert words in text.getvalue()
    assert "WRONG" in text.getvalue()


def test_the_last_screen_fits_a_terminal_of_eighty_columns():
    text, report = io.StringIO(), complete()
    for one in report.plans:
        one.delivery = Delivery(28_833, 28_833)
    show_report(report, Console(file=text, width=80))
    assert "28,833" in text.getvalue()
    assert "…" not in text.getvalue()
    assert "window distribute" in text.getvalue()


def test_the_command_fails_and_says_what_was_lost(monkeypatch, tmp_path, capfd):
    report = complete()
    report.plans[1].delivery.arrived = 7
    monkeypatch.setattr(demo, "run_demo", lambda _options, _view: report)
    with pytest.raises(typer.Exit) as ended:
        demo_command(out=tmp_path, as_json=True)
    assert ended.value.exit_code == 1
    shown = capfd.readouterr()
    assert json.loads(shown.out)["problems"] == ["fft3 and polarize: window distribute: 3 of 10 windows lost"]
    assert "error: fft3 and polarize: window distribute: 3 of 10 windows lost" in shown.err
