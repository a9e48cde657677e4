"""A coordinator whose database has no room left: it says so, goes on, and can be closed."""

import resource
import subprocess
import sys
from contextlib import contextmanager

import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from api.operations.operations import Operations
from api.settings import ServiceSettings
from api.store import Store
from api.wiring import make_app
from gsdm_grid.testing import eventually

RADIO = {"type": "Radio", "interface": "synthetic_radio", "options": {"window": 64, "rate": 100}}
FILLER = "x" * 40_000
"""More than what is free in the pages that a database has already."""
FULL = "urn:gsdm:problem:storage-full"


class SmallDatabase:
    """Limits a SQLite database to the pages that it has now, until there is room again."""

    def __init__(self, engine):
        self._engine = engine
        self._pages = None
        sa.event.listen(engine, "checkout", self._limit)

    def _limit(self, connection, _record, _proxy):
        connection.execute(f"PRAGMA max_page_count = {self._pages or 2**30}")

    def fill(self):
        with self._engine.connect() as connection:
            self._pages = connection.exec_driver_sql("PRAGMA page_count").scalar()

    def make_room(self):
        self._pages = None


@contextmanager
def file_size_limit(size_bytes):
    """No file of this process may grow beyond a size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def make_client(tmp_path):
    """Make an application over one home folder, with a client of it."""

    def make():
        app = make_app(ServiceSettings(home=tmp_path, placement="threads"))
        secret = app.state.services.tokens.create(f"admin{len(app.state.services.tokens.list())}", "admin")[1]
        bearer = {"Authorization": f"Bearer {secret}"}
        return app.state.services, TestClient(app, raise_server_exceptions=False, headers=bearer)

    return make


def submit(client, name):
    document = {"name": name, "labels": {"note": FILLER}, "inputs": [RADIO], "function": "identity"}
    return client.post("/v1/queries", json=document)


def run(client):
    """Submit a query that keeps no results, and run it."""
    document = {"name": "q", "inputs": [RADIO], "function": "identity", "outputs": [{"interface": "null"}]}
    assert client.post("/v1/queries", json=document).status_code == 201
    running = client.post("/v1/queries/q/run").headers["Location"]
    eventually(lambda: client.get(running).json()["status"], "succeeded".__eq__, 30)


def test_a_full_disk_while_submitting_is_a_problem_of_its_own_and_the_coordinator_still_closes(make_client):
    services, client = make_client()
    database = SmallDatabase(services.store.engine)
    with client:
        database.fill()
        refused = submit(client, "q")
        assert (refused.status_code, refused.json()["type"]) == (507, FULL)
        assert client.get("/v1/queries/q").status_code == 404
        database.make_room()
        assert submit(client, "q").status_code == 201
        assert client.post("/v1/queries/q/run").status_code == 202
        eventually(lambda: client.get("/v1/queries/q").json()["state"], lambda state: state == "active", 30)
        database.fill()
        refused = [submit(client, f"another{number}").status_code for number in range(5)]
        assert refused[-1] == 507  # there were some free pages
    assert not services.coordinator.ready


def test_a_file_that_may_not_grow_is_a_full_disk(make_client):
    _, client = make_client()
    with client:
        with file_size_limit(4096):
            refused = submit(client, "q")
        assert (refused.status_code, refused.json()["type"]) == (507, FULL)
        assert submit(client, "q").status_code == 201


def test_states_are_stored_again_after_a_disk_was_full_for_a_while(make_client, caplog):
    _, client = make_client()
    with client:
        run(client)
        with file_size_limit(4096):
            eventually(lambda: "it could not be stored that a query has settled" in caplog.text, timeout_s=30)
        assert client.post("/v1/queries/q/deactivate").status_code == 202
        eventually(lambda: client.get("/v1/queries/q").json()["state"], "installed".__eq__, 30)


def test_a_state_change_that_finds_no_room_is_stored_once_there_is_some(make_client, caplog):
    services, client = make_client()
    with client:
        run(client)
        with file_size_limit(4096):
            services.grid.queries["q"].stop()
            eventually(lambda: "a state change cannot be stored yet" in caplog.text, timeout_s=30)
            assert client.get("/v1/queries/q").json()["state"] == "active"
        query = eventually(lambda: client.get("/v1/queries/q").json(), lambda one: one["state"] == "installed", 30)
        assert query["desired"] == "installed"
        stored = [event["state"] for event in client.get("/v1/queries/q/events").json()["items"]]
        assert stored[:3] == ["installed", "stopping", "active"]


def test_a_coordinator_with_a_state_change_that_finds_no_room_can_be_closed(make_client, caplog):
    services, client = make_client()
    with client:
        run(client)
        with file_size_limit(4096):
            services.grid.queries["q"].stop()
            eventually(lambda: "a state change cannot be stored yet" in caplog.text, timeout_s=30)
            services.coordinator.close()
    assert not services.coordinator._states._thread.is_alive()


def test_an_outcome_that_finds_no_room_is_stored_once_there_is_some(tmp_path):
    store = Store(f"sqlite:///{tmp_path / 'store.sqlite'}")
    database = SmallDatabase(store.engine)
    refused = []

    def carry_out(operation):
        database.fill()
        refused.append(operation["action"])
        return {"note": FILLER}

    operations = Operations(store, carry_out)
    with store.begin() as connection:
        promised = [operations.record(connection, "q", action) for action in ("compile", "install")]
    for operation in promised:
        operations.enqueue(operation)

    def statuses():
        database.make_room()
        return [operations.view(operation["id"])["status"] for operation in promised]

    eventually(lambda: refused, lambda actions: actions == ["compile"], 30)
    assert eventually(statuses, lambda found: found == ["succeeded"] * 2, 30)
    assert refused == ["compile", "install"]
    operations.close()
    store.close()


def test_a_full_disk_at_start_leaves_nothing_behind_and_is_said_in_one_sentence(make_client, tmp_path):
    services, client = make_client()
    with client:
        for name in ("q1", "q2", "q3"):
            assert submit(client, name).status_code == 201
            assert client.post(f"/v1/queries/{name}/run").status_code == 202
            eventually(lambda path=f"/v1/queries/{name}": client.get(path).json()["state"], "active".__eq__, 30)
    services, client = make_client()
    with pytest.raises(sa.exc.OperationalError), file_size_limit(4096), client:
        pytest.fail("started")
    assert not services.coordinator.ready

    command = [sys.executable, "-m", "gsdm_grid.cli", "serve", "--port", "0", "--home", str(tmp_path)]
    command += ["--placement", "processes"]
    limit = ["prlimit", f"--fsize={48 << 10}"]
    ended = subprocess.run([*limit, *command], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 1, ended.stderr
    (line,) = [one for one in ended.stderr.splitlines() if not one.startswith("{")]  # its log
    assert line.startswith("error: the coordinator cannot start: its disk, or its database, is full")
