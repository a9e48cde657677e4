"""Fixtures for the whole suite: one Ray and one Spark per test run, shared; grids over them are cheap."""

from __future__ import annotations

import numpy as np
import pytest

from gsdm_grid import Grid, Radio, Settings


@pytest.fixture(scope="session")
def threads_grid():
    with Grid("threads") as grid:
        yield grid


@pytest.fixture(scope="session")
def pools():
    """The Ray and Spark pools of the test run."""
    from gsdm_grid.hosts import RayPool, SparkPool

    made = {"ray": RayPool(), "spark": SparkPool()}
    yield made
    for pool in made.values():
        pool.close()


@pytest.fixture(scope="session")
def make_grid(pools):
    """Grids over the shared Ray and Spark, by placement, all closed at the end."""
    grids = {}

    def make(placement: str, **settings) -> Grid:
        key = (placement, tuple(sorted(settings.items())))
        if key not in grids:
            grids[key] = Grid(placement, Settings(**settings), pools=pools)
        return grids[key]

    yield make
    for grid in grids.values():
        grid.close()


@pytest.fixture(scope="session")
def radio_block():
    """A function that makes blocks of noise: count windows of length samples."""

    def make(count: int, length: int = 256, seed: int = 0):
        rng = np.random.default_rng(seed)
        shape = (count, length)
        channels = {
            name: (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(np.complex64) for name in ("x", "y", "z")
        }
        return Radio.block(ts=np.arange(count) * 1_000_000, **channels)

    return make
