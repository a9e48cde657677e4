"""On every host whose nodes can be ended by force, dropping a query ends a function that never returns."""

import itertools

import psutil
import pytest

from gsdm_grid import PCC, Grid, Settings, central, create_stream_type, current_window, register_input_stream, sqf
from gsdm_grid.testing import eventually

CAN_END = ["processes", "ray", "spark"]
Level = create_stream_type("EndlessLevel", {"value": "float64"})


@sqf(Level, returns=Level, register=False)
def never_return(s, folder):
    """Says in which process it is, and stays there. The second site gives other threads of its process no turn."""
    import os
    import re

    current_window(s)
    first = not os.listdir(folder)
    open(f"{folder}/{os.getpid()}", "w").close()
    while True:
        if not first:
            re.match(r"(a+)+$", "a" * 60 + "b")


@pytest.fixture(params=CAN_END)
def grid(request, make_grid):
    grid = make_grid(request.param, drop_timeout_s=0.5)
    yield grid
    for query in list(grid.queries.values()):
        query.drop()


def endless_levels():
    return (Level.window(ts=k, value=float(k)) for k in itertools.count())


def is_gone(pid):
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_dropping_a_query_ends_functions_that_never_return_and_harms_no_other_query(grid, tmp_path, shared_memory):
    good = grid.cq(central("identity"), [register_input_stream(Level, endless_levels())], name="good").run()
    next(good.results())
    flow = PCC(2, "RRpart", never_return, {"folder": str(tmp_path)}, "S-Merge")
    bad = grid.cq(flow, [register_input_stream(Level, endless_levels())]).run()
    eventually(lambda: len(list(tmp_path.iterdir())) == 2)
    pids = [int(path.name) for path in tmp_path.iterdir()]
    bad.drop()
    eventually(lambda: all(is_gone(pid) for pid in pids))
    assert (good.state, good.restarts) == ("active", {})
    next(good.results())
    good.drop()
    eventually(lambda: not shared_memory(pids))


@sqf(Level, returns=Level, register=False)
def stay(s, folder):
    """Says that it is there, and returns when it is told to leave."""
    import os

    v = current_window(s)
    open(f"{folder}/there", "w").close()
    while not os.path.exists(f"{folder}/leave"):
        pass
    return v


def test_dropping_a_query_names_the_threads_that_cannot_be_ended(tmp_path):
    with Grid("threads", Settings(drop_timeout_s=0.2)) as grid:
        flow = central(stay, {"folder": str(tmp_path)})
        query = grid.cq(flow, [register_input_stream(Level, endless_levels())], name="q").run()
        eventually((tmp_path / "there").exists)
        assert query.drop() == ["q/compute.0"]
        (tmp_path / "leave").touch()
