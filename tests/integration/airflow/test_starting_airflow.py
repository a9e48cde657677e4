"""A local Airflow that cannot be started says why."""

import socket

import pytest

from gsdm_grid.airflow.local_airflow import LocalSettings, free_port, started
from gsdm_grid.errors import GsdmError


@pytest.fixture
def settings(tmp_path):
    def make(**members):
        given = {"home": tmp_path / "airflow", "dags": tmp_path, "connection": {}, "environment": {}}
        return LocalSettings(**{**given, **members})

    return make


def test_a_port_in_use_is_refused_with_its_number(settings):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(GsdmError, match=f"cannot listen on 127.0.0.1:{port}.*--port"), started(settings(port=port)):
            pass


def test_a_home_in_use_is_refused(settings):
    import fcntl

    made = settings(port=free_port())
    made.home.mkdir()
    with (made.home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(GsdmError, match=r"an Airflow runs in .* already"), started(made):
            pass


def test_a_start_that_fails_says_what_it_was_doing_and_why(settings):
    wrong = settings(port=free_port(), database="nonsense://nowhere")
    said = r"(?s)Airflow has ended while importing Airflow; the end of .*start.log:.*nonsense"
    with pytest.raises(GsdmError, match=said), started(wrong) as airflow:
        airflow.wait_until_ready("gsdm_optimize")
