"""Specifications of queries: checked for who submits them, compiled, and kept parsed while the coordinator lives.

What a document may say is the business of `gsdm_grid.spec`, which code and files it may name that of `api.registry`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from api.http import Role
from api.optimization import Segments
from api.queries.query_rows import QueryRows
from api.registry import StreamDocuments, check_specification
from api.settings import ServiceSettings
from gsdm_grid.compiler import compile_query
from gsdm_grid.errors import FlowError, UnknownName
from gsdm_grid.flow import at_most
from gsdm_grid.plan import Demands, Plan, check_sites, placement_policy
from gsdm_grid.spec import KEPT, ResolvedQuery, parse

ChosenFor = Callable[[Mapping[str, Any]], Mapping[str, Any] | None]
"""Finds what the optimizer chose for a document (see `gsdm_grid.spec`)."""


class Specifications:
    """Checks specifications, and keeps those of the coordinator's queries parsed. Thread-safe."""

    def __init__(
        self,
        settings: ServiceSettings,
        rows: QueryRows,
        streams: StreamDocuments,
        segments: Segments,
        chosen: ChosenFor,
    ) -> None:
        self._settings = settings
        self._streams = streams
        self._segments = segments
        self._chosen = chosen
        self._lock = rows.lock
        self._parsed: dict[str, ResolvedQuery] = {}

    def checked(self, document: Any, role: str) -> ResolvedQuery:
        """A specification that compiles, and names nothing that its author may not; says what is wrong otherwise."""
        if isinstance(document, Mapping):
            self.check_code(document, role)
        limit = self._settings.limits.vertices
        with at_most(limit):
            query = self._parse(document)
        if len(query.flow.vertices) > limit:
            raise FlowError("flow", f"has {len(query.flow.vertices)} vertices; at most {limit} are allowed")
        self.compiled(query)
        return query

    def check_code(self, document: Mapping[str, Any], role: str = "admin") -> None:
        """Refuse a specification that names code or files it may not; what is stored may be an older version's."""
        check_specification(document, cast(Role, role), self._settings.data_folders, self._settings.allowed_modules)

    def compiled(self, query: ResolvedQuery) -> Plan:
        """The plan of a specification."""
        options = query.specification
        policy = placement_policy(options.placement or self._settings.placement)
        outputs = [with_log(stream, lambda _: None).spec() for stream in query.outputs]
        inputs = [stream.spec() for stream in query.inputs]
        plan = compile_query(query.name, query.flow, inputs, outputs, policy, options.share, options.demands)
        check_sites(options.demands, plan)
        self._check_pools(options.demands)
        return plan

    def of(self, row: Mapping[str, Any]) -> ResolvedQuery:
        """The specification of a stored query."""
        with self._lock:
            if row["name"] not in self._parsed:
                self.check_code(row["specification"])
                self._parsed[row["name"]] = self._parse(row["specification"])
            return self._parsed[row["name"]]

    def plan_of(self, row: Mapping[str, Any]) -> Plan:
        """The plan of a stored query, as it is or would be compiled."""
        return Plan.from_json(row["plan"]) if row["plan"] else self.compiled(self.of(row))

    def parsed(self, name: str) -> ResolvedQuery | None:
        """The specification of a query, if it has been parsed already."""
        with self._lock:
            return self._parsed.get(name)

    def keep(self, name: str, query: ResolvedQuery) -> None:
        """From now on this is the specification of a query."""
        with self._lock:
            self._parsed[name] = query

    def forget(self, name: str) -> None:
        """A query is removed, or gets another specification."""
        with self._lock:
            self._parsed.pop(name, None)

    def _parse(self, document: Any) -> ResolvedQuery:
        return parse(document, self._registered, chosen=self._chosen)

    def _registered(self, kind: str, name: str) -> Mapping[str, Any]:
        """The document of a registered source or sink, or of a recorded segment."""
        return self._segments.document(name) if kind == "segment" else self._streams.registered(kind, name)

    def _check_pools(self, demands: Demands) -> None:
        known = self._settings.grid.pools
        for name in (demands.pool, *(needs.pool for needs in demands.sites.values())):
            if name is not None and name not in known:
                raise UnknownName("resource pool", name, known)


def with_log(stream: Any, opener: Any) -> Any:
    """A result stream with the log that it is kept in, if it is one that is kept; ``opener`` opens that by its type."""
    return (
        type(stream)(stream.name, stream.interface, stream.type, {"log": opener, "resume": False})
        if stream.interface == KEPT
        else stream
    )
