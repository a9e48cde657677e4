"""Fixtures for all tests: grids to run queries on, and ways to make streams and look at results."""

import json
import os
import re
import signal
import zipfile
from collections import Counter
from functools import cache, partial
from pathlib import Path

import numpy as np
import psutil
import pytest
from hypothesis import HealthCheck, settings

from gsdm_grid import (
    Grid,
    PhysicalWindow,
    Radio,
    Settings,
    create_stream_type,
    register_input_stream,
    register_result_stream,
)
from gsdm_grid.model import TypeRegistry

DEADLINE_S = 60.0
os.environ.setdefault("RAY_worker_niceness", "0")  # else what Ray hosts gives way to whatever other tests do
os.environ["_AIRFLOW__AS_LIBRARY"] = "1"  # imported by a test, Airflow sets up no home, no logging and no database

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a shell; programs under test inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(  # tests do not time; on CI hypothesis draws the same examples every time
    "gsdm",
    settings.get_profile("ci" if os.environ.get("CI") else "default"),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("gsdm")

Reading = create_stream_type("Reading", {"id": "int64", "value": "float64"}, registry=TypeRegistry())


AIRFLOW = {"coordinator", "optimized"}
"""Files of `tests/integration/airflow` that have one of these words share an Airflow; the others do without it."""
SHARED = ("make_grid", "grid_service")
"""Fixtures that take long to start, and that tests of several files use: Ray and Spark, a coordinator over both."""
GRID_FIXTURES = {"pools", "make_grid", "grid_service", "start_ray"}
"""Tests that use one of these, those of Airflow, and those marked ``grid`` run in the lane ``grid``."""


def pytest_addoption(parser):
    """What `tests/lanes.py` asks for, and the long tests."""
    parser.addoption("--lane", choices=("grid", "rest"), help="run only the tests of this lane (see tests/lanes.py)")
    parser.addoption("--lane-report", help="a file to which each finished test is reported, as lines of JSON")
    parser.addoption("--long", action="store_true", help="also run the tests that are marked long")


def pytest_configure(config):
    """Report to the file that was named."""
    if (path := config.getoption("--lane-report")) is not None:
        config.pluginmanager.register(LaneReport(path), "lane-report")


class LaneReport:
    """Reports what was collected, what begins and what has finished."""

    def __init__(self, path):
        self._file = open(path, "a", buffering=1)  # noqa: SIM115 - it is open as long as pytest runs
        self._outcomes = {}

    def _tell(self, **event):
        self._file.write(json.dumps(event) + "\n")

    def pytest_collection_finish(self, session):
        self._tell(files=Counter(item.nodeid.partition("::")[0] for item in session.items))

    def pytest_runtest_logstart(self, nodeid):
        self._tell(begins=nodeid)
        self._outcomes[nodeid] = ["passed", 0.0]

    def pytest_runtest_logreport(self, report):
        outcome = self._outcomes[report.nodeid]
        outcome[1] += report.duration
        if report.failed:
            outcome[0] = "failed" if report.when == "call" else "error"
        elif report.skipped:
            outcome[0] = "xfailed" if hasattr(report, "wasxfail") else "skipped"

    def pytest_runtest_logfinish(self, nodeid):
        outcome, seconds = self._outcomes.pop(nodeid)
        self._tell(test=nodeid, outcome=outcome, seconds=round(seconds, 3))


def lane_of(item):
    """The lane that runs a test."""
    uses_grid = item.get_closest_marker("grid") or GRID_FIXTURES & set(item.fixturenames)
    return "grid" if uses_grid or group_of(item.path) == "airflow" else "rest"


@cache
def group_of(path):
    """What a file's tests share with those of others; its path if that is nothing."""
    words = set(re.findall(r"\w+", path.read_text()))
    if path.parent.name == "airflow" and "integration" in path.parts and AIRFLOW & words:
        return "airflow"
    return next((fixture for fixture in SHARED if fixture in words), str(path))


def pytest_collection_modifyitems(config, items):
    """Leave out what another lane runs, and long tests unless asked for; files that share something stand together."""
    lane, long = config.getoption("--lane"), config.getoption("--long")
    left_out = [
        item
        for item in items
        if (lane is not None and lane_of(item) != lane) or (item.get_closest_marker("long") and not long)
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        kept = set(items) - set(left_out)
        items[:] = [item for item in items if item in kept]
    order = {group: number for number, group in enumerate(("airflow", *SHARED))}
    items.sort(key=lambda item: order.get(group_of(item.path), len(order)))


@pytest.fixture(scope="session")
def threads_grid():
    """A grid whose working nodes are threads of this process."""
    with Grid("threads") as grid:
        yield grid


@pytest.fixture(scope="session")
def pools():
    """The Ray and Spark pools of the test run: one Ray and one Spark, shared by all tests."""
    from gsdm_grid.hosts import RayPool, SparkPool

    made = {"ray": RayPool(), "spark": SparkPool()}
    yield made
    for pool in made.values():
        pool.close()


@pytest.fixture(scope="session")
def make_grid(pools):
    """Grids over the shared Ray and Spark, by placement and settings; all are closed at the end."""
    grids = {}

    def make(placement, **settings):
        key = (placement, tuple(sorted(settings.items())))
        if key not in grids:
            grids[key] = Grid(placement, Settings(**settings), pools=pools)
        return grids[key]

    yield make
    for grid in grids.values():
        grid.close()


@pytest.fixture(scope="session")
def shared_memory():
    """Names of the shared memory of this process, of those below it, and of those given: others run tests too."""

    def names(pids=()):
        here = psutil.Process()
        ours = {here.pid, *(one.pid for one in here.children(recursive=True)), *pids}
        return {path.name for path in Path("/dev/shm").glob("gsdm-*") if int(path.name.split("-")[1]) in ours}

    return names


@pytest.fixture(scope="session")
def make_wheel():
    """Make a wheel of one module in a folder."""

    def make(folder, name, version, source, requires=(), data=b""):
        about = f"{name}-{version}.dist-info"
        needed = "".join(f"Requires-Dist: {one}\n" for one in requires)
        with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}.py", source)
            wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needed}")
            wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            if data:
                wheel.writestr(f"{name}.bin", data)
            named = [*wheel.namelist(), f"{about}/RECORD"]
            wheel.writestr(f"{about}/RECORD", "".join(f"{one},,\n" for one in named))

    return make


