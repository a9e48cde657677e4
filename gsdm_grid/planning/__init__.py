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
from gsdm_grid.planning.split_choice import DEFAULT_B, SplitChoice, choose_split
from gsdm_grid.planning.split_cost import Coefficients, Prediction, StreamShares
from gsdm_grid.planning.split_fit import Observed, fit, median_error
from gsdm_grid.planning.split_sample import SplitSample, joined
from gsdm_grid.planning.split_sites import observations, scaled_sites
from gsdm_grid.planning.staging import packages_of, pinned_names
from gsdm_grid.planning.staleness import stale, stale_data, work_fingerprint
from gsdm_grid.planning.trial import PARTS, TrialResult, measured, quietest

__all__ = [
    "CENTRAL",
    "DEFAULT_B",
    "PART",
    "PARTS",
    "TAP",
    "Candidate",
    "Choice",
    "Coefficients",
    "Criteria",
    "Failure",
    "Limits",
    "Observed",
    "Outcome",
    "Parallel",
    "PlanSpace",
    "Prediction",
    "Resumption",
    "Search",
    "SearchOptions",
    "SplitChoice",
    "SplitSample",
    "Stage",
    "StreamShares",
    "TrialRequest",
    "TrialResult",
    "Tried",
    "Work",
    "choose",
    "choose_split",
    "compile_flow",
    "compile_query",
    "fit",
    "flow_of",
    "joined",
    "keeps_ordinals",
    "measured",
    "median_error",
    "moved",
    "observations",
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
    "scaled_sites",
    "stages_of",
    "stale",
    "stale_data",
    "strategies_of",
    "work_fingerprint",
]
