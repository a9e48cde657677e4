"""The metadata in a real PostgreSQL: the same life cycle, and the same way back after a crash."""

import sqlalchemy as sa

from api.store import Store, metadata
from gsdm_grid.testing import eventually

SPECIFICATION = {
    "name": "q",
    "inputs": [{"type": "Radio", "interface": "synthetic_radio", "options": {"window": 64, "rate": 1000}}],
    "function": "fft3",
    "stop": {"count": 1500},
}


def test_migrations_give_the_tables_that_the_code_uses(database):
    store = Store(database)
    found = sa.inspect(store.engine)
    for name, table in metadata.tables.items():
        assert {column["name"] for column in found.get_columns(name)} == {column.name for column in table.columns}
    store.close()


def test_a_query_survives_a_crash_of_its_coordinator(own_service, database):
    service = own_service("--placement", "threads", "--database", database).start()
    with service.client() as client:
        assert client.post("/v1/queries", json=SPECIFICATION).status_code == 201
        client.post("/v1/queries/q/run")
        view = {"last": 1, "points": 1}
        eventually(lambda: client.get("/v1/queries/q/results", params=view).json()["next"], lambda kept: kept > 100)
    service.kill()
    assert not (service.home / "gsdm.sqlite").exists()
    service.start()
    with service.client() as client:
        over = lambda query: query["state"] == query["desired"] == "installed"  # noqa: E731
        eventually(lambda: client.get("/v1/queries/q").json(), over)
        assert client.get("/v1/queries/q/results", params={"last": 1, "points": 1}).json()["next"] == 1500
        refused = client.post("/v1/queries", json=SPECIFICATION)
        assert refused.json()["type"] == "urn:gsdm:problem:name-taken"