@pytest.fixture
def wheels(tmp_path, monkeypatch, make_wheel):
    """Make wheels of one module each; pip, also of programs that a test starts, then gets packages only from there."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    return partial(make_wheel, folder)


@pytest.fixture(scope="session")
def radio_block():
    """Make a block of noise: count windows of length samples."""

    def make(count, length=256, seed=0):
        rng = np.random.default_rng(seed)
        shape = (count, length)
        channels = {
            name: (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(np.complex64)
            for name in ("x", "y", "z")
        }
        return Radio.block(ts=np.arange(count) * 1_000_000, **channels)

    return make


@pytest.fixture(scope="session")
def reading():
    """The stream type of `readings`."""
    return Reading


@pytest.fixture(scope="session")
def readings():
    """Make a block of readings: ids count from ``first``; timestamps as given, else ten times the ids."""

    def make(count=None, ts=None, first=0):
        ts = np.arange(first, first + count) * 10 if ts is None else np.asarray(ts, np.int64)
        ids = np.arange(first, first + len(ts))
        return Reading.block(ts=ts, id=ids, value=np.sin(ids * 1.7))

    return make


@pytest.fixture(scope="session")
def cut():
    """Cut a block into blocks of the given sizes, over and over, as a source might deliver it."""

    def make(block, sizes):
        pieces, at = [], 0
        while at < len(block):
            size = sizes[len(pieces) % len(sizes)]
            piece = block[at : at + size]
            pieces.append(piece if block.placed else PhysicalWindow(piece.type, piece.columns))
            at += size
        return pieces

    return make


@pytest.fixture(scope="session")
def run_in_threads(threads_grid):
    """Run a data flow over sources (lists of blocks) to the end; returns its result as one block."""

    def run(flow, stream_type, *sources):
        inputs = [register_input_stream(stream_type, blocks) for blocks in sources]
        query = threads_grid.cq(flow, inputs, [register_result_stream(blocks=100_000)])
        try:
            blocks = list(query.run().wait(DEADLINE_S).blocks())
            made = next(stream.type for stream in query.plan.streams if stream.kind == "sink")
            return PhysicalWindow.concat([PhysicalWindow.empty(made), *blocks])
        finally:
            query.drop()

    return run


@pytest.fixture(scope="session")
def assert_equal_streams():
    """Same windows in the same order; floating point within the tolerance."""

    def compare(got, expected, rtol=0.0, atol=0.0):
        assert got.type == expected.type
        assert len(got) == len(expected)
        for name, kind in expected.type.attributes.items():
            for one, other in zip(got[name], expected[name], strict=True):
                if kind.dtype in ("string", "timestamp") or (rtol == 0 and atol == 0):
                    assert np.array_equal(one, other, equal_nan=False), name
                else:
                    np.testing.assert_allclose(one, other, rtol, atol, err_msg=name)

    return compare
