"""Stream interfaces: how windows enter and leave the system.

An interface encapsulates one medium behind four methods: ``open``, ``next``, ``insert`` and ``close`` (thesis 2.4).
Sources implement ``next``, sinks ``insert``. People register their own with `register_stream_interface`: a class, or
four functions, of which `function_interface` makes a class.
The engine is the only caller; it calls from one thread, and never calls ``next`` again before it has room.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, overload

from gsdm_grid.errors import QueryError, SchemaError, UnknownName
from gsdm_grid.functions import Collector, is_inside
from gsdm_grid.model import STREAM, Clock, PhysicalWindow, StreamType, SystemClock, stream_types

if TYPE_CHECKING:
    from gsdm_grid.channels import DataPlane

ENTRY_POINTS = "gsdm.interfaces"
FUNCTIONS = ("open", "next", "insert", "close")
"""What an interface of functions may consist of, in the order of the thesis."""


class EndOfStream(Exception):
    """Raised by ``next`` when a source has no more windows and never will."""


def _nothing() -> None:
    return None


@dataclass
class InterfaceContext:
    """What the engine lends an interface while it is open. ``wake`` may be called from any thread.

    ``flush_s`` is how long windows may wait for others to fill a block with; ``plane`` are the node's channels.
    """

    wake: Callable[[], None] = _nothing
    clock: Clock = field(default_factory=SystemClock)
    flush_s: float = 0.002
    plane: DataPlane | None = None


class StreamInterface:
    """Base of all interfaces. Made from a stream type and options when a query is installed; reopened on resume.

    Class attributes say what the engine may assume:
    ``local``: it holds live objects of the process that made it, so it cannot move to another one.
    ``replayable``: ``seek`` works, so after a crash the stream can be read again from any ordinal (an instance may know
    better than its class).
    ``source_option`` and ``sink_option``: the option that says from where, or to where.
    ``known_options``: names of all options; others are refused. None takes any.
    ``accepts``: the stream type whose windows it can carry, and those of its subtypes.
    ``made_of_functions``: its class was made when it was registered; see `function_interface`.
    ``placed``: a source whose windows come with their ordinals, ascending; others are numbered by the engine.
    ``takes_marks``: a sink that is also given blocks that have no windows, only marks.
    ``overload``: what a source does unless told when it is read too slowly; see `overload`.
    ``internal``: made by the system; people cannot name it.
    """

    local: ClassVar[bool] = False
    replayable: bool = False
    known_options: ClassVar[frozenset[str] | None] = None
    source_option: ClassVar[str] = "address"
    sink_option: ClassVar[str] = "address"
    accepts: ClassVar[StreamType] = STREAM
    made_of_functions: ClassVar[bool] = False
    placed: ClassVar[bool] = False
    takes_marks: ClassVar[bool] = False
    overload: ClassVar[str] = "block"
    internal: ClassVar[bool] = False

    def __init__(self, stream_type: StreamType, options: Mapping[str, Any]) -> None:
        unknown = sorted(set(options) - self.known_options) if self.known_options is not None else []
        if unknown:
            raise UnknownName(
                f"option of stream interface {type(self).__name__!r}", unknown[0], self.known_options or ()
            )
        self.stream_type = stream_type
        self.options = options
        self.context = InterfaceContext()

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[Path]:  # noqa: ARG003
        """Files that one with these options, checked or not, would read or write: a coordinator may limit them."""
        return []

    @classmethod
    def vector_lengths(cls, stream_type: StreamType, options: Mapping[str, Any]) -> dict[str, int]:  # noqa: ARG003
        """Lengths by attribute of the vectors in every window of a source with these options, checked or not.

        As far as that is known before it is opened: the compiler refuses what cannot be done with such vectors.
        """
        return {}

    @classmethod
    def exclusive(cls, options: Mapping[str, Any]) -> bool:  # noqa: ARG003
        """Whether one with these options can be open only once at a time, such as a socket that listens."""
        return False

    def open(self, context: InterfaceContext) -> None:
        """Prepare for reading or writing. Called once per activation; after ``close`` it may be called again."""
        self.context = context

    def next(self, limit: int) -> PhysicalWindow | None:  # noqa: ARG002
        """At most ``limit`` windows, or None if there are none just now. Must not block; `EndOfStream` at the end.

        A source that gets windows later calls ``context.wake()`` then, from a thread of its own, or knows ``due_s``.
        """
        raise QueryError(f"stream interface {type(self).__name__!r} cannot be read from")

    def due_s(self) -> float | None:
        """When ``next`` is worth asking again after None, on the context's monotonic clock, if the source knows."""
        return None

    def rest(self) -> None:
        """Nothing more will be read in this run; what was read flows out, and ``close`` follows."""

    def seek(self, ordinal: int) -> None:  # noqa: ARG002
        """Go on reading at this place, counted in windows from the start. Only if ``replayable``."""
        raise QueryError(f"stream interface {type(self).__name__!r} cannot go back")

    def ready(self) -> bool:
        """Whether a sink can take another block now. One that could not calls ``context.wake()`` once it can."""
        return True

    def insert(self, block: PhysicalWindow) -> None:  # noqa: ARG002
        """Take a block of windows, in order. Must not block for long: see ``ready``."""
        raise QueryError(f"stream interface {type(self).__name__!r} cannot be written to")

    def finish(self) -> None:
        """The stream has ended: no block will follow."""

    def pause(self) -> None:
        """The query stops here and may go on later: what was inserted so far is what there is."""

    def close(self) -> None:
        """Let go of files, sockets and threads. Must be safe to call twice."""

    def statistics(self) -> dict[str, int | float]:
        """Figures worth showing, such as ``dropped_oldest``; every dropped window is counted by reason."""
        return {}


