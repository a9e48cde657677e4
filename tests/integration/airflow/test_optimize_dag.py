"""The DAGs in a real Airflow, run by its scheduler against a real coordinator."""

import pytest

from gsdm_grid.testing import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
ONE_TRIAL = {"short": 1.0, "repeats": 1, "block_bytes": [None]}
"""The central plan over all windows at once, and once more to verify it."""


def only(tasks, name):
    (found,) = [one for one in tasks if one["task_id"] == name]
    return found


def test_the_dag_runs_to_success_by_its_scheduler(airflow, optimized):
    states = airflow.summary(optimized)
    assert airflow.state(optimized) == "success", states
    assert states["record_segment[-1]"] == states["verify.trial[0]"] == states["report[-1]"] == "success"
    assert states["round_5.trial[-1]"] == "skipped"


def test_the_plan_is_published_and_the_query_runs_with_it(airflow, optimized, client):
    assert airflow.xcom(optimized, "publish") == ["spectrum"]
    chosen = client.optimization(airflow.xcom(optimized, "start")).choice
    client.run("spectrum")
    assert eventually(lambda: client.query("spectrum").state, lambda state: state == "installed") == "installed"
    assert client.window_count("spectrum") == 500
    plan = client.plan("spectrum")
    compute = [site for site in plan["sites"] if site["role"] == "compute"]
    degree = 1 if chosen["plan"] == "central" else chosen["plan"]["degree"]
    assert len(compute) == degree, (chosen["plan"], plan["sites"])


def test_the_logs_show_tables_and_the_tasks_link_to_the_coordinator(airflow, optimized, coordinator):
    tasks = airflow.tasks(optimized)
    trial = next(one for one in tasks if one["task_id"] == "round_0.trial" and one["rendered_map_index"] == "central")
    log = airflow.log(optimized, trial)
    assert "site" in log
    assert "▸ compute.0" in log
    assert "windows/s" in log
    links = airflow.links(optimized, trial)
    assert links["Query"] == f"{coordinator.url}/queries/spectrum"
    assert links["Trial"].startswith(f"{coordinator.url}/trials/trial-")
    report = airflow.log(optimized, only(tasks, "report"))
    assert "chosen by all measurements together: " in report
    assert "run again in turn" in report
    assert "not tried:" in report


def test_a_trial_that_fails_is_reported_and_does_not_stop_the_others(airflow, client, fragile):
    client.submit({"name": "fragile", **fragile})
    run = airflow.trigger(query="fragile", count=200, search={"most": 2, "repeats": 1})
    assert airflow.finished(run) == "success", airflow.summary(run)
    trials = {one["rendered_map_index"]: one for one in airflow.tasks(run) if one["task_id"] == "round_0.trial"}
    assert trials["central"]["state"] == "success"
    failed = trials["window_distribute-2"]
    assert failed["state"] == "failed"
    assert failed["try_number"] == 1
    assert "neighbours are missing" in airflow.log(run, failed)
    assert "neighbours are missing" in airflow.log(run, airflow.task(run, "report"))
    assert "trying.fragile on one site" in airflow.log(run, airflow.task(run, "report"))


def test_a_task_takes_its_trial_up_again_when_the_coordinator_was_killed_meanwhile(
    airflow, coordinator, client, slow_function, make_client, sites_of_trials
):
    count = 50 * 16  # seconds: longer than a task waits before it leaves its worker
    run = airflow.trigger(function=slow_function, inputs=[fast_radio()], count=count, search=ONE_TRIAL)
    deferred = airflow.waiting_trial(run)
    (trial,) = client.trials(optimization=airflow.xcom(run, "start"))
    assert trial.status == "running"
    coordinator.kill()
    coordinator.start()  # at another port
    assert airflow.finished(run) == "success", airflow.summary(run)
    with make_client() as again:
        tried = sorted(again.trials(optimization=airflow.xcom(run, "start")), key=lambda one: one.created)
        assert tried[0].id == trial.id
        assert tried[0].result.windows == count
        assert len({one.key for one in tried}) == len(tried)  # none was asked for twice
        assert sites_of_trials(again) == []
    assert airflow.task(run, "round_0.trial")["try_number"] == deferred["try_number"]


def test_a_user_who_ends_a_waiting_task_cancels_its_trial(airflow, make_client, slow_function, sites_of_trials):
    run = airflow.trigger(function=slow_function, inputs=[fast_radio()], count=50 * 300, search=ONE_TRIAL)
    airflow.waiting_trial(run)
    with make_client() as client:
        optimization = airflow.xcom(run, "start")
        assert [one.status for one in client.trials(optimization=optimization)] == ["running"]
        airflow.end(run)
        eventually(lambda: list(client.trials(optimization=optimization)), lambda found: found == [], timeout_s=60)
        eventually(lambda: sites_of_trials(client), lambda found: found == [])
    assert airflow.state(run) == "failed"


def test_a_query_that_drifted_is_optimized_anew(airflow, optimized, make_client):
    with make_client() as client:
        source = {**fast_radio(), "options": {"window": 1024, "rate": 500}}  # as that of the query that was optimized
        client.submit({"name": "drifting", "inputs": [source], "function": "fft3", "plan": "auto"})
        client.run("drifting")
        eventually(lambda: [one["query"] for one in client.drift(0.0)], lambda found: found == ["drifting"])
        run = airflow.trigger("gsdm_reoptimize", threshold=0.0)
        with airflow.switched_on("gsdm_reoptimize"):
            assert airflow.finished(run, dag="gsdm_reoptimize") == "success"
        (begun,) = [one for one in airflow.runs() if one["dag_run_id"].startswith(run)]
        assert begun["conf"] == {"query": "drifting"}
        airflow.end(begun["dag_run_id"])
        client.drop("drifting")


def fast_radio():
    return {"type": "Radio", "interface": "synthetic_radio", "options": {"window": 64}}
