"""Queries on real Ray and real Spark: where their sites appear, and that nothing of them stays behind."""

from __future__ import annotations

import os

import numpy as np
import psutil
import pytest
import scipy.fft

from gsdm_grid import (
    PCC,
    PhysicalWindow,
    Radio,
    central,
    create_stream_type,
    current_window,
    parallelize,
    register_input_stream,
    sqf,
)
from gsdm_grid.testing import eventually

DEADLINE_S = 60.0

Tick = create_stream_type("GridTick", {"value": "int64"})


@pytest.fixture
def grid(make_grid):
    grid = make_grid("grid")
    yield grid
    for query in list(grid.queries.values()):
        query.drop()


def endless():
    k = 0
    while True:
        yield Tick.window(ts=k, value=k)
        k += 1


@sqf(Tick, returns=Tick, register=False)
def pass_on(s):
    return current_window(s)


def test_compute_sites_are_tasks_of_a_spark_job_and_the_others_are_ray_actors_named_after_the_query(grid, pools):
    from ray.util import list_named_actors

    query = grid.cq(PCC(3, "RRpart", pass_on, {}, "S-Merge"), [register_input_stream(Tick, endless())], name="seen")
    query.run()
    next(query.results())
    tracker = pools["spark"].session.sparkContext.statusTracker()

    def running_tasks():
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup("seen")]
        stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        return sum(stage.numActiveTasks for stage in stages if stage)

    eventually(lambda: running_tasks() == 3)

    def actors():
        return {actor["name"] for actor in list_named_actors(all_namespaces=True) if actor["namespace"] == "gsdm.seen"}

    assert {"partition.0", "combine.0"} <= actors()
    query.drop()
    eventually(lambda: running_tasks() == 0)
    eventually(lambda: not actors())


def test_a_dropped_query_leaves_no_thread_no_socket_and_no_shared_memory(grid, radio_block, shared_memory):
    def sockets():
        return {c.laddr.port for c in psutil.Process().net_connections("tcp") if c.status == psutil.CONN_LISTEN}

    first = grid.cq(central("fft3"), [register_input_stream(Radio, radio_block(200))])  # starts what is started once
    list(first.run().results())
    first.drop()
    before = sockets(), shared_memory()
    query = grid.cq(PCC(2, "RRpart", "fft3", {}, "S-Merge"), [register_input_stream(Radio, radio_block(500, 1024))])
    assert sum(map(len, query.run().blocks())) == 500
    pids = {grid.control.registration(query.node(site)).pid for site in query.plan.sites} - {os.getpid()}
    query.drop()
    import threading

    eventually(lambda: (sockets(), shared_memory(pids)) == before)
    eventually(lambda: not any(thread.name.startswith(f"{query.id}/") for thread in threading.enumerate()))
    assert pids


@pytest.mark.slow
@pytest.mark.parametrize("degree", [1, 2, 4, 8])
@pytest.mark.parametrize("strategy", ["window_distribute", "window_split"])
def test_fft3_equals_scipy_for_all_window_sizes_flat(threads_grid, strategy, degree, radio_block):
    for length in (256, 1024, 4096, 16384):
        given = radio_block(9, length)
        query = threads_grid.cq(parallelize("fft3", {}, strategy, degree), [register_input_stream(Radio, given)])
        check_spectra(query, given)
        query.drop()


