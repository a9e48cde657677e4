"""The search: which trials it asks for, which plan it chooses, what it leaves out."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsdm_grid.errors import FlowError, PlanError
from gsdm_grid.optimizer.candidates import Stage
from gsdm_grid.optimizer.choice import Failure
from gsdm_grid.optimizer.criteria import Criteria
from gsdm_grid.optimizer.plan_space import Limits, PlanSpace
from gsdm_grid.optimizer.search import (
    MOST_ROUNDS,
    Search,
    SearchOptions,
    replayed,
)
from gsdm_grid.spec import parse_criteria

FFT3 = (Stage.of("fft3"),)
COUNT = 800


def search_of(limits=None, criteria=None, **options):
    space = PlanSpace(FFT3, limits or Limits(most=8))
    return Search(space, criteria or Criteria(), SearchOptions(**{"count": COUNT, **options}))


def finish(search, grid, told=None):
    """Run all rounds; ``told`` collects what was told."""
    while requests := search.ask():
        for one in requests:
            outcome = Failure("it fell over") if one.plan.key in grid.failing else grid.run(one.plan, one.count)
            search.tell(one.key, outcome)
            if told is not None:
                told[one.key] = outcome
    return search.choice()


def test_it_begins_with_the_central_plan_and_two_partitions_over_short_trials():
    first = search_of().ask()
    assert [one.plan.key for one in first] == ["central", "window_distribute-2", "window_split-2"]
    assert {one.count for one in first} == {COUNT // 8}


def test_an_expensive_function_is_parallelized_as_far_as_allowed(paper_grid):
    search = search_of()
    choice = finish(search, paper_grid(search.space, compute=10.0))
    assert choice.plan.degree == 8
    assert choice.winner.count == COUNT


def test_a_cheap_function_stays_central(paper_grid):
    search = search_of()
    choice = finish(search, paper_grid(search.space, compute=0.01))
    assert choice.plan.key == "central"
    assert len(search.rounds) == 2


def test_degrees_grow_while_the_compute_sites_are_the_busiest(paper_grid):
    search = search_of(Limits(most=8, strategies=("window_split", "central"), shapes=("flat",)))
    finish(search, paper_grid(search.space, compute=0.4, combine=(0.05, 0.03)))
    tried = {tried.plan.key for tried in search.tried()}
    assert "window_split-4" in tried  # at degree 2 compute takes 0.2, combine 0.11
    assert "window_split-8" not in tried  # at degree 4 combine takes 0.17, compute 0.1
    assert search.skipped()["window_split-8"].startswith("not reached: combine.0 is the busiest at degree 4")


def test_a_tree_is_tried_where_the_combine_site_is_the_bottleneck(paper_grid):
    search = search_of()
    choice = finish(search, paper_grid(search.space, compute=1.0, combine=(0.02, 0.1)))
    assert choice.plan.stages[0].tree
    assert choice.plan.degree == 8
    predicted = {one.plan.key: one.predicted_s for one in search.tried()}
    assert predicted["window_split-4-tree"] == pytest.approx(0.25)  # the compute sites; its outer combine splits in two


def test_what_cannot_win_is_not_tried_and_the_reason_is_told(paper_grid):
    search = search_of()
    finish(search, paper_grid(search.space, compute=0.3, partition=(0.148, 0.0), combine=(0.1, 0.0)))
    assert "predicted 148 ms per window at best; 150 ms was measured" in search.skipped()["window_split-4"]


def test_a_failed_trial_does_not_stop_the_others(paper_grid):
    search = search_of()
    choice = finish(search, paper_grid(search.space, compute=1.0, failing=("window_split-2",)))
    assert choice.plan.stages[0].strategy == "window_distribute"
    failed = [row for row in choice.to_json()["table"] if row["error"]]
    assert [(row["key"], row["error"]) for row in failed] == [("window_split-2", "it fell over")]
    assert search.skipped()["window_split-4"] == "not reached: the trial of a smaller degree failed"


def test_if_all_trials_fail_the_reasons_are_told(paper_grid):
    search = search_of(Limits(most=2))
    everything = ("central", "window_distribute-2", "window_split-2")
    with pytest.raises(PlanError, match=r"no trial succeeded \(central: it fell over"):
        finish(search, paper_grid(search.space, failing=everything))


def test_bounds_that_no_plan_keeps_are_told(paper_grid):
    search = search_of(criteria=parse_criteria({"subject_to": {"throughput": 1e9}}))
    with pytest.raises(PlanError, match=r"no plan keeps the bounds \(central: throughput is"):
        finish(search, paper_grid(search.space))


def test_exhaustive_search_tries_everything_once_over_all_windows(paper_grid):
    search = search_of(Limits(most=4, block_bytes=(None, 1 << 20)), method="exhaustive")
    choice = finish(search, paper_grid(search.space))
    assert len(search.rounds) == 1
    assert {one.count for one in search.tried()} == {COUNT}
    assert len(search.tried()) == 14
    assert choice.skipped == {}


def test_other_sizes_of_physical_windows_are_tried_for_the_best_plan(paper_grid):
    search = search_of(Limits(most=8, block_bytes=(None, 1 << 20)))
    finish(search, paper_grid(search.space, compute=10.0))
    sized = {one.plan.key for one in search.tried() if one.plan.block_bytes}
    assert len(sized) == 1
    assert next(iter(sized)).endswith("-8-1024KiB")


def test_windows_in_turn_come_out_even(paper_grid):
    search = search_of(Limits(most=2, runs=(1, 30)))
    counts = {one.plan.key: one.count for one in search.ask()}
    assert counts["window_distribute-2"] == 100
    assert counts["window_distribute-2-run30"] == 180  # three parts of 30 for each of two sites


def test_a_large_pool_is_reached_in_few_rounds(paper_grid):
    search = search_of(Limits(most=256, strategies=("window_distribute",), shapes=("flat",)))
    choice = finish(search, paper_grid(search.space, compute=100.0, partition=(0.5, 0.0), combine=(0.5, 0.0)))
    assert choice.plan.degree in (128, 256)
    assert len(search.rounds) <= MOST_ROUNDS
    assert any("passed over" in why for why in search.skipped().values())


def test_winner_and_runner_up_are_run_again_in_turn(paper_grid):
    search = search_of(repeats=2)
    grid = paper_grid(search.space, compute=1.0)
    choice = finish(search, grid)
    requests = search.verification()
    assert [one.plan.key for one in requests] == [choice.winner.plan.key, choice.runner_up.plan.key] * 2
    assert search.verification() == requests
    for one in requests:
        search.tell(one.key, grid.run(one.plan, one.count))
    assert search.choice().verified is True


def verify(search, results):
    """Tell the verification: ``results`` are the factors by which each plan's trials are dearer than before."""
    choice = search.choice()
    before = {one.plan: one.outcome for one in (choice.winner, choice.runner_up)}
    factors = {plan.key: iter(results[k]) for k, plan in enumerate(before)}
    for one in search.verification():
        outcome = dearer(before[one.plan], next(factors[one.plan.key]), one.count)
        search.tell(one.key, outcome)
    return choice, search.choice()


