"""Types, functions, bundles, sources and sinks over REST, and what is left of them after a restart."""

import textwrap
import time

import pytest
from starlette.testclient import TestClient

from api.registry.stream_types import forget_type
from api.settings import ServiceSettings
from api.wiring import make_app
from gsdm_grid.model import stream_types
from gsdm_grid.testing import eventually

LEVEL = {"name": "RestLevel", "under": "Stream", "attributes": {"value": "float32", "x": "vector[4] of complex64"}}
RADIO = {"window": 64, "limit": 20}
SOURCE = {"name": "s1", "type": "Radio", "interface": "synthetic_radio", "options": RADIO}
BUNDLE = textwrap.dedent(
    """
    from gsdm_grid import Radio, current_window, sqf

    @sqf(Radio, returns=Radio)
    def louder(s, factor={factor}):
        v = current_window(s)
        return v.replace(x=v.x * factor)
    """
)


@pytest.fixture
def start(tmp_path):
    """Start the service over one home folder, again and again; gives a function that sends requests as an admin."""
    open_clients = []

    def begin(role="admin"):
        while open_clients:
            open_clients.pop().__exit__(None, None, None)
        app = make_app(ServiceSettings(home=tmp_path, placement="threads"))
        name = f"t{time.monotonic_ns()}"
        secret = app.state.services.tokens.create(name, role)[1]
        client = TestClient(app, raise_server_exceptions=False, headers={"Authorization": f"Bearer {secret}"})
        client.__enter__()
        open_clients.append(client)
        return client.request

    before = set(stream_types.names())
    yield begin
    while open_clients:
        open_clients.pop().__exit__(None, None, None)
    for name in set(stream_types.names()) - before:
        forget_type(name)


@pytest.fixture
def ask(start):
    return start()


def kind(answer):
    assert answer.headers["Content-Type"] == "application/problem+json", answer.text
    return answer.json()["type"].removeprefix("urn:gsdm:problem:")


def upload(ask, factor=2.0, name="loud"):
    source = BUNDLE.format(factor=factor)
    return ask("PUT", f"/v1/bundles/{name}", content=source, headers={"Content-Type": "text/x-python"})


# -- types ----------------------------------------------------------------------------------------------------------


def test_a_type_is_posted_listed_and_removed(ask):
    made = ask("POST", "/v1/types", json=LEVEL)
    assert made.status_code == 201
    assert made.headers["Location"] == "/v1/types/RestLevel"
    shown = {**LEVEL, "inherited": {"ts": "timestamp"}, "builtin": False}
    assert made.json() == ask("GET", "/v1/types/RestLevel").json() == shown
    assert ask("POST", "/v1/types", json=LEVEL).status_code == 200
    under = {"name": "RestLouder", "under": "RestLevel", "attributes": {"gain": "int"}}
    assert ask("POST", "/v1/types", json=under).json()["inherited"] == {"ts": "timestamp", **LEVEL["attributes"]}
    assert kind(ask("DELETE", "/v1/types/RestLevel")) == "in-use"
    for name in ("RestLouder", "RestLevel"):
        assert ask("DELETE", f"/v1/types/{name}").status_code == 204
        assert ask("GET", f"/v1/types/{name}").status_code == 404
        assert ask("DELETE", f"/v1/types/{name}").status_code == 404


def test_types_may_be_yaml(ask):
    text = "name: RestLevel\nattributes: {value: float32}\n"
    assert ask("POST", "/v1/types", content=text, headers={"Content-Type": "application/yaml"}).status_code == 201


