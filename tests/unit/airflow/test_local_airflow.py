import base64
import json
import os
import stat
import sys

import pytest

from gsdm_grid.airflow.local_airflow import LocalSettings, kept_secrets


@pytest.fixture
def settings(tmp_path):
    def make(**members):
        given = {"home": tmp_path / "airflow", "dags": tmp_path, "connection": {}, "environment": {}}
        return LocalSettings(**{**given, **members})

    return make


def test_a_local_airflow_is_small_and_tells_nobody_anything(settings):
    variables = settings().variables()
    assert variables["AIRFLOW__CORE__PARALLELISM"] == "2"
    assert variables["AIRFLOW__API__WORKERS"] == "1"
    assert variables["AIRFLOW__CORE__LOAD_EXAMPLES"] == "False"
    assert variables["AIRFLOW__USAGE_DATA_COLLECTION__ENABLED"] == "False"


def test_settings_of_the_environment_win_except_for_places(settings):
    environment = {"AIRFLOW__CORE__PARALLELISM": "7", "AIRFLOW_HOME": "elsewhere", "LANG": "C"}
    made = settings(environment=environment)
    variables = made.variables()
    assert variables["AIRFLOW__CORE__PARALLELISM"] == "7"
    assert variables["AIRFLOW_HOME"] == str(made.home)
    assert variables["LANG"] == "C"


def test_the_scripts_of_this_python_come_first_on_the_path(settings):
    path = settings(environment={"PATH": "/bin"}).variables()["PATH"]
    assert path.split(os.pathsep) == [os.path.dirname(sys.executable), "/bin"]


def test_this_machine_is_not_asked_through_a_proxy(settings):
    variables = settings(environment={"no_proxy": "intern.example"}).variables()
    assert variables["NO_PROXY"] == variables["no_proxy"] == "intern.example,127.0.0.1,localhost"


def test_its_database_is_in_its_home_unless_another_one_is_named(settings):
    made = settings()
    sqlite = made.variables()["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]
    assert sqlite == f"sqlite:///{made.home}/airflow.db"
    variables = settings(database="postgresql://me@db/airflow").variables()
    assert variables["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] == "postgresql+psycopg://me@db/airflow"
    assert variables["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC"] == "postgresql+psycopg://me@db/airflow"


@pytest.mark.parametrize(
    ("host", "url"),
    [("127.0.0.1", "http://127.0.0.1:8080"), ("0.0.0.0", "http://127.0.0.1:8080"), ("::", "http://[::1]:8080")],
)
def test_an_airflow_that_listens_everywhere_is_asked_at_loopback(settings, host, url):
    assert settings(host=host).url == url


def test_secrets_are_made_once_and_nobody_else_may_read_them(tmp_path):
    file = tmp_path / "keys"
    made = kept_secrets(file, "fernet", "token")
    assert {len(base64.urlsafe_b64decode(secret)) for secret in made.values()} == {32}
    assert made["fernet"] != made["token"]
    assert kept_secrets(file, "fernet") == made == json.loads(file.read_text())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
