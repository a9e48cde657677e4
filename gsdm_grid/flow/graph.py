"""The data flow: a logical graph of functions, before anything is bound to streams or hosts.

Vertices are annotated with a function and its parameters; an arc goes from a producer to each vertex that lists it
among its inputs. Every vertex is assigned to a logical site. A data flow has an arity (input streams) and a
width (output streams), is immutable, and round-trips through JSON.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from gsdm_grid.errors import FlowError
from gsdm_grid.functions import StreamFunction, reference, resolve

Role = Literal["source", "partition", "compute", "combine", "sink"]
Input = int | str  # the number of an input stream of the flow, or the id of the producing vertex
FUNCTION = "$function"


@dataclass(frozen=True)
class Site:
    """A logical execution site: one working node will execute everything assigned to it."""

    id: str
    role: Role


@dataclass(frozen=True)
class Vertex:
    """A function, its parameters and where its windows come from."""

    id: str
    function: Mapping[str, str]
    params: Mapping[str, Any]
    inputs: tuple[Input, ...]
    site: str

    @cached_property
    def resolved(self) -> StreamFunction:
        """The function itself."""
        return resolve(self.function)

    @property
    def function_name(self) -> str:
        """The function's name."""
        return self.function["name"]

    @property
    def producers(self) -> tuple[str, ...]:
        """Ids of the vertices whose results it consumes."""
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
    def role_of(self) -> dict[str, Role]:
        """Role of each site."""
        return {site.id: site.role for site in self.sites}

    @cached_property
    def levels(self) -> dict[str, int]:
        """Level of each vertex: 0 for input points, else one more than its highest producer (thesis 5.2)."""
        found: dict[str, int] = {}

        def level(vertex: Vertex, path: tuple[str, ...]) -> int:
            if vertex.id in path:
                raise FlowError(f"vertex {vertex.id!r}", f"the data flow has a cycle: {' → '.join((*path, vertex.id))}")
            if vertex.id not in found:
                below = [level(self.by_id[p], (*path, vertex.id)) for p in vertex.producers]
                found[vertex.id] = 1 + max(below) if below else 0
            return found[vertex.id]

        for vertex in self.vertices:
            level(vertex, ())
        return found

    def consumers(self, vertex_id: str) -> list[Vertex]:
        """Vertices that consume the result of this one."""
        return self._consumers.get(vertex_id, [])

    @cached_property
    def _consumers(self) -> dict[str, list[Vertex]]:
        found: dict[str, list[Vertex]] = {}
        for vertex in self.vertices:
            for producer in dict.fromkeys(vertex.producers):
                found.setdefault(producer, []).append(vertex)
        return found

    def readers(self, stream: int) -> list[Vertex]:
        """Vertices that read this input stream of the flow."""
        return [vertex for vertex in self.vertices if stream in vertex.inputs]

    def checked(self) -> DataFlow:
        """The flow itself, after checking that everything it refers to exists."""
        if not self.outputs:
            raise FlowError("data flow", "has no output")
        for kind, ids in (("vertex", [v.id for v in self.vertices]), ("site", [site.id for site in self.sites])):
            double = next((name for name in ids if ids.count(name) > 1), None)
            if double is not None:
                raise FlowError(f"{kind} {double!r}", "is there twice")
        for site in self.sites:
            if site.role not in get_args(Role):
                allowed = ", ".join(get_args(Role))
                raise FlowError(f"site {site.id!r}", f"has unknown role {site.role!r}; known: {allowed}")
        for vertex in self.vertices:
            for source in vertex.inputs:
                known = source in self.by_id if isinstance(source, str) else 0 <= source < self.arity
                if not known:
                    raise FlowError(f"vertex {vertex.id!r}", f"reads {source!r}, which does not exist")
            if vertex.site not in self.role_of:
                raise FlowError(f"vertex {vertex.id!r}", f"is assigned to unknown site {vertex.site!r}")
        used = {vertex.site for vertex in self.vertices}
        idle = next((site.id for site in self.sites if site.id not in used), None)
        if idle is not None:
            raise FlowError(f"site {idle!r}", "has nothing to execute")
        for output in self.outputs:
            if output not in self.by_id:
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
                    Vertex(v["id"], dict(v["function"]), dict(v["params"]), tuple(v["inputs"]), v["site"])
                    for v in data["vertices"]
                ),
                tuple(Site(s["id"], s["role"]) for s in data["sites"]),
                data.get("template", ""),
            ).checked()
        except (KeyError, TypeError, ValueError) as error:
            raise FlowError("data flow", f"is not in the form that to_json writes: {error!r}") from error

    def to_text(self) -> str:
        """See `drawing`."""
        from gsdm_grid.flow import drawing

        return drawing.to_text(self)

    def to_dot(self) -> str:
        """See `drawing`."""
        from gsdm_grid.flow import drawing

        return drawing.to_dot(self)

    def to_mermaid(self) -> str:
        """See `drawing`."""
        from gsdm_grid.flow import drawing

        return drawing.to_mermaid(self)

    def __str__(self) -> str:
        return self.to_text()


_fresh = itertools.count()


def fresh_id(prefix: str) -> str:
    """An id that no other vertex or site of this process has; `renamed` makes the final, readable ones."""
    return f"{prefix}~{next(_fresh)}"


def function_reference(function: str | StreamFunction) -> dict[str, str]:
    """Reference to a function given by name or as an object; unknown names are refused here."""
    from gsdm_grid.functions import functions

    return reference(functions.get(function))


def json_value(value: Any, place: str) -> Any:
    """A parameter value as plain JSON; functions become references."""
    if isinstance(value, StreamFunction):
        return {FUNCTION: reference(value)}
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
    return replace(
        flow,
        outputs=tuple(ids[output] for output in flow.outputs),
        vertices=tuple(
            replace(
                v,
                id=ids[v.id],
                inputs=tuple(ids[source] if isinstance(source, str) else source for source in v.inputs),
                site=sites[v.site],
            )
            for v in flow.vertices
        ),
        sites=tuple(Site(sites[site.id], site.role) for site in flow.sites),
    )
