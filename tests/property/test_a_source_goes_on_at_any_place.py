"""The law: a source that can be read again gives, from any place on and in any portions, the windows from there,
whatever it is made of. Recordings have a law of their own: `test_a_recording_is_played_as_it_was_recorded`."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsdm_grid import Radio
from gsdm_grid.apps.radio import SyntheticRadio
from gsdm_grid.interfaces import EndOfStream, InterfaceContext
from gsdm_grid.interfaces.generator import GeneratorSource
from gsdm_grid.interfaces.memory import MemorySource
from gsdm_grid.model import TypeRegistry, create_stream_type

Numbered = create_stream_type("NumberedSource", {"n": "int64", "v": "vector of float32"}, registry=TypeRegistry())


def window(row):
    return {"ts": row * 10, "n": row, "v": np.full(row % 4, row, np.float32)}


def block(first, count):
    rows = np.arange(first, first + count)
    return Numbered.block(ts=rows * 10, n=rows, v=[window(row)["v"] for row in rows])


def item(kind, first):
    """Something that a source may be made of, and how many windows it is."""
    made = window(first)
    if kind == "mapping":
        return made, 1
    if kind == "window":
        return Numbered.window(**made), 1
    if kind == "tuple":
        return tuple(made.values()), 1
    size = kind if isinstance(kind, int) else 1
    placed = block(first, size)
    return placed.stamped(ordinals=range(3 * first, 3 * (first + size), 3), mark=99) if first % 2 else placed, size


def items_of(kinds):
    items, first = [], 0
    for kind in kinds:
        made, size = item(kind, first)
        items.append(made)
        first += size
    return items, first


def read(data, source, count):
    """So many windows, in portions that are drawn, or all up to the end."""
    windows = []
    while count is None or len(windows) < count:
        left = 1 << 20 if count is None else count - len(windows)
        limit = data.draw(st.integers(1, min(left, 15)), "limit")
        try:
            portion = source.next(limit)
        except EndOfStream:
            break
        assert len(portion) <= limit
        windows += list(portion)
    return windows


def check(data, source, expected):
    source.open(InterfaceContext())
    for _ in range(data.draw(st.integers(1, 4), "times")):
        start = data.draw(st.integers(0, len(expected) + 2), "start")
        count = data.draw(st.none() | st.integers(0, 20), "count")
        source.seek(start)
        assert read(data, source, count) == expected[start : None if count is None else start + count]
        if data.draw(st.booleans(), "reopened"):  # it goes on where it was
            position = len(expected) if count is None else start + count
            source.close()
            source.open(InterfaceContext())
            assert read(data, source, 3) == expected[position : position + 3]
    source.close()


@settings(max_examples=40)
@pytest.mark.parametrize("source", [MemorySource, GeneratorSource])
@given(data=st.data())
def test_items_of_every_kind_are_read_from_any_place(source, data):
    kinds = st.lists(st.sampled_from(["mapping", "window", "tuple"]) | st.integers(0, 12), max_size=12)
    items, count = items_of(data.draw(kinds, "items"))
    options = {"items": items} if source is MemorySource else {"function": lambda: iter(items)}
    check(data, source(Numbered, options), list(block(0, count)))


@settings(max_examples=20)
@given(data=st.data(), pool=st.sampled_from([0, 1, 5]), count=st.integers(1, 20))
def test_synthetic_radio_is_read_from_any_place(data, pool, count):
    options = {"window": 8, "pool": pool, "limit": count}
    whole = SyntheticRadio(Radio, options)
    whole.open(InterfaceContext())
    check(data, SyntheticRadio(Radio, options), read(data, whole, None))
