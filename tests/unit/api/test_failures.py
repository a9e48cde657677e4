"""Whether a reader of a query waits, or is told that nothing will come."""

import pytest

from api.operations.failures import cannot_deliver, failure


def query(state, desired, action=None):
    return {"state": state, "desired": desired, "failure": failure(action, "op-1", 1.0) if action else None}


@pytest.mark.parametrize("action", ["run", "activate", "recover"])
def test_a_query_whose_run_failed_cannot_deliver(action):
    assert cannot_deliver(query("compiled", "compiled", action))


def test_a_query_that_failed_cannot_deliver_until_somebody_tries_again():
    assert cannot_deliver(query("failed", "failed", "run"))
    assert not cannot_deliver(query("failed", "active"))


def test_a_query_that_waits_for_hosts_has_not_failed():
    assert not cannot_deliver(query("compiled", "active"))


def test_a_failed_change_of_degree_takes_nothing_from_readers():
    assert not cannot_deliver(query("installed", "installed", "scale"))
    assert not cannot_deliver(query("active", "active", "scale"))