_BUILTIN = (
    "gsdm_grid.interfaces.generator",
    "gsdm_grid.interfaces.memory",
    "gsdm_grid.interfaces.player",
    "gsdm_grid.interfaces.raw_iq",
    "gsdm_grid.interfaces.recorder",
    "gsdm_grid.storage.result_log",
    "gsdm_grid.interfaces.sigmf",
    "gsdm_grid.interfaces.stdout",
    "gsdm_grid.interfaces.tap",
    "gsdm_grid.interfaces.tcp",
    "gsdm_grid.interfaces.udp",
    "gsdm_grid.interfaces.visualize",
)
"""Modules that register the built-in interfaces when they are imported."""


class InterfaceRegistry:
    """Stream interface classes by name. One per process."""

    def __init__(self) -> None:
        self._classes: dict[str, type[StreamInterface]] = {}
        self._of_entry_points: set[str] = set()
        self._collector: Collector[tuple[str, type[StreamInterface]]] = Collector("interfaces")

    def add(self, name: str, interface: type[StreamInterface]) -> None:
        """Register a class; registering a name again replaces it, as notebooks need."""
        module = None if interface.made_of_functions else interface.__module__  # functions may be anybody's
        if not self._collector.take((name, interface), module):
            self._classes[name] = interface
            self._of_entry_points.discard(name)

    def remove(self, name: str) -> None:
        """Forget a name, if it is known; what uses its class goes on."""
        self._classes.pop(name, None)

    def collecting(self, package: str) -> AbstractContextManager[list[tuple[str, type[StreamInterface]]]]:
        """While it lasts, interfaces that this thread defines in a package are collected, not registered."""
        return self._collector.collecting(package)

    def get(self, name: str) -> type[StreamInterface]:
        """The class of this name, of an installed package's entry point, or at a path ``package.module:Class``."""
        _load_builtin()
        if name in self._classes:
            return self._classes[name]
        for entry in metadata.entry_points(group=ENTRY_POINTS, name=name):
            self._classes[name] = _from_path(f"{entry.module}:{entry.attr}")
            self._of_entry_points.add(name)
            return self._classes[name]
        if ":" in name:
            return _from_path(name)
        raise UnknownName("stream interface", name, self.names())

    def found_elsewhere(self, name: str) -> bool:
        """Whether other processes of the grid get the same class by this name."""
        interface = self.get(name)
        module = sys.modules.get(interface.__module__)
        if is_inside(interface.__module__, "gsdm_grid") and getattr(module, interface.__qualname__, None) is interface:
            return True
        location = getattr(module, "__file__", None)
        is_installed = location is not None and "-packages" in location
        return is_installed and (name in self._of_entry_points or ":" in name)

    def names(self) -> list[str]:
        """All registered names, sorted."""
        _load_builtin()
        known = {name for name, interface in self._classes.items() if not interface.internal}
        return sorted({*known, *metadata.entry_points(group=ENTRY_POINTS).names})


@cache
def _load_builtin() -> None:
    for module in _BUILTIN:
        importlib.import_module(module)


