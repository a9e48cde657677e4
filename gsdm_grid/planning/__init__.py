"""Planning: from data flows to plans.

The compiler binds a data flow to its streams and derives types; placement decides which kind of host runs each
site. Pure: nothing here starts anything.
"""

from gsdm_grid.planning.candidates import (
    CENTRAL,
    Candidate,
    Parallel,
    Stage,
    Work,
    planned_flow,
    read_plan,
    strategies_of,
)
from gsdm_grid.planning.choice import Choice, Failure, Outcome, Tried, choose
from gsdm_grid.planning.compiler import compile_flow
from gsdm_grid.planning.criteria import Criteria, read_criteria
from gsdm_grid.planning.fixed_plans import stages_of
from gsdm_grid.planning.plan_space import Limits, PlanSpace
from gsdm_grid.planning.recovery import Resumption, keeps_ordinals, recovery_obstacle, resumption
from gsdm_grid.planning.rescaling import moved, rescaling_obstacle
from gsdm_grid.planning.search import Search, SearchOptions, TrialRequest, replayed
from gsdm_grid.planning.sharing import PART, TAP, compile_query, flow_of, replayable_inputs
from gsdm_grid.planning.staging import packages_of, pinned_names
from gsdm_grid.planning.staleness import stale, stale_data, work_fingerprint
from gsdm_grid.planning.trial import PARTS, TrialResult, measured, quietest

__all__ = [
    "CENTRAL",
    "PART",
    "PARTS",
    "TAP",
    "Candidate",
    "Choice",
    "Criteria",
    "Failure",
    "Limits",
    "Outcome",
    "Parallel",
    "PlanSpace",
    "Resumption",
    "Search",
    "SearchOptions",
    "Stage",
    "TrialRequest",
    "TrialResult",
    "Tried",
    "Work",
    "choose",
    "compile_flow",
    "compile_query",
    "flow_of",
    "keeps_ordinals",
    "measured",
    "moved",
    "packages_of",
    "pinned_names",
    "planned_flow",
    "quietest",
    "read_criteria",
    "read_plan",
    "recovery_obstacle",
    "replayable_inputs",
    "replayed",
    "rescaling_obstacle",
    "resumption",
    "stages_of",
    "stale",
    "stale_data",
    "strategies_of",
    "work_fingerprint",
]
