"""The data flow: a logical graph of functions, before anything is bound to streams or hosts.

Vertices are annotated with a function and its parameters; an arc goes from a result stream of a producer to each vertex
that lists it among its inputs. A result stream is named after its vertex; where a vertex has several, as splitters do,
they are numbered: ``split.0[3]``. Every vertex is assigned to a logical site. A data flow has an arity (input streams)
and a width (output streams), is immutable, and round-trips through JSON.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal, get_args

import numpy as np

from gsdm_grid.errors import FlowError, UnknownName
from gsdm_grid.functions import FUNCTION, StreamFunction, function_reference, resolve

SiteRole = Literal["source", "partition", "compute", "combine", "sink"]
Input = int | str  # the number of an input stream of the flow, or the name of a result stream of a vertex
MAX_WIDTH = 10_000


@dataclass(frozen=True)
class Site:
    """A logical execution site: one working node will execute everything assigned to it."""

    id: str
    role: SiteRole


@dataclass(frozen=True)
class Vertex:
    """A function, its parameters and where its windows come from. ``width`` is the number of its result streams."""

    id: str
    function: Mapping[str, str]
    params: Mapping[str, Any]
    inputs: tuple[Input, ...]
    site: str
    width: int = 1

    @cached_property
    def resolved(self) -> StreamFunction:
        """The function itself."""
        return resolve(self.function)

    @property
    def function_name(self) -> str:
        """The function's name."""
        return self.function["name"]

    @property
    def streams(self) -> tuple[str, ...]:
        """Names of its result streams: its id, or numbered where there are several."""
        return (self.id,) if self.width == 1 else tuple(f"{self.id}[{number}]" for number in range(self.width))

    @property
    def producers(self) -> tuple[str, ...]:
        """Names of the result streams of other vertices that it consumes."""
        return tuple(source for source in self.inputs if isinstance(source, str))


