"""The plan: a compiled data flow, as plain data that round-trips through JSON.

A plan says for each site which host kind runs it, which operators it executes and which streams connect them.
It holds no addresses: those are found when working nodes register (see `gsdm_grid.coordination`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from gsdm_grid.flow import SiteRole
from gsdm_grid.functions import Lengths, StreamFunction, resolve
from gsdm_grid.model import STREAM, StreamType
from gsdm_grid.plan.stream_order import ORDERED, StreamOrder

HostKind = Literal["thread", "process", "ray", "spark", "local"]
StreamKind = Literal["source", "memory", "channel", "sink"]
Order = Literal["ordinal", "time", "arrival"]
TAP_SOURCE, TAP_SINK = "tap", "taps"
"""Interfaces between a query and the parts that it shares with others."""


@dataclass(frozen=True)
class StreamSpec:
    """An input or result stream of a query: its type, interface and the interface's options.

    Options of interfaces that hold live objects are not in the plan: ``live`` names where the process keeps them.
    ``shared``: other queries may read it through the same interface; ``identity`` says which streams are the same.
    ``reader`` is how each of them reads it (its overload policy, and options of that); ``overload`` is another policy
    for this query. ``fresh``: its windows are numbered one by one. ``lengths`` are those of its vectors, by attribute,
    as far as its interface knows them. ``order`` is the order of time in which its windows come. ``accepts`` is the
    type whose windows its interface can carry. ``spectra``: its vectors are spectra (see `Traits`).
    """

    name: str
    interface: str
    type: StreamType | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    live: bool = False
    shared: bool = False
    identity: str = ""
    reader: Mapping[str, Any] = field(default_factory=dict)
    overload: str | None = None
    fresh: bool = True
    lengths: Lengths = field(default_factory=dict)
    order: StreamOrder = ORDERED
    accepts: StreamType = STREAM
    spectra: bool = False


@dataclass(frozen=True)
class PlanStream:
    """A stream between operators, or between an operator and the world. ``spectra``: its vectors are (see `Traits`)."""

    name: str
    kind: StreamKind
    type: StreamType
    from_site: str | None = None
    to_site: str | None = None
    interface: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    live: bool = False
    order: StreamOrder = ORDERED
    spectra: bool = False

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        given = {"type": self.type.to_json(), "options": dict(self.options), "order": self.order.to_json()}
        return {**vars(self), **given}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> PlanStream:
        """Inverse of `to_json`."""
        order = StreamOrder(**data["order"]) if "order" in data else ORDERED
        return PlanStream(**{**data, "type": StreamType.from_json(data["type"]), "order": order})


@dataclass(frozen=True)
class PlanOperator:
    """A function bound to its input and result streams.

    ``order`` is how a combining operator orders its inputs; ``renumber`` gives the results new ordinals. ``carries``
    says, for an operator with several result streams, which of them each of its outputs carries.
    """

    id: str
    function: Mapping[str, str]
    params: Mapping[str, Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    output_type: StreamType
    level: int
    order: Order = "ordinal"
    renumber: bool = False
    carries: tuple[int, ...] = ()

    @cached_property
    def resolved(self) -> StreamFunction:
        """The function itself."""
        return resolve(self.function)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            **{name: getattr(self, name) for name in self.__dataclass_fields__},
            "inputs": list(self.inputs),
            "outputs": list(self.outputs),
            "carries": list(self.carries),
            "output_type": self.output_type.to_json(),
            "function": dict(self.function),
            "params": dict(self.params),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> PlanOperator:
        """Inverse of `to_json`."""
        return PlanOperator(
            **{
                **data,
                "inputs": tuple(data["inputs"]),
                "outputs": tuple(data["outputs"]),
                "carries": tuple(data.get("carries", ())),
                "output_type": StreamType.from_json(data["output_type"]),
            }
        )


@dataclass(frozen=True)
class PlanSite:
    """A logical site with its host kind and its operators, in the order of their levels."""

    id: str
    role: SiteRole
    host: HostKind
    operators: tuple[PlanOperator, ...]

    @property
    def level(self) -> int:
        """Highest level of its operators: sites are activated from the highest to the lowest."""
        return max(operator.level for operator in self.operators)


@dataclass(frozen=True)
class Plan:
    """A compiled query. ``parts`` are plans of what it shares with others, each by the id that input streams name."""

    query: str
    sites: tuple[PlanSite, ...]
    streams: tuple[PlanStream, ...]
    parts: tuple[Plan, ...] = ()

    def stream(self, name: str) -> PlanStream:
        """The stream of this name."""
        return self._streams_by_name[name]

    def site(self, site_id: str) -> PlanSite:
        """The site of this id."""
        return self._sites_by_id[site_id]

    def streams_of(self, site_id: str) -> list[PlanStream]:
        """Streams that begin or end at this site."""
        return self._streams_by_site.get(site_id, [])

    @cached_property
    def _streams_by_name(self) -> dict[str, PlanStream]:
        return {stream.name: stream for stream in self.streams}

    @cached_property
    def _sites_by_id(self) -> dict[str, PlanSite]:
        return {site.id: site for site in self.sites}

    @cached_property
    def _streams_by_site(self) -> dict[str, list[PlanStream]]:
        streams: dict[str, list[PlanStream]] = {}
        for stream in self.streams:
            for site in {stream.from_site, stream.to_site} - {None}:
                streams.setdefault(str(site), []).append(stream)
        return streams

    def part(self, stream: PlanStream) -> Plan | None:
        """The part whose results an input stream is; None if it comes from elsewhere."""
        wanted = stream.options.get("part") if stream.interface == TAP_SOURCE else None
        return next((part for part in self.parts if part.query == wanted), None)

    @property
    def whole(self) -> list[Plan]:
        """The plan and all its parts, and theirs."""
        return [self, *(one for part in self.parts for one in part.whole)]

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "query": self.query,
            "sites": [
                {"id": s.id, "role": s.role, "host": s.host, "operators": [o.to_json() for o in s.operators]}
                for s in self.sites
            ],
            "streams": [stream.to_json() for stream in self.streams],
            "parts": [part.to_json() for part in self.parts],
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Plan:
        """Inverse of `to_json`."""
        return Plan(
            data["query"],
            tuple(
                PlanSite(s["id"], s["role"], s["host"], tuple(PlanOperator.from_json(o) for o in s["operators"]))
                for s in data["sites"]
            ),
            tuple(PlanStream.from_json(stream) for stream in data["streams"]),
            tuple(Plan.from_json(part) for part in data.get("parts", ())),
        )