def dearer(result, factor, count):
    per_window = factor / result.windows
    sites = tuple(replace(site, processing_s=site.processing_s * per_window * count) for site in result.sites)
    return replace(result, windows=count, sites=sites)


def test_a_runner_up_that_is_better_by_all_measurements_is_chosen(paper_grid):
    search = search_of()
    finish(search, paper_grid(search.space, compute=1.0))
    before, after = verify(search, [(5.0, 5.2), (1.0, 1.0)])
    assert after.plan == before.runner_up.plan
    assert after.winner.plan == after.plan
    assert after.verified is True


def test_a_plan_that_lost_by_all_measurements_together_is_not_chosen_for_one_that_won_by_chance(paper_grid):
    search = search_of()
    finish(search, paper_grid(search.space, compute=1.0))
    before = search.choice()
    chance = 1 / (1 + before.margin)  # as good as the winner was
    before, after = verify(search, [(1.0, 3.0), (1.0, chance * 0.9)])
    assert after.verification.better == before.runner_up.plan.key
    assert after.plan == before.winner.plan
    assert after.verified is False
    medians = {one.plan: one.figures["cost_s"] for one in after.table}
    assert medians[after.plan] == min(medians[before.winner.plan], medians[before.runner_up.plan])


def test_a_plan_that_left_before_the_last_round_is_chosen_if_it_is_the_best_in_the_end(paper_grid):
    search = search_of()
    grid = paper_grid(search.space, compute=1.0)
    while requests := search.ask():
        for one in requests:
            factor = 3.0 if one.asked == COUNT else 1.0  # what was measured before was luck
            search.tell(one.key, dearer(grid.run(one.plan, one.count), factor, one.count))
    finalists = {tried.plan for tried in search.tried() if tried.count == COUNT}
    choice = search.choice()
    assert choice.plan not in finalists
    assert choice.winner.figures["cost_s"] == min(
        tried.figures["cost_s"] for tried in search.tried() if tried.count >= COUNT / 2
    )


