"""Blocks of small and of radio windows, and views of them, without an engine."""

import numpy as np
import pytest

from gsdm_grid.functions import StreamView
from gsdm_grid.functions.library.radio import CHANNELS, Radio
from gsdm_grid.model import TypeRegistry, create_stream_type

LEVEL = create_stream_type("FunctionsLevel", {"value": "float64"}, registry=TypeRegistry())


@pytest.fixture(scope="session")
def level_type():
    return LEVEL


@pytest.fixture(scope="session")
def levels():
    """Make placed blocks of levels from ``start`` to ``stop``, one per second."""

    def make(start, stop, step_s=1.0):
        places = np.arange(start, stop)
        return LEVEL.block(ts=(places * step_s * 1e9).astype(np.int64), value=places / 2).stamped(range(start, stop))

    return make


@pytest.fixture(scope="session")
def view_of():
    """Make a view that holds the given blocks."""

    def make(*blocks, whole=False):
        view = StreamView(blocks[0].type, whole)
        for block in blocks:
            view.feed(block)
        return view

    return make


@pytest.fixture(scope="session")
def radio():
    """Make radio blocks: one window for each of the given lengths."""

    def make(*lengths, seed=0):
        rng = np.random.default_rng(seed)
        columns = {
            channel: [
                (rng.standard_normal(length) + 1j * rng.standard_normal(length)).astype(np.complex64)
                for length in lengths
            ]
            for channel in CHANNELS
        }
        return Radio.block(ts=np.arange(len(lengths)) * 1000, **columns).stamped(range(len(lengths)))

    return make


@pytest.fixture(scope="session")
def run(view_of):
    """Run a whole function over a block."""

    def call(function, block, *args, **kwargs):
        return function(view_of(block, whole=True), *args, **kwargs)

    return call
