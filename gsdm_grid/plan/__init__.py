"""The plan: a compiled data flow as plain data, what its hosts need, and which kind of host runs which site. Pure.

Plans are made by `gsdm_grid.compiler` and carried out by `gsdm_grid.coordination`.
"""

from gsdm_grid.plan.needs import NEAR, Demands, Needs, SiteGroup, check_sites, site_groups
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
from gsdm_grid.plan.stream_order import ARRIVAL, ORDERED, Late, StreamOrder

__all__ = [
    "ARRIVAL",
    "GRID",
    "NEAR",
    "ORDERED",
    "POLICIES",
    "RAY",
    "SPARK",
    "TAP_SINK",
    "TAP_SOURCE",
    "THREADS",
    "Demands",
    "HostKind",
    "Late",
    "Needs",
    "Order",
    "PlacementPolicy",
    "Plan",
    "PlanOperator",
    "PlanSite",
    "PlanStream",
    "SiteGroup",
    "StreamKind",
    "StreamOrder",
    "StreamSpec",
    "check_sites",
    "place",
    "placement_policy",
    "placement_warnings",
    "site_groups",
    "unused",
]