def test_a_plan_that_failed_when_it_was_run_again_is_not_chosen(paper_grid):
    search = search_of()
    choice = finish(search, paper_grid(search.space, compute=1.0))
    for one in search.verification():
        failed = one.plan == choice.winner.plan and one.key.startswith("verify1")
        search.tell(one.key, Failure("it fell over") if failed else dearer(choice.runner_up.outcome, 1.0, one.count))
    assert search.choice().plan == choice.runner_up.plan


def test_a_plan_does_not_win_by_its_trial_having_been_rounded_up_to_whole_turns(paper_grid):
    search = search_of(Limits(most=2, runs=(1, 7), strategies=("window_distribute",)), method="exhaustive")
    grid = paper_grid(search.space, compute=1.0)
    for one in search.ask():
        search.tell(one.key, dearer(grid.run(one.plan, one.count), 2.0 if "run7" in one.plan.key else 1.0, one.count))
    search.ask()
    assert search.choice().plan.key == "window_distribute-2"
    assert {one.count % 42 for one in search.verification() if "run7" in one.plan.key} == {0}


def test_the_choice_is_said_in_a_sentence_with_how_sure_it_is(paper_grid):
    search = search_of(Limits(most=2, shapes=("flat",)))
    once = finish(search, paper_grid(search.space, compute=1.0, combine=(0.05, 0.5)))
    assert once.summary.endswith("measured only once each")
    _, clear = verify(search, [(1.0, 1.02), (1.0, 0.98)])
    assert clear.sure is True
    assert clear.summary == "fft3 on one site: ahead of window distribute in 2 by 5 %, more than the noise of 1 %"


def test_a_lead_within_the_noise_is_called_so(paper_grid):
    search = search_of(Limits(most=2, shapes=("flat",)))
    finish(search, paper_grid(search.space, compute=1.0))
    _, noisy = verify(search, [(0.9, 1.1), (0.92, 1.12)])
    assert noisy.sure is False
    assert noisy.summary.startswith("fft3 by window distribute in 2: 2 times as fast as the central plan, ahead of ")
    assert "which is within the noise of 8 %" in noisy.summary
    assert noisy.to_json()["summary"] == noisy.summary


def test_the_next_round_needs_the_results_of_the_last():
    search = search_of()
    search.ask()
    with pytest.raises(PlanError, match="round 0 is not over: 3 trials have not been told"):
        search.ask()
    with pytest.raises(PlanError, match="'unheard-of' was not asked for"):
        search.tell("unheard-of", Failure("no"))


def test_wrong_options_are_refused():
    with pytest.raises(FlowError, match=r"search\.method: must be one of heuristic, exhaustive"):
        search_of(method="luck")


costs = st.floats(0.001, 1.0)
shares = st.tuples(costs, st.floats(0.0, 0.1))


@settings(max_examples=25)
@given(compute=st.floats(0.01, 20.0), partition=shares, combine=shares)
def test_the_choice_is_nearly_as_good_as_exhaustive_search_at_less_than_half_of_its_windows(
    paper_grid, compute, partition, combine
):
    chosen, best = search_of(), search_of(method="exhaustive")
    quick = paper_grid(chosen.space, compute, partition, combine)
    thorough = paper_grid(best.space, compute, partition, combine)
    found, optimum = finish(chosen, quick), finish(best, thorough)
    assert found.winner.figures["cost_s"] <= 1.1 * optimum.winner.figures["cost_s"]
    assert quick.windows <= 0.5 * thorough.windows
    assert len(chosen.rounds) <= MOST_ROUNDS
    tried = {one.plan.key for one in found.table}
    assert tried | set(found.skipped) >= {plan.key for plan in chosen.space.plans()}


@settings(max_examples=12)
@given(compute=st.floats(0.01, 20.0), combine=shares, after=st.integers(0, 6))
def test_an_interrupted_search_is_rebuilt_from_what_it_was_told(paper_grid, compute, combine, after):
    first, told = search_of(), {}
    grid = paper_grid(first.space, compute, combine=combine)
    finish(first, grid, told)
    rounds = min(after, len(first.rounds))
    again = replayed(first.space, first.criteria, first.options, rounds, told)
    assert again.rounds == first.rounds[:rounds]
    assert finish(again, grid).plan == first.choice().plan
