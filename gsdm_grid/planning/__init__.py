"""Planning: from data flows to plans.

The compiler binds a data flow to its streams and derives types; placement decides which kind of host runs each
site. Pure: nothing here starts anything.
"""

from gsdm_grid.planning.compiler import compile_flow
from gsdm_grid.planning.recovery import Resumption, keeps_ordinals, recovery_obstacle, resumption
from gsdm_grid.planning.rescaling import moved, rescaling_obstacle
from gsdm_grid.planning.sharing import PART, TAP, compile_query, flow_of, replayable_inputs
from gsdm_grid.planning.staging import packages_of, pinned_names

__all__ = [
    "PART",
    "TAP",
    "Resumption",
    "compile_flow",
    "compile_query",
    "flow_of",
    "keeps_ordinals",
    "moved",
    "packages_of",
    "pinned_names",
    "recovery_obstacle",
    "replayable_inputs",
    "rescaling_obstacle",
    "resumption",
]
