"""Queries on Ray clusters of several machines (here: several Ray nodes on one), which come, are full, and go."""

import json
import os
import re

import pytest

from gsdm_grid.testing import eventually

RADIO = {"type": "Radio", "interface": "synthetic_radio", "options": {"window": 256, "rate": 400}}
FLOW = {"template": "PCC", "args": [2, "RRpart", "fft3", {}, "S-Merge"]}
PERIOD_NS = 256_000


def specification(name="q", **members):
    return {"name": name, "inputs": [RADIO], "flow": FLOW, **members}


def timestamps(client, name="q"):
    params = {"last": 1000, "points": 1, "attributes": "ts"}
    found = client.get(f"/v1/queries/{name}/results", params=params).json()
    return [window["values"]["ts"] for window in found["windows"]]


def leases(client, name=None):
    found = client.get("/v1/resources").json()["ray"]["leases"]
    return [lease for lease in found if name in (None, lease["query"])]


def free_cpus(client):
    return client.get("/v1/resources").json()["ray"]["available"].get("CPU", 0.0)


@pytest.fixture(scope="module")
def cluster():
    """A Ray cluster whose head hosts nothing, with two machines of four logical CPUs."""
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(2):
        made.add_node(num_cpus=4, labels={"near": "antenna-3"} if not made.worker_nodes else None)
    yield made
    made.shutdown()


@pytest.fixture(scope="module")
def coordinator(make_service, cluster, tmp_path_factory):
    """A coordinator over the cluster."""
    options = ("--placement", "ray", "--ray-address", cluster.address, "--spare-hosts", "0")
    made = make_service(tmp_path_factory.mktemp("clustered"), *options).start()
    with made.client() as client:
        eventually(lambda: client.get("/v1/resources").json()["ray"]["started"])
    yield made
    made.stop()


@pytest.fixture
def clustered(coordinator, cluster, done):
    """The coordinator; after a test its queries go, the cluster is whole, and nothing of it is held any more."""
    yield coordinator
    while len(cluster.worker_nodes) < 2:
        cluster.add_node(num_cpus=4, labels={"near": "antenna-3"})
    with coordinator.client() as client:
        for query in client.get("/v1/queries").json()["items"]:
            done(client, client.delete(f"/v1/queries/{query['name']}"))
        eventually(lambda: free_cpus(client), lambda free: free == 8.0)
        assert leases(client) == []


def test_a_request_for_a_thousand_cpus_says_at_once_what_there_is(clustered):
    with clustered.client() as client:
        many = {"template": "PCC", "args": [1000, "RRpart", "fft3", {}, "S-Merge"]}
        client.post("/v1/queries", json=specification(flow=many)).raise_for_status()
        place = client.post("/v1/queries/q/run").headers["Location"]
        found = eventually(lambda: client.get(place).json(), lambda one: one["finished"] is not None)
        assert found["status"] == "failed"
        assert "1002 CPUs in all, and there are 8 CPUs" in found["error"]["detail"]
        assert "3 machines with 8 CPUs, of which 8 are free" in found["error"]["detail"]
        client.post("/v1/queries", json=specification("far", resources={"sites": {"partition": {"near": "pluto"}}}))
        place = client.post("/v1/queries/far/run").headers["Location"]
        found = eventually(lambda: client.get(place).json(), lambda one: one["finished"] is not None)
        assert "no machine has 1 CPUs on a machine labelled near=pluto for far/partition.0" in found["error"]["detail"]


