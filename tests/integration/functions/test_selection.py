"""Selection by conditions in text, in a query that runs."""

import numpy as np
import pytest

from gsdm_grid import cq, register_input_stream, register_result_stream
from gsdm_grid.errors import FunctionError
from gsdm_grid.flow import central
from gsdm_grid.model import TypeRegistry, create_stream_type

Car = create_stream_type("Car", {"spd": "int32", "lane": "int32", "name": "string"}, registry=TypeRegistry())


def cars(speeds, lanes=None):
    lanes = [0] * len(speeds) if lanes is None else lanes
    return Car.block(ts=np.arange(len(speeds)), spd=speeds, lane=lanes, name=["car"] * len(speeds)).stamped(
        ordinals=range(100, 100 + len(speeds))
    )


def test_a_condition_that_fails_on_a_tuple_names_it(threads_grid):
    query = cq(
        central("where", ["spd // lane > 1"]),
        [register_input_stream(Car, [cars([4, 5], [1, 0])])],
        [register_result_stream()],
        grid=threads_grid,
    )
    with pytest.raises(FunctionError, match=r"division by zero, at Car\(ts=1, spd=5, lane=0"):
        query.run().wait(60)
    query.drop()
