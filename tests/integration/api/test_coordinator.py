"""The coordinator over its store and a grid of threads: states, operations, results, and the way back after an end."""

import threading
import time

import pytest

from api.errors import Problem
from api.optimization import TrialOrder
from api.settings import ServiceSettings
from api.wiring import make_services
from gsdm_grid import Radio, current_window, sqf
from gsdm_grid.errors import InvalidTransition, QueryError, ResourceError
from gsdm_grid.functions import functions
from gsdm_grid.hosts import ThreadPool
from gsdm_grid.testing import eventually

RADIO = {"type": "Radio", "interface": "synthetic_radio", "options": {"window": 64, "limit": 500}}
SPECIFICATION = {
    "name": "q",
    "inputs": [RADIO],
    "flow": {"template": "PCC", "args": [2, "RRpart", "fft3", {}, "S-Merge"]},
}


@pytest.fixture
def start(tmp_path):
    """Start coordinators over one home folder, one after the other; all are ended at the end."""
    started = []

    def begin(pools=None):
        services = make_services(ServiceSettings(home=tmp_path, placement="threads"), pools)
        services.coordinator.start()
        started.append(services)
        return services

    yield begin
    for services in started:
        if services.coordinator.ready:
            services.coordinator.close()


def done(services, operation):
    """Wait for an operation; gives its document."""
    return eventually(lambda: services.operations.view(operation["id"]), lambda found: found["finished"] is not None)


def run_over(services, name="q"):
    """Wait until a run is over: being installed is all that is wanted of the query."""
    view = services.views.view
    return eventually(lambda: view(name), lambda query: query["state"] == query["desired"] == "installed")


def ordinals(log):
    return [int(ordinal) for _, block in log.read(0, 10**6).blocks for ordinal in block.ordinals]


def test_the_life_cycle_step_by_step(start):
    services = start()
    assert services.desired.submit(SPECIFICATION, "t", "operator")["state"] == "specified"
    for action, reached in [("compile", "compiled"), ("install", "installed")]:
        assert done(services, services.desired.act("q", action))["status"] == "succeeded"
        assert services.views.view("q")["state"] == reached
    assert done(services, services.desired.act("q", "activate", {"stop": {"count": 100}}))["status"] == "succeeded"
    run_over(services)
    log = services.logs.kept("q", None)
    assert ordinals(log) == list(range(100))
    done(services, services.desired.act("q", "activate", {"stop": {"count": 50}}))
    run_over(services)
    assert ordinals(log) == list(range(150))
    states = [event["state"] for event in services.views.events("q", 50)][::-1]
    assert states == ["specified", "compiled", "installed", "active", "installed", "active", "installed"]
    assert done(services, services.desired.act("q", "delete"))["status"] == "succeeded"
    with pytest.raises(Problem, match="no query 'q'"):
        services.views.view("q")
    assert not log.path.exists()


def test_actions_that_the_state_does_not_allow_are_refused(start):
    services = start()
    services.desired.submit(SPECIFICATION, "t", "operator")
    with pytest.raises(InvalidTransition, match="cannot activate"):
        services.desired.act("q", "activate")
    with pytest.raises(InvalidTransition, match="cannot deactivate"):
        services.desired.act("q", "deactivate")


def test_actions_may_be_promised_one_after_the_other(start):
    services = start()
    services.desired.submit(SPECIFICATION, "t", "operator")
    promised = [services.desired.act("q", action) for action in ("compile", "install", "activate", "deactivate")]
    assert [done(services, one)["status"] for one in promised] == ["succeeded"] * 4
    assert services.views.view("q")["state"] == "installed"


def test_a_name_can_be_taken_once(start):
    services = start()
    services.desired.submit(SPECIFICATION, "t", "operator")
    with pytest.raises(Problem, match="already"):
        services.desired.submit(SPECIFICATION, "t", "operator")


def test_code_by_name_needs_an_admin(start):
    services = start()
    source = {"type": "Radio", "interface": "generator", "options": {"function": "os:listdir"}}
    with pytest.raises(Problem, match="needs an admin"):
        services.desired.submit({**SPECIFICATION, "inputs": [source]}, "t", "operator")


@sqf(Radio, register=False)
def failing(s):
    """Fails at its first window."""
    raise ValueError(f"{len(current_window(s).x)} samples are not enough")


