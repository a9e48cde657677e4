"""What the optimizer chose: plans that were published, under a fingerprint of the work that they are for.

The work is functions, parameters, streams and placement. Queries that leave their plan to the optimizer look here; so
one search serves all queries that compute the same from the same. How queries get a plan while they are at work is in
`api.optimization.plan_adoption`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from api.optimization.optimization_requests import fingerprint
from api.optimization.segments import Resolved, Segments
from api.store import Store
from api.store import optimizations as table
from gsdm_grid.optimizer import stale
from gsdm_grid.trials import this_machine


class ChosenPlans:
    """Choices of the optimizer, by work. Thread-safe. ``placement`` is that of queries which name none."""

    def __init__(self, store: Store, source: Resolved, segments: Segments, placement: str) -> None:
        self._store = store
        self._source = source
        self._segments = segments
        self._placement = placement

    def find(self, document: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Plan and size of physical windows that were chosen for a document; None if nothing fresh was."""
        choice = self.published_for(self.work(document))
        return None if choice is None or choice["stale"] else {name: choice[name] for name in ("plan", "block_bytes")}

    def published_for(self, work: str) -> dict[str, Any] | None:
        """The plan that was last published for some work, and why it is stale if it was chosen on another machine."""
        row = self._store.row(
            sa.select(table)
            .where(table.c.work == work, table.c.published_s.is_not(None))
            .order_by(table.c.published_s.desc())
        )
        if row is None or row["choice"] is None:
            return None
        return {
            "optimization": row["id"],
            "plan": row["choice"]["plan"],
            "block_bytes": row["choice"]["block_bytes"],
            "figures": row["choice"]["winner"]["figures"],
            "window_bytes": row["settled"].get("window_bytes"),
            "stale": stale(row["machine"], this_machine()),
        }

    def work(self, document: Mapping[str, Any]) -> str:
        """What choices for a document are kept under."""
        return fingerprint(document, document.get("placement") or self._placement, self._source, self._segments)
