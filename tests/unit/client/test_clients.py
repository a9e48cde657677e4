"""Both clients against an imitated transport: what they send, what they make of answers, when they try again."""

import asyncio
import inspect
import io
import json
import os
import pickle
import zipfile

import httpx
import pytest

from gsdm_grid.client import ApiProblem, AsyncClient, Client, NoCoordinator, RetryPolicy, packing
from gsdm_grid.errors import GsdmError, QueryError

SPEC = {"name": "q", "inputs": [], "flow": "fft3"}
QUERY = {
    "name": "q",
    "specification": SPEC,
    "desired": "specified",
    "state": "specified",
    "since": 1.5,
    "error": None,
    "created": 1.0,
    "version": 1,
    "allowed": ["compile"],
    "links": {},
}


def operation(status, error=None):
    return {
        "id": "op-1",
        "query": "q",
        "action": "run",
        "status": status,
        "error": error,
        "created": 1.0,
        "finished": None if status in ("pending", "running") else 2.0,
    }


def trial(status, error=None):
    times = {"processing_s": 2.0, "communication_s": 0.5, "system_s": 0.25}
    site = {"site": "compute.0", "role": "compute", "host": "ray", "functions": ["fft3"], **times}
    result = {
        "windows": 3,
        "bytes": 300,
        "seconds": 1.0,
        "mb_s": 0.0003,
        "windows_s": 3.0,
        "cost_s": 2.75,
        "derived_windows_s": 1.1,
        "busiest": "compute.0",
        "sites": [{**site, "utilization_s": 2.75}],
    }
    return {
        "id": "trial-1",
        "query": "q",
        "specification": SPEC,
        "count": 3,
        "status": status,
        "error": error,
        "result": result if status == "succeeded" else None,
        "created": 1.0,
    }


def problem(kind, status, detail="so it is", **extras):
    document = {"type": f"urn:gsdm:problem:{kind}", "title": "T", "status": status, "detail": detail, **extras}
    return httpx.Response(status, json=document, headers={"Content-Type": "application/problem+json"})


class Coordinator:
    """Answers requests with prepared answers, in order, and notes the requests and pauses."""

    def __init__(self, make, asynchronous):
        self.answers = []
        self.requests = []
        self.pauses = []
        self._asynchronous = asynchronous
        sleep = self._sleep_async if asynchronous else self.pauses.append
        policy = RetryPolicy(attempts=4, random=lambda: 0.0)
        self._client = lambda: make(
            "http://127.0.0.1:1", "secret", transport=httpx.MockTransport(self._answer), sleep=sleep, retries=policy
        )

    async def _sleep_async(self, seconds):
        self.pauses.append(seconds)

    def _answer(self, request):
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def ask(self, method, *args, **kwargs):
        """Call a method of the client and return what it gives, lists and streams as lists."""
        if self._asynchronous:
            return asyncio.run(self._ask(method, args, kwargs))
        with self._client() as client:
            given = getattr(client, method)(*args, **kwargs)
            return list(given) if inspect.isgenerator(given) else given

    async def _ask(self, method, args, kwargs):
        async with self._client() as client:
            given = getattr(client, method)(*args, **kwargs)
            return [item async for item in given] if inspect.isasyncgen(given) else await given


@pytest.fixture(params=[(Client, False), (AsyncClient, True)], ids=["sync", "async"])
def coordinator(request):
    return Coordinator(*request.param)


def test_a_query_is_read(coordinator):
    coordinator.answers = [httpx.Response(200, json=QUERY, headers={"ETag": '"1"'})]
    query = coordinator.ask("query", "a/b")
    assert coordinator.requests[0].url.raw_path == b"/v1/queries/a%2Fb"
    assert coordinator.requests[0].headers["Authorization"] == "Bearer secret"
    assert (query.state, query.since.timestamp(), query.allowed, query.etag) == ("specified", 1.5, ("compile",), '"1"')


