"""Coordination: queries and their life cycle, the control protocol's other end, the grid they run on.

It compiles, places, installs, activates, watches and drops; the working nodes do the work. The REST coordinator
(`api`) is a face of this room.
"""

from gsdm_grid.coordination import lifecycle
from gsdm_grid.coordination.grid import Grid, cq, default_grid
from gsdm_grid.coordination.optimizing import hosts_counter, opt, too_short
from gsdm_grid.coordination.query import ContinuousQuery
from gsdm_grid.coordination.references import Kind
from gsdm_grid.coordination.specification import (
    AUTO,
    KEPT,
    QuerySpecification,
    Stop,
    check_name,
    flow_of,
    parse,
    parse_stop,
    parse_stream,
    shared_unless_told,
    with_degree,
    with_plan,
    without_plan,
    work_of,
)
from gsdm_grid.coordination.split_explanation import DEFAULT_PLACEMENT, Explanation, Wanted, explain_split, has_split
from gsdm_grid.coordination.split_trials import used_block_bytes
from gsdm_grid.coordination.streams import RegisteredStream, register_input_stream, register_result_stream
from gsdm_grid.coordination.trial_runs import TrialRun, pool_limits, run_trial, this_machine

__all__ = [
    "AUTO",
    "DEFAULT_PLACEMENT",
    "KEPT",
    "ContinuousQuery",
    "Explanation",
    "Grid",
    "Kind",
    "QuerySpecification",
    "RegisteredStream",
    "Stop",
    "TrialRun",
    "Wanted",
    "check_name",
    "cq",
    "default_grid",
    "explain_split",
    "flow_of",
    "has_split",
    "hosts_counter",
    "lifecycle",
    "opt",
    "parse",
    "parse_stop",
    "parse_stream",
    "pool_limits",
    "register_input_stream",
    "register_result_stream",
    "run_trial",
    "shared_unless_told",
    "this_machine",
    "too_short",
    "used_block_bytes",
    "with_degree",
    "with_plan",
    "without_plan",
    "work_of",
]
