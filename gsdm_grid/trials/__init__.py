"""Trials: running plans in order to measure them, for the optimizer and for the cost models of splits."""

from gsdm_grid.trials.plan_search import hosts_counter, opt, too_short
from gsdm_grid.trials.split_trials import used_block_bytes
from gsdm_grid.trials.trial_runs import TrialRun, pool_limits, run_trial, this_machine

__all__ = [
    "TrialRun",
    "hosts_counter",
    "opt",
    "pool_limits",
    "run_trial",
    "this_machine",
    "too_short",
    "used_block_bytes",
]
