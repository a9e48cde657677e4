"""Trials, recorded segments, searches for the best plan, and the plans chosen."""

from api.optimization.chosen_plans import ChosenPlans
from api.optimization.optimizations import Optimizations
from api.optimization.segments import Segments
from api.optimization.trials import Trials

__all__ = [
    "ChosenPlans",
    "Optimizations",
    "Segments",
    "Trials",
]
