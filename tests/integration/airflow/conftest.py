"""One Airflow for all these tests, started as people start it, and the coordinator that it asks.

They end with the last of these tests, not of all: an Airflow that has nothing to do takes part of a core.
"""

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from gsdm_grid.client import Client

START_S = 240.0
RUN_S = 240.0

FUNCTIONS = """
import time

import numpy as np

from gsdm_grid import Radio, current_window, sqf


@sqf(Radio, strategies=())
def slow(s):
    "A fiftieth of a second for each window."
    v = current_window(s)
    time.sleep(0.02)
    return v


@sqf(Radio, whole=True)
def fragile(s):
    "Windows as they are, if they are neighbours."
    v = current_window(s)
    if (np.diff(v.ordinals) > 1).any():
        raise ValueError("neighbours are missing")
    return v
"""


class Airflow:
    """An Airflow's process and its REST face."""

    def __init__(self, home, *options):
        self.home = Path(home)
        self.options = options
        self.process = None
        self.told = {}

    def start(self):
        """Start it and wait until it says where it is."""
        command = [sys.executable, "-m", "gsdm_grid.cli", "airflow", "--home", str(self.home), "--port", "0", "--json"]
        environment = {name: value for name, value in os.environ.items() if "AIRFLOW" not in name}
        with (self.home / "airflow.err").open("ab") as errors:
            self.process = subprocess.Popen(
                [*command, *self.options], stdout=subprocess.PIPE, stderr=errors, env=environment
            )
        watchdog = threading.Timer(START_S, self.process.kill)
        watchdog.start()
        said = []
        for line in self.process.stdout:
            said.append(line)
            if line.strip() == b"}":
                break
        watchdog.cancel()
        assert said, (self.home / "airflow.err").read_text()[-3000:]
        self.told = json.loads(b"".join(said))
        login = {"username": self.told["user"], "password": self.told["password"]}
        token = httpx.post(f"{self.url}/auth/token", json=login).raise_for_status().json()["access_token"]
        self.rest = httpx.Client(
            base_url=f"{self.url}/api/v2", headers={"Authorization": f"Bearer {token}"}, timeout=60
        )
        return self

    @property
    def url(self):
        return self.told["url"]

    def children(self):
        """All processes that it started, and those that they started."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def stop(self):
        """End it politely; gives the processes of its that are left."""
        processes = self.children()
        self.rest.close()
        self.process.terminate()
        assert self.process.wait(60) == 0
        return [one for one in processes if one.is_running()]

    def trigger(self, dag="gsdm_optimize", **conf):
        """Start a DAG run; gives its id."""
        made = self.rest.post(f"/dags/{dag}/dagRuns", json={"conf": conf, "logical_date": None})
        assert made.is_success, made.text
        return made.json()["dag_run_id"]

    def state(self, run, dag="gsdm_optimize"):
        return self.rest.get(f"/dags/{dag}/dagRuns/{run}").raise_for_status().json()["state"]

    def tasks(self, run, dag="gsdm_optimize"):
        """The run's task instances."""
        place = f"/dags/{dag}/dagRuns/{run}/taskInstances"
        return self.rest.get(place, params={"limit": 100}).raise_for_status().json()["task_instances"]

    def task(self, run, task, label=None):
        """One task instance, or the mapped one with a label; None if it is not there."""
        found = [one for one in self.tasks(run) if one["task_id"] == task]
        return next((one for one in found if label in (None, one["rendered_map_index"])), None)

    def finished(self, run, dag="gsdm_optimize", timeout_s=RUN_S):
        """Wait until a run is over; gives its state."""
        deadline_s = time.monotonic() + timeout_s
        while (state := self.state(run, dag)) not in ("success", "failed"):
            assert time.monotonic() < deadline_s, self.summary(run, dag)
            time.sleep(0.5)
        return state

    def waiting_trial(self, run, timeout_s=120.0):
        """Wait until the triggerer waits for a run's first trial; gives the task instance."""
        deadline_s = time.monotonic() + timeout_s
        while not ((one := self.task(run, "round_0.trial")) and one["state"] == "deferred"):
            assert time.monotonic() < deadline_s, self.summary(run)
            time.sleep(0.2)
        while "waiting for" not in self.log(run, one):
            assert time.monotonic() < deadline_s, self.log(run, one)
            time.sleep(0.2)
        return one

    @contextmanager
    def switched_on(self, dag):
        """For as long as a ``with`` statement takes."""
        self.rest.patch(f"/dags/{dag}", json={"is_paused": False}).raise_for_status()
        yield
        self.rest.patch(f"/dags/{dag}", json={"is_paused": True}).raise_for_status()

    def end(self, run, dag="gsdm_optimize"):
        """Mark a run as failed, as a user does who has seen enough: its tasks are killed."""
        self.rest.patch(f"/dags/{dag}/dagRuns/{run}", json={"state": "failed"}).raise_for_status()

    def runs(self, dag="gsdm_optimize"):
        return self.rest.get(f"/dags/{dag}/dagRuns", params={"limit": 100}).raise_for_status().json()["dag_runs"]

    def summary(self, run, dag="gsdm_optimize"):
        """The states of a run's tasks."""
        return {f"{one['task_id']}[{one['map_index']}]": one["state"] for one in self.tasks(run, dag)}

    def log(self, run, instance, dag="gsdm_optimize"):
        """The text of a task instance's log, of its last try."""
        place = f"/dags/{dag}/dagRuns/{run}/taskInstances/{instance['task_id']}/logs/{instance['try_number']}"
        params = {"map_index": instance["map_index"], "full_content": "true"}
        told = self.rest.get(place, params=params).raise_for_status().json()
        return "\n".join(str(entry.get("event")) for entry in told["content"])

    def links(self, run, instance, dag="gsdm_optimize"):
        """The extra links of a task instance, by name."""
        place = f"/dags/{dag}/dagRuns/{run}/taskInstances/{instance['task_id']}/links"
        params = {"map_index": instance["map_index"]}
        return self.rest.get(place, params=params).raise_for_status().json()["extra_links"]

    def xcom(self, run, task, dag="gsdm_optimize"):
        """What a task gave."""
        place = f"/dags/{dag}/dagRuns/{run}/taskInstances/{task}/xcomEntries/return_value"
        return self.rest.get(place).raise_for_status().json()["value"]


