"""Planning: from data flows to plans.

The compiler binds a data flow to its streams and derives types; placement decides which kind of host runs each
site. Pure: nothing here starts anything.
"""

from gsdm_grid.planning.compiler import compile_flow
from gsdm_grid.planning.placement import GRID, POLICIES, RAY, SPARK, THREADS, PlacementPolicy, placement_policy
from gsdm_grid.planning.plan import HostKind, Order, Plan, PlanOperator, PlanSite, PlanStream, StreamSpec
from gsdm_grid.planning.recovery import Resumption, recovery_obstacle, resumption
from gsdm_grid.planning.rescaling import moved, rescaling_obstacle

__all__ = [
    "GRID",
    "POLICIES",
    "RAY",
    "SPARK",
    "THREADS",
    "HostKind",
    "Order",
    "PlacementPolicy",
    "Plan",
    "PlanOperator",
    "PlanSite",
    "PlanStream",
    "Resumption",
    "StreamSpec",
    "compile_flow",
    "moved",
    "placement_policy",
    "recovery_obstacle",
    "rescaling_obstacle",
    "resumption",
]
