"""Fixtures for all tests: grids to run queries on, and ways to make streams and look at results."""

import os
import signal
import zipfile
from functools import partial
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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Tests of one file are run by one process, and so are all that share what takes long to start; long ones first."""
    by_file = {}
    for item in items:
        by_file.setdefault(item.path, []).append(item)
    groups = {path: _group(path, members) for path, members in by_file.items()}
    slow = {groups[item.path] for item in items if item.get_closest_marker("slow")}
    for item in items:
        item.add_marker(pytest.mark.xdist_group(groups[item.path]))
    items.sort(key=lambda item: (groups[item.path] not in SHARED, groups[item.path] not in slow))


SHARED = ("airflow", "pools", "grid_service")
"""What takes long to start: an Airflow, Ray and Spark of the tests, a coordinator over both."""


def _group(path, members):
    used = {name for item in members for name in item.fixturenames}
    if path.parent.name == "airflow" and "unit" not in path.parts:
        return "airflow"
    return next((name for name in SHARED if name in used), path.stem)


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
    """Names of the shared memory of this process, those below it, and those that have gone: others run tests too."""
    here = psutil.Process()

    def of_others():
        return set(psutil.pids()) - {here.pid, *(one.pid for one in here.children(recursive=True))}

    def names():
        found = {path.name: int(path.name.split("-")[1]) for path in Path("/dev/shm").glob("gsdm-*")}
        return {name for name, pid in found.items() if pid not in of_others()} if found else set()

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
    """Make a block of readings: ids count from ``first``; timestamps as given, else 0, 10, 20, …"""

    def make(count=None, ts=None, first=0):
        ts = np.arange(count) * 10 if ts is None else np.asarray(ts, np.int64)
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
