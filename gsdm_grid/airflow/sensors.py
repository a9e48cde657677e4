"""The sensor: tasks that wait for a query."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseSensorOperator, conf
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from gsdm_grid.airflow.hooks import GsdmHook
from gsdm_grid.airflow.links import QueryLink
from gsdm_grid.airflow.triggers import QueryTrigger


class QuerySensor(BaseSensorOperator):
    """Waits until a query is in one of some states, such as ``active``. Fails if the query has failed."""

    template_fields: Sequence[str] = ("query", "states")
    operator_extra_links = (QueryLink(),)

    def __init__(
        self,
        *,
        query: str,
        states: Sequence[str] = ("active",),
        gsdm_conn_id: str = GsdmHook.default_conn_name,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.query = query
        self.states = states
        self.gsdm_conn_id = gsdm_conn_id
        self.deferrable = deferrable

    def poke(self, context: Any) -> bool:  # noqa: ARG002  # Airflow's
        """Whether it is so."""
        with GsdmHook(self.gsdm_conn_id).asking() as client:
            found = client.query(self.query)
        if found.state == "failed" and "failed" not in self.states:
            raise AirflowFailException(f"query {self.query} has failed: {found.error}")
        self.log.info("query %s is %s", self.query, found.state)
        return found.state in self.states

    def execute(self, context: Any) -> Any:
        """Wait here, or in the triggerer."""
        if not self.deferrable:
            return super().execute(context)
        if self.poke(context):
            return None
        trigger = QueryTrigger(
            query=self.query, states=list(self.states), gsdm_conn_id=self.gsdm_conn_id, poll_s=self.poke_interval
        )
        return self.defer(trigger=trigger, method_name="resume", timeout=timedelta(seconds=self.timeout))

    def resume(self, context: Any, event: dict[str, Any]) -> None:  # noqa: ARG002  # Airflow's
        """Back from the triggerer."""
        if "problem" in event:
            raise AirflowException(event["problem"])
        self.log.info("query %s is %s", self.query, event["state"])
