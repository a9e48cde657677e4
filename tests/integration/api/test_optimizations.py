"""Searches for plans over REST: carried out by the coordinator, or driven step by step."""

import numpy as np
import pytest

from gsdm_grid.client import ApiProblem, Client
from gsdm_grid.testing import eventually

RADIO = {"type": "Radio", "interface": "synthetic_radio", "options": {"window": 64}}
COUNT = 64
QUICK = {"most": 2, "repeats": 1, "block_bytes": [None], "runs": [1]}


@pytest.fixture
def grid(service):
    with Client(service.url, service.token) as client:
        yield client


@pytest.fixture(scope="module")
def segment(service):
    with Client(service.url, service.token) as client:
        return client.record_segment(RADIO, 128, "recorded")


def radio(seed, **options):
    """A stream of its own: a choice is good for all queries over the same stream."""
    return {**RADIO, "options": {"window": 64, "seed": seed, **options}}


def specification(name, seed=0, **members):
    return {"name": name, "inputs": [radio(seed)], "function": "fft3", "stop": {"count": 40}, **members}


def run(grid, optimization, requests):
    for one in requests:
        grid.submit_trial(one.specification, one.count, optimization=optimization.id, key=one.key)


def results(grid, name):
    grid.run(name)
    blocks = list(grid.result_blocks(name))
    return {channel: np.concatenate([block[channel] for block in blocks]) for channel in ("ts", "x", "y", "z")}


def test_a_segment_is_recorded_and_can_be_read_by_a_query(grid, segment):
    assert (segment.status, segment.windows, segment.bytes) == ("succeeded", 128, 128 * (64 * 24 + 8))
    from_segment = specification("replayed", inputs=[{"segment": "recorded"}], plan="central")
    grid.submit(from_segment)
    grid.submit(specification("original"))
    played, original = results(grid, "replayed"), results(grid, "original")
    for channel, values in original.items():
        np.testing.assert_array_equal(played[channel], values)


def test_the_coordinator_finds_a_plan_and_the_query_runs_with_it(grid):
    grid.submit(specification("searched", 1, plan="auto"))
    grid.submit(specification("plain", 1))
    begun = grid.optimize(specification("searched", 1), count=COUNT, search={**QUICK, "strategies": ["window_split"]})
    done = grid.wait_for_optimization(begun, 60)
    assert done.status == "published"
    assert done.choice["plan"] == {"strategy": "window_split", "degree": 2}
    (published,) = done.published
    assert published["query"] == "searched"
    eventually(lambda: grid.operation(published["operation"]), lambda operation: operation.over)
    split, central = results(grid, "searched"), results(grid, "plain")
    functions = {vertex["function"]["name"] for vertex in grid.graph("searched")["vertices"]}
    assert "fft3part" in functions
    for channel, values in central.items():
        np.testing.assert_allclose(split[channel], values, rtol=1e-4, atol=1e-3)


def test_a_client_drives_a_search_step_by_step(grid, segment):
    grid.submit(specification("driven", 2, plan="central"))
    begun = grid.optimize(
        specification("driven", 2),
        segment=segment.id,
        count=COUNT,
        search=QUICK,
        driver="client",
        publish_to=["driven"],
    )
    number = 0
    while requests := grid.optimization_round(begun.id, number):
        assert grid.optimization_round(begun.id, number) == requests
        run(grid, begun, requests)
        number += 1
    assert 0 < number <= 6
    choice = grid.optimization_choice(begun.id)
    assert {row["key"] for row in choice["table"]} == {"central", "window_distribute-2", "window_split-2"}
    run(grid, begun, grid.optimization_verification(begun.id))
    verified = grid.optimization_choice(begun.id)
    assert verified["verified"] in (True, False)
    (published,) = grid.optimization_publication(begun.id)
    grid.wait(grid.operation(published["operation"]))
    assert grid.query("driven").specification["plan"] == verified["plan"]
    assert grid.optimization(begun.id).status == "published"


def test_a_trial_of_a_search_is_run_once_however_often_it_is_submitted(grid):
    begun = grid.optimize(specification("once"), count=COUNT, search=QUICK, driver="client")
    first, *_ = grid.optimization_round(begun.id, 0)
    trials = {
        grid.submit_trial(first.specification, first.count, optimization=begun.id, key=first.key).id for _ in range(3)
    }
    assert len(trials) == 1
    with pytest.raises(ApiProblem, match="did not ask for"):
        grid.submit_trial(first.specification, optimization=begun.id, key="unheard-of")


def test_the_next_round_waits_for_the_trials_of_this_one(grid):
    begun = grid.optimize(specification("early"), count=COUNT, search=QUICK, driver="client")
    grid.optimization_round(begun.id, 0)
    with pytest.raises(ApiProblem, match="are not over") as refused:
        grid.optimization_round(begun.id, 1)
    assert refused.value.kind == "invalid-transition"
    with pytest.raises(ApiProblem, match="nothing has been chosen"):
        grid.optimization_publication(begun.id)


def test_a_failed_trial_is_reported_and_does_not_stop_the_others(grid):
    grid.record_segment(radio(3, window=63), 128, "odd")  # cannot be split in two, which shows when it is read
    recorded = specification("odd", inputs=[{"segment": "odd"}])
    done = grid.optimize(recorded, count=COUNT, search=QUICK, wait=True, timeout_s=60)
    rows = {row["key"]: row for row in done.choice["table"]}
    assert "cannot be split" in rows["window_split-2"]["error"]
    assert done.choice["key"] in ("central", "window_distribute-2")
    report = grid.optimization_report(done.id)
    assert "cannot be split" in report
    assert "data:image/png;base64," in report
    assert grid.optimization_picture(done.id).startswith(b"\x89PNG")


