"""Coordination: queries and their life cycle, the control protocol's other end, the grid they run on.

It compiles, places, installs, activates, watches and drops; the working nodes do the work. The REST coordinator
(`api`) is a face of this room.
"""

from gsdm_grid.coordination import lifecycle
from gsdm_grid.coordination.grid import Grid, cq, default_grid
from gsdm_grid.coordination.optimizing import hosts_counter, opt, too_short
from gsdm_grid.coordination.query import ContinuousQuery
from gsdm_grid.coordination.split_explanation import DEFAULT_PLACEMENT, Explanation, Wanted, explain_split, has_split
from gsdm_grid.coordination.split_trials import used_block_bytes
from gsdm_grid.coordination.trial_runs import TrialRun, pool_limits, run_trial, this_machine

__all__ = [
    "DEFAULT_PLACEMENT",
    "ContinuousQuery",
    "Explanation",
    "Grid",
    "TrialRun",
    "Wanted",
    "cq",
    "default_grid",
    "explain_split",
    "has_split",
    "hosts_counter",
    "lifecycle",
    "opt",
    "pool_limits",
    "run_trial",
    "this_machine",
    "too_short",
    "used_block_bytes",
]