@pytest.mark.slow
@pytest.mark.parametrize("degree", [4, 8])
@pytest.mark.parametrize("strategy", ["window_distribute", "window_split"])
def test_fft3_equals_scipy_for_all_window_sizes_in_a_tree(threads_grid, strategy, degree, radio_block):
    for length in (256, 1024, 4096, 16384):
        given = radio_block(9, length)
        inner = parallelize("fft3", {}, strategy, degree // 2)
        outer = ("fft3part", "OS-Join", {"fft3combine"}) if strategy == "window_split" else ("RRpart", "S-Merge", {})
        flow = PCC(2, outer[0], inner, None, outer[1], outer[2])
        query = threads_grid.cq(flow, [register_input_stream(Radio, given)])
        check_spectra(query, given)
        query.drop()


def check_spectra(query, given):
    result = PhysicalWindow.concat(list(query.run().blocks()))
    assert result.ts.tolist() == given.ts.tolist()
    for channel in ("x", "y", "z"):
        wanted = scipy.fft.fft(given[channel])
        np.testing.assert_allclose(result[channel], wanted, atol=1e-5 * np.abs(wanted).max())


def test_a_silent_input_is_left_behind_after_its_time_out_and_the_gap_is_recorded(grid):
    import threading

    blocked = threading.Event()

    from gsdm_grid import StreamInterface, register_stream_interface
    from gsdm_grid.interfaces import EndOfStream

    class SilentAfterThree(StreamInterface):
        given = False

        def next(self, limit):
            if blocked.is_set():
                raise EndOfStream
            if self.given:
                return None
            self.given = True
            return PhysicalWindow.pack(Tick, [Tick.window(ts=k, value=1) for k in range(3)])

    register_stream_interface("silent_after_three", SilentAfterThree)
    lively = [Tick.window(ts=k, value=2) for k in range(100)]
    query = grid.cq(
        central("S-Merge", {"timeout": 0.2}, 2),
        [register_input_stream(Tick, None, "silent_after_three"), register_input_stream(Tick, lively)],
    ).run()
    got = []
    for window in query.results():
        got.append((int(window.ts), int(window.value)))
        if len(got) == 103:
            blocked.set()
    query.wait(DEADLINE_S)
    assert got == sorted(got)
    assert len(got) == 103
    told = query.statistics()["combine.0"]["operators"]["S-Merge.0"]
    assert told["gaps"] >= 1
    assert told["gap_list"][0]["input"] == 0
    assert told["gap_list"][0]["after"] == 2


@pytest.mark.slow
def test_a_udp_source_at_twice_the_rate_drops_counts_and_keeps_order(grid):
    import socket
    import threading

    from gsdm_grid.interfaces.interface import InterfaceContext, interfaces

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"

    @sqf(Tick, returns=Tick, register=False)
    def slow(s):
        import time as clock

        clock.sleep(0.002)
        return current_window(s)

    source = register_input_stream(Tick, address, "udp", overload="drop_oldest", buffer_blocks=20, name="in")
    query = grid.cq(central(slow), [source]).run(time_s=6)
    sink = interfaces.get("udp")(Tick, {"to": address})
    sink.open(InterfaceContext())
    stop = threading.Event()
    sent = 0

    def send():
        nonlocal sent
        while not stop.wait(0.001):  # about 1000 windows/s against at most 500
            sink.insert(PhysicalWindow.pack(Tick, [Tick.window(ts=sent, value=sent)]))
            sent += 1

    sender = threading.Thread(target=send)
    sender.start()
    got = [int(window.value) for window in query.results()]
    stop.set()
    sender.join()
    sink.close()
    query.wait(DEADLINE_S)
    assert got == sorted(set(got))
    assert len(got) > 100
    streams = {name: told for site in query.statistics().values() for name, told in site["streams"].items()}
    assert streams["in"]["dropped_oldest"] > 0
    assert len(got) + streams["in"]["dropped_oldest"] <= sent


def test_everything_works_through_sockets_at_another_address(make_grid, radio_block):
    grid = make_grid("grid", shared_memory=False, address="127.0.0.2")
    given = radio_block(300, 1024)
    query = grid.cq(PCC(2, "RRpart", "fft3", {}, "S-Merge"), [register_input_stream(Radio, given)])
    check_spectra(query, given)
    query.wait(DEADLINE_S)
    assert all(
        grid.control.registration(query.node(site)).endpoint.startswith("tcp://127.0.0.2:") for site in query.plan.sites
    )
    streams = {name: told for site in query.statistics().values() for name, told in site["streams"].items()}
    assert all(told.get("shared", 0) == 0 for told in streams.values())
    query.drop()