def test_a_specification_is_read_from_a_file_and_may_be_renamed(coordinator, tmp_path):
    (tmp_path / "spec.yaml").write_text("name: q\ninputs: []\nflow: fft3\n")
    coordinator.answers = [httpx.Response(201, json=QUERY)] * 2
    coordinator.ask("submit", tmp_path / "spec.yaml")
    coordinator.ask("submit", str(tmp_path / "spec.yaml"), name="other")
    sent = [json.loads(request.content) for request in coordinator.requests]
    assert sent == [SPEC, {**SPEC, "name": "other"}]


@pytest.mark.parametrize(("text", "why"), [("{", "neither JSON nor YAML"), ("- 1", "expected a mapping")])
def test_a_file_that_is_no_specification_is_refused(coordinator, tmp_path, text, why):
    (tmp_path / "spec.yaml").write_text(text)
    with pytest.raises(QueryError, match=why):
        coordinator.ask("submit", tmp_path / "spec.yaml")
    with pytest.raises(QueryError, match="cannot be read"):
        coordinator.ask("submit", tmp_path / "missing.yaml")


def test_lists_are_read_page_by_page(coordinator):
    pages = [{"items": [{**QUERY, "name": "a"}], "next": "c1"}, {"items": [{**QUERY, "name": "b"}], "next": None}]
    coordinator.answers = [httpx.Response(200, json=page) for page in pages]
    assert [query.name for query in coordinator.ask("queries", state="active")] == ["a", "b"]
    asked = [dict(request.url.params) for request in coordinator.requests]
    assert asked == [{"limit": "100", "state": "active"}, {"limit": "100", "state": "active", "cursor": "c1"}]


def test_a_list_without_pages_is_read(coordinator):
    coordinator.answers = [httpx.Response(200, json={"items": [{"state": "active"}]})]
    assert coordinator.ask("events", "q") == [{"state": "active"}]


def test_an_action_is_waited_for(coordinator):
    statuses = ["pending", "running", "succeeded"]
    coordinator.answers = [httpx.Response(202, json=operation(status)) for status in statuses]
    assert coordinator.ask("run", "q", count=3).status == "succeeded"
    assert json.loads(coordinator.requests[0].content) == {"count": 3}
    assert [request.url.path for request in coordinator.requests[1:]] == ["/v1/operations/op-1"] * 2
    assert len(coordinator.pauses) == 2


def test_an_action_need_not_be_waited_for(coordinator):
    coordinator.answers = [httpx.Response(202, json=operation("pending"))]
    assert coordinator.ask("deactivate", "q", immediate=True, wait=False).status == "pending"
    assert coordinator.requests[0].url.params["mode"] == "immediate"
    assert coordinator.requests[0].content == b""


def test_waiting_has_an_end(coordinator):
    coordinator.answers = [httpx.Response(202, json=operation("running"))]
    with pytest.raises(QueryError, match="run is still running after 0 s"):
        coordinator.ask("run", "q", timeout_s=0)


def test_a_failed_operation_raises_its_problem(coordinator):
    error = {"type": "urn:gsdm:problem:no-resources", "status": 503, "detail": "no site is free", "asked": 3}
    coordinator.answers = [httpx.Response(202, json=operation("failed", error))]
    with pytest.raises(ApiProblem, match="no site is free") as caught:
        coordinator.ask("install", "q")
    assert (caught.value.kind, caught.value.extras) == ("no-resources", {"asked": 3})


def test_count_and_time_exclude_each_other(coordinator):
    with pytest.raises(QueryError, match="not both"):
        coordinator.ask("run", "q", count=1, time_s=1.0)


def test_a_problem_document_becomes_an_error(coordinator):
    answer = problem("invalid-transition", 409, "query 'q' is active", state="active", allowed=["deactivate"])
    answer.headers["X-Request-Id"] = "r1"
    coordinator.answers = [answer]
    with pytest.raises(ApiProblem, match="query 'q' is active") as caught:
        coordinator.ask("compile", "q")
    raised = caught.value
    assert isinstance(raised, GsdmError)
    assert (raised.kind, raised.status, raised.request_id) == ("invalid-transition", 409, "r1")
    assert raised.extras == {"state": "active", "allowed": ["deactivate"]}
    assert vars(pickle.loads(pickle.dumps(raised))) == vars(raised)


