"""Tokens that are revoked by several threads at once."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from api.http.auth import Tokens
from api.store import Store


@pytest.fixture
def store(tmp_path):
    made = Store(f"sqlite:///{tmp_path / 'gsdm.sqlite'}")
    yield made
    made.close()


@pytest.fixture
def known(store):
    return Tokens(store)


def test_of_two_admins_revoked_at_once_one_stays(known):
    made = [known.create(name, "admin")[0].id for name in "ab"]
    with ThreadPoolExecutor(2) as workers:
        raised = [future.exception() for future in [workers.submit(known.revoke, token_id) for token_id in made]]
    assert [error.kind for error in raised if error] == ["in-use"]
    assert len(known.list()) == 1
