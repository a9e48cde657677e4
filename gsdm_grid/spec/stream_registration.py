"""Registering the input and result streams of queries (thesis 5.1)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gsdm_grid.errors import FlowError, QueryError
from gsdm_grid.flow import json_value
from gsdm_grid.ids import IdFactory
from gsdm_grid.interfaces import StreamInterface, check_accepted, interfaces
from gsdm_grid.model import PhysicalWindow, StreamType, stream_types
from gsdm_grid.plan import ORDERED, StreamOrder, StreamSpec
from gsdm_grid.spec.stream_members import parse_order

_ids = IdFactory()
OVERLOAD_OPTIONS = ("overload", "buffer_blocks", "buffer_bytes", "sample_every")


@dataclass
class RegisteredStream:
    """An input or result stream as people register it: what, through which interface, from or to where."""

    name: str
    interface: str
    type: StreamType | None
    options: Mapping[str, Any] = field(default_factory=dict)
    shared: bool = False
    """An input stream that several queries read through one interface, if they run at the same time."""
    overload: str | None = None
    """What a query does that reads a shared stream too slowly; else what the stream's interface would."""
    identity: str = ""
    """Equal for streams that are the same; found out if not given."""
    order: StreamOrder = ORDERED
    """In which order of time windows come."""

    def spec(self) -> StreamSpec:
        """For the compiler. Streams that hold live objects or classes stay in this process."""
        found = interfaces.get(self.interface)
        live = found.local or not interfaces.found_elsewhere(self.interface)
        options: dict[str, Any] = {}
        same: Any = f"object {id(self):x}"
        try:
            options = {key: json_value(value, f"stream {self.name!r}") for key, value in self.options.items()}
            same = options
        except FlowError:
            live = True
        reader = {
            "overload": found.overload,
            **{key: self.options[key] for key in OVERLOAD_OPTIONS if key in self.options},
        }
        return StreamSpec(
            self.name,
            self.interface,
            self.type,
            {} if live else options,
            live,
            self.shared,
            self.identity or f"{self.interface}:{_digest(self.interface, same, self.type, self.order)}",
            reader,
            self.overload,
            lengths={} if self.type is None else found.vector_lengths(self.type, self.options),
            order=self.order,
            accepts=found.accepts,
        )

    def make(self, stream_type: StreamType) -> StreamInterface:
        """The interface itself, for streams that stay in this process."""
        return interfaces.get(self.interface)(stream_type, self.options)


def register_input_stream(
    stream_type: str | StreamType,
    source: Any = None,
    interface: str | None = None,
    *,
    name: str | None = None,
    shared: bool = False,
    order: Any = ORDERED,
    **options: Any,
) -> RegisteredStream:
    """Register where a stream comes from.

    ``source`` is an iterable of windows or blocks (interface ``memory``), or an address or path for the interface
    named. Queries that read a ``shared`` stream at the same time read it through one interface. ``order`` says in which
    order of time windows come: "ordered" (checked), ``{"within": 2.0}`` (sorted as they enter; with ``"late": "drop"``
    what is later still is dropped and counted) or "arrival" (as they come).

    >>> from gsdm_grid import Radio
    >>> s1 = register_input_stream("Radio", "127.0.0.1:5555", "udp")
    """
    found = stream_types.get(stream_type)
    if interface is None:
        if not isinstance(source, Iterable) or isinstance(source, str | bytes):
            raise QueryError(f"input stream: an iterable of windows, or an interface beside the source; got {source!r}")
        interface = "memory"
    if interface == "memory":
        items = [source] if isinstance(source, PhysicalWindow) else source
        options = {"items": items, **options}
    elif source is not None:
        options = {interfaces.get(interface).source_option: str(source), **options}
    check_accepted(interface, found)
    return RegisteredStream(name or _ids.new("in"), interface, found, options, shared, order=parse_order(order))


def register_result_stream(
    dest: Any = None,
    interface: str = "result",
    *,
    stream_type: str | StreamType | None = None,
    name: str | None = None,
    **options: Any,
) -> RegisteredStream:
    """Register where a result goes: kept for iteration unless an interface is named. The type is derived."""
    if callable(dest):
        interface, options = "callback", {"function": dest, **options}
    elif dest is not None:
        options = {interfaces.get(interface).sink_option: str(dest), **options}
    interfaces.get(interface)
    given = None if stream_type is None else stream_types.get(stream_type)
    if given is not None:
        check_accepted(interface, given)
    return RegisteredStream(name or _ids.new("out"), interface, given, options)


def _digest(interface: str, same: Any, stream_type: StreamType | None, order: StreamOrder) -> str:
    """Equal for streams that are read in the same way from the same place."""
    told = [interface, same, stream_type.to_json() if stream_type is not None else None, order.to_json()]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:12]