def test_an_answer_of_somebody_else_is_told_as_such(coordinator):
    coordinator.answers = [httpx.Response(404, text="<html>")]
    with pytest.raises(ApiProblem, match=r"127\.0\.0\.1:1 answered 404 Not Found and no problem document"):
        coordinator.ask("query", "q")


@pytest.mark.parametrize("status", [429, 502, 503])
def test_a_busy_coordinator_is_asked_again(coordinator, status):
    coordinator.answers = [problem("too-many", status), problem("too-many", status), httpx.Response(200, json=QUERY)]
    assert coordinator.ask("query", "q").name == "q"
    assert coordinator.pauses == [0.1, 0.2]


def test_what_the_coordinator_asks_for_is_waited_for(coordinator):
    busy = problem("not-ready", 503)
    busy.headers["Retry-After"] = "3"
    coordinator.answers = [busy, httpx.Response(200, json=QUERY)]
    coordinator.ask("query", "q")
    assert coordinator.pauses == [3.0]


def test_in_the_end_the_problem_is_raised(coordinator):
    coordinator.answers = [problem("no-resources", 503, "nothing is free")] * 4
    with pytest.raises(ApiProblem, match="nothing is free"):
        coordinator.ask("query", "q")
    assert len(coordinator.requests) == 4


def test_a_repeated_post_carries_the_same_key_and_another_post_another(coordinator):
    coordinator.answers = [httpx.ReadError("gone"), *[httpx.Response(201, json=QUERY)] * 2]
    coordinator.ask("submit", SPEC)
    coordinator.ask("submit", SPEC)
    first, again, other = (request.headers["Idempotency-Key"] for request in coordinator.requests)
    assert first == again
    assert first != other


def test_what_may_have_been_done_is_not_asked_for_twice(coordinator):
    coordinator.answers = [httpx.ReadError("gone")]
    with pytest.raises(NoCoordinator, match="ReadError: gone"):
        coordinator.ask("drop", "q")
    assert len(coordinator.requests) == 1


def test_what_never_arrived_is_asked_for_again(coordinator):
    coordinator.answers = [httpx.ConnectError("[Errno 111] Connection refused"), httpx.Response(204)]
    assert coordinator.ask("delete", "types", "T") is None
    assert len(coordinator.requests) == 2


@pytest.mark.parametrize("text", ["[Errno 111] Connection refused", "All connection attempts failed"])
def test_if_nobody_answers_one_sentence_says_what_to_do(coordinator, text):
    coordinator.answers = [httpx.ConnectError(text)] * 4
    with pytest.raises(GsdmError) as caught:
        coordinator.ask("query", "q")
    assert str(caught.value) == (
        "no coordinator answers at http://127.0.0.1:1: start one with `gsdm serve`, or name another with --server, "
        "or its home with GSDM_HOME"
    )


def test_readiness_is_asked_for_once(coordinator):
    coordinator.answers = [httpx.ConnectError("refused"), problem("not-ready", 503), httpx.Response(200, json={})]
    assert [coordinator.ask("is_ready") for _ in range(3)] == [False, False, True]


@pytest.mark.parametrize(
    ("code", "media_type"), [(b"def f(): ...\n", "text/x-python"), (b"PK\x03\x04rest", "application/zip")]
)
def test_function_code_is_uploaded_as_what_it_is(coordinator, tmp_path, code, media_type):
    (tmp_path / "code").write_bytes(code)
    coordinator.answers = [httpx.Response(201, json={"name": "b", "version": 2, "functions": ["f"]})]
    assert coordinator.ask("upload_bundle", "b", tmp_path / "code").functions == ("f",)
    assert coordinator.requests[0].headers["Content-Type"] == media_type
    assert coordinator.requests[0].content == code


def test_a_folder_is_uploaded_as_an_archive_and_twice_as_the_same(coordinator, tmp_path):
    package = tmp_path / "package"
    for file in ("__init__.py", "inner/deep.py", "__pycache__/deep.pyc", ".git/config", "inner/.hidden.py"):
        (package / file).parent.mkdir(parents=True, exist_ok=True)
        (package / file).write_text("x = 1\n")
    (package / "inner" / "old.pyc").write_bytes(b"old")
    coordinator.answers = [httpx.Response(201, json={"name": "b", "version": 1, "functions": []})] * 2
    coordinator.ask("upload_bundle", "b", package)
    os.utime(package / "__init__.py", (1, 1))
    coordinator.ask("upload_bundle", "b", str(package))
    first, again = coordinator.requests
    assert first.headers["Content-Type"] == "application/zip"
    assert first.content == again.content
    with zipfile.ZipFile(io.BytesIO(first.content)) as archive:
        assert archive.namelist() == ["__init__.py", "inner/deep.py"]
        assert archive.read("inner/deep.py") == b"x = 1\n"


