"""Tokens, limits, idempotency keys and hostile requests, over the whole application."""

import io
import logging
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa
from fastapi import WebSocket
from starlette.testclient import TestClient, WebSocketDenialResponse

from api.http import idempotency
from api.http.auth import authenticate_websocket, subprotocol_of
from api.logs import request_id
from api.settings import ServiceLimits, ServiceSettings
from api.store import idempotency as kept
from api.wiring import make_app

LIMITS = ServiceLimits(body_bytes=20_000, bundle_bytes=50_000)
QUERY = {
    "name": "q",
    "inputs": [{"type": "Radio", "interface": "synthetic_radio", "options": {"window": 64, "limit": 500}}],
    "function": "fft3",
}
ROLES = ("viewer", "operator", "admin")


class Gate:
    """Something that a request may wait for, in a route of the test's own."""

    def __init__(self):
        self.entered = threading.Semaphore(0)
        self.opened = threading.Event()
        self.calls = 0
        self.fail = False

    def pass_through(self):
        self.calls += 1
        self.entered.release()
        assert self.opened.wait(60)
        if self.fail:
            raise ZeroDivisionError("a secret of ours")
        return {"calls": self.calls, "request_id": request_id.get()}


@pytest.fixture(scope="module")
def gate():
    return Gate()


@pytest.fixture(scope="module")
def app(tmp_path_factory, gate):
    home = tmp_path_factory.mktemp("home")
    (home / "data").mkdir()
    app = make_app(ServiceSettings(home=home, placement="threads", limits=LIMITS, data_folders=(home / "data",)))
    app.add_api_route("/gate", gate.pass_through, methods=["GET", "POST"], include_in_schema=False)

    @app.websocket("/socket")
    async def socket(websocket: WebSocket) -> None:
        token = await authenticate_websocket(websocket, "operator")
        await websocket.accept(subprotocol_of(websocket))
        await websocket.send_text(token.name)
        await websocket.close()

    return app


@pytest.fixture(scope="module")
def secrets(app):
    """Secrets by role."""
    tokens = app.state.services.tokens
    return {role: tokens.create(role, role)[1] for role in ROLES}


@pytest.fixture(scope="module")
def client(app):
    with TestClient(app, raise_server_exceptions=False) as made:
        yield made


@pytest.fixture
def ask(client, secrets, gate):
    """Send a request as somebody; checks what holds for every answer."""
    gate.opened.set()
    gate.fail = False

    def send(method, path, role="admin", headers=None, **more):
        bearer = {"Authorization": f"Bearer {secrets[role]}"} if role else {}
        answer = client.request(method, path, headers={**bearer, **(headers or {})}, **more)
        assert answer.headers["X-Request-Id"]
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"]
        assert "Traceback" not in answer.text
        if answer.status_code >= 400:
            assert answer.headers["Content-Type"] == "application/problem+json"
            problem = answer.json()
            assert problem["type"].startswith("urn:gsdm:problem:")
            assert problem["status"] == answer.status_code
            assert problem["instance"] == path.partition("?")[0]
            if "Idempotent-Replay" not in answer.headers:
                assert problem["request_id"] == answer.headers["X-Request-Id"]
        return answer

    yield send
    gate.opened.set()


def kind(answer):
    return answer.json()["type"].removeprefix("urn:gsdm:problem:")


def routes(app):
    """All addresses under /v1, with their methods."""
    for path, operations in app.openapi()["paths"].items():
        if path.startswith("/v1"):
            for method in operations:
                filled = path.replace("{token_id}", "abc").replace("{name}", "nothing").replace("{id}", "nothing")
                yield method.upper(), filled.replace("{", "").replace("}", "")


# -- tokens ---------------------------------------------------------------------------------------------------------


def test_nothing_is_shown_without_a_token(app, ask):
    for method, path in routes(app):
        answer = ask(method, path, role=None)
        assert (answer.status_code, kind(answer)) == (401, "unauthorized"), (method, path)
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer ", "Bearer x", "Basic eDp5", "Bearer gsdm_000000000000_" + "a" * 43]
)
def test_other_credentials_are_none(ask, given):
    assert ask("GET", "/v1/types", role=None, headers={"Authorization": given}).status_code == 401


def test_a_viewer_only_looks(app, ask):
    for method, path in routes(app):
        if method != "GET":
            answer = ask(method, path, role="viewer")
            assert (answer.status_code, kind(answer)) == (403, "forbidden"), (method, path)
    assert ask("GET", "/v1/types", role="viewer").status_code == 200


