"""Operators, sensor and triggers against a real coordinator, without a scheduler in between."""

import asyncio
import json
import threading

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException, TaskDeferred

from gsdm_grid.airflow import operators
from gsdm_grid.airflow.hooks import GsdmHook
from gsdm_grid.airflow.sensors import QuerySensor
from gsdm_grid.airflow.triggers import QueryTrigger, TrialTrigger
from gsdm_grid.client import Client
from gsdm_grid.testing import eventually

pytestmark = pytest.mark.slow
RADIO = {"type": "Radio", "interface": "synthetic_radio", "options": {"window": 64}}


class Instance:
    """What operators want to know of a task instance."""

    dag_id, task_id, map_index = "gsdm_optimize", "task", -1

    def __init__(self, run_id):
        self.run_id = run_id


@pytest.fixture
def context(request):
    return {"ti": Instance(request.node.name)}


@pytest.fixture(autouse=True)
def connected(coordinator, monkeypatch):
    """The connection as `gsdm airflow` makes it."""
    extra = {"home": str(coordinator.home)}
    monkeypatch.setenv("AIRFLOW_CONN_GSDM_DEFAULT", json.dumps({"conn_type": "gsdm", "extra": extra}))
    for name in ("GSDM_SERVER", "GSDM_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def executed(operator, context):
    """What an operator gives."""
    operator.pre_execute(context)
    return type(operator).execute.__wrapped__(operator, context)


@pytest.fixture
def requested(context, slow_function, functions):
    """Begin an optimization of a function and ask for its first round; gives its id and the trials."""

    def ask(function, count):
        request = {"function": function, "inputs": [RADIO], "count": count, "search": {"short": 1.0, "most": 2}}
        start = operators.StartOptimizationOperator(task_id="start", request=request)
        optimization = executed(start, context)
        ask = operators.AskRoundOperator(task_id="ask", optimization=optimization, number=0)
        return optimization, executed(ask, context)

    return ask


def trial_of(optimization, request, **options):
    return operators.TrialOperator(task_id="trial", optimization=optimization, request=request, **options)


async def event_of(trigger):
    async for event in trigger.run():
        return event.payload


def test_the_form_of_connections_says_whether_the_coordinator_answers(coordinator):
    good, says = GsdmHook().test_connection()
    assert good, says
    assert coordinator.url in says


def test_a_task_that_begins_an_optimization_again_finds_the_one_it_began(requested):
    first, _ = requested("fft3", 50)
    second, _ = requested("fft3", 50)
    assert first == second


def test_a_request_that_names_a_query_takes_its_specification_and_gives_it_the_plan(client, context):
    client.submit({"name": "named", "inputs": [RADIO], "function": "fft3"})
    request = {"query": "named", "function": "dft3", "inputs": [], "count": 50, "publish_to": [], "pool": None}
    start = operators.StartOptimizationOperator(task_id="start", request=request)
    begun = client.optimization(executed(start, context))
    assert begun.query == "named"
    assert begun.document["request"]["publish_to"] == ["named"]


def test_what_the_coordinator_refuses_fails_the_task_for_good_with_the_reason(context):
    request = {"function": "nonsense", "inputs": [RADIO], "count": 50}
    start = operators.StartOptimizationOperator(task_id="start", request=request)
    with pytest.raises(AirflowFailException, match="nonsense"):
        executed(start, context)


def test_a_step_without_an_optimization_fails_at_once(context):
    choose = operators.ChooseOperator(task_id="choose", optimization=None)
    with pytest.raises(AirflowFailException, match="there is no optimization"):
        executed(choose, context)


def test_what_cannot_be_optimized_fails_before_anything_is_recorded(context, client):
    flow = {"template": "PCC", "args": [2, "RRpart", "fft3", {}, "OS-Join", {"combine": "fft3combine"}]}
    specification = {"name": "fixed", "inputs": [RADIO], "flow": flow}
    record = operators.RecordSegmentOperator(task_id="record", request={"specification": specification, "count": 10})
    before = [one.id for one in client.segments()]
    with pytest.raises(AirflowFailException, match="not a strategy that 'fft3' declares"):
        executed(record, context)
    assert [one.id for one in client.segments()] == before


def test_several_input_streams_are_not_recorded(context):
    record = operators.RecordSegmentOperator(task_id="record", request={"inputs": [RADIO, RADIO], "count": 10})
    with pytest.raises(AirflowSkipException, match="2 input streams"):
        executed(record, context)


def test_a_trial_that_is_submitted_again_is_not_run_again(requested, context, client):
    optimization, (central, *_) = requested("fft3", 50)
    told = [executed(trial_of(optimization, central), context) for _ in range(2)]
    assert told[0] == told[1]
    assert [one.id for one in client.trials(optimization=optimization)] == [told[0]["trial"]]


def test_a_trial_that_fails_fails_its_task_for_good_with_the_reason(requested, context):
    optimization, requests = requested("trying.fragile", 200)
    (parallel,) = [one for one in requests if one["label"] == "window_distribute-2"]
    with pytest.raises(AirflowFailException, match=r"trial of window_distribute-2 failed: .*neighbours are missing"):
        executed(trial_of(optimization, parallel), context)


def test_a_long_trial_leaves_its_worker_and_the_task_goes_on_when_it_is_over(requested, context, slow_function):
    optimization, (central, *_) = requested(slow_function, 60)
    trial = trial_of(optimization, central, attached_s=0.0)
    with pytest.raises(TaskDeferred) as deferred:
        executed(trial, context)
    event = asyncio.run(event_of(deferred.value.trigger))
    told = trial_of(optimization, central).resume(context, event)
    assert told["trial"] == event["trial"]
    assert told["cost_s"] > 0


def test_killing_a_task_cancels_its_trial(requested, context, slow_function, client, sites_of_trials):
    optimization, (central, *_) = requested(slow_function, 50 * 60)
    trial = trial_of(optimization, central)
    ended = []

    def run():
        try:
            executed(trial, context)
        except AirflowException as error:
            ended.append(error)

    worker = threading.Thread(target=run)
    worker.start()
    eventually(
        lambda: [one.status for one in client.trials(optimization=optimization)], lambda found: found == ["running"]
    )
    trial.on_kill()
    worker.join(60)
    assert "no trial" in str(ended[0])
    assert list(client.trials(optimization=optimization)) == []
    eventually(lambda: sites_of_trials(client), lambda found: found == [])


def test_a_task_killed_before_it_learns_the_name_of_its_trial_cancels_it(
    requested, context, slow_function, client, sites_of_trials, monkeypatch
):
    optimization, (central, *_) = requested(slow_function, 50 * 60)
    trial = trial_of(optimization, central)
    submit = Client.submit_trial

    def killed_meanwhile(self, *args, **options):
        monkeypatch.setattr(Client, "submit_trial", submit)
        begun = submit.__get__(self, Client)(*args, **options)
        trial.on_kill()
        return begun

    monkeypatch.setattr(Client, "submit_trial", killed_meanwhile)
    with pytest.raises(AirflowException, match="no trial"):
        executed(trial, context)
    assert list(client.trials(optimization=optimization)) == []
    eventually(lambda: sites_of_trials(client), lambda found: found == [])


def test_a_task_killed_before_it_asked_for_its_trial_begins_none(requested, client):
    optimization, (central, *_) = requested("fft3", 50)
    trial_of(optimization, central).on_kill()
    assert list(client.trials(optimization=optimization)) == []


def test_killing_a_waiting_task_cancels_its_trial(requested, context, slow_function, client, sites_of_trials):
    optimization, (central, *_) = requested(slow_function, 50 * 60)
    with pytest.raises(TaskDeferred) as deferred:
        executed(trial_of(optimization, central, attached_s=0.0), context)
    asyncio.run(deferred.value.trigger.on_kill())
    assert list(client.trials(optimization=optimization)) == []
    eventually(lambda: sites_of_trials(client), lambda found: found == [])


def test_a_trigger_whose_trial_is_removed_says_so(client):
    event = asyncio.run(event_of(TrialTrigger(trial="trial-gone")))
    assert "there is no trial 'trial-gone'" in event["problem"]
    trial = trial_of("opt-1", {"label": "central"})
    with pytest.raises(AirflowException, match="trial of central: not-found"):
        trial.resume({}, event)


def test_a_trigger_loses_patience_with_a_coordinator_that_is_away_and_names_it(tmp_path, monkeypatch, free_port):
    there = {"conn_type": "gsdm", "host": f"http://127.0.0.1:{free_port}", "password": "token"}
    monkeypatch.setenv("AIRFLOW_CONN_GSDM_DEFAULT", json.dumps(there))
    event = asyncio.run(event_of(TrialTrigger(trial="trial-1", poll_s=0.01, patience_s=0.1)))
    assert f"no coordinator answers at http://127.0.0.1:{free_port}" in event["problem"]


def test_a_trigger_waits_for_a_coordinator_that_was_killed_and_finds_it_elsewhere(own_service, monkeypatch, context):
    service = own_service("--placement", "threads").start()
    extra = {"home": str(service.home)}
    monkeypatch.setenv("AIRFLOW_CONN_GSDM_DEFAULT", json.dumps({"conn_type": "gsdm", "extra": extra}))
    with Client(service.url, service.token) as client:
        spec = {"name": "q", "inputs": [RADIO], "function": "dft3"}
        trial = client.submit_trial(spec, count=2000, wait=False)
    events = []
    trigger = TrialTrigger(trial=trial.id, poll_s=0.05)
    waiting = threading.Thread(target=lambda: events.append(asyncio.run(event_of(trigger))))
    service.kill()
    waiting.start()
    service.start()
    waiting.join(60)
    assert events == [{"trial": trial.id}]


def test_a_sensor_waits_for_a_query_here_and_in_the_triggerer(client, context):
    paced = {**RADIO, "options": {"window": 64, "rate": 100}}
    client.submit({"name": "sensed", "inputs": [paced], "function": "fft3"})
    sensor = QuerySensor(task_id="sensor", query="sensed")
    assert not sensor.poke(context)
    waiting = QuerySensor(task_id="waiting", query="sensed", deferrable=True, poke_interval=0.05)
    with pytest.raises(TaskDeferred) as deferred:
        executed(waiting, context)
    client.run("sensed")
    event = asyncio.run(event_of(deferred.value.trigger))
    assert event == {"state": "active"}
    waiting.resume(context, event)
    assert sensor.poke(context)
    client.drop("sensed")


def test_a_sensor_fails_with_a_query_that_has_failed(client, context, fragile):
    spec = {"name": "failing", **fragile, "plan": {"strategy": "window_distribute", "degree": 2}}
    client.submit(spec)
    client.run("failing")
    eventually(lambda: client.query("failing").state, lambda state: state == "failed")
    with pytest.raises(AirflowFailException, match=r"query failing has failed: .*neighbours are missing"):
        QuerySensor(task_id="sensor", query="failing").poke(context)
    event = asyncio.run(event_of(QueryTrigger(query="failing", states=["active"])))
    assert "neighbours are missing" in event["problem"]
    client.drop("failing")