def test_code_that_cannot_be_uploaded_is_refused_before_it_is_sent(coordinator, tmp_path, monkeypatch):
    with pytest.raises(QueryError, match="no Python file in it"):
        coordinator.ask("upload_bundle", "b", tmp_path)
    with pytest.raises(QueryError, match="cannot be read"):
        coordinator.ask("upload_bundle", "b", tmp_path / "missing.py")
    (tmp_path / "code.py").write_text("x = 1\n" * 10)
    monkeypatch.setattr(packing, "MAX_BYTES", 10)
    with pytest.raises(QueryError, match="more than"):
        coordinator.ask("upload_bundle", "b", tmp_path)
    assert not coordinator.requests


def test_bundles_are_listed_and_removed(coordinator):
    listed = {"name": "b", "version": 2, "functions": ["b.f"], "created": 1.0, "error": "does not load"}
    coordinator.answers = [httpx.Response(200, json={"items": [listed], "next": None}), httpx.Response(204)]
    (found,) = coordinator.ask("bundles")
    assert (found.version, found.created.timestamp(), found.error) == (2, 1.0, "does not load")
    assert coordinator.ask("remove_bundle", "b") is None
    assert (coordinator.requests[1].method, coordinator.requests[1].url.path) == ("DELETE", "/v1/bundles/b")


def test_a_trial_is_submitted_and_waited_for(coordinator):
    coordinator.answers = [httpx.Response(202, json=trial(status)) for status in ("pending", "running", "succeeded")]
    done = coordinator.ask("submit_trial", SPEC, 3)
    assert (coordinator.requests[0].url.path, coordinator.requests[0].url.params["count"]) == ("/v1/trials", "3")
    assert [request.url.path for request in coordinator.requests[1:]] == ["/v1/trials/trial-1"] * 2
    assert (done.result.busiest, done.result.cost_s, done.result.short) == ("compute.0", 2.75, None)
    assert (done.result.sites[0].functions, done.result.sites[0].utilization_s) == (("fft3",), 2.75)


def test_a_trial_need_not_be_waited_for_and_waiting_has_an_end(coordinator):
    coordinator.answers = [httpx.Response(202, json=trial("running"))] * 2
    assert coordinator.ask("submit_trial", SPEC, wait=False).result is None
    with pytest.raises(QueryError, match=r"trial is still running after 0 s \(trial-1\)"):
        coordinator.ask("submit_trial", SPEC, timeout_s=0)


def test_a_trial_that_failed_raises_its_problem_when_waited_for(coordinator):
    trace = '  File "own.py", line 3, in f\n    1 / 0'
    error = {"type": "urn:gsdm:problem:function-failed", "status": 422, "detail": "it divided by zero", "trace": trace}
    coordinator.answers = [httpx.Response(200, json=trial("failed", error))] * 2
    assert coordinator.ask("trial", "trial-1").error.kind == "function-failed"
    with pytest.raises(ApiProblem, match="divided by zero") as caught:
        coordinator.ask("submit_trial", SPEC)
    assert caught.value.__notes__ == [trace]


def test_trials_are_listed_and_removed(coordinator):
    coordinator.answers = [httpx.Response(200, json={"items": [trial("pending")], "next": None}), httpx.Response(204)]
    assert [one.id for one in coordinator.ask("trials", query="q")] == ["trial-1"]
    assert coordinator.ask("remove_trial", "trial-1") is None


def test_both_clients_have_the_same_methods():
    names = [{name for name in dir(one) if not name.startswith("_")} for one in (Client, AsyncClient)]
    assert names[0] == names[1]
    assert Client.query.__doc__ == "One query."
