"""A working node whose process is killed in mid-stream is started anew; no window is lost, doubled or reordered."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

from gsdm_grid import PCC, PhysicalWindow, Radio, mergestream, parasplit, pipe, register_input_stream
from gsdm_grid.testing import eventually

COUNT = 10_000


@pytest.fixture
def grid(make_grid):
    grid = make_grid("grid", block_bytes=20_000)
    yield grid
    for query in list(grid.queries.values()):
        query.drop()


FLOWS = {
    "window distribute": lambda: PCC(2, "RRpart", "fft3", {}, "S-Merge"),
    "window split": lambda: PCC(2, "fft3part", "fft3", {}, "OS-Join", {"fft3combine"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("victim", ["compute.1", "combine.0"])
def test_every_window_arrives_once_and_in_order_though_a_process_is_killed(grid, flow, victim, radio_block):
    block = radio_block(COUNT, 32)
    query = grid.cq(FLOWS[flow](), [register_input_stream(Radio, block)]).run()
    got, killed = [], False
    for result in query.blocks():
        got.append(result)
        if not killed and sum(map(len, got)) > COUNT // 10:
            os.kill(grid.control.registration(query.node(victim)).pid, signal.SIGKILL)
            killed = True
    query.wait(60)
    result = PhysicalWindow.concat(got)
    assert query.restarts == {victim: 1}
    assert result.ts.tolist() == block.ts.tolist()
    np.testing.assert_allclose(result.x, np.fft.fft(block.x), atol=1e-3)


@pytest.mark.slow
def test_every_window_arrives_once_and_in_order_though_several_processes_are_killed(make_grid, radio_block):
    victims = ("combine.0", "compute.0")  # when the first is back, the second is not: nobody is to wait for it
    grid, block = make_grid("ray", block_bytes=20_000), radio_block(COUNT, 32)
    query = grid.cq(FLOWS["window distribute"](), [register_input_stream(Radio, block)]).run()
    got, killed = [], False
    for result in query.blocks():
        got.append(result)
        if not killed and sum(map(len, got)) > COUNT // 10:
            for victim in victims:
                os.kill(grid.control.registration(query.node(victim)).pid, signal.SIGKILL)
                eventually(lambda victim=victim: victim in query.restarts)
            killed = True
    query.wait(60)
    assert PhysicalWindow.concat(got).ts.tolist() == block.ts.tolist()
    assert query.restarts == dict.fromkeys(victims, 1)
    query.drop()


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["partition.1", "compute.1"])
def test_every_tuple_arrives_once_and_in_order_though_a_window_splitter_or_query_processor_is_killed(
    grid, victim, radio_block
):
    block = radio_block(COUNT, 32)
    flow = pipe(parasplit(2, 3, "hash(ts) % w", fun="identity"), mergestream(3))
    query = grid.cq(flow, [register_input_stream(Radio, block)]).run()
    got, killed = [], False
    for result in query.blocks():
        got.append(result)
        if not killed and sum(map(len, got)) > COUNT // 10:
            os.kill(grid.control.registration(query.node(victim)).pid, signal.SIGKILL)
            killed = True
    query.wait(60)
    result = PhysicalWindow.concat(got)
    assert query.restarts == {victim: 1}
    assert result.ts.tolist() == block.ts.tolist()
    np.testing.assert_array_equal(result.x, block.x)
    router = query.statistics()["partition.0"]
    assert sum(stream.get("passed_on", 0) for stream in router["streams"].values()) > 0