def test_of_two_queries_that_want_the_last_hosts_one_waits_with_its_reason_and_runs_when_the_first_stops(
    clustered, done
):
    with clustered.client() as client:
        wide = {"template": "PCC", "args": [4, "RRpart", "fft3", {}, "S-Merge"]}
        for name in ("first", "second"):
            client.post("/v1/queries", json=specification(name, flow=wide)).raise_for_status()
        done(client, client.post("/v1/queries/first/run"))
        running = client.post("/v1/queries/second/run")
        waiting = eventually(lambda: client.get("/v1/queries/second").json(), lambda query: query["waiting"])
        assert re.search("it needs 6 CPUs.*, free are . CPUs; 'first' holds 6 CPUs", waiting["waiting"])
        assert [lease["state"] for lease in leases(client, "second")] == ["waiting"]
        done(client, client.post("/v1/queries/first/deactivate"))
        done(client, running)
        assert client.get("/v1/queries/second").json()["waiting"] is None
        eventually(lambda: len(timestamps(client, "second")), lambda count: count > 50)
        first = client.get("/v1/queries/first/events").json()["items"]
        assert any("given to 'second'" in (event["detail"] or "") for event in first)
        before = len(timestamps(client, "first"))
        done(client, client.post("/v1/queries/second/deactivate"))
        done(client, client.post("/v1/queries/first/run", json={"count": 100}))
        eventually(lambda: client.get("/v1/queries/first").json()["state"], lambda state: state == "installed")
        assert timestamps(client, "first") == [number * PERIOD_NS for number in range(before + 100)]


def test_a_waiting_query_gives_up_at_its_deadline_or_when_it_is_removed(clustered, done):
    with clustered.client() as client:
        wide = {"template": "PCC", "args": [4, "RRpart", "fft3", {}, "S-Merge"]}
        client.post("/v1/queries", json=specification("first", flow=wide)).raise_for_status()
        done(client, client.post("/v1/queries/first/run"))
        client.post("/v1/queries", json=specification("second", flow=wide, resources={"deadline_s": 1}))
        place = client.post("/v1/queries/second/run").headers["Location"]
        found = eventually(lambda: client.get(place).json(), lambda one: one["finished"] is not None)
        assert "found no hosts within 1 s: it needs 6 CPUs" in found["error"]["detail"]
        client.post("/v1/queries", json=specification("third", flow=wide))
        client.post("/v1/queries/third/run")
        eventually(lambda: client.get("/v1/queries/third").json(), lambda query: query["waiting"])
        done(client, client.delete("/v1/queries/third"))
        eventually(lambda: leases(client), lambda found: {lease["query"] for lease in found} == {"first"})


def test_sites_are_placed_near_what_they_ask_for(clustered, done):
    with clustered.client() as client:
        nodes = client.get("/v1/resources").json()["ray"]["nodes"]
        near = next(node["id"] for node in nodes if node["labels"].get("near") == "antenna-3")
        wanted = {"sites": {"partition": {"near": "antenna-3"}, "compute": {"cpus": 0.5}}}
        client.post("/v1/queries", json=specification(resources=wanted)).raise_for_status()
        done(client, client.post("/v1/queries/q/run"))
        (lease,) = leases(client)
        assert lease["observed"]["q/partition.0"] == near
        assert lease["requested"] == {"CPU": 3.0}
        assert lease["planned"]["q/compute.0"] == {"cpus": 0.5}
        assert None not in lease["observed"].values()


@pytest.mark.slow
@pytest.mark.parametrize("source_is_lost", [False, True], ids=["others", "that of the source"])
def test_a_query_whose_machine_is_removed_comes_back_by_itself_and_its_result_is_complete(
    clustered, cluster, done, source_is_lost
):
    with clustered.client() as client:
        near = {} if source_is_lost else {"resources": {"sites": {"partition": {"near": "antenna-3"}}}}
        query = specification(stop={"count": 1000}, **near)
        client.post("/v1/queries", json=query).raise_for_status()
        done(client, client.post("/v1/queries/q/run"))
        eventually(lambda: len(timestamps(client)), lambda count: count > 100)
        (lease,) = leases(client)
        reads = lease["observed"]["q/partition.0"]
        gone = next(node for node in cluster.worker_nodes if node.node_id.startswith(reads) == source_is_lost)
        hosted = [site for site, machine in lease["observed"].items() if gone.node_id.startswith(machine)]
        assert hosted
        cluster.remove_node(gone)
        before = len(timestamps(client))
        eventually(lambda: len(timestamps(client)), lambda count: count > before + 20, 60)
        over = lambda query: query["state"] == query["desired"] == "installed"  # noqa: E731
        eventually(lambda: client.get("/v1/queries/q").json(), over, 60)
        assert timestamps(client) == [number * PERIOD_NS for number in range(1000)]


