"""Coordination: queries and their life cycle, the control protocol's other end, the grid they run on.

It compiles, places, installs, activates, watches and drops; the working nodes do the work. The REST coordinator
(`api`) is a face of this room.
"""

from gsdm_grid.coordination import lifecycle
from gsdm_grid.coordination.grid import Grid, cq, default_grid
from gsdm_grid.coordination.optimizing import opt
from gsdm_grid.coordination.query import ContinuousQuery
from gsdm_grid.coordination.streams import RegisteredStream, register_input_stream, register_result_stream

__all__ = [
    "ContinuousQuery",
    "Grid",
    "RegisteredStream",
    "cq",
    "default_grid",
    "lifecycle",
    "opt",
    "register_input_stream",
    "register_result_stream",
]
