"""What queries acquire is given back, however often."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from gsdm_grid import register_input_stream, register_result_stream
from gsdm_grid.errors import ResourceError
from gsdm_grid.hosts import HostRequest
from gsdm_grid.spec import parse_demands
from gsdm_grid.testing import eventually


def left_over(shared_memory):
    """Everything that a cycle might leave behind, counted."""
    import ray
    from ray.util import placement_group_table

    here = psutil.Process()
    workers = [one for one in here.children(recursive=True) if "ray::NodeActor" in _title(one)]
    groups = [one for one in placement_group_table().values() if one["state"] != "REMOVED"]
    return {
        "placement groups": len(groups),
        "actors": len(workers),
        "free CPUs": -ray.available_resources().get("CPU", 0.0),
        "threads": here.num_threads(),
        "open files": here.num_fds(),
        "sockets": len(here.net_connections()),
        "shared memory": len(shared_memory()),
    }


def _title(process):
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("cycles", [15, pytest.param(100, marks=pytest.mark.long)])
def test_cycles_of_acquire_run_release_leave_nothing_behind(make_grid, radio_block, shared_memory, cycles):
    grid = make_grid("ray")
    blocks = [radio_block(4, 32)]

    def cycle(number):
        query = grid.cq("fft3", [register_input_stream(blocks[0].type, blocks)], [register_result_stream()])
        try:
            assert len(list(query.run().wait(60).results())) == 4
        finally:
            query.drop()

    with ThreadPoolExecutor(2) as workers:
        list(workers.map(cycle, range(4)))
    before = left_over(shared_memory)
    with ThreadPoolExecutor(2) as workers:
        list(workers.map(cycle, range(cycles)))
    slack = {"threads": 4, "open files": 12, "sockets": 8}
    most = {what: count + slack.get(what, 0) for what, count in before.items()}
    eventually(
        lambda: left_over(shared_memory), lambda found: all(count <= most[what] for what, count in found.items())
    )


def test_a_lease_tells_what_is_planned_requested_and_observed_and_is_gone_after_the_query(
    make_grid, pools, radio_block
):
    grid = make_grid("ray")
    source = register_input_stream(radio_block(1).type, [radio_block(4, 32)])
    demands = parse_demands({"sites": {"compute": {"cpus": 2}}})
    query = grid.cq("fft3", [source], [register_result_stream()], demands=demands)
    query.install()
    (lease,) = [one for one in pools["ray"].inventory()["leases"] if one["query"] == query.id]
    assert lease["state"] == "held"
    assert lease["planned"] == {f"{query.id}/compute.0": {"cpus": 2.0}}
    assert lease["requested"] == {"CPU": 2.0}
    assert list(lease["observed"].values()) == [pools["ray"].inventory()["nodes"][0]["id"]]
    query.drop()
    assert not [one for one in pools["ray"].inventory()["leases"] if one["query"] == query.id]


def test_what_a_pool_will_never_have_is_refused_with_what_was_asked_and_what_there_is(make_grid, radio_block):
    grid = make_grid("ray")
    source = register_input_stream(radio_block(1).type, [radio_block(4, 32)])
    for sites, told in (
        ({"compute": {"cpus": 1000}}, "no machine has 1000 CPUs for .*compute.0; the cluster has 1 machine with"),
        ({"compute": {"near": "pluto"}}, "labelled near=pluto"),
        ({"compute": {"resources": {"fpga": 1}}}, "1 fpga"),
    ):
        query = grid.cq("fft3", [source], [register_result_stream()], demands=parse_demands({"sites": sites}))
        with pytest.raises(ResourceError, match=told):
            query.install()
        query.drop()


@pytest.mark.grid
def test_a_spare_host_is_taken_by_the_next_node_and_replaced():
    from gsdm_grid.hosts import RayPool

    pool = RayPool(spares=1)
    pool.warm()
    try:
        eventually(lambda: pool.inventory()["spares"])
        machine = pool.inventory()["nodes"][0]["id"]
        taken = next(node for node in __import__("ray").nodes() if node["NodeID"].startswith(machine))["NodeID"]
        assert pool._spares.take("another machine") is None
        assert pool._spares.take(taken) is not None
        eventually(lambda: pool.inventory()["spares"])
        assert pool.start(HostRequest("nothing", [])).lost() == {}
    finally:
        pool.close()


@pytest.mark.slow
@pytest.mark.grid
@pytest.mark.timeout(300)
def test_a_program_ends_in_its_own_way_though_its_threads_call_ray_meanwhile():
    scenario = Path(__file__).with_name("ray_shutdown_scenario.py")
    program = subprocess.run(
        [sys.executable, str(scenario), "1"], capture_output=True, text=True, timeout=280, check=False
    )
    assert program.returncode == 7, program.stderr
    assert "core worker" not in program.stderr