def test_an_operator_neither_uploads_code_nor_makes_tokens(ask):
    for method, path in (
        ("PUT", "/v1/bundles/b"),
        ("DELETE", "/v1/bundles/b"),
        ("GET", "/v1/tokens"),
        ("POST", "/v1/tokens"),
        ("DELETE", "/v1/tokens/abc"),
    ):
        assert ask(method, path, role="operator").status_code == 403


@pytest.mark.parametrize("role", ROLES)
def test_everybody_may_ask_what_the_own_token_may_do(ask, role):
    answer = ask("GET", "/v1/own-token", role=role)
    assert (answer.status_code, answer.json()["role"], answer.json()["name"]) == (200, role, role)
    assert "token" not in answer.json()


def test_a_token_is_made_used_and_revoked(ask, client):
    made = ask("POST", "/v1/tokens", json={"name": "passing", "role": "viewer", "lifetime_s": 60})
    assert made.status_code == 201
    bearer = {"Authorization": f"Bearer {made.json()['token']}"}
    assert client.get("/v1/types", headers=bearer).status_code == 200
    listed = ask("GET", "/v1/tokens").json()["items"]
    assert [one["role"] for one in listed if one["id"] == made.json()["id"]] == ["viewer"]
    assert made.json()["token"] not in ask("GET", "/v1/tokens").text
    assert kind(ask("POST", "/v1/tokens", json={"name": "passing", "role": "viewer"})) == "name-taken"
    assert ask("DELETE", f"/v1/tokens/{made.json()['id']}").status_code == 204
    assert client.get("/v1/types", headers=bearer).status_code == 401
    assert ask("DELETE", f"/v1/tokens/{made.json()['id']}").status_code == 404


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"name": "a"},
        {"name": "a", "role": "king"},
        {"name": "a b", "role": "viewer"},
        {"name": 3, "role": "viewer"},
    ],
)
def test_wrong_tokens_are_refused(ask, given):
    assert kind(ask("POST", "/v1/tokens", json=given)) == "invalid-request"


def test_sockets_need_a_token_too(client, secrets):
    bearer = {"Authorization": f"Bearer {secrets['operator']}"}
    with client.websocket_connect("/socket", headers=bearer) as socket:
        assert socket.receive_text() == "operator"
    offered = [f"gsdm.bearer.{secrets['admin']}", "gsdm"]
    with client.websocket_connect("/socket", subprotocols=offered) as socket:
        assert socket.accepted_subprotocol == "gsdm"
        assert socket.receive_text() == "admin"
    for headers, status in (({}, 401), ({"Authorization": f"Bearer {secrets['viewer']}"}, 403)):
        with pytest.raises(WebSocketDenialResponse) as denied, client.websocket_connect("/socket", headers=headers):
            pass
        assert denied.value.status_code == status
        assert denied.value.headers["X-Request-Id"]


def test_figures_are_for_viewers_and_for_the_same_machine(app, ask, client):
    assert ask("GET", "/metrics", role=None).status_code == 401
    text = ask("GET", "/metrics", role="viewer").text
    assert 'gsdm_http_requests_total{method="GET",route="/metrics",status="401"}' in text
    local = TestClient(app, client=("127.0.0.1", 5000))
    assert local.get("/metrics").status_code == 200
    assert local.get("/metrics", headers={"X-Forwarded-For": "10.0.0.1"}).status_code == 401


def test_figures_name_routes_not_addresses(ask):
    for number in range(3):
        ask("GET", f"/v1/types/nothing{number}")
        ask("GET", f"/nowhere{number}")
    text = ask("GET", "/metrics").text
    assert 'route="/v1/types/{name}"' in text
    assert 'route="unmatched"' in text
    assert "nothing1" not in text
    assert "nowhere1" not in text


def test_health_needs_no_token(ask):
    assert ask("GET", "/healthz", role=None).json() == {"status": "ok"}
    assert ask("GET", "/readyz", role=None).json() == {"status": "ready"}


# -- limits and hostile bodies --------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v1/queries", "/v1/types", "/v1/sources", "/v1/tokens"])
def test_a_body_that_is_too_large_is_refused(ask, path):
    large = b'{"a": "' + b"x" * LIMITS.body_bytes + b'"}'
    json = {"Content-Type": "application/json"}
    assert kind(ask("POST", path, content=large, headers=json)) == "too-large"
    pieces = (large[at : at + 1000] for at in range(0, len(large), 1000))
    assert kind(ask("POST", path, content=pieces, headers=json)) == "too-large"
    pieces = (large[at : at + 1000] for at in range(0, len(large), 1000))
    assert kind(ask("POST", path, content=pieces, headers={**json, "Idempotency-Key": "large"})) == "too-large"


