"""Reports: pictures of data flows and plans, the optimizer's report, the explanation of a split."""

from gsdm_grid.reports.optimizer_report import report_html, report_png
from gsdm_grid.reports.plan_picture import HOST_NAMES, draw_plan, functions_of, plan_svg
from gsdm_grid.reports.split_explanation import DEFAULT_PLACEMENT, Assumptions, Explanation, explain_split, has_split

__all__ = [
    "DEFAULT_PLACEMENT",
    "HOST_NAMES",
    "Assumptions",
    "Explanation",
    "draw_plan",
    "explain_split",
    "functions_of",
    "has_split",
    "plan_svg",
    "report_html",
    "report_png",
]
