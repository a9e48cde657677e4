"""Coordination: queries and their life cycle, the control protocol's other end, the grid they run on.

It compiles, places, installs, activates, watches and drops; the working nodes do the work. The REST coordinator
(`api`) is a face of this room.
"""

from gsdm_grid.coordination import lifecycle
from gsdm_grid.coordination.grid import DEFAULT_BLOCK_BYTES, Grid, cq, default_grid
from gsdm_grid.coordination.query import ContinuousQuery

__all__ = [
    "DEFAULT_BLOCK_BYTES",
    "ContinuousQuery",
    "Grid",
    "cq",
    "default_grid",
    "lifecycle",
]