def test_a_query_that_fails_says_why_and_can_be_run_again(start):
    functions.add(failing)
    services = start()
    services.desired.submit({"name": "q", "inputs": [RADIO], "function": "failing"}, "t", "operator")
    run = services.desired.act("q", "run")
    query = eventually(lambda: services.views.view("q"), lambda query: query["state"] == "failed")
    assert query["error"]["type"] == "urn:gsdm:problem:function-failed"
    assert "64 samples are not enough" in query["error"]["detail"]
    assert 'raise ValueError(f"{len(current_window(s).x)} samples are not enough")' in query["error"]["trace"]
    done(services, run)
    services.desired.replace("q", {"inputs": [RADIO], "function": "fft3"}, "operator", None)
    done(services, services.desired.act("q", "run", {"stop": {"count": 10}}))
    run_over(services)
    assert ordinals(services.logs.kept("q", None)) == list(range(10))


def test_an_immediate_stop_gives_up_what_is_under_way_and_resumes_without_a_gap(start):
    services = start()
    paced = {**RADIO, "options": {"window": 64, "rate": 2000, "limit": 1500}}
    services.desired.submit({**SPECIFICATION, "inputs": [paced]}, "t", "operator")
    done(services, services.desired.act("q", "run"))
    log = services.logs.kept("q", None)
    eventually(lambda: log.next, lambda kept: kept > 50)
    done(services, services.desired.act("q", "deactivate", {"mode": "immediate"}))
    assert services.views.view("q")["state"] == "compiled"
    done(services, services.desired.act("q", "run"))
    run_over(services)
    assert ordinals(log) == list(range(1500))


@pytest.mark.parametrize("function", ["fft3", "aggregate"])
def test_after_a_restart_an_active_query_goes_on_without_a_lost_or_doubled_window(start, function):
    """`aggregate` looks at several windows, so the whole stream is read again."""
    services = start()
    paced = {**RADIO, "options": {"window": 64, "rate": 2000, "limit": 1500}}
    params = {} if function == "fft3" else {"size": 3, "step": 1}
    services.desired.submit({"name": "q", "inputs": [paced], "function": function, "params": params}, "t", "operator")
    done(services, services.desired.act("q", "run"))
    log = services.logs.kept("q", None)
    eventually(lambda: log.next, lambda kept: kept > 50)
    services.coordinator.close()
    kept = log.next
    assert kept < 1400
    services = start()
    run_over(services)
    found = ordinals(services.logs.kept("q", None))
    assert len(found) > 1400
    assert found == list(range(found[0], found[0] + len(found)))


def test_after_a_restart_a_count_counts_from_where_the_run_began(start):
    services = start()
    paced = {**RADIO, "options": {"window": 64, "rate": 1000}}
    services.desired.submit({**SPECIFICATION, "inputs": [paced]}, "t", "operator")
    done(services, services.desired.act("q", "run", {"stop": {"count": 100}}))
    run_over(services)
    done(services, services.desired.act("q", "activate", {"stop": {"count": 700}}))
    log = services.logs.kept("q", None)
    eventually(lambda: log.next, lambda kept: kept > 200)
    services.coordinator.close()
    services = start()
    run_over(services)
    assert ordinals(services.logs.kept("q", None)) == list(range(800))


def test_after_a_restart_an_idle_query_is_what_it_was(start):
    services = start()
    services.desired.submit(SPECIFICATION, "t", "operator")
    services.desired.submit({**SPECIFICATION, "name": "p"}, "t", "operator")
    done(services, services.desired.act("p", "compile"))
    services.coordinator.close()
    services = start()
    assert services.views.view("q")["state"] == "specified"
    assert services.views.view("p")["state"] == "compiled"
    assert services.views.plan("p")["query"] == "p"


def test_a_second_coordinator_over_the_same_folder_is_refused(start):
    start()
    with pytest.raises(Exception, match="another coordinator"):
        start()


def test_a_broken_specification_is_not_stored(start):
    services = start()
    with pytest.raises(QueryError, match="fft9"):
        services.desired.submit({"name": "q", "inputs": [RADIO], "function": "fft9"}, "t", "operator")
    with pytest.raises(Problem, match="no query"):
        services.views.view("q")


def test_the_degree_changes_while_the_query_runs(start):
    services = start()
    paced = {**RADIO, "options": {"window": 64, "rate": 1000}}
    services.desired.submit({**SPECIFICATION, "inputs": [paced]}, "t", "operator")
    done(services, services.desired.act("q", "run"))
    log = services.logs.kept("q", None)
    for degree in (4, 1, 2):
        kept = log.next
        scaled = done(services, services.desired.act("q", "scale", {"degree": degree}))
        assert scaled["status"] == "succeeded", scaled["error"]
        assert scaled["result"]["stall_s"] > 0
        assert len([site for site in services.views.plan("q")["sites"] if site["role"] == "compute"]) == degree
        eventually(lambda kept=kept: log.next, lambda count, kept=kept: count > kept + 200)
    assert services.views.view("q")["specification"]["flow"]["args"][0] == 2
    services.coordinator.close()
    services = start()
    log = services.logs.kept("q", None)
    kept = log.next
    eventually(lambda: log.next, lambda count: count > kept + 200)
    done(services, services.desired.act("q", "deactivate"))
    assert ordinals(log) == list(range(log.next))


