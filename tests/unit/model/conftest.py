"""A stream type with an attribute of every kind, and blocks of it."""

import numpy as np
import pytest

from gsdm_grid.model import TypeRegistry, create_stream_type

NUMBERS = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


@pytest.fixture
def registry():
    return TypeRegistry()


@pytest.fixture(scope="session")
def everything():
    """One attribute of each kind of scalar, fixed vector, matrix, varying vector; a string and a time."""
    kinds = {f"s_{name}": name for name in NUMBERS}
    kinds |= {f"f_{name}": f"vector[3] of {name}" for name in NUMBERS}
    kinds |= {f"m_{name}": f"vector[2,3] of {name}" for name in NUMBERS}
    kinds |= {f"v_{name}": f"vector of {name}" for name in NUMBERS}
    kinds |= {"text": "string", "seen": "timestamp", "times": "vector of timestamp"}
    return create_stream_type("Everything", kinds, registry=TypeRegistry())


def numbers(kind, shape, rng):
    raw = rng.integers(0, 2 if kind.dtype == "bool" else 100, shape)
    if kind.numpy.kind == "c":
        raw = raw + 1j * rng.integers(0, 100, shape)
    return raw.astype(kind.numpy)


@pytest.fixture(scope="session")
def make_block(everything):
    """Make blocks of `everything` with ``count`` windows; their varying vectors equally long or not."""

    def make(count, ragged=False, seed=0):
        rng = np.random.default_rng(seed)
        values = {}
        for name, kind in everything.attributes.items():
            if name == "ts":
                values[name] = np.arange(count) * 10
            elif kind.is_string:
                values[name] = ["", "plain", "ümläut €", "🙂"][: min(count, 4)] + ["x"] * max(count - 4, 0)
            elif kind.shape is None and ragged:
                values[name] = [numbers(kind, (row % 4,), rng) for row in range(count)]
            else:
                shape = (5,) if kind.shape is None else kind.shape
                values[name] = numbers(kind, (count, *shape), rng)
        return everything.block(**values)

    return make


@pytest.fixture(scope="session")
def assert_same():
    """Compare two blocks: type, every value, dtype, and place."""

    def compare(got, expected):
        assert got.type == expected.type
        assert len(got) == len(expected)
        assert list(got.ordinals) == list(expected.ordinals)
        assert (got.mark, got.halo) == (expected.mark, expected.halo)
        for name, kind in expected.type.attributes.items():
            for one, other in zip(got[name], expected[name], strict=True):
                assert np.array_equal(one, other), name
                if not kind.is_string:
                    assert one.dtype == other.dtype == kind.numpy, name
                    assert one.shape == other.shape, name

    return compare
