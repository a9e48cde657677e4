"""Chosen plans in use: which queries get a plan that was chosen, and how far running ones have drifted from theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from api.errors import Problem
from api.optimization.chosen_plans import ChosenPlans
from api.store import Store, queries
from gsdm_grid import Grid
from gsdm_grid.errors import GsdmError
from gsdm_grid.optimizer import measured, stale_data
from gsdm_grid.spec import AUTO

LEAST_WINDOWS = 100
"""Windows that a query must have read before its cost is compared with that of its trial."""

Act = Callable[[str, str, Mapping[str, Any]], dict[str, Any]]
"""Promises an action of a query, with its parameters; gives the operation."""


class PlanAdoption:
    """Gives chosen plans to queries. Thread-safe."""

    def __init__(self, store: Store, chosen_plans: ChosenPlans, grid: Callable[[], Grid], act: Act) -> None:
        self._store = store
        self._chosen_plans = chosen_plans
        self._grid = grid
        self._act = act

    def adopt(self, optimization: str, work: str, choice: Mapping[str, Any], named: Sequence[str]) -> list[Any]:
        """Give a plan to the queries that leave theirs to the optimizer, and to those named; tells what became of it.

        A running query is wired anew where that can be done in mid-stream; its operation says so if not.
        """
        specifications = self._specifications()
        outcomes: list[dict[str, Any]] = [
            {"query": name, "error": "there is no such query"} for name in named if name not in specifications
        ]
        for name, specification in specifications.items():
            auto = specification.get("plan") == AUTO
            if name not in named and not (auto and self._chosen_plans.work(specification) == work):
                continue
            plan = None if auto else {"plan": choice["plan"], "block_bytes": choice["block_bytes"]}
            params = {"optimization": optimization, "chosen": choice["key"], "plan": plan}
            try:
                outcomes.append({"query": name, "operation": self._act(name, "replan", params)["id"]})
            except (Problem, GsdmError) as error:
                outcomes.append({"query": name, "error": str(error)})
        return outcomes

    def drift(self, threshold: float) -> Iterator[dict[str, Any]]:
        """Running queries whose cost has drifted from that of the trial which their plan was chosen by."""
        specifications = self._specifications()
        for name, query in list(self._grid().queries.items()):
            if name not in specifications or query.state != "active" or query.plan is None:
                continue
            chosen = self._chosen_plans.published_for(self._chosen_plans.work(specifications[name]))
            now = measured(query.plan, query.statistics(), 0.0)
            if chosen is None or now.windows < LEAST_WINDOWS:
                continue
            cost_s, then_s = now.figures()["cost_s"], chosen["figures"]["cost_s"]
            drift = cost_s / then_s - 1 if then_s else 0.0
            stale = chosen["stale"] + stale_data(chosen["window_bytes"], now.bytes / now.windows)
            if abs(drift) > threshold or stale:
                yield {
                    "query": name,
                    "optimization": chosen["optimization"],
                    "chosen_cost_s": then_s,
                    "measured_cost_s": cost_s,
                    "drift": drift,
                    "windows": now.windows,
                    "stale": stale,
                }

    def _specifications(self) -> dict[str, Mapping[str, Any]]:
        rows = self._store.rows(sa.select(queries.c.name, queries.c.specification).order_by(queries.c.name))
        return {row["name"]: row["specification"] for row in rows}
