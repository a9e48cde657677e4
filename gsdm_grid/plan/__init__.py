"""The plan: a compiled data flow as plain data, what its hosts need, and which kind of host runs which site. Pure.

Plans are made by `gsdm_grid.compiler` and carried out by `gsdm_grid.coordination`.
"""

from gsdm_grid.plan.needs import Bundle, Demands, Needs, bundles, check_sites, parse_demands
from gsdm_grid.plan.placement import (
    GRID,
    POLICIES,
    RAY,
    SPARK,
    THREADS,
    PlacementPolicy,
    place,
    placement_policy,
    placement_warnings,
    unused,
)
from gsdm_grid.plan.plan import (
    TAP_SINK,
    TAP_SOURCE,
    HostKind,
    Order,
    Plan,
    PlanOperator,
    PlanSite,
    PlanStream,
    StreamKind,
    StreamSpec,
)

__all__ = [
    "GRID",
    "POLICIES",
    "RAY",
    "SPARK",
    "TAP_SINK",
    "TAP_SOURCE",
    "THREADS",
    "Bundle",
    "Demands",
    "HostKind",
    "Needs",
    "Order",
    "PlacementPolicy",
    "Plan",
    "PlanOperator",
    "PlanSite",
    "PlanStream",
    "StreamKind",
    "StreamSpec",
    "bundles",
    "check_sites",
    "parse_demands",
    "place",
    "placement_policy",
    "placement_warnings",
    "unused",
]
