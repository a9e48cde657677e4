"""The life cycle over plain HTTP: the documents' own lines, many clients at once, and what is refused."""

import os
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from gsdm_grid.testing import eventually

ROOT = Path(__file__).parents[3]
RADIO = {"type": "Radio", "interface": "synthetic_radio", "options": {"window": 64, "limit": 2000}}


def specification(name, **members):
    return {"name": name, "inputs": [RADIO], "function": "fft3", **members}


def test_the_lines_of_the_documents_work_with_curl(service, rest):
    text = (ROOT / "docs" / "coordinator.md").read_text()
    lines = re.search(r"```sh life-cycle\n(.*?)```", text, re.DOTALL)[1]
    environment = {**os.environ, "SERVER": service.url, "TOKEN": service.token}
    script = f"set -e\nshopt -s expand_aliases\n{lines}"
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert '"state":"specified"' in done.stdout
    assert '"action":"deactivate"' in done.stdout
    assert done.stderr == ""


def test_the_program_of_the_documents_works(service, rest):
    text = (ROOT / "docs" / "coordinator.md").read_text()
    program = re.search(r"```python\n(from gsdm_grid.client import Client.*?)```", text, re.DOTALL)[1]
    environment = {**os.environ, "GSDM_SERVER": service.url, "GSDM_TOKEN": service.token}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert sum(int(line.split()[0]) for line in done.stdout.splitlines()) == 1000


def test_a_specification_may_be_yaml(rest):
    text = "name: from-yaml\ninputs: [{type: Radio, interface: synthetic_radio, options: {window: 64}}]\nfunction: fft3"
    made = rest.post("/v1/queries", content=text, headers={"Content-Type": "application/yaml"})
    assert made.status_code == 201
    assert made.headers["Location"] == "/v1/queries/from-yaml"
    assert made.headers["ETag"] == '"1"'


def test_wrong_transitions_say_what_is_allowed(rest):
    rest.post("/v1/queries", json=specification("transitions"))
    refused = rest.post("/v1/queries/transitions/activate")
    assert refused.status_code == 409
    problem = refused.json()
    assert refused.headers["Content-Type"] == "application/problem+json"
    assert problem["type"] == "urn:gsdm:problem:invalid-transition"
    assert problem["state"] == "specified"
    assert "run" in problem["allowed"]
    assert problem["request_id"] == refused.headers["X-Request-Id"]


def test_a_type_mismatch_names_the_path_into_the_data_flow(rest):
    flow = {"template": "PCC", "args": [2, "RRpart", {"template": "pipe", "args": ["polar", "fft3"]}, None, "S-Merge"]}
    refused = rest.post("/v1/queries", json={"name": "mismatch", "inputs": [RADIO], "flow": flow})
    assert refused.status_code == 422
    assert refused.json()["type"] == "urn:gsdm:problem:type-mismatch"
    assert "fft3" in refused.json()["path"]


def test_a_query_that_has_changed_is_not_acted_upon(rest, done):
    rest.post("/v1/queries", json=specification("changing"))
    tag = rest.get("/v1/queries/changing").headers["ETag"]
    assert rest.get("/v1/queries/changing", headers={"If-None-Match": tag}).status_code == 304
    done(rest, rest.post("/v1/queries/changing/compile", headers={"If-Match": tag}))
    assert rest.delete("/v1/queries/changing", headers={"If-Match": tag}).status_code == 412
    assert rest.get("/v1/queries/changing", headers={"If-None-Match": tag}).status_code == 200


def test_repeating_a_request_with_its_key_gives_the_first_answer(rest):
    key = {"Idempotency-Key": "submit-once"}
    first = rest.post("/v1/queries", json=specification("once"), headers=key)
    again = rest.post("/v1/queries", json=specification("once"), headers=key)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    other = rest.post("/v1/queries", json=specification("twice"), headers=key)
    assert other.status_code == 409
    assert other.json()["type"] == "urn:gsdm:problem:idempotency-conflict"


