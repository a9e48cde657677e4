"""The DAG files as Airflow reads them, in a process of its own: quick to read, and without what only tasks need."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ELSEWHERE = ["ray", "pyspark", "pandas", "scipy", "zmq", "matplotlib", "msgpack"]
"""What an Airflow elsewhere need not have, to run the DAGs."""
READ = """
import json, sys

class Missing:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in sys.argv[2:]:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
from airflow.dag_processing.dagbag import DagBag
before = set(sys.modules)
bag = DagBag(sys.argv[1])
print(json.dumps({
    "errors": bag.import_errors,
    "dags": {
        name: {task.task_id: sorted(task.upstream_task_ids) for task in dag.tasks} for name, dag in bag.dags.items()
    },
    "paused": {name: dag.is_paused_upon_creation for name, dag in bag.dags.items()},
    "pools": sorted({task.pool for dag in bag.dags.values() for task in dag.tasks if "trial" in task.task_id}),
    "imported": sorted({name.partition(".")[0] for name in set(sys.modules) - before}),
}))
from gsdm_grid.client import AsyncClient, Client  # what tasks and triggers import when they run
"""


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path_factory.mktemp("airflow")),
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
    }
    environment.pop("_AIRFLOW__AS_LIBRARY", None)
    command = [sys.executable, "-c", READ, ROOT / "dags", *ELSEWHERE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_dag_files_are_read_without_errors(read):
    assert read["errors"] == {}
    assert sorted(read["dags"]) == ["gsdm_optimize", "gsdm_reoptimize"]


def test_reading_the_dag_files_imports_nothing_heavy(read):
    assert not {"numpy", "pyarrow", "pandas", "ray", "pyspark", "api"} & set(read["imported"])


def test_the_steps_of_an_optimization_follow_each_other(read):
    steps = read["dags"]["gsdm_optimize"]
    assert steps["start"] == ["record_segment"]
    assert steps["round_0.ask"] == ["start"]
    assert all(steps[f"round_{k + 1}.ask"] == [f"round_{k}.trial"] for k in range(5))
    assert steps["choose"] == ["round_5.trial"]
    assert steps["verify.ask"] == ["choose"]
    assert steps["publish"] == ["verify.trial"]
    assert steps["report"] == ["publish"]


def test_the_dag_has_as_many_rounds_as_a_search_may_ask_for(read):
    from gsdm_grid.optimizer.search import MOST_ROUNDS

    assert len([name for name in read["dags"]["gsdm_optimize"] if name.endswith(".ask")]) == MOST_ROUNDS + 1


def test_trials_share_a_pool(read):
    assert read["pools"] == ["gsdm_trials"]


def test_optimizing_is_there_at_once_and_optimizing_again_waits_to_be_switched_on(read):
    assert read["paused"] == {"gsdm_optimize": False, "gsdm_reoptimize": None}
