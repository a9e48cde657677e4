"""Figures of queries that are at work: of their sites, for people and for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from api.metrics import Sample, chosen, samples_of, totals_of
from api.queries.query_rows import QueryRows
from api.queries.service_grid import ServiceGrid

AT_WORK = ("installed", "active", "stopping")
"""States in which a query has hosts."""


class LiveFigures:
    """Asks queries on the grid for their figures. Thread-safe."""

    def __init__(self, rows: QueryRows, grid: ServiceGrid) -> None:
        self._rows = rows
        self._grid = grid

    def statistics(self, name: str) -> dict[str, Any]:
        """The latest statistics of each site of a query."""
        self._rows.row(name)
        query = self._grid.current().queries.get(name)
        return query.statistics() if query is not None and query.plan is not None else {}

    def metrics(self) -> Iterator[Sample]:
        """Figures of all queries, for Prometheus."""
        rows = self._rows.columns_of_all("name", "state", "since_s")
        yield from totals_of(row["state"] for row in rows)
        live = dict(self._grid.queries)
        for row in chosen(rows):
            query = live.get(row["name"])
            if query is None:
                yield from samples_of(row, {})
            else:
                counted = {"restarts": query.restarts, "totals": query.totals()}
                yield from samples_of({**row, **counted}, query.statistics())

    def sites(self) -> Iterator[dict[str, Any]]:
        """All sites that are at work: where they are and how busy."""
        grid = self._grid.current()
        for name, query in list(grid.queries.items()):
            if query.plan is None or query.state not in AT_WORK:
                continue
            statistics = query.statistics()
            for site in query.plan.sites:
                yield {
                    "query": name,
                    "site": site.id,
                    "role": site.role,
                    "host": site.host,
                    "functions": [operator.function["name"] for operator in site.operators],
                    "utilization": statistics.get(site.id, {}).get("utilization", 0.0),
                    **grid.whereabouts(query.node(site)),
                }
