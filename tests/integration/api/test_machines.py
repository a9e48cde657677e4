"""Three machines, started by hand as docs/deploy.md says: network namespaces with an address and shared memory each."""

import os
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from gsdm_grid.testing import eventually

NETWORK = f"10.77.{os.getpid() % 250}"
RADIO = {"type": "Radio", "interface": "synthetic_radio", "options": {"window": 256, "rate": 400}}
FLOW = {"template": "PCC", "args": [2, "RRpart", "fft3", {}, "S-Merge"]}
PERIOD_NS = 256_000
COUNT = 500
QUERY = {"name": "wide", "inputs": [RADIO], "flow": FLOW, "stop": {"count": COUNT}}
ENVIRONMENT = {"RAY_AUTH_MODE": "disabled", "RAY_worker_niceness": "0"}
pytestmark = pytest.mark.slow


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def may_make_networks():
    """Skip the tests where namespaces cannot be made: it takes root, iproute2, and not to be in a container."""
    name = f"gsdm-{os.getpid()}-try"
    try:
        ip("netns", "add", name)
        try:
            ip("netns", "exec", name, "mount", "-t", "tmpfs", "gsdm", "/dev/shm")
            ip("link", "add", name[:15], "type", "bridge")
            ip("link", "del", name[:15])
        finally:
            ip("netns", "del", name)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"network namespaces cannot be made here: {getattr(error, 'stderr', error)}")


@pytest.fixture(scope="module")
def machines(may_make_networks, tmp_path_factory):
    """Commands that run another command on one of three machines; this one is at the end of the same wire."""
    bridge, made, folders = f"gsdm{os.getpid()}", [], tmp_path_factory.mktemp("machines")
    with ExitStack() as undo:
        ip("link", "add", bridge, "type", "bridge")
        undo.callback(ip, "link", "del", bridge)
        ip("addr", "add", f"{NETWORK}.254/24", "dev", bridge)
        ip("link", "set", bridge, "up")
        for number in (1, 2, 3):
            name, outside = f"gsdm-{os.getpid()}-{number}", f"g{os.getpid()}v{number}"
            ip("netns", "add", name)
            undo.callback(ip, "netns", "del", name)
            ip("link", "add", outside, "type", "veth", "peer", "name", "wire", "netns", name)
            undo.callback(ip, "link", "del", outside)  # at once; a namespace lives on while a process in it ends
            ip("link", "set", outside, "master", bridge, "up")
            ip("-n", name, "addr", "add", f"{NETWORK}.{number}/24", "dev", "wire")
            ip("-n", name, "link", "set", "wire", "up")
            ip("-n", name, "link", "set", "lo", "up")
            mounts = ""
            for place in (Path("/dev/shm"), Path("/tmp/ray")):
                folder = folders / name / place.name
                folder.mkdir(parents=True)
                place.mkdir(exist_ok=True)
                subprocess.run(["mount", "-t", "tmpfs", "gsdm", folder], check=True)
                undo.callback(subprocess.run, ["umount", "--lazy", folder], check=True)
                mounts += f"mount --bind '{folder}' {place} && "
            made.append(["ip", "netns", "exec", name, "sh", "-c", f'{mounts} exec "$0" "$@"'])
        yield made


def answers(host, port):
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((host, port)) == 0


@pytest.fixture(scope="module")
def cluster(machines, start_ray):
    """Address of a Ray cluster of the three machines."""
    head = f"{NETWORK}.1:6379"
    for number, machine in enumerate(machines, 1):
        role = ["--head", "--port=6379", "--include-dashboard=false"] if number == 1 else [f"--address={head}"]
        where = [f"--node-ip-address={NETWORK}.{number}", f"--labels=near=antenna-{number}"]
        size = ["--num-cpus=4", "--object-store-memory=100000000"]
        start_ray(*role, *where, *size, inside=machine, environment=ENVIRONMENT)
        eventually(lambda: answers(f"{NETWORK}.1", 6379))  # before others are told of it
    return head


@pytest.fixture(scope="module")
def client(machines, cluster, make_service, tmp_path_factory):
    """A client of a coordinator on the first machine, when all machines are there; Spark runs on what Ray gives."""
    where = ("--ray-address", cluster, "--host", f"{NETWORK}.1", "--address", f"{NETWORK}.1")
    options = ("--spare-hosts", "0", "--placement", "grid", "--spark-master", "ray")
    service = make_service(tmp_path_factory.mktemp("coordinator"), *where, *options)
    service.inside, service.environment = machines[0], ENVIRONMENT
    try:
        with service.start().client() as made:
            eventually(lambda: resources(made).get("nodes", ()), lambda found: len(found) == 3, 120)
            yield made
    finally:
        service.stop()


def resources(client):
    return client.get("/v1/resources").json()["ray"]


def check_results(client):
    params = {"last": COUNT, "points": 1, "attributes": "ts"}
    results = lambda: client.get("/v1/queries/wide/results", params=params).json()["windows"]  # noqa: E731
    windows = eventually(results, lambda found: len(found) == COUNT, 60)
    assert [window["values"]["ts"] for window in windows] == [number * PERIOD_NS for number in range(COUNT)]


def test_a_query_spans_three_machines_that_share_nothing_but_the_network(client, done):
    near = {node["labels"]["near"]: node["id"] for node in resources(client)["nodes"]}
    sites = {"partition": {"near": "antenna-2"}, "compute": {"near": "antenna-3"}, "combine": {"near": "antenna-1"}}
    client.post("/v1/queries", json={**QUERY, "placement": "ray", "resources": {"sites": sites}}).raise_for_status()
    done(client, client.post("/v1/queries/wide/run"), 120)
    (lease,) = resources(client)["leases"]
    assert {site.split("/")[1]: machine for site, machine in lease["observed"].items()} == {
        "partition.0": near["antenna-2"],
        "compute.0": near["antenna-3"],
        "compute.1": near["antenna-3"],
        "combine.0": near["antenna-1"],
    }
    check_results(client)
    done(client, client.delete("/v1/queries/wide"))
    assert resources(client)["leases"] == []


def test_spark_runs_on_machines_that_share_nothing_but_the_network(client, done):
    client.post("/v1/queries", json=QUERY).raise_for_status()
    done(client, client.post("/v1/queries/wide/run"), 180)
    assert client.get("/v1/resources").json()["spark"]["workers"]
    check_results(client)