def test_posted_types_are_there_after_a_restart(start):
    assert start()("POST", "/v1/types", json=LEVEL).status_code == 201
    forget_type("RestLevel")
    ask = start()
    assert ask("GET", "/v1/types/RestLevel").json()["attributes"] == LEVEL["attributes"]
    assert ask("DELETE", "/v1/types/RestLevel").status_code == 204


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"name": "Radio"}, "name-taken"),
        ({"name": "a b"}, "invalid-request"),
        ({"name": "class"}, None),
        ({"under": "Nothing"}, "unknown-name"),
        ({"attributes": {"a": "float33"}}, "type-mismatch"),
        ({"attributes": {"ts": "float32"}}, "type-mismatch"),
        ({"attributes": {"class": "float32"}}, "type-mismatch"),
        ({"attributes": {"a": "vector[0] of int8"}}, "type-mismatch"),
        ({"attributes": {"a": 3}}, "invalid-request"),
        ({"attributes": {"a": "O"}}, "type-mismatch"),
        ({"attributes": {"a": "(2,3)f4"}}, "type-mismatch"),
        ({"attributes": [["a", "int"]]}, "invalid-request"),
        ({"more": 1}, "invalid-request"),
    ],
)
def test_wrong_types_are_refused(ask, change, expected):
    answer = ask("POST", "/v1/types", json={**LEVEL, **change})
    assert answer.status_code == 201 if expected is None else kind(answer) == expected


def test_built_in_types_stay(ask):
    assert ask("GET", "/v1/types/Radio").json()["builtin"]
    assert kind(ask("DELETE", "/v1/types/Radio")) == "in-use"


def test_lists_come_in_pages(ask):
    names, cursor = [], None
    while True:
        found = ask("GET", "/v1/functions", params={"limit": 2, **({"cursor": cursor} if cursor else {})}).json()
        names += [one["name"] for one in found["items"]]
        cursor = found["next"]
        if cursor is None:
            break
    assert names == sorted(names)
    assert {"fft3", "S-Merge", "RRpart"} <= set(names)
    for params in ({"limit": 0}, {"limit": 501}, {"cursor": "!"}, {"kind": "nothing"}):
        assert kind(ask("GET", "/v1/functions", params=params)) == "invalid-request"


# -- functions and bundles ------------------------------------------------------------------------------------------


def test_functions_tell_their_signatures_and_strategies(ask):
    found = ask("GET", "/v1/functions/fft3").json()
    assert (found["kind"], found["input"]) == ("transforming", "Radio")
    assert found["strategies"]
    assert found["bundle"] is None
    kinds = {one["kind"] for one in ask("GET", "/v1/functions?kind=combining").json()["items"]}
    assert kinds == {"combining"}
    for name in ("nothing", "os.path.join"):
        assert kind(ask("GET", f"/v1/functions/{name}")) == "not-found"
    assert kind(ask("GET", "/v1/functions/os:system")) == "invalid-request"


def test_uploaded_functions_are_listed_with_their_version(start):
    ask = start()
    made = upload(ask)
    assert made.status_code == 201
    assert made.json() | {"digest": "", "created": 0} == {
        "name": "loud",
        "version": 1,
        "functions": ["loud.louder"],
        "templates": [],
        "interfaces": [],
        "media_type": "text/x-python",
        "digest": "",
        "created": 0,
        "error": None,
        "requirements": [],
        "packages": [],
    }
    assert upload(ask).status_code == 200
    assert upload(ask, 3.0).json()["version"] == 2
    ask = start()
    found = ask("GET", "/v1/functions/loud.louder").json()
    assert (found["bundle"], found["version"]) == ("loud", 2)
    assert found["parameters"] == [{"name": "factor", "required": False, "default": "3.0"}]
    assert ask("GET", "/v1/functions/loud@1.louder").json()["version"] == 1
    assert [one["name"] for one in ask("GET", "/v1/bundles").json()["items"]] == ["loud"]
    assert len(ask("GET", "/v1/bundles/loud").json()["versions"]) == 2
    assert ask("DELETE", "/v1/bundles/loud").status_code == 204
    assert kind(ask("GET", "/v1/bundles/loud")) == "not-found"
    assert kind(ask("GET", "/v1/functions/loud.louder")) == "not-found"


def test_code_that_fails_tells_the_cause_and_no_trace(ask):
    answer = ask("PUT", "/v1/bundles/b", content="\n\n1 / 0", headers={"Content-Type": "text/x-python"})
    assert kind(answer) == "function-failed"
    assert answer.json()["cause"] == "ZeroDivisionError: division by zero (__init__.py, line 3)"
    assert "Traceback" not in answer.text


