import json

import pytest

from gsdm_grid.client import resolve
from gsdm_grid.errors import QueryError


@pytest.fixture
def home(tmp_path):
    (tmp_path / "server.json").write_text(json.dumps({"url": "http://127.0.0.1:9000", "pid": 1}))
    (tmp_path / "admin.token").write_text("secret\n")
    return tmp_path


def test_what_is_given_comes_first_then_the_environment_then_what_a_coordinator_left(home):
    environment = {"GSDM_SERVER": "https://grid.example", "GSDM_TOKEN": "theirs"}
    assert resolve("http://127.0.0.1:1", "mine", home, environment).url == "http://127.0.0.1:1"
    assert resolve(None, "mine", home, environment).token == "mine"
    assert resolve(None, None, home, environment).url == "https://grid.example"
    assert resolve(None, None, home, environment).token == "theirs"
    assert resolve(None, None, home, {}).url == "http://127.0.0.1:9000"


def test_without_anything_the_usual_address_is_taken(tmp_path):
    found = resolve(None, None, tmp_path, {})
    assert (found.url, found.token) == ("http://127.0.0.1:8642", None)


@pytest.mark.parametrize("server", ["http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1", "127.0.0.9:1"])
def test_the_admin_token_is_used_on_this_machine(home, server):
    assert resolve(server, None, home, {}).token == "secret"


@pytest.mark.parametrize("server", ["http://10.0.0.1:1", "https://grid.example", "http://127.0.0.1.example:1"])
def test_the_admin_token_never_leaves_this_machine(home, server):
    assert resolve(server, None, home, {}).token is None


@pytest.mark.parametrize(
    ("announced", "asked"),
    [("http://0.0.0.0:8642", "http://127.0.0.1:8642"), ("https://[::]:9", "https://[::1]:9")],
)
def test_a_coordinator_that_listens_everywhere_is_asked_at_loopback(home, announced, asked):
    (home / "server.json").write_text(json.dumps({"url": announced, "pid": 1}))
    found = resolve(None, None, home, {})
    assert (found.url, found.token) == (asked, "secret")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}"])
def test_a_broken_announcement_is_passed_over(home, text):
    (home / "server.json").write_text(text)
    assert resolve(None, None, home, {}).url == "http://127.0.0.1:8642"


@pytest.mark.parametrize("server", ["ftp://a", "http://", "http://a:x", "http://[1"])
def test_an_address_that_is_none_is_refused(home, server):
    with pytest.raises(QueryError, match="is no address"):
        resolve(server, None, home, {})


def test_the_token_is_not_shown(home):
    assert "secret" not in repr(resolve(None, None, home, {}))
