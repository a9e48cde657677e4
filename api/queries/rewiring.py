"""Another plan for a query that is there already: another degree of parallelism, or what the optimizer chose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from api.queries.live_queries import LiveQueries
from api.queries.query_rows import QueryRows
from api.queries.query_steps import QuerySteps
from api.queries.specifications import Specifications
from api.queries.state_recorder import StateRecorder
from gsdm_grid.compiler import pinned_names
from gsdm_grid.coordination import ContinuousQuery
from gsdm_grid.flow import TEMPLATES
from gsdm_grid.functions import functions
from gsdm_grid.spec import with_degree, with_plan


@dataclass(frozen=True)
class PlanChange:
    """What a query is to become: its document, in words, and as the operation's result says it. Immutable."""

    document: Mapping[str, Any]
    text: str
    result: Mapping[str, Any]

    @staticmethod
    def of(document: Mapping[str, Any], action: str, params: Mapping[str, Any]) -> PlanChange:
        """The change that an action asks for, from the document of the query."""
        if action == "scale":
            degree = params["degree"]
            return PlanChange(with_degree(document, degree), f"degree {degree}", {"degree": degree})
        changed = with_plan(document, params["plan"]) if params["plan"] else document
        text = f"plan {params['chosen']} of {params['optimization']}"
        return PlanChange(changed, text, {"plan": params["chosen"]})

    def explained(self, reason: str | None, stall_s: float) -> str:
        """What was changed and why, for the events of the query."""
        stall = f"stood still for {stall_s:.3f} s" if stall_s else None
        return "; ".join(part for part in (self.text, reason, stall) if part)


class Rewiring:
    """Gives queries other plans. Thread-safe."""

    def __init__(
        self,
        rows: QueryRows,
        specifications: Specifications,
        live: LiveQueries,
        states: StateRecorder,
        steps: QuerySteps,
    ) -> None:
        self._rows = rows
        self._specifications = specifications
        self._live = live
        self._states = states
        self._steps = steps

    def rewire(
        self, query: ContinuousQuery, row: Mapping[str, Any], action: str, params: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Change the plan of a query in whatever state it is; gives how long its streams stood still."""
        change = PlanChange.of(row["specification"], action, params)
        with functions.pinned(TEMPLATES.pins(pinned_names(query.plan)) if query.plan is not None else {}):
            # who may submit it was checked when it was submitted
            resolved = self._specifications.checked(change.document, "admin")
        before = query.state
        stall_s = 0.0
        if before in ("active", "stopping"):
            stall_s = query.rescale(resolved.flow)
            plan = query.plan
        else:
            self._live.let_go(query)
            plan = None
        self._states.settle()
        state = before if plan is not None else "specified"
        columns = {
            "specification": change.document,
            "plan": plan.to_json() if plan is not None else None,
            "state": state,
        }
        if row["desired"] == "failed":
            columns["desired"] = state
        with self._rows.lock:
            self._rows.row(query.id)  # it may have been removed meanwhile
            self._specifications.keep(query.id, resolved)
            self._rows.update_with_event(query.id, columns, state, change.explained(params.get("reason"), stall_s))
        if before == "installed":
            self._steps.install(self._live.get(query.id)[1])
        return {**change.result, "stall_s": stall_s}
