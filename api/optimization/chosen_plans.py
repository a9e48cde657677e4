"""What the optimizer chose, in use: which queries a choice is for, how they get it, how far they have drifted from it.

A choice is kept under a fingerprint of the work: functions, parameters, streams, placement. Queries that leave their
plan to the optimizer look there; so one search serves all queries that compute the same from the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import sqlalchemy as sa

from api.errors import Problem
from api.optimization.optimization_requests import Sources, fingerprint
from api.optimization.optimizations import Optimizations
from api.optimization.segments import Segments
from api.store import Store, queries
from gsdm_grid import Grid
from gsdm_grid.errors import GsdmError
from gsdm_grid.optimizer import measured, stale_data
from gsdm_grid.spec import AUTO

LEAST_WINDOWS = 100
"""Windows that a query must have read before its cost is compared with that of its trial."""


class Owner(Sources, Protocol):
    """What is needed of the coordinator."""

    @property
    def grid(self) -> Grid:
        """The grid that queries run on."""

    def act(self, name: str, action: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Promise an action of a query; gives its operation."""


class ChosenPlans:
    """Choices of the optimizer, by work. Thread-safe."""

    def __init__(
        self, store: Store, owner: Owner, segments: Segments, optimizations: Optimizations, placement: str
    ) -> None:
        self._store = store
        self._owner = owner
        self._segments = segments
        self._optimizations = optimizations
        self._placement = placement

    def find(self, document: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Plan and size of physical windows that were chosen for a document; None if nothing fresh was."""
        found = self._optimizations.chosen(self._work(document))
        return None if found is None else {name: found[name] for name in ("plan", "block_bytes")}

    def adopt(self, optimization: str, work: str, choice: Mapping[str, Any], named: Sequence[str]) -> list[Any]:
        """Give a plan to the queries that leave theirs to the optimizer, and to those named; tells what became of it.

        A running query is wired anew where that can be done in mid-stream; its operation says so if not.
        """
        rows = {row["name"]: row["specification"] for row in self._rows()}
        told: list[dict[str, Any]] = [
            {"query": name, "error": "there is no such query"} for name in named if name not in rows
        ]
        for name, specification in rows.items():
            auto = specification.get("plan") == AUTO
            if name not in named and not (auto and self._work(specification) == work):
                continue
            plan = None if auto else {"plan": choice["plan"], "block_bytes": choice["block_bytes"]}
            params = {"optimization": optimization, "chosen": choice["key"], "plan": plan}
            try:
                told.append({"query": name, "operation": self._owner.act(name, "replan", params)["id"]})
            except (Problem, GsdmError) as error:
                told.append({"query": name, "error": str(error)})
        return told

    def drift(self, threshold: float) -> Iterator[dict[str, Any]]:
        """Running queries whose cost has drifted from that of the trial which their plan was chosen by."""
        specifications = {row["name"]: row["specification"] for row in self._rows()}
        for name, query in list(self._owner.grid.queries.items()):
            if name not in specifications or query.state != "active" or query.plan is None:
                continue
            chosen = self._optimizations.published_for(self._work(specifications[name]))
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

    def _rows(self) -> list[dict[str, Any]]:
        return self._store.rows(sa.select(queries.c.name, queries.c.specification).order_by(queries.c.name))

    def _work(self, document: Mapping[str, Any]) -> str:
        """What choices for a document are kept under."""
        return fingerprint(document, document.get("placement") or self._placement, self._owner, self._segments)
