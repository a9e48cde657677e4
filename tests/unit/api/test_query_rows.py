"""What is stored of queries."""

import pytest

from api.errors import Problem
from api.queries.query_rows import QueryRows, etag
from api.store import Store

DOCUMENT = {"name": "q", "inputs": ["antenna"], "function": "fft3"}


@pytest.fixture
def rows(tmp_path):
    """Rows in a database of their own, with the query ``q``."""
    store = Store(f"sqlite:///{tmp_path / 'store.sqlite'}")
    rows = QueryRows(store)
    rows.add("q", DOCUMENT, "token", limit=3)
    yield rows
    store.close()


def kind(refusal):
    return refusal.value.kind


def test_a_new_query_is_specified_and_says_so_in_its_events(rows):
    row = rows.row("q")
    assert (row["state"], row["desired"], row["version"], row["specification"]) == ("specified",) * 2 + (1, DOCUMENT)
    assert [event["state"] for event in rows.events("q", 10)] == ["specified"]


def test_every_change_gives_a_query_another_version(rows):
    rows.update("q", state="compiled")
    rows.update_with_event("q", {"state": "active"}, "active", "it runs")
    with rows.transaction() as connection:
        rows.change(connection, "q", {"desired": "active"})
    assert rows.row("q", if_match=etag(4))["state"] == "active"
    with pytest.raises(Problem) as refusal:
        rows.row("q", if_match=etag(3))
    assert kind(refusal) == "precondition-failed"
    assert [event["detail"] for event in rows.events("q", 10)] == ["it runs", None]


def test_a_name_is_given_once(rows):
    with pytest.raises(Problem) as refusal:
        rows.add("q", DOCUMENT, "another", limit=3)
    assert kind(refusal) == "name-taken"


def test_a_token_has_so_many_queries_at_most(rows):
    rows.add("p", DOCUMENT, "token", limit=3)
    rows.add("r", DOCUMENT, "token", limit=3)
    with pytest.raises(Problem) as refusal:
        rows.add("s", DOCUMENT, "token", limit=3)
    assert kind(refusal) == "too-many"
    rows.add("s", DOCUMENT, "another", limit=3)


def test_pages_are_by_name_and_by_what_is_asked_for(rows):
    for name in ("qa", "p", "q_"):
        rows.add(name, DOCUMENT, "another", limit=9)
    rows.update("p", state="active")

    def names(*asked, **filters):
        return [row["name"] for row in rows.page(*asked, **filters)]

    assert names(2, None) == ["p", "q"]
    assert names(9, "p") == ["q", "q_", "qa"]
    assert names(9, None, state="active") == ["p"]
    assert names(9, None, prefix="q_") == ["q_"]


def test_a_query_that_was_removed_is_gone_with_its_events(rows):
    rows.remove("q")
    assert rows.columns("q", "state") is None
    for look in (rows.row, lambda name: rows.events(name, 10)):
        with pytest.raises(Problem) as refusal:
            look("q")
        assert kind(refusal) == "not-found"


def test_what_a_query_names_is_in_use(rows):
    assert rows.using("source", "antenna") == "q"
    assert rows.using("function", "fft3") == "q"
    assert rows.using("source", "another") is None
