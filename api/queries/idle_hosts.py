"""Hosts of queries that have run and stopped: given up when another query waits for hosts."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import Any

from api.errors import Problem
from api.operations import Operations
from api.queries.query_rows import QueryRows
from api.queries.service_grid import ServiceGrid
from api.queries.state_changes import may_give_up_hosts
from gsdm_grid.coordination import ContinuousQuery
from gsdm_grid.errors import GsdmError
from gsdm_grid.plan import HostKind

_log = logging.getLogger("gsdm.coordinator")


class IdleHosts:
    """Finds queries that need no hosts now. ``act`` promises an action of a query, with its parameters."""

    def __init__(
        self,
        grid: ServiceGrid,
        rows: QueryRows,
        operations: Operations,
        act: Callable[[str, str, Mapping[str, Any]], Any],
    ) -> None:
        self._grid = grid
        self._rows = rows
        self._operations = operations
        self._act = act

    def give_up_one(self, waiting: ContinuousQuery) -> None:
        """A query waits for hosts: one that has run and stopped gives its hosts up. Called now and then."""
        needed = _acquired_kinds(waiting)
        for name, query in list(self._grid.current().queries.items()):
            if query is waiting or query.state != "installed" or self._operations.unfinished(name):
                continue
            if not needed & _acquired_kinds(query):
                continue
            if not may_give_up_hosts(self._rows.columns(name, "run", "desired")):
                continue
            reason = f"its hosts were given to {waiting.id!r}, which waited for them"
            with contextlib.suppress(Problem, GsdmError):
                self._act(name, "deactivate", {"mode": "immediate", "reason": reason})
                _log.info("hosts given up", extra={"query": name, "reason": reason})
                return


def _acquired_kinds(query: ContinuousQuery) -> set[HostKind]:
    """Kinds of hosts that a query has, or waits for. Threads of the coordinator are nobody's lack."""
    return {site.host for site in query.plan.sites} - {"thread", "local"} if query.plan is not None else set()
