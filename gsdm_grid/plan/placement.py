"""Placement: which kind of host runs each logical site, and the relays that this makes necessary.

Compute sites run as Spark tasks, partition and combine sites as Ray actors. Source and result streams are opened
where their interface can live: never inside a Spark task, which Spark may start again elsewhere, and for interfaces
over live objects (iterables, callbacks, results in memory) only in the process that made them. Where a stream cannot be
opened at the site that needs it, a relay site is put in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gsdm_grid.errors import UnknownName
from gsdm_grid.flow import DataFlow, Input, Site, SiteRole, Vertex
from gsdm_grid.functions import function_reference
from gsdm_grid.plan.plan import HostKind, StreamSpec


@dataclass(frozen=True)
class PlacementPolicy:
    """Host kind by role. ``local`` stands for the process that owns the query's live objects."""

    name: str
    hosts: Mapping[SiteRole, HostKind]

    def host(self, role: SiteRole) -> HostKind:
        """Host kind for sites of this role."""
        return self.hosts[role]

    @property
    def local(self) -> HostKind:
        """Host kind that lives in this process."""
        return "thread" if set(self.hosts.values()) == {"thread"} else "local"


THREADS = PlacementPolicy("threads", dict.fromkeys(("source", "partition", "compute", "combine", "sink"), "thread"))
PROCESSES = PlacementPolicy(
    "processes", dict.fromkeys(("source", "partition", "compute", "combine", "sink"), "process")
)
GRID = PlacementPolicy(
    "grid", {"source": "ray", "partition": "ray", "compute": "spark", "combine": "ray", "sink": "ray"}
)
RAY = PlacementPolicy("ray", dict.fromkeys(("source", "partition", "compute", "combine", "sink"), "ray"))
SPARK = PlacementPolicy(
    "spark", {"source": "local", "partition": "spark", "compute": "spark", "combine": "spark", "sink": "local"}
)
POLICIES = {policy.name: policy for policy in (THREADS, PROCESSES, GRID, RAY, SPARK)}


def placement_policy(name: str) -> PlacementPolicy:
    """The policy of this name."""
    if name not in POLICIES:
        raise UnknownName("placement", name, POLICIES)
    return POLICIES[name]


THREADS_WARNING = (
    "it is placed on threads of the coordinator: a function that ends the process takes the coordinator with it, and "
    "one that never returns cannot be ended; 'processes' does without Ray and Spark too"
)


def placement_warnings(name: str) -> list[str]:
    """What a person should know who has chosen this placement for a query of a service."""
    return [THREADS_WARNING] if name == THREADS.name else []


@dataclass(frozen=True)
class PlacedFlow:
    """A data flow with relays, and the host kind of each of its sites."""

    flow: DataFlow
    hosts: Mapping[str, HostKind]


def place(
    flow: DataFlow, inputs: Sequence[StreamSpec], outputs: Sequence[StreamSpec], policy: PlacementPolicy
) -> PlacedFlow:
    """Choose hosts and insert the relays that the streams' interfaces need."""
    hosts = {site.id: policy.host(site.role) for site in flow.sites}
    sites, vertices = list(flow.sites), list(flow.vertices)

    def can_open(stream: StreamSpec, site_ids: set[str]) -> bool:
        if len(site_ids) != 1:
            return False
        host = hosts[next(iter(site_ids))]
        return host != "spark" and (not stream.live or host == policy.local)

    site_ids, vertex_ids = {site.id for site in sites}, {vertex.id for vertex in vertices}

    def add_site(role: SiteRole, number: int, live: bool) -> str:
        site = Site(unused(f"{role}.{number}", site_ids), role)
        site_ids.add(site.id)
        sites.append(site)
        hosts[site.id] = policy.local if live else policy.host(role)
        return site.id

    def relay_for(role: SiteRole, number: int, source: Input, live: bool) -> Vertex:
        vertex_id = unused(f"{role}.{number}", vertex_ids)
        vertex_ids.add(vertex_id)
        return Vertex(vertex_id, function_reference("identity"), {}, (source,), add_site(role, number, live))

    sources: dict[Input, Vertex] = {
        number: relay_for("source", number, number, stream.live)
        for number, stream in enumerate(inputs)
        if not can_open(stream, {vertex.site for vertex in flow.readers(number)})
    }
    vertices = [*reversed(sources.values()), *(_reading(vertex, sources) for vertex in vertices)]

    ends = list(flow.outputs) if flow.width > 1 or len(outputs) == 1 else list(flow.outputs) * len(outputs)
    producer_of = {stream: vertex for vertex in vertices for stream in vertex.streams}
    for number, stream in enumerate(outputs):
        if can_open(stream, {producer_of[ends[number]].site}):
            continue
        relay = relay_for("sink", number, ends[number], stream.live)
        vertices.append(relay)
        ends[number] = relay.id
    return PlacedFlow(DataFlow(flow.arity, tuple(ends), tuple(vertices), tuple(sites), flow.template).checked(), hosts)


def unused(wanted: str, taken: set[str]) -> str:
    """An id that no function of the flow has: people may call theirs ``source`` too."""
    return wanted if wanted not in taken else unused(f"{wanted}'", taken)


def _reading(vertex: Vertex, relays: Mapping[Input, Vertex]) -> Vertex:
    """The vertex with inputs from the relays of its input streams, where there are some."""
    if relays.keys().isdisjoint(vertex.inputs):
        return vertex
    return replace(vertex, inputs=tuple(relays[s].id if s in relays else s for s in vertex.inputs))
