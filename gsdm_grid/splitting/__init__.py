"""What splits cost: the papers' cost models, fitting their coefficients, and choosing a plan by them. Pure.

The templates of splits are in `gsdm_grid.flow`; measuring the coefficients is in `gsdm_grid.trials`.
"""

from gsdm_grid.splitting.split_choice import DEFAULT_B, SplitChoice, choose_split
from gsdm_grid.splitting.split_cost import Coefficients, Prediction, StreamShares
from gsdm_grid.splitting.split_fit import Observed, fit, median_error
from gsdm_grid.splitting.split_sample import SplitSample, joined
from gsdm_grid.splitting.split_sites import observations, scaled_sites

__all__ = [
    "DEFAULT_B",
    "Coefficients",
    "Observed",
    "Prediction",
    "SplitChoice",
    "SplitSample",
    "StreamShares",
    "choose_split",
    "fit",
    "joined",
    "median_error",
    "observations",
    "scaled_sites",
]
