"""What a coordinator's process does with slow, malformed and revoked clients, hostile uploads, and a home of no use."""

import json
import socket
import sqlite3
import stat
import subprocess
import sys

import httpx
import pytest
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import connect

from gsdm_grid.testing import eventually

RADIO = {"type": "Radio", "interface": "synthetic_radio", "options": {"window": 64, "rate": 100}}
PROBLEM = "application/problem+json"
FUNCTION = "\nfrom gsdm_grid.functions import sqf\n@sqf\ndef f(s):\n    return s\n"


@pytest.fixture(scope="module")
def limited(tmp_path_factory, make_service):
    """A coordinator with short time limits."""
    home = tmp_path_factory.mktemp("limited")
    home.chmod(0o755)
    (home / "left").write_text("by an older version")
    (home / "left").chmod(0o644)
    made = make_service(home, "--placement", "threads", "--header-s", "0.5", "--body-s", "0.5").start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def admin(limited):
    with limited.client() as client:
        yield client


@pytest.fixture(scope="module")
def query(admin):
    """A query at work."""
    assert admin.post("/v1/queries", json={"name": "q", "inputs": [RADIO], "function": "identity"}).status_code == 201
    assert admin.post("/v1/queries/q/run").status_code == 202
    eventually(lambda: admin.get("/v1/queries/q/results").status_code, lambda status: status == 200, 60)
    yield "/v1/queries/q/results"
    admin.delete("/v1/queries/q")


def exchange(service, *pieces):
    """What a raw connection answers until it is closed."""
    address = httpx.URL(service.url)
    with socket.create_connection((address.host, address.port), timeout=30) as connection:
        for piece in pieces:
            connection.sendall(piece)
        answer = b""
        while received := connection.recv(65536):
            answer += received
    return answer


def problem_in(answer):
    head, _, body = answer.partition(b"\r\n\r\n")
    assert f"content-type: {PROBLEM}".encode() in head.lower()
    return json.loads(body)


# -- slow and malformed requests --------------------------------------------------------------------------------------