def _from_path(path: str) -> type[StreamInterface]:
    module, _, attribute = path.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as error:  # importing runs the author's code, which may raise anything
        raise QueryError(f"stream interface path {path!r} cannot be loaded: {error}") from error
    if not (isinstance(found, type) and issubclass(found, StreamInterface)):
        raise QueryError(f"{path!r} is no stream interface")
    return found


interfaces = InterfaceRegistry()


def path_in(options: Mapping[str, Any]) -> list[Path]:
    """What the option ``path`` names, for interfaces that have it; nothing if it is no path."""
    given = options.get("path")
    return [Path(given)] if isinstance(given, str | Path) else []


def equally_long(stream_type: StreamType, length: Any) -> dict[str, int]:
    """The same length for all vectors of a type; nothing is known if it is no length."""
    if not isinstance(length, int) or length < 1:
        return {}
    return {name: length for name, kind in stream_type.attributes.items() if kind.shape != ()}


@overload
def register_stream_interface(
    name: str, interface: type[StreamInterface], *, stream_type: str | StreamType | None = None
) -> type[StreamInterface]: ...


@overload
def register_stream_interface(
    stream_type: str | StreamType,
    name: str,
    /,
    open: Callable[..., Any] | None = None,
    next: Callable[..., Any] | None = None,
    insert: Callable[..., Any] | None = None,
    close: Callable[..., Any] | None = None,
    *,
    options: Iterable[str] | None = None,
    whole: bool = False,
) -> type[StreamInterface]: ...


def register_stream_interface(name: Any, interface: Any, *functions: Any, **more: Any) -> type[StreamInterface]:
    """Make a stream interface known under a name: a class, or up to four functions.

    Of a class: its name, the class, and, if it can carry windows of some type only, ``stream_type``. Of functions, as
    in the thesis (3.2.2): the stream type, the name, and the functions ``open``, ``next``, ``insert`` and ``close``;
    `function_interface` says what they get and give. ``options`` are the names of its options, if others are to be
    refused; with ``whole``, ``insert`` takes physical windows. Gives the class, which an entry point may name.

    >>> ticks = iter(range(3))
    >>> Counter = register_stream_interface("Stream", "counter", next=lambda _: {"ts": next(ticks)})
    >>> interfaces.get("counter") is Counter
    True
    """
    if isinstance(interface, str):
        registered = _of_functions(interface, stream_types.get(name), functions, **more)
        interfaces.add(interface, registered)
        return registered
    registered = _bound(name, interface, *functions, **more)
    interfaces.add(name, registered)
    return registered


def _of_functions(
    name: str,
    accepts: StreamType,
    functions: Sequence[Any],
    options: Iterable[str] | None = None,
    whole: bool = False,
    **named: Any,
) -> type[StreamInterface]:
    from gsdm_grid.interfaces.function_interface import interface_class

    by_role = {**dict(zip(FUNCTIONS, functions, strict=False)), **named}
    unknown = sorted(set(by_role) - set(FUNCTIONS))
    if unknown or len(functions) > len(FUNCTIONS):
        came = f"{unknown[0]!r}" if unknown else f"{len(functions)} functions"
        raise QueryError(f"stream interface {name!r}: takes the functions {', '.join(FUNCTIONS)}; got {came}")
    return interface_class(name, accepts, {role: by_role.get(role) for role in FUNCTIONS}, options, whole)


def _bound(name: Any, interface: Any, stream_type: str | StreamType | None = None) -> type[StreamInterface]:
    """A class, bound to a stream type if one is named."""
    if not isinstance(name, str):
        raise QueryError(f"stream interface: expected a name, then its class; got {name!r:.80}")
    if not (isinstance(interface, type) and issubclass(interface, StreamInterface)):
        raise QueryError(
            f"stream interface {name!r}: expected a subclass of StreamInterface, or a stream type, the name and "
            f"functions; got {interface!r:.80}"
        )
    if stream_type is None:
        return interface
    members = {
        "accepts": stream_types.get(stream_type),
        "__module__": interface.__module__,
        "__doc__": interface.__doc__,
    }
    return type(interface.__name__, (interface,), members)


def check_accepted(name: str, stream_type: StreamType) -> None:
    """Complain if the interface of this name cannot carry windows of a type."""
    accepts = interfaces.get(name).accepts
    if not stream_type.is_under(accepts):
        expected = f"{accepts.name!r} or a subtype, as interface {name!r} takes"
        raise SchemaError(stream_type.name, None, expected, repr(stream_type.name))
