"""The demo, ``gsdm demo``: plans compared and measured beside the bare functions, and one grows while it runs."""

from gsdm_grid.apps.demo.picture_viewer import open_picture
from gsdm_grid.apps.demo.run import DemoOptions, run_demo
from gsdm_grid.apps.demo.verdict import report_json
from gsdm_grid.apps.demo.view import LiveView, PlainView, headline, show_report

__all__ = [
    "DemoOptions",
    "LiveView",
    "PlainView",
    "headline",
    "open_picture",
    "report_json",
    "run_demo",
    "show_report",
]
