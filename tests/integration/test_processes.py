"""Working nodes in processes of this machine: they can be ended, and they die with their parent."""

import os
import signal
import subprocess
import sys

import psutil
import pytest

from gsdm_grid import (
    PCC,
    PhysicalWindow,
    Radio,
    central,
    create_stream_type,
    current_window,
    register_input_stream,
    sqf,
)
from gsdm_grid.errors import NodeLost
from gsdm_grid.testing import eventually

COUNT = 5_000
Level = create_stream_type("ProcessLevel", {"value": "float64"})
SCRIPT = """
import os, time
from gsdm_grid import Grid, Radio, central, register_input_stream

print("imported", flush=True)  # no guard: a child that imported this again would say so
grid = Grid("processes")
query = grid.cq(central("fft3"), [register_input_stream(Radio, interface="synthetic_radio", window=64)]).run()
sites = [site for site in query.plan.sites if site.host == "process"]
print(*(grid.control.registration(query.node(site)).pid for site in sites), flush=True)
time.sleep(600)
"""


@sqf(Level, returns=Level, register=False)
def exit_at_once(s):
    current_window(s)
    os._exit(7)


@sqf(Level, returns=Level, register=False)
def never_return(s):
    current_window(s)
    while True:
        pass


@pytest.fixture
def grid(make_grid):
    grid = make_grid("processes", block_bytes=20_000, drop_timeout_s=0.5, restarts=1)
    yield grid
    for query in list(grid.queries.values()):
        query.drop()


def levels(count=20):
    return [Level.window(ts=k, value=float(k)) for k in range(count)]


def pid_of(grid, query, site):
    return grid.control.registration(query.node(site)).pid


def is_gone(pid):
    return not psutil.pid_exists(pid)


def test_a_function_that_ends_its_process_fails_its_query_with_the_exit_code(grid):
    bad = grid.cq(central(exit_at_once), [register_input_stream(Level, levels())])
    with pytest.raises(NodeLost, match=r"exit code 7 \(it died 2 times\)"):
        bad.run().wait(60)
    good = grid.cq(central("identity"), [register_input_stream(Level, levels())])
    assert len(list(good.run().results())) == 20


def test_a_function_that_never_returns_is_ended_when_its_query_is_dropped(grid, shared_memory):
    query = grid.cq(PCC(2, "RRpart", never_return, {}, "S-Merge"), [register_input_stream(Level, levels())]).run()
    pids = [pid_of(grid, query, site) for site in query.plan.sites if site.host == "process"]
    busy = psutil.Process(pid_of(grid, query, "compute.0"))
    eventually(lambda: busy.cpu_times().user, lambda spent_s: spent_s > 0.2)
    query.drop()
    assert all(is_gone(pid) for pid in pids)
    assert not shared_memory(pids)


@pytest.mark.parametrize("victim", ["compute.1", "combine.0"])
def test_every_window_arrives_once_and_in_order_though_a_process_is_killed(grid, victim, radio_block):
    block = radio_block(COUNT, 32)
    query = grid.cq(PCC(2, "RRpart", "fft3", {}, "S-Merge"), [register_input_stream(Radio, block)]).run()
    got, killed = [], False
    for result in query.blocks():
        got.append(result)
        if not killed and sum(map(len, got)) > COUNT // 10:
            os.kill(pid_of(grid, query, victim), signal.SIGKILL)
            killed = True
    query.wait(60)
    assert query.restarts == {victim: 1}
    assert PhysicalWindow.concat(got).ts.tolist() == block.ts.tolist()


def test_windows_go_between_processes_through_shared_memory(grid, radio_block):
    query = grid.cq(PCC(2, "RRpart", "identity", {}, "S-Merge"), [register_input_stream(Radio, radio_block(500))])
    assert len(list(query.run().results())) == 500
    query.wait(60)
    streams = query.statistics()["partition.0"]["streams"].values()
    assert sum(stream.get("shared", 0) for stream in streams) > 0


def test_queries_that_come_and_go_leave_no_process_descriptor_or_thread(grid):
    here = psutil.Process()

    def run():
        query = grid.cq(central("identity"), [register_input_stream(Level, levels())])
        assert len(list(query.run().results())) == 20
        query.drop()

    def held():
        return here.num_fds(), here.num_threads(), len(here.children(recursive=True))

    run()
    before = held()
    for _ in range(5):
        run()
    eventually(held, lambda now: all(one <= other for one, other in zip(now, before, strict=True)))


def test_a_query_goes_on_after_the_process_that_starts_others_was_killed(grid):
    query = grid.cq(central("identity"), [register_input_stream(Level, levels())])
    assert len(list(query.run().results())) == 20
    site = next(site.id for site in query.plan.sites if site.host == "process")
    starter = psutil.Process(pid_of(grid, query, site)).parent()
    starter.kill()
    eventually(lambda: query.state, lambda state: state == "failed" or query.restarts)
    other = grid.cq(central("identity"), [register_input_stream(Level, levels())])
    assert len(list(other.run().results())) == 20


def test_processes_die_with_the_program_that_started_them_and_do_not_import_it_again(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout.readline() == "imported\n"
        pids = [int(pid) for pid in program.stdout.readline().split()]
        assert pids
        assert not any(is_gone(pid) for pid in pids)
        program.kill()
        eventually(lambda: all(is_gone(pid) for pid in pids))
        assert program.stdout.read() == ""
