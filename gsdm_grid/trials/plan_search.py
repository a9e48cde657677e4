"""Finding the best plan in this process: `opt` of the thesis, and the loop that runs a search's trials on a grid.

The search itself is in `gsdm_grid.optimizer`; a coordinator service and Airflow run the same one, trial by trial.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gsdm_grid.compiler import compile_flow
from gsdm_grid.coordination import Grid, default_grid
from gsdm_grid.errors import FlowError, GsdmError, PlanError, ResourceError
from gsdm_grid.flow import DataFlow
from gsdm_grid.functions import StreamFunction
from gsdm_grid.optimizer import (
    Choice,
    Failure,
    Limits,
    Outcome,
    PlanSpace,
    Search,
    SearchOptions,
    Stage,
    TrialRequest,
    Work,
)
from gsdm_grid.plan import PlacementPolicy, StreamSpec, placement_policy
from gsdm_grid.spec import RegisteredStream, parse_criteria, query_options
from gsdm_grid.trials.trial_runs import TrialRun, pool_limits, run_trial

TEMPLATES = ("PCC", "pipe")
Told = Callable[[TrialRequest, Outcome], None]
"""Called after each trial."""


def opt(
    template: str,
    fun: str | StreamFunction | Sequence[str | StreamFunction],
    params: Any,
    inputs: Sequence[RegisteredStream],
    *,
    grid: Grid | None = None,
    count: int = 256,
    criteria: Mapping[str, Any] | None = None,
    limits: Limits | None = None,
    options: SearchOptions | None = None,
) -> DataFlow:
    """An optimized data flow for a function over streams (thesis 5.6), found by trial runs over ``count`` windows.

    ``template`` is ``PCC`` for one function, or ``pipe`` for a list of functions with a list of their parameters. The
    streams must be such that can be read more than once.
    """
    if template not in TEMPLATES:
        raise FlowError("opt", f"knows the templates {' and '.join(TEMPLATES)}, got {template!r:.40}")
    if isinstance(fun, str | StreamFunction) != (template == "PCC"):
        raise FlowError("opt", f"{template} takes {'one function' if template == 'PCC' else 'a list of functions'}")
    if isinstance(fun, str | StreamFunction):
        work: Work = (Stage.of(fun, params),)
    elif len(fun) == len(params):
        work = tuple(Stage.of(function, given) for function, given in zip(fun, params, strict=True))
    else:
        raise FlowError("opt", f"there are {len(fun)} functions, but parameters for {len(params)}")
    space = plan_space(grid or default_grid(), work, inputs, limits or Limits())
    search = Search(space, parse_criteria(criteria), options or SearchOptions(count=count))
    return space.flow(optimize(grid or default_grid(), search, inputs).plan)


def plan_space(
    grid: Grid, work: Work, inputs: Sequence[RegisteredStream], limits: Limits, placement: str | None = None
) -> PlanSpace:
    """The plans of some work that fit a grid's pool of hosts."""
    policy = grid.placement if placement is None else placement_policy(placement)
    fitting = replace(limits, pool={**pool_limits(grid, placement), **limits.pool})
    return PlanSpace(work, fitting, len(inputs), hosts_counter([stream.spec() for stream in inputs], policy))


def hosts_counter(inputs: Sequence[StreamSpec], policy: PlacementPolicy) -> Callable[[DataFlow], Mapping[str, int]]:
    """Counts the hosts of a data flow over these inputs, relays included."""
    sink = StreamSpec("counted", "null")

    def count(flow: DataFlow) -> Mapping[str, int]:
        plan = compile_flow("counted", flow, inputs, [sink], policy)
        return Counter(site.host for site in plan.sites)

    return count


def optimize(
    grid: Grid,
    search: Search,
    inputs: Sequence[RegisteredStream],
    told: Told | None = None,
    placement: str | None = None,
    verify: bool = True,
) -> Choice:
    """Run the trials of a search, one after the other, and give its choice."""
    while round_ := search.ask():
        _run(grid, search, round_, inputs, told, placement)
    if verify:
        _run(grid, search, search.verification(), inputs, told, placement)
    return search.choice()


def _run(
    grid: Grid,
    search: Search,
    requests: Sequence[TrialRequest],
    inputs: Sequence[RegisteredStream],
    told: Told | None,
    placement: str | None,
) -> None:
    for request in requests:
        trial = TrialRun(
            search.space.flow(request.plan),
            inputs,
            count=request.count,
            latency=search.criteria.needs_latency,
            options=query_options(placement=placement, block_bytes=request.plan.block_bytes),
        )
        outcome = outcome_of(grid, trial)
        search.tell(request.key, outcome)
        if told is not None:
            told(request, outcome)


def outcome_of(grid: Grid, trial: TrialRun) -> Outcome:
    """What a trial measured, or why it failed; missing hosts and a stream that is too short end the search."""
    try:
        result = run_trial(grid, trial)
    except ResourceError:
        raise
    except GsdmError as error:
        return Failure(str(error))
    if result.windows < trial.count:
        raise PlanError(too_short(result.windows, trial.count))
    return result


def too_short(windows: int, count: int) -> str:
    """What is said of a stream that ends before the trial does."""
    return f"the stream ended after {windows} of {count} windows: record a longer segment, or ask for fewer windows"
