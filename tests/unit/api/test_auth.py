import stat

import pytest
import sqlalchemy as sa

from api.errors import Problem
from api.http.auth import REMEMBERED_S, Tokens, digest
from api.store import Store, tokens


class FakeClock:
    """A clock that stands still until it is told otherwise."""

    def __init__(self):
        self.now_s = 1_000_000.0

    def now_ns(self):
        return int(self.now_s * 1e9)

    def monotonic_s(self):
        return self.now_s


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def store(tmp_path):
    made = Store(f"sqlite:///{tmp_path / 'gsdm.sqlite'}")
    yield made
    made.close()


@pytest.fixture
def known(store, clock):
    return Tokens(store, clock)


def kind_of(call, *args):
    with pytest.raises(Problem) as caught:
        call(*args)
    return caught.value.kind


def test_only_the_digest_of_a_secret_is_stored(known, store):
    token, secret = known.create("a", "viewer")
    assert secret.startswith(f"gsdm_{token.id}_")
    row = store.row(sa.select(tokens))
    assert row["digest"] == digest(secret)
    assert secret not in repr(row)


def test_a_secret_is_known_and_others_are_not(known):
    token, secret = known.create("a", "operator")
    assert known.authenticate(secret) == token
    for wrong in (
        "",
        secret[:-1],
        secret + "a",
        secret[:-1] + "!",
        "gsdm_000000000000_" + "a" * 43,
        "é" * 60,
        "\ud800",
    ):
        assert kind_of(known.authenticate, wrong) == "unauthorized"


def test_roles_are_ordered(known):
    roles = ("viewer", "operator", "admin")
    made = [known.create(role, role)[0] for role in roles]
    assert [[token.may(role) for role in roles] for token in made] == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]


def test_a_token_expires(known, clock):
    _, secret = known.create("a", "viewer", expires_s=clock.now_s + 2)
    known.authenticate(secret)
    clock.now_s += 2
    assert kind_of(known.authenticate, secret) == "unauthorized"


def test_a_token_is_remembered_for_a_short_time_only(known, store, clock):
    _, secret = known.create("a", "viewer")
    known.authenticate(secret)
    with store.begin() as connection:  # as another process would
        connection.execute(tokens.delete())
    known.authenticate(secret)
    clock.now_s += REMEMBERED_S
    assert kind_of(known.authenticate, secret) == "unauthorized"


def test_a_revoked_token_stops_at_once(known):
    known.create("a", "admin")
    token, secret = known.create("b", "viewer")
    known.authenticate(secret)
    known.revoke(token.id)
    assert kind_of(known.authenticate, secret) == "unauthorized"
    assert kind_of(known.revoke, token.id) == "not-found"


def test_names_are_taken_once(known):
    known.create("a", "viewer")
    assert kind_of(known.create, "a", "viewer") == "name-taken"


def test_the_last_admin_stays(known, clock):
    first, _ = known.create("a", "admin")
    known.create("o", "operator")
    passing, _ = known.create("p", "admin", expires_s=clock.now_s + 1)
    clock.now_s += 1
    assert kind_of(known.revoke, first.id) == "in-use"
    known.revoke(passing.id)
    second, _ = known.create("b", "admin")
    known.revoke(first.id)
    assert kind_of(known.revoke, second.id) == "in-use"


def test_the_first_start_makes_an_admin_in_a_private_file(known, tmp_path):
    home = tmp_path / "home"
    secret = known.first_start(home)
    assert known.authenticate(secret).role == "admin"
    file = home / "admin.token"
    assert file.read_text().strip() == secret
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in home.iterdir()] == ["admin.token"]
    assert known.first_start(home) is None
    assert file.read_text().strip() == secret


def test_a_token_whose_file_cannot_be_written_does_not_exist(known, tmp_path):
    (tmp_path / "home").write_text("a file")
    with pytest.raises(OSError, match="home"):
        known.first_start(tmp_path / "home")
    assert known.list() == []
