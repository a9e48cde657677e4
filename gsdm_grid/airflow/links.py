"""Links from tasks in Airflow's user interface to the coordinator's pages about them (`api/routes/pages.py`)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

from gsdm_grid.airflow.hooks import GsdmHook


class CoordinatorLink(BaseOperatorLink):
    """A page of the coordinator. ``about`` names the operator's attribute that says of what."""

    about = ""
    page = ""

    def get_link(self, operator: Any, *, ti_key: Any) -> str:  # noqa: ARG002  # Airflow's
        """The page's address; empty, and then not shown, as long as there is none. Asked when the task has run."""
        what = getattr(operator, self.about, None)
        if not what:
            return ""
        return GsdmHook(operator.gsdm_conn_id).address().url + self.page.format(quote(str(what), safe=""))


class QueryLink(CoordinatorLink):
    """The query that a task is about."""

    name = "Query"
    about, page = "query", "/queries/{}"


class TrialLink(CoordinatorLink):
    """The trial that a task ran."""

    name = "Trial"
    about, page = "trial", "/trials/{}"


class ReportLink(CoordinatorLink):
    """The optimization, with the plots of its report."""

    name = "Report"
    about, page = "optimization", "/optimizations/{}"
