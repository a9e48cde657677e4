"""Applications: what people do with the system, with synthetic data, queries and pictures of the results.

One package per application (`radio`), and what all of them draw (`flow_picture`). Everything here uses the
rooms below as a user would; nothing below knows it. Functions that other people's queries need are in
`gsdm_grid.functions`.
"""

from gsdm_grid.apps.optimizer_report import report_html, report_png
from gsdm_grid.apps.plan_picture import HOST_NAMES, draw_plan, functions_of, plan_svg

__all__ = [
    "HOST_NAMES",
    "draw_plan",
    "functions_of",
    "plan_svg",
    "report_html",
    "report_png",
]
