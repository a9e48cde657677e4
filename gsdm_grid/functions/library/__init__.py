"""The built-in function library; importing it registers everything in it.

`radio`: the signal processing functions of the GSDM papers. `general`: sampling, arrival time, aggregates.
`selection`: by a condition. `partitioning`, `splitting` and `combining`: what the partition and combine phases of
parallel plans are made of.
"""

from gsdm_grid.functions.library import (
    combining,
    general,
    partitioning,
    radio,
    selection,
)
from gsdm_grid.functions.library import (
    splitters as splitting,
)

__all__ = ["combining", "general", "partitioning", "radio", "selection", "splitting"]