@pytest.fixture(scope="package")
def coordinator(tmp_path_factory, make_service):
    """A coordinator over threads, in whose home the Airflow is."""
    made = make_service(tmp_path_factory.mktemp("grid"), "--placement", "threads").start()
    yield made
    made.stop()


@pytest.fixture
def make_airflow():
    """Make an Airflow over a home folder; whoever makes it starts and stops it."""
    return Airflow


@pytest.fixture(scope="package")
def airflow(coordinator):
    """An Airflow; after the tests nothing of it is left."""
    made = Airflow(coordinator.home).start()
    yield made
    assert made.stop() == []


@pytest.fixture
def make_client(coordinator):
    """Make a client of the coordinator as it is now: it may have been started again."""
    return lambda: Client(coordinator.url, coordinator.token)


@pytest.fixture
def client(make_client):
    """A client of the coordinator."""
    with make_client() as made:
        yield made


@pytest.fixture(scope="package")
def optimized(airflow, coordinator):
    """A run of the DAG that has optimized the query ``spectrum``."""
    source = {"type": "Radio", "interface": "synthetic_radio", "options": {"window": 1024, "limit": 500}}
    with Client(coordinator.url, coordinator.token) as client:
        client.submit({"name": "spectrum", "inputs": [source], "function": "fft3", "plan": "auto"})
    run = airflow.trigger(query="spectrum", count=400, search={"most": 4, "repeats": 1})
    airflow.finished(run)
    return run


@pytest.fixture(scope="package")
def sites_of_trials():
    """Sites of trials that are still there; those of queries are not meant."""
    return lambda client: [one for one in client.sites() if one["query"].startswith("trial-")]


@pytest.fixture(scope="package")
def functions(coordinator):
    """Functions of the tests' own, uploaded to the coordinator."""
    with Client(coordinator.url, coordinator.token) as client:
        client.upload_bundle("trying", FUNCTIONS.encode())


@pytest.fixture(scope="package")
def slow_function(functions):
    """A function that takes a fiftieth of a second for each window, and has one plan only."""
    return "trying.slow"


@pytest.fixture(scope="package")
def fragile(functions):
    """A query whose function fails where it does not see all windows: in some of its plans."""
    source = {"type": "Radio", "interface": "synthetic_radio", "options": {"window": 64, "limit": 5000}}
    return {"inputs": [source], "function": "trying.fragile"}