AUTOSCALED = {
    "cluster_name": "gsdm-test",
    "max_workers": 8,
    "provider": {
        "type": "external",
        "module": "ray.autoscaler._private.fake_multi_node.node_provider.FakeMultiNodeProvider",
        "use_node_id_as_ip": True,
        "disable_node_updaters": True,
        "disable_launch_config_check": True,
        "launch_multiple": True,
    },
    "available_node_types": {
        "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
        "small": {"resources": {"CPU": 1}, "node_config": {}, "min_workers": 0, "max_workers": 6},
    },
    "head_node_type": "ray.head.default",
    "upscaling_speed": 1.0,
    "idle_timeout_minutes": 0.1,
    "auth": {"ssh_user": "nobody"},
    "file_mounts": {},
    "cluster_synced_files": [],
    "file_mounts_sync_continuously": False,
    "rsync_exclude": [],
    "rsync_filter": [],
    **{
        f"{kind}_commands": []
        for kind in (
            "initialization",
            "setup",
            "head_setup",
            "worker_setup",
            "head_start_ray",
            "worker_start_ray",
        )
    },
}
"""As of Ray's own AutoscalingCluster, which stops every Ray of the machine first, and lacks a file as installed."""


@pytest.fixture
def autoscaled(start_ray, tmp_path, free_port, monkeypatch):
    """Address of a Ray cluster of one machine without CPUs, whose autoscaler may add six of one each."""
    from ray.autoscaler._private.fake_multi_node.node_provider import FAKE_HEAD_NODE_ID

    monkeypatch.setenv("RAY_AUTH_MODE", os.environ.get("RAY_AUTH_MODE", "disabled"))  # for it and the coordinator
    config = tmp_path / "autoscaling.json"
    address = f"127.0.0.1:{free_port}"
    provider = {**AUTOSCALED["provider"], "head_node_id": FAKE_HEAD_NODE_ID, "gcs_address": address}
    given = {**AUTOSCALED, "provider": provider}
    config.write_text(json.dumps(given))
    where = ["--node-ip-address=127.0.0.1", f"--port={free_port}"]
    options = ["--head", "--num-cpus=0", *where, f"--autoscaling-config={config}"]
    quiet = ["--include-dashboard=false", f"--ray-client-server-port={free_port + 1}"]
    environment = {
        "AUTOSCALER_UPDATE_INTERVAL_S": "1",
        "RAY_FAKE_CLUSTER": "1",
        "RAY_enable_autoscaler_v2": "1",
        "RAY_CLOUD_INSTANCE_ID": FAKE_HEAD_NODE_ID,
        "RAY_OVERRIDE_NODE_ID_FOR_TESTING": FAKE_HEAD_NODE_ID,
    }
    start_ray(*options, *quiet, environment=environment)
    return address


@pytest.mark.slow
def test_machines_come_when_a_query_needs_them_and_go_when_it_has_stopped(autoscaled, own_service, done):
    def machines(client):
        told = client.get("/v1/resources").json()["ray"]
        return sum(1 for node in told["nodes"] if node["resources"].get("CPU")) if told["started"] else -1

    options = ("--placement", "ray", "--ray-address", autoscaled, "--ray-most-cpus", "6", "--spare-hosts", "0")
    service = own_service(*options).start()
    with service.client() as client:
        eventually(lambda: machines(client), lambda count: count == 0, 120)
        client.post("/v1/queries", json=specification()).raise_for_status()
        running = client.post("/v1/queries/q/run")
        eventually(lambda: client.get("/v1/queries/q").json()["waiting"], bool, 60)
        for count in range(1, 5):
            eventually(lambda: machines(client), lambda found, count=count: found >= count, 180)
        done(client, running, 120)
        eventually(lambda: len(timestamps(client)), lambda count: count > 100, 60)
        done(client, client.post("/v1/queries/q/deactivate", params={"mode": "immediate"}))
        assert leases(client) == []
        for count in range(3, -1, -1):
            eventually(lambda: machines(client), lambda found, count=count: found <= count, 120)