def test_a_plan_that_cannot_split_windows_of_a_known_length_is_not_tried(grid):
    odd = radio(3, window=63)
    done = grid.optimize(specification("known", inputs=[odd]), count=COUNT, search=QUICK, wait=True, timeout_s=60)
    assert "window_split-2" not in {row["key"] for row in done.choice["table"]}
    reasons = {one["plan"]: one["why"] for one in done.choice["skipped"]}
    assert "cannot be split" in reasons["window_split-2"]
    flow = {"template": "PCC", "args": [2, "fft3part", "fft3", {}, "OS-Join", {"combine": "fft3combine"}]}
    with pytest.raises(ApiProblem, match="a window of 63 samples cannot be split in 2 equal parts"):
        grid.submit({"name": "refused", "inputs": [odd], "flow": flow})


def test_a_search_can_be_cancelled_and_is_forgotten(grid):
    begun = grid.optimize(specification("cancelled"), count=1_000_000, search=QUICK)
    grid.remove_optimization(begun.id)
    with pytest.raises(ApiProblem, match="there is no optimization"):
        grid.optimization(begun.id)
    assert not list(grid.trials(optimization=begun.id))


WRONG = {
    "an empty plan space": ({"search": {"strategies": ["wishful"]}}, "plan space of fft3 is empty"),
    "no hosts allowed": ({"criteria": {"subject_to": {"hosts": 0}}}, "needs 1 hosts, at most 0 are allowed"),
    "a short segment": ({"segment": "recorded", "count": 1000}, "has 128 windows, but the longest trials read 1000"),
    "an unknown segment": ({"segment": "nowhere"}, "there is no segment 'nowhere'"),
    "an unknown figure": ({"criteria": {"minimize": "beauty"}}, "unknown figure 'beauty'"),
    "a figure that is not minimized": ({"criteria": {"minimize": "throughput"}}, "is a figure to maximize"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_request_is_refused_with_the_reason(grid, segment, case):
    members, reason = WRONG[case]
    with pytest.raises(ApiProblem, match=reason):
        grid.optimize(specification("wrong"), **members)


def test_a_query_with_a_fixed_plan_is_optimized_and_gets_another_one(grid):
    flow = {"template": "PCC", "args": [2, "RRpart", "fft3", {}, "S-Merge"]}
    fixed = {"name": "fixed", "inputs": [radio(21)], "flow": flow, "stop": {"count": 40}}
    grid.submit(fixed)
    search = {**QUICK, "strategies": ["window_split"]}
    begun = grid.optimize(fixed, count=COUNT, search=search, publish_to=["fixed"])
    done = grid.wait_for_optimization(begun, 60)
    assert done.status == "published"
    document = eventually(lambda: "plan" in grid.query("fixed").specification and grid.query("fixed").specification)
    assert document["function"] == "fft3"
    assert "flow" not in document
    assert document["plan"] == {"strategy": "window_split", "degree": 2}
    assert len(results(grid, "fixed")["ts"]) == 40


def test_a_flow_that_the_optimizer_cannot_change_is_refused_before_anything_begins(grid):
    flow = {"template": "PCC", "args": [2, "RRpart", "fft3", {}, "OS-Join", {"combine": "fft3combine"}]}
    fixed = {"specification": {"name": "unknown-strategy", "inputs": [RADIO], "flow": flow}, "count": COUNT}
    for ask in (lambda: grid.check_optimization(fixed), lambda: grid.optimize(fixed["specification"])):
        with pytest.raises(ApiProblem, match="not a strategy that 'fft3' declares"):
            ask()
    assert not list(grid.optimizations("unknown-strategy"))


def test_a_search_that_can_begin_is_checked_without_beginning_it(grid):
    checked = grid.check_optimization({"specification": specification("checked"), "search": QUICK})
    assert checked == {"query": "checked", "functions": ["fft3"], "plans": 3}
    assert not list(grid.optimizations("checked"))


def test_a_source_that_ends_early_makes_no_segment(grid):
    with pytest.raises(ApiProblem, match="the stream ended after 5 of 10 windows"):
        grid.record_segment(radio(0, limit=5), 10)


def test_a_running_query_shows_how_far_it_has_drifted(grid):
    done = grid.optimize(specification("drifting", 4), count=COUNT, search=QUICK, wait=True, timeout_s=60)
    grid.submit(specification("drifting", 4, plan="auto", stop=None))
    grid.run("drifting")
    (found,) = eventually(
        lambda: [one for one in grid.drift(0.0) if one["query"] == "drifting"], lambda found: len(found) == 1
    )
    grid.drop("drifting")
    assert found["optimization"] == done.id
    assert found["drift"] == pytest.approx(found["measured_cost_s"] / found["chosen_cost_s"] - 1)
    assert found["stale"] == []


def test_the_best_plan_of_a_pipe_may_be_a_fused_one(grid):
    flow = {"template": "pipe", "args": ["fft3", {}, "polarize", {}]}
    search = {**QUICK, "shapes": ["flat"]}
    done = grid.optimize(
        {"name": "piped", "inputs": [RADIO], "flow": flow}, count=COUNT, search=search, wait=True, timeout_s=60
    )
    assert {"central+central", "fused-central"} <= {row["key"] for row in done.choice["table"]}
    grid.submit({"name": "piped", "inputs": [RADIO], "flow": flow, "plan": "auto", "stop": {"count": 5}})
    grid.run("piped")
    assert sum(len(block) for block in grid.result_blocks("piped")) == 5
