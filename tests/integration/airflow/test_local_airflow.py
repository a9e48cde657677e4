"""`gsdm airflow`: what is in place when it is ready, and what is left when it has gone."""

import pytest

from gsdm_grid.testing import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_the_connection_and_the_pool_are_in_place(airflow, coordinator):
    connection = airflow.rest.get("/connections/gsdm_default").json()
    assert connection["conn_type"] == "gsdm"
    assert str(coordinator.home) in connection["extra"]
    pool = airflow.rest.get("/pools/gsdm_trials").json()
    assert (pool["slots"], pool["include_deferred"]) == (1, True)


def test_only_the_optimizers_dags_are_there(airflow):
    dags = airflow.rest.get("/dags").json()["dags"]
    assert {one["dag_id"]: one["is_paused"] for one in dags} == {"gsdm_optimize": False, "gsdm_reoptimize": True}


def test_a_second_airflow_in_the_same_home_is_refused_in_a_sentence(airflow, coordinator, make_airflow):
    second = make_airflow(coordinator.home)
    with pytest.raises(AssertionError, match="an Airflow runs in"):
        second.start()


def test_on_postgresql_it_leaves_nothing_even_if_its_command_is_killed(tmp_path, database, make_airflow):
    made = make_airflow(tmp_path, "--database", database).start()
    processes = made.children()
    assert len(processes) >= 5  # what forks them, API server, scheduler, DAG processor, triggerer
    assert not (tmp_path / "airflow" / "airflow.db").exists()
    made.process.kill()
    eventually(lambda: [one for one in processes if one.is_running()], lambda left: left == [])