def test_a_query_runs_an_uploaded_function_and_holds_its_bundle(ask):
    upload(ask)
    query = {"name": "q", "inputs": [{"source": "s1"}], "function": "loud.louder", "params": {"factor": 4.0}}
    assert ask("POST", "/v1/sources", json=SOURCE).status_code == 201
    assert ask("POST", "/v1/queries", json=query).status_code == 201
    place = f"/v1/operations/{ask('POST', '/v1/queries/q/run').json()['id']}"
    operation = eventually(lambda: ask("GET", place).json(), lambda found: found["finished"] is not None)
    assert operation["status"] == "succeeded", operation
    eventually(lambda: ask("GET", "/v1/queries/q").json()["state"] != "active")
    assert ask("GET", "/v1/queries/q").json()["error"] is None
    assert kind(ask("DELETE", "/v1/bundles/loud")) == "in-use"
    assert kind(ask("DELETE", "/v1/sources/s1")) == "in-use"
    assert 'gsdm_query_state{query="q"' in ask("GET", "/metrics").text


# -- sources, sinks, interfaces -------------------------------------------------------------------------------------


def test_interfaces_tell_their_options(ask):
    found = {one["name"]: one for one in ask("GET", "/v1/interfaces").json()["items"]}
    assert "overload" in found["tcp"]["options"]
    assert (found["tcp"]["source"], found["tcp"]["sink"]) == (True, True)
    assert (found["stdout"]["source"], found["stdout"]["sink"]) == (False, True)
    assert found["memory"]["local"]


def test_sources_and_sinks_are_registered_and_found_after_a_restart(start):
    ask = start("operator")
    made = ask("POST", "/v1/sources", json=SOURCE)
    assert made.status_code == 201
    assert made.headers["Location"] == "/v1/sources/s1"
    assert ask("POST", "/v1/sources", json=SOURCE).status_code == 200
    assert kind(ask("POST", "/v1/sources", json={**SOURCE, "options": {}})) == "name-taken"
    sink = {"name": "s1", "interface": "tcp", "options": {"address": "127.0.0.1:5555"}}
    assert ask("POST", "/v1/sinks", json=sink).json()["type"] is None
    ask = start("operator")
    assert ask("GET", "/v1/sources/s1").json() == made.json()
    assert [one["name"] for one in ask("GET", "/v1/sinks").json()["items"]] == ["s1"]
    for room in ("sources", "sinks"):
        assert ask("DELETE", f"/v1/{room}/s1").status_code == 204
        assert ask("GET", f"/v1/{room}/s1").status_code == 404
        assert ask("GET", f"/v1/{room}").json() == {"items": [], "next": None}


def test_a_source_is_registered_with_its_order_of_time(start):
    ask = start()
    order = {"within": 2.0, "late": "drop"}
    assert ask("POST", "/v1/sources", json={**SOURCE, "order": order}).json()["order"] == order
    wrong = ask("POST", "/v1/sources", json={**SOURCE, "name": "s2", "order": {"within": -1}}).json()
    assert wrong["detail"] == "order.within: expected a number of seconds from 0 to 1e9, got -1"
    query = {"name": "q", "inputs": ["s1"], "function": "fft3"}
    assert ask("POST", "/v1/queries", json=query).status_code == 201
    assert ask("GET", "/v1/sources/s1").json()["order"] == order


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"order": "random"}, "invalid-request"),
        ({"order": {"within": -1}}, "invalid-request"),
        ({"type": "Nothing"}, "unknown-name"),
        ({"interface": "nothing"}, "unknown-name"),
        ({"options": {"nothing": 1}}, "unknown-name"),
        ({"options": {"window": "wide"}}, "invalid-specification"),
        ({"interface": "memory", "options": {}}, "invalid-specification"),
        ({"interface": "os.path:join"}, "invalid-specification"),
        ({"interface": "gsdm_grid.interfaces.tcp:nothing"}, "invalid-specification"),
        ({"interface": "generator", "options": {"function": "subprocess:check_output"}}, "forbidden"),
        (
            {"interface": "gsdm_grid.interfaces.generator:GeneratorSource", "options": {"function": "os:abort"}},
            "invalid-specification",
        ),
        ({"name": "a/b"}, "invalid-request"),
        ({"options": [1]}, "invalid-request"),
    ],
)
def test_wrong_sources_are_refused(start, change, expected):
    assert kind(start("operator")("POST", "/v1/sources", json={**SOURCE, **change})) == expected