def test_the_degree_of_a_query_that_does_not_run_is_changed_too(start):
    services = start()
    services.desired.submit({"name": "q", "inputs": [RADIO], "function": "fft3"}, "t", "operator")
    done(services, services.desired.act("q", "scale", {"degree": 3}))
    assert services.views.view("q")["specification"]["plan"] == {"strategy": "window_distribute", "degree": 3}
    done(services, services.desired.act("q", "install"))
    scaled = done(services, services.desired.act("q", "scale", {"degree": 2}))
    assert scaled["status"] == "succeeded", scaled["error"]
    assert services.views.view("q")["state"] == "installed"
    done(services, services.desired.act("q", "activate", {"stop": {"count": 100}}))
    run_over(services)
    assert ordinals(services.logs.kept("q", None)) == list(range(100))


def counters_of(services):
    """The counters of a query by metric and labels."""
    figures = services.figures.metrics()
    return {(one.name, *one.labels[1:]): one.value for one in figures if one.name.startswith("gsdm_query_read_windows")}


def test_the_counters_of_a_query_go_on_when_its_sites_begin_anew(start):
    services = start()
    services.desired.submit({"name": "q", "inputs": [RADIO], "function": "fft3"}, "t", "operator")
    stream = services.views.compiled("q").streams[0].name
    read = ("gsdm_query_read_windows_total", stream)
    begin_anew = [("scale", {"degree": 3}), ("deactivate", {"mode": "immediate"}), ("scale", {"degree": 2})]
    for number, (action, params) in enumerate([("install", {}), *begin_anew]):
        assert done(services, services.desired.act("q", action, params))["status"] == "succeeded"
        done(services, services.desired.act("q", "run", {"stop": {"count": 100}}))
        run_over(services)
        again = number  # each time that it is installed anew, it reads the last window again
        assert counters_of(services)[read] == 100 * (number + 1) + again


def test_a_flow_without_a_degree_cannot_be_scaled(start):
    services = start()
    services.desired.submit({"name": "q", "inputs": [RADIO], "flow": "fft3"}, "t", "operator")
    with pytest.raises(QueryError, match="no degree of parallelism"):
        services.desired.act("q", "scale", {"degree": 3})


@sqf(Radio, register=False)
def sleepy(s):
    """Takes five milliseconds a window, whatever the machine does besides."""
    time.sleep(0.005)
    return current_window(s)


def test_a_query_that_scales_by_itself_grows_to_what_its_load_needs(start):
    functions.add(sleepy)
    services = start()
    paced = {**RADIO, "options": {"window": 16, "rate": 300}}  # one and a half sites' worth
    spec = {
        "name": "q",
        "inputs": [paced],
        "function": "sleepy",
        "plan": {"strategy": "window_distribute", "degree": 1},
    }
    services.desired.submit({**spec, "autoscale": {"min": 1, "max": 4}}, "t", "operator")
    done(services, services.desired.act("q", "run"))
    scaled = eventually(lambda: services.operations.page(1, None, "q")[0], lambda one: one["action"] == "scale")
    assert scaled["params"]["degree"] in (2, 3)
    assert "busy" in scaled["params"]["reason"]
    assert done(services, scaled)["status"] == "succeeded"
    done(services, services.desired.act("q", "deactivate"))
    log = services.logs.kept("q", None)
    assert ordinals(log) == list(range(log.next))


def test_a_promised_change_of_degree_is_kept_after_a_restart(start):
    services = start()
    paced = {**RADIO, "options": {"window": 64, "rate": 1000}}
    services.desired.submit({**SPECIFICATION, "inputs": [paced]}, "t", "operator")
    done(services, services.desired.act("q", "run"))
    services.operations.stop()  # what is promised from here on is not carried out any more
    promised = services.desired.act("q", "scale", {"degree": 3})
    services.coordinator.close()
    services = start()
    assert done(services, promised)["result"]["degree"] == 3
    assert services.views.view("q")["state"] == "active"
    assert len([site for site in services.views.plan("q")["sites"] if site["role"] == "compute"]) == 3


def test_promises_to_many_queries_are_kept_after_a_restart(start):
    services = start()
    services.operations.stop()  # what is promised from here on is not carried out any more
    promised = []
    for number in range(60):
        services.desired.submit({**SPECIFICATION, "name": f"q{number}"}, "t", "operator")
        promised.append(services.desired.act(f"q{number}", "compile"))
    services.coordinator.close()
    services = start()
    assert {done(services, operation)["status"] for operation in promised} == {"succeeded"}


