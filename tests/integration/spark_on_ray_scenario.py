"""Run by test_spark_on_ray in a process of its own: Spark allows one application in a process, and the tests have one.

Prints a line of JSON for everything that is checked there.
"""

import json
import os
import signal
import tempfile
from pathlib import Path

import numpy as np
import psutil

from gsdm_grid import PCC, Grid, PhysicalWindow, Radio, Settings, current_window, register_input_stream, sqf
from gsdm_grid.errors import ResourceError
from gsdm_grid.hosts import RayPool, SparkPool
from gsdm_grid.testing import eventually
from resource_manager.spark_cluster import SparkCluster
from resource_manager.spark_daemon_actors import RayDaemons
from resource_manager.spark_fleet import FleetSettings

COUNT = 20_000
DEADLINE_S = 90.0
MASTER, WORKER, EXECUTOR = "deploy.master.Master", "deploy.worker.Worker", "CoarseGrainedExecutorBackend"


def tell(what, **fields):
    print(json.dumps({"what": what, **fields}), flush=True)


def processes(text):
    """Ids of the virtual machines of this cluster whose command line has a text."""
    found = set()
    for process in psutil.process_iter(["cmdline"]):
        line = process.info["cmdline"] or []
        if line and line[0].endswith("java") and any(text in word for word in line) and mine(process):
            found.add(process.pid)
    return found


def mine(process):
    try:
        return process.environ().get("GSDM_SCENARIO") == str(os.getpid())
    except psutil.Error:
        return False


def block(count):
    rng = np.random.default_rng(7)
    channels = {
        name: (rng.normal(size=(count, 32)) + 1j * rng.normal(size=(count, 32))).astype(np.complex64) for name in "xyz"
    }
    return Radio.block(ts=np.arange(count), **channels)


def flow():
    return PCC(2, "RRpart", "fft3", {}, "S-Merge")


def complete(got, given):
    result = PhysicalWindow.concat(got)
    return result.ts.tolist() == given.ts.tolist() and bool(np.allclose(result.x, np.fft.fft(given.x), atol=1e-3))


def run_two_queries(grid, pool):
    given = block(200)
    first = grid.cq(flow(), [register_input_stream(Radio, given)], name="first").run()
    second = grid.cq(flow(), [register_input_stream(Radio, given)], name="second").run()
    told = pool.inventory()
    executors = processes(EXECUTOR)
    hosts = {
        parent.pid
        for query in (first, second)
        for site in ("compute.0", "compute.1")
        for parent in psutil.Process(grid.control.registration(query.node(site)).pid).parents()
    }
    results = [complete(list(query.blocks()), given) for query in (second, first)]
    tell(
        "two queries",
        complete=results,
        workers=len(told["workers"]),
        claimed=told["claimed"],
        executors=len(executors),
        on_executors=len(executors & hosts),
    )
    first.drop()
    second.drop()


def kill(grid, victim):
    """Kill a daemon under a running query; its results are complete all the same."""
    given = block(COUNT)
    query = grid.cq(flow(), [register_input_stream(Radio, given)], name=f"kill-{victim}").run()
    before = processes(victim)
    got, killed = [], False
    for result in query.blocks():
        got.append(result)
        if not killed and sum(map(len, got)) > COUNT // 10:
            for pid in before:
                os.kill(pid, signal.SIGKILL)
            killed = True
    query.wait(DEADLINE_S)
    eventually(lambda: processes(victim) - before, timeout_s=DEADLINE_S)
    tell("killed", victim=victim, complete=complete(got, given), restarts=sorted(query.restarts))
    query.drop()


@sqf(Radio, returns=Radio, register=False)
def never_return(s, folder):
    current_window(s)
    open(f"{folder}/{os.getpid()}", "w").close()
    while True:
        pass


def end_by_force(grid):
    """A query whose functions never return is dropped."""
    folder = Path(tempfile.mkdtemp())
    flow = PCC(2, "RRpart", never_return, {"folder": str(folder)}, "S-Merge")
    query = grid.cq(flow, [register_input_stream(Radio, block(200))], name="endless").run()
    eventually(lambda: len(list(folder.iterdir())) == 2, timeout_s=DEADLINE_S)
    pids = [int(path.name) for path in folder.iterdir()]
    query.drop()
    left = eventually(lambda: [pid for pid in pids if psutil.pid_exists(pid)], lambda left: not left)
    tell("ended by force", left=left, executors=len(processes(EXECUTOR)))


def refuse(grid):
    """A query asks for more than there will ever be."""
    given = [register_input_stream(Radio, block(10))]
    try:
        grid.cq(PCC(68, "RRpart", "fft3", {}, "S-Merge"), given, placement="spark").run()
    except ResourceError as error:
        tell("refused", reason=str(error))


def main():
    os.environ["GSDM_SCENARIO"] = str(os.getpid())
    # else everything here gives way to whatever else the machine does
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 (so Ray spells it)
    ray_pool = RayPool()
    cluster = SparkCluster(RayDaemons(ray_pool.connect), FleetSettings(slots=2, linger_s=1.0, memory_mb=512))
    pool = SparkPool(executors=cluster)
    with Grid("grid", Settings(block_bytes=20_000), pools={"ray": ray_pool, "spark": pool}) as grid:
        run_two_queries(grid, pool)
        end_by_force(grid)
        kill(grid, WORKER)
        kill(grid, MASTER)
        refuse(grid)
        eventually(lambda: not pool.inventory()["workers"] and not processes(WORKER), timeout_s=DEADLINE_S)
        tell("shrunk", workers=len(processes(WORKER)), masters=len(processes(MASTER)))
        grid.cq(flow(), [register_input_stream(Radio, block(10))], name="again").run().wait(DEADLINE_S)
        tell("grown again", workers=len(pool.inventory()["workers"]))
    pool.close()
    import ray

    actors = ray.util.list_named_actors(all_namespaces=True)
    daemons = [*processes(MASTER), *processes(WORKER), *processes(EXECUTOR)]
    tell("closed", daemons=len(daemons), actors=actors)
    ray_pool.close()


if __name__ == "__main__":
    main()
