"""The engine: a working node, which executes one site of a plan, and the loop that runs it.

It knows operators, functions and channels, but not where it is hosted (`gsdm_grid.hosts`) nor who commands it
(`gsdm_grid.coordination`).
"""

from gsdm_grid.engine.freed_memory import keep_freed_memory
from gsdm_grid.engine.node import Schedule, WorkingNode
from gsdm_grid.engine.package_staging import piece
from gsdm_grid.engine.runner import Bootstrap, run_node, unpack_error

__all__ = [
    "Bootstrap",
    "Schedule",
    "WorkingNode",
    "keep_freed_memory",
    "piece",
    "run_node",
    "unpack_error",
]