class NoHosts(ThreadPool):
    """Refuses everything, until there are hosts."""

    hosts = False

    def start(self, request):
        if not self.hosts:
            raise ResourceError("there are no hosts of this kind")
        return super().start(request)


class BusyPool(ThreadPool):
    """Has no host free, so that all wait."""

    def start(self, request):
        while True:
            request.waiting("others have all hosts")
            time.sleep(0.02)


ON_RAY = {**SPECIFICATION, "placement": "ray"}


def test_a_query_shows_which_action_failed_and_is_not_said_to_be_on_its_way(start):
    pool = NoHosts()
    services = start({"ray": pool})
    services.desired.submit(ON_RAY, "t", "operator")
    operation = done(services, services.desired.act("q", "run"))
    query = services.views.view("q")
    assert (query["state"], query["desired"]) == ("compiled", "compiled")
    assert query["error"]["detail"] == operation["error"]["detail"] == "there are no hosts of this kind"
    assert (query["failure"]["action"], query["failure"]["operation"]) == ("run", operation["id"])
    services.coordinator.close()
    services = start({"ray": pool})
    assert services.views.view("q")["failure"] == query["failure"]
    assert services.views.view("q")["error"] == query["error"]
    pool.hosts = True
    done(services, services.desired.act("q", "run", {"stop": {"count": 10}}))
    query = run_over(services)
    assert (query["error"], query["failure"]) == (None, None)
    assert ordinals(services.logs.kept("q", None)) == list(range(10))


def test_a_query_that_failed_while_it_ran_is_not_said_to_be_on_its_way(start):
    functions.add(failing)
    services = start()
    services.desired.submit({"name": "q", "inputs": [RADIO], "function": "failing"}, "t", "operator")
    operation = services.desired.act("q", "run")
    query = eventually(lambda: services.views.view("q"), lambda query: query["state"] == query["desired"] == "failed")
    assert (query["failure"]["action"], query["failure"]["operation"]) == ("run", operation["id"])


def test_queries_that_wait_for_hosts_hold_up_neither_a_removal_nor_others(start):
    services = start({"ray": BusyPool()})
    names = [f"w{number}" for number in range(12)]
    for name in names:
        services.desired.submit({**ON_RAY, "name": name}, "t", "operator")
        services.desired.act(name, "run")
    view = services.views.view
    eventually(lambda: sum(view(name)["waiting"] is not None for name in names), lambda count: count >= 8)
    services.desired.submit(SPECIFICATION, "t", "operator")
    services.desired.act("q", "run", {"stop": {"count": 10}})
    run_over(services)
    for name in names:
        services.desired.act(name, "delete")
    eventually(lambda: [query["name"] for query in services.views.page(100, None)], lambda left: left == ["q"])
    assert services.views.view("q")["state"] == "installed"  # its threads are not what the others waited for


def test_a_query_that_is_removed_before_its_run_is_carried_out_is_not_made_again(start):
    services = start()
    services.desired.submit(SPECIFICATION, "t", "operator")
    running = services.desired.act("q", "run")
    removing = services.desired.act("q", "delete")
    assert done(services, removing)["status"] == "succeeded"
    done(services, running)
    assert "q" not in services.grid.current().queries
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("q/")]


def test_a_query_that_is_removed_while_its_plan_changes_leaves_nothing_to_the_next_of_its_name(start):
    services = start()
    services.desired.submit(SPECIFICATION, "t", "operator")
    done(services, services.desired.act("q", "install"))
    query = services.grid.current().queries["q"]
    done(services, services.desired.act("q", "delete"))
    with pytest.raises(Problem, match="there is no query 'q'"):
        services.desired._live.let_go(query)
    services.desired.submit(SPECIFICATION, "t", "operator")
    assert done(services, services.desired.act("q", "install"))["status"] == "succeeded"


def test_what_only_looks_like_a_name_is_no_use_of_it(start):
    services = start()
    labelled = {**SPECIFICATION, "labels": {"place": "antenna", "kind": "fft9", "type": "Wave"}}
    services.desired.submit(labelled, "t", "operator")
    assert services.uses("source", "antenna") is None
    assert services.uses("function", "fft9") is None
    assert services.uses("type", "Wave") is None
    assert services.uses("sink", "q") is None
    assert services.uses("function", "fft3") == "q"
    assert services.uses("type", "Radio") == "q"


def test_a_search_that_was_removed_gets_no_more_trials(start):
    services = start()
    with pytest.raises(Problem, match="there is no optimization 'opt-gone'"):
        services.trials.stored(TrialOrder(SPECIFICATION, 100, "opt-gone", "central"), "t", "admin")
    assert services.trials.all_of_search("opt-gone") == []
