"""Trials, recorded segments, searches for the best plan, and the plans chosen."""

from api.optimization.chosen_plans import ChosenPlans
from api.optimization.optimization_driver import OptimizationDriver
from api.optimization.optimization_requests import OptimizationContext
from api.optimization.optimizations import Optimizations
from api.optimization.plan_adoption import PlanAdoption
from api.optimization.segments import Segments
from api.optimization.trials import TrialOrder, Trials

__all__ = [
    "ChosenPlans",
    "OptimizationContext",
    "OptimizationDriver",
    "Optimizations",
    "PlanAdoption",
    "Segments",
    "TrialOrder",
    "Trials",
]