@dataclass(frozen=True)
class DataFlow:
    """A composition of stream functions. Made by the templates; never changed."""

    arity: int
    outputs: tuple[str, ...]
    vertices: tuple[Vertex, ...]
    sites: tuple[Site, ...]
    template: str = field(default="", compare=False)

    @property
    def width(self) -> int:
        """Number of output streams."""
        return len(self.outputs)

    @cached_property
    def by_id(self) -> dict[str, Vertex]:
        """Vertices by id."""
        return {vertex.id: vertex for vertex in self.vertices}

    @cached_property
    def producer_of(self) -> dict[str, Vertex]:
        """The vertex behind each result stream."""
        return {stream: vertex for vertex in self.vertices for stream in vertex.streams}

    @cached_property
    def role_of(self) -> dict[str, SiteRole]:
        """Role of each site."""
        return {site.id: site.role for site in self.sites}

    @cached_property
    def levels(self) -> dict[str, int]:
        """Level of each vertex: 0 for input points, else one more than its highest producer (thesis 5.2)."""
        producers = {v.id: [self.producer_of[stream].id for stream in v.producers] for v in self.vertices}
        levels: dict[str, int] = {}
        try:
            for vertex in TopologicalSorter(producers).static_order():
                levels[vertex] = max((levels[producer] + 1 for producer in producers[vertex]), default=0)
        except CycleError as error:
            cycle = error.args[1]
            raise FlowError(f"vertex {cycle[0]!r}", f"the data flow has a cycle: {' → '.join(cycle)}") from None
        return levels

    def consumers(self, stream: str) -> list[Vertex]:
        """Vertices that consume this result stream."""
        return self._consumers.get(stream, [])

    @cached_property
    def _consumers(self) -> dict[Input, list[Vertex]]:
        consumers: dict[Input, list[Vertex]] = {}
        for vertex in self.vertices:
            for stream in dict.fromkeys(vertex.inputs):
                consumers.setdefault(stream, []).append(vertex)
        return consumers

    def readers(self, stream: int) -> list[Vertex]:
        """Vertices that read this input stream of the flow."""
        return self._consumers.get(stream, [])

    def checked(self) -> DataFlow:
        """The flow itself, after checking that everything it refers to exists."""
        if not self.outputs:
            raise FlowError("data flow", "has no output")
        for vertex in self.vertices:
            if not isinstance(vertex.width, int) or not 1 <= vertex.width <= MAX_WIDTH:
                raise FlowError(f"vertex {vertex.id!r}", f"has {vertex.width!r} result streams, not 1 to {MAX_WIDTH}")
        for kind, ids in (("vertex", [v.id for v in self.vertices]), ("site", [site.id for site in self.sites])):
            double = repeated(ids)
            if double is not None:
                raise FlowError(f"{kind} {double!r}", "is there twice")
        for site in self.sites:
            if site.role not in get_args(SiteRole):
                allowed = ", ".join(get_args(SiteRole))
                raise FlowError(f"site {site.id!r}", f"has unknown role {site.role!r}; known: {allowed}")
        for vertex in self.vertices:
            for source in vertex.inputs:
                known = source in self.producer_of if isinstance(source, str) else 0 <= source < self.arity
                if not known:
                    raise FlowError(f"vertex {vertex.id!r}", f"reads {source!r}, which does not exist")
            if vertex.site not in self.role_of:
                raise FlowError(f"vertex {vertex.id!r}", f"is assigned to unknown site {vertex.site!r}")
        used = {vertex.site for vertex in self.vertices}
        idle = next((site.id for site in self.sites if site.id not in used), None)
        if idle is not None:
            raise FlowError(f"site {idle!r}", "has nothing to execute")
        for output in self.outputs:
            if output not in self.producer_of:
                raise FlowError("data flow", f"names unknown vertex {output!r} as output")
        _ = self.levels
        return self

    def to_json(self) -> dict[str, Any]:
        """The flow as plain JSON."""
        return {
            "arity": self.arity,
            "outputs": list(self.outputs),
            "sites": [{"id": site.id, "role": site.role} for site in self.sites],
            "vertices": [
                {
                    "id": v.id,
                    "function": dict(v.function),
                    "params": dict(v.params),
                    "inputs": list(v.inputs),
                    "site": v.site,
                    **({"width": v.width} if v.width > 1 else {}),
                }
                for v in self.vertices
            ],
            "template": self.template,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> DataFlow:
        """Inverse of `to_json`, checked."""
        try:
            return DataFlow(
                int(data["arity"]),
                tuple(data["outputs"]),
                tuple(
                    Vertex(
                        v["id"],
                        dict(v["function"]),
                        dict(v["params"]),
                        tuple(v["inputs"]),
                        v["site"],
                        v.get("width", 1),
                    )
                    for v in data["vertices"]
                ),
                tuple(Site(s["id"], s["role"]) for s in data["sites"]),
                data.get("template", ""),
            ).checked()
        except (KeyError, TypeError, ValueError) as error:
            raise FlowError("data flow", f"is not in the form that to_json writes: {error!r}") from error

    def to_text(self) -> str:
        """As lines of text, for terminals."""
        from gsdm_grid.flow import drawing

        return drawing.to_text(self)

    def to_dot(self) -> str:
        """As a graph for Graphviz."""
        from gsdm_grid.flow import drawing

        return drawing.to_dot(self)

    def to_mermaid(self) -> str:
        """As a Mermaid flowchart."""
        from gsdm_grid.flow import drawing

        return drawing.to_mermaid(self)

    def __str__(self) -> str:
        return self.to_text()


def repeated(names: Iterable[str]) -> str | None:
    """The first name that is there a second time; None if there is none.

    >>> repeated(["a", "b", "c", "b", "a"])
    'b'
    """
    before: set[str] = set()
    for name in names:
        if name in before:
            return name
        before.add(name)
    return None


_fresh = itertools.count()


def fresh_id(prefix: str) -> str:
    """An id that no other vertex or site of this process has; `renamed` makes the final, readable ones."""
    return f"{prefix}~{next(_fresh)}"


def vertex_params(function: StreamFunction, params: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Parameters of a vertex as plain JSON; those that name functions become references, so that code comes along."""
    made = {name: json_value(value, place) for name, value in params.items()}
    for name in function.functions:
        value = made.get(name)
        if value is None:
            continue
        if not isinstance(value, str) and not (isinstance(value, Mapping) and isinstance(value.get(FUNCTION), Mapping)):
            raise FlowError(f"{place}, parameter {name!r}", f"expected a function or its name, got {value!r:.80}")
        try:
            made[name] = {FUNCTION: function_reference(value if isinstance(value, str) else value[FUNCTION])}
        except UnknownName as error:
            raise error.at(f"{place}, parameter {name!r}") from None
    return made


def with_references(flow: DataFlow) -> DataFlow:
    """The same flow with references from which every host finds its functions, instead of mere names."""
    vertices = tuple(
        replace(
            v, function=function_reference(v.function), params=vertex_params(v.resolved, v.params, f"vertex {v.id!r}")
        )
        for v in flow.vertices
    )
    return replace(flow, vertices=vertices)


def json_value(value: Any, place: str) -> Any:
    """A parameter value as plain JSON; functions become references."""
    if isinstance(value, StreamFunction):
        return {FUNCTION: function_reference(value)}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        return [json_value(item, place) for item in value]
    if isinstance(value, Mapping):
        return {str(key): json_value(item, place) for key, item in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise FlowError(
        place,
        f"parameter value {value!r} cannot be sent to other processes; allowed: numbers, text, "
        "lists, mappings, stream functions",
    )


def copied(flow: DataFlow, params: Callable[[Any], Any] = lambda value: value) -> DataFlow:
    """A copy with fresh ids (thesis algorithm 8), its parameter values passed through ``params``."""
    copy = _with_ids(flow, fresh_id)
    changed = tuple(replace(v, params={name: params(value) for name, value in v.params.items()}) for v in copy.vertices)
    return replace(copy, vertices=changed)


def renamed(flow: DataFlow) -> DataFlow:
    """The same flow with short readable ids: ``fft3.0``, ``fft3.1``, and sites ``compute.0``, …"""
    counters: dict[str, itertools.count[int]] = {}

    def number(prefix: str) -> str:
        return f"{prefix}.{next(counters.setdefault(prefix, itertools.count()))}"

    return _with_ids(flow, number).checked()


def _with_ids(flow: DataFlow, new_id: Callable[[str], str]) -> DataFlow:
    """The same flow under other ids: ``new_id`` makes one from a site's role or a function's name."""
    sites = {site.id: new_id(site.role) for site in flow.sites}
    ids = {vertex.id: new_id(vertex.function_name) for vertex in flow.vertices}
    streams = {
        before: after
        for vertex in flow.vertices
        for before, after in zip(vertex.streams, replace(vertex, id=ids[vertex.id]).streams, strict=True)
    }
    return replace(
        flow,
        outputs=tuple(streams[output] for output in flow.outputs),
        vertices=tuple(
            replace(
                v,
                id=ids[v.id],
                inputs=tuple(streams[source] if isinstance(source, str) else source for source in v.inputs),
                site=sites[v.site],
            )
            for v in flow.vertices
        ),
        sites=tuple(Site(sites[site.id], site.role) for site in flow.sites),
    )
