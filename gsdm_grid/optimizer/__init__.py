"""The optimizer: candidate plans, the search for the best one as ask and tell, and the choice. Pure.

Who runs the trials that it asks for is in `gsdm_grid.trials`, or the coordinator service, or Airflow.
"""

from gsdm_grid.optimizer.candidates import (
    CENTRAL,
    Candidate,
    Parallel,
    Stage,
    Work,
    planned_flow,
    strategies_of,
)
from gsdm_grid.optimizer.choice import Choice, Failure, Outcome, Tried, choose
from gsdm_grid.optimizer.criteria import FIGURES, LARGER_IS_BETTER, Criteria
from gsdm_grid.optimizer.fixed_plans import stages_of
from gsdm_grid.optimizer.plan_space import Limits, PlanSpace
from gsdm_grid.optimizer.search import Method, Search, SearchOptions, TrialRequest, replayed
from gsdm_grid.optimizer.staleness import stale, stale_data, work_fingerprint
from gsdm_grid.optimizer.trial_result import PARTS, TrialResult, measured, quietest

__all__ = [
    "CENTRAL",
    "FIGURES",
    "LARGER_IS_BETTER",
    "PARTS",
    "Candidate",
    "Choice",
    "Criteria",
    "Failure",
    "Limits",
    "Method",
    "Outcome",
    "Parallel",
    "PlanSpace",
    "Search",
    "SearchOptions",
    "Stage",
    "TrialRequest",
    "TrialResult",
    "Tried",
    "Work",
    "choose",
    "measured",
    "planned_flow",
    "quietest",
    "replayed",
    "stages_of",
    "stale",
    "stale_data",
    "strategies_of",
    "work_fingerprint",
]
