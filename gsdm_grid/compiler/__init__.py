"""The compiler: from a data flow to a plan, and what may be done with a running plan.

It binds a flow to its streams and derives types; it decides which sites can be started anew, rescaled or shared. Pure:
nothing here starts anything.
"""

from gsdm_grid.compiler.compiler import compile_flow
from gsdm_grid.compiler.plan_code import packages_of, pinned_names
from gsdm_grid.compiler.recovery import Resumption, keeps_ordinals, recovery_obstacle, resumption
from gsdm_grid.compiler.rescaling import moved, remembers, rescaling_obstacle
from gsdm_grid.compiler.shareable_parts import PART, TAP, compile_query, flow_of, replayable_inputs

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
    "remembers",
    "replayable_inputs",
    "rescaling_obstacle",
    "resumption",
]
