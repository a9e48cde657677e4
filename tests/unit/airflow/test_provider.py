import importlib
import json
from importlib import metadata
from pathlib import Path

import pytest
from airflow.sdk import Connection
from airflow.sdk.bases.operatorlink import BaseOperatorLink

from gsdm_grid.airflow.hooks import GsdmHook, address_of
from gsdm_grid.airflow.operators import run_key
from gsdm_grid.airflow.provider import get_provider_info
from gsdm_grid.airflow.triggers import QueryTrigger, TrialTrigger
from gsdm_grid.client import Address


def test_airflow_finds_the_provider_by_its_entry_point():
    (found,) = [
        point
        for point in metadata.entry_points(group="apache_airflow_provider")
        if point.value.startswith("gsdm_grid.")
    ]
    assert found.load() is get_provider_info


def test_the_providers_description_is_one_that_airflow_accepts():
    import airflow
    import jsonschema

    schema = json.loads((Path(airflow.__file__).parent / "provider_info.schema.json").read_text())
    jsonschema.validate(get_provider_info(), schema)


def test_everything_that_the_provider_names_is_there():
    told = get_provider_info()
    for kind in ("hooks", "operators", "sensors", "triggers"):
        for modules in told[kind]:
            for name in modules["python-modules"]:
                importlib.import_module(name)
    for link in told["extra-links"]:
        module, _, name = link.rpartition(".")
        assert issubclass(getattr(importlib.import_module(module), name), BaseOperatorLink)
    (connection,) = told["connection-types"]
    assert connection["connection-type"] == GsdmHook.conn_type
    assert connection["hook-class-name"] == f"{GsdmHook.__module__}.{GsdmHook.__name__}"


@pytest.mark.parametrize(
    ("members", "url"),
    [
        ({"host": "https://grid.example:8642"}, "https://grid.example:8642"),
        ({"host": "grid.example", "port": 9000}, "http://grid.example:9000"),
        ({"host": "grid.example", "schema": "https"}, "https://grid.example"),
    ],
)
def test_a_connection_names_the_coordinator_and_the_token(members, url):
    connection = Connection(conn_id="c", conn_type="gsdm", password="secret", **members)
    assert address_of(connection) == Address(url, "secret")


def test_a_connection_without_a_host_finds_the_coordinator_of_a_home(tmp_path, monkeypatch):
    monkeypatch.delenv("GSDM_SERVER", raising=False)
    monkeypatch.delenv("GSDM_TOKEN", raising=False)
    (tmp_path / "server.json").write_text('{"url": "http://127.0.0.1:4711"}')
    (tmp_path / "admin.token").write_text("of the home\n")
    connection = Connection(conn_id="c", conn_type="gsdm", extra=json.dumps({"home": str(tmp_path)}))
    assert address_of(connection) == Address("http://127.0.0.1:4711", "of the home")


@pytest.mark.parametrize(
    "trigger", [TrialTrigger(trial="trial-1", poll_s=0.5), QueryTrigger(query="q", states=["active"], patience_s=3.0)]
)
def test_a_trigger_is_made_again_from_what_it_says_of_itself(trigger):
    path, arguments = json.loads(json.dumps(trigger.serialize()))
    module, _, name = path.rpartition(".")
    again = getattr(importlib.import_module(module), name)(**arguments)
    assert type(again) is type(trigger)
    assert again.serialize() == trigger.serialize()


def test_a_task_asks_with_the_same_key_in_every_try():
    class Instance:
        dag_id, run_id, task_id, map_index = "gsdm_optimize", "manual__2026-01-01T00:00:00+00:00", "start", -1

        def __init__(self, try_number):
            self.try_number = try_number

    first, second = ({"ti": Instance(number)} for number in (1, 2))
    assert run_key(first) == run_key(second) == "gsdm_optimize-manual__2026-01-01T00:00:00+00:00-start--1"
