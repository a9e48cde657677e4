"""Selection by conditions in text."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsdm_grid.compiler import compile_flow
from gsdm_grid.errors import FlowError
from gsdm_grid.flow import central
from gsdm_grid.functions import StreamView, functions
from gsdm_grid.model import TypeRegistry, create_stream_type
from gsdm_grid.plan import StreamSpec

Car = create_stream_type("Car", {"spd": "int32", "lane": "int32", "name": "string"}, registry=TypeRegistry())


def selected(block, condition):
    function = functions.get("where")
    view = StreamView(block.type, function.whole)
    view.feed(block)
    return function(view, condition=condition)


def cars(speeds, lanes=None):
    lanes = [0] * len(speeds) if lanes is None else lanes
    return Car.block(ts=np.arange(len(speeds)), spd=speeds, lane=lanes, name=["car"] * len(speeds)).stamped(
        ordinals=range(100, 100 + len(speeds))
    )


@given(st.lists(st.integers(-100, 100), min_size=1, max_size=50), st.integers(-100, 100))
def test_what_the_condition_holds_for_is_kept_with_its_place(speeds, limit):
    kept = selected(cars(speeds), f"spd < {limit}")
    assert kept.spd.tolist() == [speed for speed in speeds if speed < limit]
    assert list(kept.ordinals) == [100 + place for place, speed in enumerate(speeds) if speed < limit]


def test_nothing_counts_as_not_holding():
    assert selected(cars([1, 2, 3]), "spd > 1 if spd != 2 else None").spd.tolist() == [3]


def test_a_condition_that_does_not_fit_is_refused_when_the_query_is_compiled():
    for condition, reason in (
        ("speed < 3", "unknown attribute 'speed'"),
        ("spd + 1", "is a whole number, not a truth value"),
        ("spd <", "invalid syntax"),
    ):
        with pytest.raises(FlowError, match=reason):
            compile_flow(
                "q", central("where", [condition]), [StreamSpec("in", "memory", Car)], [StreamSpec("out", "null")]
            )