def test_uploads_have_a_limit_of_their_own(ask):
    headers = {"Content-Type": "text/x-python"}
    comment = b"#" * (LIMITS.body_bytes + 1)
    assert kind(ask("PUT", "/v1/bundles/b", content=comment, headers=headers)) == "invalid-request"
    assert kind(ask("PUT", "/v1/bundles/b", content=b"#" * 50_001, headers=headers)) == "too-large"


BOMB = "name: q\na: &a [x, x, x]\n" + "".join(
    f"{n}: &{n} [*{p}, *{p}, *{p}]\n" for p, n in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize("path", ["/v1/queries", "/v1/types", "/v1/sources", "/v1/sinks"])
@pytest.mark.parametrize(
    ("media_type", "content"),
    [
        ("application/yaml", BOMB),
        ("text/yaml", "name: !!python/object/apply:os.system ['true']"),
        ("application/json", '{"a":' * 3000),
        ("application/json", '{"name": "\\ud800"}'),
        ("application/json", '{"name": "a\\u0000"}'),
        ("application/json", b"\xff\xfe"),
        ("application/json", "null"),
        ("application/json", ""),
    ],
    ids=range(8),
)
def test_hostile_documents_get_a_clear_answer(ask, path, media_type, content):
    answer = ask("POST", path, content=content, headers={"Content-Type": media_type})
    assert answer.status_code == 422
    assert answer.json()["detail"]


def test_forms_that_are_not_understood_are_refused(ask):
    for media_type in ("text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-16"):
        answer = ask("POST", "/v1/types", content=b"{}", headers={"Content-Type": media_type})
        assert kind(answer) == "unsupported-media-type"
    compressed = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    assert ask("POST", "/v1/types", content=b"{}", headers=compressed).status_code == 415
    assert ask("PUT", "/v1/bundles/b", content=b"{}", headers={"Content-Type": "application/json"}).status_code == 415


def test_no_pattern_of_a_request_takes_long(ask):
    """One that tried all ways to match these would never come to an end, and the time limit of tests would end it."""
    evil = "(a+)+$" + "a" * 40
    ask("GET", "/v1/queries", params={"name": evil})
    ask("GET", "/v1/functions/" + "a" * 5000 + "!")
    ask("GET", "/v1/types", headers={"X-Request-Id": "a" * 5000 + "!", "traceparent": "0" * 5000})
    for kind_of in ("vector[1" + " " * 15_000 + ",,] of float64", "vector[" + "1," * 7000 + "x] of int8"):
        document = {"name": "T", "attributes": {"x": kind_of}}
        assert ask("POST", "/v1/types", json=document).status_code == 422
        inline = {**QUERY, "name": "evil", "inputs": [{**QUERY["inputs"][0], "type": document}]}
        assert ask("POST", "/v1/queries", json=inline).status_code == 422


@pytest.mark.parametrize("name", ["../../evil.py", "/tmp/evil.py", "a/../../../evil.py", "..\\evil.py"])
def test_an_upload_does_not_leave_its_folder(ask, app, name):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("__init__.py", "")
        entry = zipfile.ZipInfo("x")
        entry.filename = name
        archive.writestr(entry, "")
    answer = ask("PUT", "/v1/bundles/b", content=buffer.getvalue(), headers={"Content-Type": "application/zip"})
    assert answer.status_code == 422
    assert "leads out of the archive" in answer.json()["detail"]
    home = app.state.services.settings.home
    assert not list(home.parent.rglob("evil.py"))


@pytest.mark.parametrize("name", ["..", "%2e%2e", "%2e%2e%2fevil", "a%2Fb", "a%00", "é", "a" * 200])
def test_names_in_addresses_are_names(client, secrets, name):
    bearer = {"Authorization": f"Bearer {secrets['admin']}"}
    for room in ("bundles", "types", "sources", "sinks", "functions"):
        answer = client.get(f"/v1/{room}/{name}", headers=bearer)
        assert answer.status_code in (404, 422)
        assert answer.headers["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("interface", "expected"),
    [("generator", "forbidden"), ("gsdm_grid.interfaces.generator:GeneratorSource", "invalid-specification")],
)
def test_an_operator_does_not_run_programs(ask, tmp_path, interface, expected):
    options = {"function": "subprocess:check_output", "params": {"args": ["touch", str(tmp_path / "evil")]}}
    query = {**QUERY, "name": "evil", "inputs": [{"type": "Radio", "interface": interface, "options": options}]}
    assert kind(ask("POST", "/v1/queries", role="operator", json=query)) == expected


def test_code_comes_from_installed_packages_only(ask, tmp_path, monkeypatch):
    (tmp_path / "gsdm_evil.py").write_text(f"open({str(tmp_path / 'evil')!r}, 'w')")
    monkeypatch.syspath_prepend(str(tmp_path))
    radio = QUERY["inputs"][0]
    for change in (
        {"function": "gsdm_evil:f"},
        {"inputs": [{**radio, "interface": "gsdm_evil:F", "options": {}}]},
        {"outputs": [{"interface": "gsdm_evil:F"}]},
        {"function": "OS-Join", "params": {"combine": "gsdm_evil:f"}},
    ):
        assert ask("POST", "/v1/queries", json={**QUERY, "name": "evil", **change}).status_code == 422
    assert not (tmp_path / "evil").exists()


def test_an_operator_stays_in_the_data_folders(ask, app):
    (folder,) = app.state.services.settings.data_folders

    def sink(path):
        return {"interface": "recorder", "options": {"path": str(path)}}

    outside = folder / ".." / "gsdm.npy"
    for address, document in (
        ("/v1/queries", {**QUERY, "name": "files", "outputs": [sink(outside)]}),
        ("/v1/trials", {**QUERY, "name": "files", "outputs": [sink(outside)]}),
        ("/v1/sinks", {"name": "files", **sink(outside)}),
    ):
        answer = ask("POST", address, role="operator", json=document)
        assert (answer.status_code, kind(answer)) == (403, "forbidden"), answer.text
        assert answer.json()["allowed"] == [str(folder)]
    relative = ask("POST", "/v1/sinks", role="operator", json={"name": "files", **sink("a.npy")})
    assert (relative.status_code, kind(relative)) == (422, "invalid-specification")
    assert ask("POST", "/v1/sinks", role="operator", json={"name": "inside", **sink(folder / "a.npy")}).is_success
    query = {**QUERY, "name": "files", "outputs": [sink(folder / "b.npy")]}
    assert ask("POST", "/v1/queries", role="operator", json=query).status_code == 201
    replaced = ask("PUT", "/v1/queries/files", role="operator", json={**query, "outputs": [sink(outside)]})
    assert replaced.status_code == 403


def test_an_operator_uses_what_an_admin_registered_anywhere(ask, app, tmp_path):
    sink = {"name": "granted", "interface": "recorder", "options": {"path": str(tmp_path / "a.npy")}}
    assert ask("POST", "/v1/sinks", role="admin", json=sink).is_success
    query = {**QUERY, "name": "granted", "outputs": ["granted"]}
    assert ask("POST", "/v1/queries", role="operator", json=query).status_code == 201


# -- what goes wrong ------------------------------------------------------------------------------------------------


def test_what_we_did_not_expect_is_logged_and_not_told(ask, gate, caplog):
    gate.fail = True
    with caplog.at_level(logging.ERROR, "gsdm"):
        answer = ask("GET", "/gate", headers={"X-Request-Id": "my-request.1"})
    assert (answer.status_code, kind(answer)) == (500, "internal")
    assert answer.headers["X-Request-Id"] == answer.json()["request_id"] == "my-request.1"
    assert "secret of ours" not in answer.text
    assert "secret of ours" in caplog.text


def test_request_ids_that_make_no_sense_are_replaced(ask):
    for given in ("", "a b", "a" * 65, "{}", "a;b"):
        assert ask("GET", "/healthz", headers={"X-Request-Id": given}).headers["X-Request-Id"] != given
    assert ask("GET", "/gate", headers={"X-Request-Id": "abc"}).json()["request_id"] == "abc"


def test_a_request_is_one_line_in_the_log_without_its_secret(ask, secrets, app, caplog):
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with caplog.at_level(logging.INFO, "gsdm.access"):
        ask("GET", "/v1/types?limit=3", role="viewer", headers={"traceparent": trace})
        ask("GET", "/v1/types", role="viewer", headers={"traceparent": "nonsense\tand more"})
    first, second = [vars(record) for record in caplog.records if record.name == "gsdm.access"]
    assert (first["method"], first["path"], first["status"]) == ("GET", "/v1/types", 200)
    assert first["traceparent"] == trace
    assert "traceparent" not in second
    known = {token.name: token.id for token in app.state.services.tokens.list()}
    assert first["token"] == known["viewer"]
    assert secrets["viewer"] not in repr(first)


# -- idempotency keys -----------------------------------------------------------------------------------------------


@pytest.fixture
def entries(app):
    """What is kept of idempotency keys; empty at first."""
    store = app.state.services.store

    def read():
        return store.rows(sa.select(kept))

    with store.begin() as connection:
        connection.execute(kept.delete())
    return read


def test_a_repeated_request_is_answered_as_the_first_time(ask, entries):
    key = {"Idempotency-Key": "k1"}
    first = ask("POST", "/v1/queries", json=QUERY, headers=key)
    again = ask("POST", "/v1/queries", json=QUERY, headers=key)
    assert first.status_code == again.status_code == 201
    assert first.content == again.content
    assert first.headers["Location"] == again.headers["Location"]
    assert "Idempotent-Replay" not in first.headers
    assert again.headers["Idempotent-Replay"] == "true"
    assert kind(ask("POST", "/v1/queries", json=QUERY)) == "name-taken"
    assert ask("POST", "/v1/queries", role="operator", json=QUERY, headers=key).status_code == 409
    assert len(entries()) == 2


def test_a_key_is_not_for_another_request(ask, entries):
    key = {"Idempotency-Key": "k2"}
    wrong = ask("POST", "/v1/types", json={"name": "T"}, headers=key)
    assert wrong.status_code == 422
    assert ask("POST", "/v1/types", json={"name": "T"}, headers=key).headers["Idempotent-Replay"] == "true"
    other = ask("POST", "/v1/types", json={"name": "U"}, headers=key)
    assert (other.status_code, kind(other)) == (409, "idempotency-conflict")
    assert ask("POST", "/v1/sources", json={"name": "U"}, headers=key).status_code == 422


@pytest.mark.parametrize("key", ["", " ", "a b", "é".encode(), "a" * 256])
def test_keys_are_visible_text(ask, entries, key):
    answer = ask("POST", "/gate", headers={"Idempotency-Key": key})
    assert kind(answer) == "invalid-request"
    assert entries() == []


def test_what_failed_may_be_tried_again(ask, gate, entries):
    key = {"Idempotency-Key": "k3"}
    gate.fail = True
    assert ask("POST", "/gate", headers=key).status_code == 500
    assert entries() == []
    gate.fail = False
    assert ask("POST", "/gate", headers=key).status_code == 200


def test_secrets_are_never_kept(ask, entries):
    key = {"Idempotency-Key": "k4"}
    assert ask("POST", "/v1/tokens", json={"name": "kept", "role": "viewer"}, headers=key).status_code == 201
    assert kind(ask("POST", "/v1/tokens", json={"name": "kept", "role": "viewer"}, headers=key)) == "name-taken"
    assert entries() == []


def test_strangers_leave_nothing_behind(ask, entries):
    assert ask("POST", "/v1/queries", role=None, json=QUERY, headers={"Idempotency-Key": "k5"}).status_code == 401
    assert ask("POST", "/v1/queries", role="viewer", json=QUERY, headers={"Idempotency-Key": "k5"}).status_code == 403
    assert entries() == []


def test_of_many_at_once_one_is_done(ask, gate, entries):
    gate.opened.clear()
    before = gate.calls
    key = {"Idempotency-Key": "k6"}
    with ThreadPoolExecutor(5) as workers:
        answers = [workers.submit(ask, "POST", "/gate", headers=key) for _ in range(5)]
        assert gate.entered.acquire(timeout=10)
        gate.opened.set()
        bodies = {answer.result().content for answer in answers}
    assert len(bodies) == 1
    assert gate.calls == before + 1


def test_a_request_that_is_still_being_served_says_so(ask, gate, entries, monkeypatch):
    monkeypatch.setattr(idempotency, "WAIT_S", 0.05)
    gate.opened.clear()
    while gate.entered.acquire(blocking=False):
        pass
    key = {"Idempotency-Key": "k7"}
    with ThreadPoolExecutor(1) as workers:
        first = workers.submit(ask, "POST", "/gate", headers=key)
        assert gate.entered.acquire(timeout=10)
        second = ask("POST", "/gate", headers=key)
        gate.opened.set()
        assert first.result().status_code == 200
    assert (second.status_code, kind(second)) == (409, "idempotency-conflict")
    assert second.headers["Retry-After"]
    assert ask("POST", "/gate", headers=key).headers["Idempotent-Replay"] == "true"


@pytest.mark.parametrize("values", [{"status": None, "created_s": 1.0}, {"created_s": 1.0}])
def test_what_a_killed_process_left_and_what_is_too_old_is_taken_over(ask, app, gate, entries, values):
    key = {"Idempotency-Key": "k8"}
    first = ask("POST", "/gate", headers=key)
    with app.state.services.store.begin() as connection:
        connection.execute(kept.update().values(**values))
    second = ask("POST", "/gate", headers=key)
    assert "Idempotent-Replay" not in second.headers
    assert second.json()["calls"] == first.json()["calls"] + 1
    assert len(entries()) == 1