@pytest.mark.parametrize("head", [b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nX: y"])
def test_a_head_that_takes_too_long_is_refused(limited, head):
    problem = problem_in(exchange(limited, head))
    assert (problem["status"], problem["type"]) == (408, "urn:gsdm:problem:too-slow")
    assert "head of the request did not arrive within 0.5 s" in problem["detail"]


def test_a_connection_that_says_nothing_is_closed(limited):
    assert exchange(limited) == b""


@pytest.mark.parametrize("framing", [b"Content-Length: 100\r\n\r\n{", b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"])
def test_a_body_that_takes_too_long_is_refused(limited, framing):
    bearer = f"Authorization: Bearer {limited.token}\r\n".encode()
    head = b"POST /v1/types HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n" + bearer
    problem = problem_in(exchange(limited, head + framing))
    assert (problem["status"], problem["type"]) == (408, "urn:gsdm:problem:too-slow")
    assert "body" in problem["detail"]


def test_a_second_request_on_a_connection_has_the_same_limits(limited):
    first = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
    answer = exchange(limited, first, b"GET /healthz HTTP/1.1\r\nHost")
    assert answer.count(b"HTTP/1.1 200") == 1
    assert b"too-slow" in answer


def test_a_stream_that_is_read_slowly_is_not_cut(limited, admin, query):
    headers = {"Accept": "text/event-stream"}
    with admin.stream("GET", query, headers=headers, params={"follow": True}) as answer:
        lines = (line for line in answer.iter_lines() if line.startswith("data:"))
        first = json.loads(next(lines)[5:])
        last = first["last"]
        while last < first["last"] + 150:  # windows come a hundred a second: three times the limits
            last = json.loads(next(lines)[5:]).get("last", last)


@pytest.mark.parametrize(
    "line", [b"nonsense\r\n\r\n", b"BREW / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03"]
)
def test_what_is_no_http_is_answered_with_a_problem(limited, line):
    assert problem_in(exchange(limited, line))["type"] == "urn:gsdm:problem:malformed"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "/pages/nothing.js", 404),
        ("GET", "/pages/docs.html", 404),
        ("GET", "/redoc", 404),
        ("GET", "/docs/oauth2-redirect", 404),
        ("DELETE", "/docs", 405),
        ("POST", "/pages/page.js", 405),
        ("PATCH", "/v1/queries", 405),
        ("GET", "/v1/queries/%00", 422),
        ("GET", "/v1/queries/q/results/ws", 404),
    ],
)
def test_wrong_requests_are_answered_with_a_problem(admin, method, path, status):
    answer = admin.request(method, path)
    assert (answer.headers["Content-Type"], answer.json()["status"]) == (PROBLEM, answer.status_code)
    assert answer.status_code in (status, 404)


def test_an_interface_by_its_path_is_refused_before_it_is_imported(admin):
    secret = admin.post("/v1/tokens", json={"name": "op", "role": "operator"}).json()["token"]
    source = {"name": "evil", "type": "Radio", "interface": "numpy.f2py.__main__:x"}
    bearer = {"Authorization": f"Bearer {secret}"}
    for path, document in (
        ("/v1/sources", source),
        ("/v1/queries", {"name": "evil", "inputs": [source], "function": "identity"}),
        ("/v1/queries", {"name": "evil", "inputs": [RADIO], "function": "numpy.f2py.__main__:1"}),
        ("/v1/trials", {"name": "evil", "inputs": [source], "function": "identity"}),
    ):
        answer = admin.post(path, json=document, headers=bearer)
        assert (answer.status_code, answer.headers["Content-Type"]) == (422, PROBLEM), answer.text
        assert "--allow-module" in answer.json()["detail"]


# -- tokens -----------------------------------------------------------------------------------------------------------


def viewer(admin, name):
    made = admin.post("/v1/tokens", json={"name": name, "role": "viewer"}).json()
    return made["id"], {"Authorization": f"Bearer {made['token']}"}


@pytest.mark.parametrize("media", ["text/event-stream", "application/vnd.apache.arrow.stream"])
def test_a_revoked_tokens_stream_ends_and_says_why(admin, query, media):
    token_id, bearer = viewer(admin, f"reader-{media[0]}")
    with admin.stream("GET", query, headers={**bearer, "Accept": media}, params={"follow": True}) as answer:
        pieces = answer.iter_bytes()
        next(pieces)
        assert admin.delete(f"/v1/tokens/{token_id}").status_code == 204
        assert b'"reason":"revoked"' in b"".join(pieces)[-2000:]


def test_a_revoked_tokens_websocket_is_closed_and_says_why(limited, admin, query):
    token_id, bearer = viewer(admin, "socket")
    url = (
        limited.url.replace("http", "ws", 1) + query + "/ws?follow=true&from=latest&max_windows=10"
    )  # a client takes 1 MiB
    with connect(url, additional_headers=bearer) as websocket:
        websocket.recv(timeout=30)
        assert admin.delete(f"/v1/tokens/{token_id}").status_code == 204
        with pytest.raises(ConnectionClosedError) as caught:
            list(websocket)
    assert (caught.value.rcvd.code, caught.value.rcvd.reason) == (1008, "revoked")


def test_the_log_has_no_query_strings_of_websockets(limited, admin, query):
    url = limited.url.replace("http", "ws", 1) + query + "/ws?stream=results&secret-of-mine=1"
    with pytest.raises(Exception, match="422"):
        connect(url, additional_headers={"Authorization": f"Bearer {limited.token}"})
    with connect(url.partition("&")[0], additional_headers={"Authorization": f"Bearer {limited.token}"}):
        eventually(lambda: "/results/ws" in "".join(limited.log_lines()), bool, 30)
    log = "\n".join(limited.log_lines())
    assert "secret-of-mine" not in log
    assert "stream=results" not in log


# -- the page of the documentation ------------------------------------------------------------------------------------


def test_the_documentation_comes_from_here_with_the_pages_policy(admin):
    page, docs = admin.get("/"), admin.get("/docs")
    policy = docs.headers["Content-Security-Policy"]
    assert policy.replace(" data:", "") == page.headers["Content-Security-Policy"]  # its icons are in its style
    assert "//" not in docs.text.replace("<!doctype html>", "")
    assert "<script>" not in docs.text
    for file in ("swagger-ui-bundle.js", "swagger-ui.css", "docs.js"):
        assert f'"/pages/{file}"' in docs.text
        assert admin.get(f"/pages/{file}").status_code == 200
    assert b"SwaggerUIBundle" in admin.get("/pages/swagger-ui-bundle.js").content


# -- uploads ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("raise SystemExit(3)", "SystemExit: 3 (__init__.py, line 1)"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("class Odd(BaseException): pass\nraise Odd('odd')", "Odd: odd (__init__.py, line 2)"),
        ("import os; os._exit(0)", "it ended its process, with exit code 0"),
        ("import os; os.abort()", "it ended its process, with exit code -6"),
    ],
)
def test_code_that_cannot_be_imported_is_answered_with_a_problem(admin, code, cause):
    headers = {"Content-Type": "text/x-python"}
    answer = admin.put("/v1/bundles/broken", content=code + FUNCTION, headers=headers)
    assert (answer.status_code, answer.headers["Content-Type"]) == (422, PROBLEM)
    assert answer.json()["type"] == "urn:gsdm:problem:function-failed"
    assert cause in answer.json()["cause"]
    assert admin.get("/v1/bundles/broken").status_code == 404


# -- the disk ---------------------------------------------------------------------------------------------------------


def test_the_home_folder_is_closed_to_others(limited, query):
    log = limited.home / "log"  # the test's own
    found = [path for path in limited.home.rglob("*") if path != log]
    assert {path.suffix for path in found} >= {".sqlite", ".sqlite-wal", ".sqlite-shm", ".token"}
    for path in (limited.home, *found):
        expected = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == expected, path
    assert any("others could read the home folder" in line for line in limited.log_lines())


def refused_start(home, *options):
    command = [sys.executable, "-m", "gsdm_grid.cli", "serve", "--port", "0", "--home", str(home), *options]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stdout + ended.stderr
    (line,) = [one for one in ended.stderr.splitlines() if not one.startswith("{")]  # its log
    return line


def test_a_corrupt_database_ends_the_start_with_one_sentence(tmp_path):
    (tmp_path / "gsdm.sqlite").write_bytes(b"garbage" * 1000)
    line = refused_start(tmp_path)
    assert line.startswith("error: the database sqlite:///")
    assert "file is not a database" in line


def test_a_damaged_page_ends_the_start_with_one_sentence(tmp_path):
    with sqlite3.connect(tmp_path / "gsdm.sqlite") as database:
        database.execute("CREATE TABLE alembic_version (version_num VARCHAR(32))")
    database.close()
    content = (tmp_path / "gsdm.sqlite").read_bytes()
    (tmp_path / "gsdm.sqlite").write_bytes(content[:100] + b"\xff" * (len(content) - 100))
    assert refused_start(tmp_path).startswith("error: the database sqlite:///")


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/gsdm"])
def test_a_home_of_no_use_ends_the_start_with_one_sentence(tmp_path, place):
    (tmp_path / "file").write_text("")
    assert refused_start(tmp_path / place).startswith("error: the home folder /")
