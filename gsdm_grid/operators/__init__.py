"""Operators of the engine that are more than a function over windows: pure logic, one file each.

Merges and joins, the overlap partitions, the splitter and the window router. They take blocks and return blocks; the
engine feeds them.
"""

from gsdm_grid.operators.base import Blocks, Kept, Snapshot, StreamOperator
from gsdm_grid.operators.keyed_merge import KeyAggregate, KeyJoin, added_up
from gsdm_grid.operators.os_join import OSJoin
from gsdm_grid.operators.overlap import SlidingOverlap, TimeOverlap
from gsdm_grid.operators.s_merge import SMerge
from gsdm_grid.operators.splitter import Splitter
from gsdm_grid.operators.time_order import TimeOrder
from gsdm_grid.operators.union import Union
from gsdm_grid.operators.window_router import WindowRouter

__all__ = [
    "Blocks",
    "Kept",
    "KeyAggregate",
    "KeyJoin",
    "OSJoin",
    "SMerge",
    "SlidingOverlap",
    "Snapshot",
    "Splitter",
    "StreamOperator",
    "TimeOrder",
    "TimeOverlap",
    "Union",
    "WindowRouter",
    "added_up",
]
