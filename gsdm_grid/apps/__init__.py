"""Applications: what people do with the system, with synthetic data, queries and pictures of the results.

One package per application (`radio`), and what all of them draw (`flow_picture`). Everything here uses the
rooms below as a user would; nothing below knows it. Functions that other people's queries need are in
`gsdm_grid.functions`.
"""

from gsdm_grid.reports import (
    HOST_NAMES,
    draw_plan,
    functions_of,
    plan_svg,
    report_html,
    report_png,
)

__all__ = [
    "HOST_NAMES",
    "draw_plan",
    "functions_of",
    "plan_svg",
    "report_html",
    "report_png",
]