def test_lists_are_paged_and_filtered(rest):
    for number in range(5):
        rest.post("/v1/queries", json=specification(f"page-{number}"))
    page = rest.get("/v1/queries", params={"name": "page-", "limit": 2}).json()
    names = [query["name"] for query in page["items"]]
    while page["next"]:
        page = rest.get("/v1/queries", params={"name": "page-", "limit": 2, "cursor": page["next"]}).json()
        names += [query["name"] for query in page["items"]]
    assert names == [f"page-{number}" for number in range(5)]
    assert rest.get("/v1/queries", params={"name": "page-", "state": "active"}).json()["items"] == []


@pytest.mark.parametrize("form", ["json", "dot", "mermaid", "text", "svg"])
def test_the_graph_is_drawn_in_every_form(rest, form):
    rest.post("/v1/queries", json=specification("drawn"))
    drawn = rest.get("/v1/queries/drawn/graph", params={"format": form})
    assert drawn.status_code == 200
    assert "fft3" in drawn.text or form == "svg"


def test_a_run_shows_where_it_is_and_what_it_did(rest, done):
    spec = specification("watched", plan={"strategy": "window_distribute", "degree": 2})
    rest.post("/v1/queries", json={**spec, "inputs": [{**RADIO, "options": {"window": 64, "rate": 500}}]})
    done(rest, rest.post("/v1/queries/watched/run"))
    sites = rest.get("/v1/sites", params={"query": "watched", "sort": "utilization"}).json()["items"]
    assert {site["role"] for site in sites} >= {"partition", "compute", "combine"}
    assert all(site["pid"] for site in sites)
    eventually(lambda: rest.get("/v1/queries/watched/statistics").json(), lambda told: len(told) == len(sites))
    metrics = rest.get("/metrics").text
    assert 'gsdm_query_state{query="watched",state="active"} 1.0' in metrics
    assert rest.get("/v1/resources").json()["thread"]["sites"] >= len(sites)
    done(rest, rest.post("/v1/queries/watched/deactivate"))
    states = [event["state"] for event in rest.get("/v1/queries/watched/events").json()["items"]]
    assert states[:3] == ["installed", "stopping", "active"]
    done(rest, rest.delete("/v1/queries/watched"))
    assert rest.get("/v1/queries/watched").status_code == 404


def test_a_trial_says_what_each_site_costs(rest, done):
    spec = specification("tried", plan={"strategy": "window_distribute", "degree": 2})
    promised = rest.post("/v1/trials", params={"count": 300}, json=spec)
    done(rest, promised)
    trial = rest.get(f"/v1/trials/{promised.json()['id']}").json()
    assert trial["status"] == "succeeded"
    assert trial["result"]["windows"] == 300
    assert trial["result"]["cost_s"] == max(site["utilization_s"] for site in trial["result"]["sites"])
    assert rest.delete(f"/v1/trials/{trial['id']}").status_code == 204
    assert rest.get(f"/v1/trials/{trial['id']}").status_code == 404


def test_two_hundred_queries_of_twenty_clients_are_stored_once_each(service, rest):
    answered = []
    over = threading.Event()

    def watch():
        with httpx.Client(base_url=service.url, timeout=60) as watcher:
            while not over.is_set():
                assert watcher.get("/healthz").status_code == 200
                answered.append("health")

    def submit(client):
        answers = []
        with service.client() as own:
            for number in range(10):
                spec = specification(f"load-{client:02d}-{number}")
                if number == 9:
                    spec["function"] = "no_such_function"
                answers.append(own.post("/v1/queries", json=spec).status_code)
                answered.append("query")
        return answers

    with ThreadPoolExecutor(1) as watchers, ThreadPoolExecutor(20) as clients:
        watcher = watchers.submit(watch)
        try:
            answers = [status for given in clients.map(submit, range(20)) for status in given]
        finally:
            over.set()
        watcher.result()
    assert answers.count(201) == 180
    assert answers.count(422) == 20
    stored = rest.get("/v1/queries", params={"name": "load-", "limit": 500}).json()["items"]
    assert len({query["name"] for query in stored}) == len(stored) == 180
    queries = [place for place, kind in enumerate(answered) if kind == "query"]
    assert "health" in answered[queries[0] : queries[-1]], "it looked dead meanwhile"
