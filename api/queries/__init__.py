"""Queries as people submit them: their desired and actual state, and their way back after a crash.

What is asked goes from `DesiredState` through the operations to `OperationDispatch`, and from there to the steps of the
life cycle (`QuerySteps`) or to another plan (`Rewiring`). What queries on the grid report goes to `StateRecorder`.
`QueryRows` is what is stored; `QueryViews` and `LiveFigures` show it. `api.wiring` puts them together.
"""

from api.queries.autoscaling import Autoscaler, running_and_scaling
from api.queries.coordinator import Coordinator
from api.queries.desired_state import DesiredState
from api.queries.idle_hosts import IdleHosts
from api.queries.live_figures import LiveFigures
from api.queries.live_queries import LiveQueries
from api.queries.query_operations import Measurements, OperationDispatch, StepOperations
from api.queries.query_recovery import QueryRecovery, TrialRecovery
from api.queries.query_rows import QueryRows, etag
from api.queries.query_steps import QuerySteps
from api.queries.query_views import QueryViews
from api.queries.result_logs import ResultLogs
from api.queries.rewiring import Rewiring
from api.queries.service_grid import ServiceGrid
from api.queries.specifications import Specifications
from api.queries.state_recorder import StateRecorder

__all__ = [
    "Autoscaler",
    "Coordinator",
    "DesiredState",
    "IdleHosts",
    "LiveFigures",
    "LiveQueries",
    "Measurements",
    "OperationDispatch",
    "QueryRecovery",
    "QueryRows",
    "QuerySteps",
    "QueryViews",
    "ResultLogs",
    "Rewiring",
    "ServiceGrid",
    "Specifications",
    "StateRecorder",
    "StepOperations",
    "TrialRecovery",
    "etag",
    "running_and_scaling",
]
