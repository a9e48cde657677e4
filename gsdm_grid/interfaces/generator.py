"""Interface ``generator``: a source that calls a function for an iterator of windows.

Options: ``function``, a callable or its path ``package.module:callable``; ``params``, its keyword
arguments; ``rate``, windows per second (as fast as they are asked for, if not given); ``replayable``, False
for a function that does not return the same windows each time. The iterator runs in the engine's thread and
should yield promptly.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, TypeVar

from gsdm_grid.errors import QueryError
from gsdm_grid.interfaces.interface import InterfaceContext, StreamInterface, interfaces
from gsdm_grid.interfaces.memory import WindowFeed
from gsdm_grid.interfaces.pacing import Pacer
from gsdm_grid.interfaces.player import positive
from gsdm_grid.interfaces.user_calls import name_of, user_call
from gsdm_grid.model import PhysicalWindow, StreamType

T = TypeVar("T")


class GeneratorSource(StreamInterface):
    """Reads the iterator that a function returns. Going back means calling the function again."""

    known_options: ClassVar[frozenset[str] | None] = frozenset({"function", "params", "rate", "replayable"})

    replayable: bool = True

    def __init__(self, stream_type: StreamType, options: Mapping[str, Any]) -> None:
        super().__init__(stream_type, options)
        self._function = _load(options.get("function"))
        self._params = dict(options.get("params") or {})
        self._rate = positive("generator", options, "rate")
        if not options.get("replayable", True):
            self.replayable = False  # the function's author knows
        self._feed: WindowFeed | None = None
        self._pacer: Pacer | None = None

    def open(self, context: InterfaceContext) -> None:
        """See `StreamInterface`. Reopened, it goes on where it was."""
        super().open(context)
        self._pacer = Pacer(context.clock, self._rate) if self._rate else None

    def next(self, limit: int) -> PhysicalWindow | None:
        """See `StreamInterface`. None while the next window is not due."""
        if self._pacer is not None:
            limit = self._pacer.allowed(limit)
            if limit == 0:
                return None
        block = self._guarded(lambda feed: feed.take(limit, self.context))
        if self._pacer is not None:
            self._pacer.passed(len(block))
        return block

    def seek(self, ordinal: int) -> None:
        """See `StreamInterface`."""
        if not self.replayable:
            return super().seek(ordinal)
        self._feed = None
        self._guarded(lambda feed: feed.skip(ordinal, self.context))
        return None

    def due_s(self) -> float | None:
        """See `StreamInterface`."""
        due_s = self._feed.due_s if self._feed is not None else None
        return due_s if self._pacer is None or due_s is not None else self._pacer.due_s

    def _guarded(self, step: Callable[[WindowFeed], T]) -> T:
        """Run a step of the user's code; what it raises says whose it is."""
        with user_call("generator", self._function):
            if self._feed is None:
                self._feed = WindowFeed("generator", self.stream_type, self._call())
            return step(self._feed)

    def _call(self) -> Iterable[Any]:
        made = self._function(**self._params)
        if not isinstance(made, Iterable):
            raise QueryError(
                f"interface 'generator': {name_of(self._function)} must return an iterator of windows, "
                f"got {type(made).__name__}"
            )
        return made


def _load(function: Any) -> Callable[..., Any]:
    found = function
    if isinstance(function, str):
        module, _, path = function.partition(":")
        try:
            found = importlib.import_module(module)
            for attribute in path.split("."):
                found = getattr(found, attribute)
        except (Exception, SystemExit) as error:  # importing runs the author's code, which may raise anything
            raise QueryError(f"interface 'generator': function {function!r} cannot be loaded: {error}") from error
    if not callable(found):
        raise QueryError(
            f"interface 'generator' needs option 'function', a callable or 'package.module:callable'; got {function!r}"
        )
    made: Callable[..., Any] = found
    return made


interfaces.add("generator", GeneratorSource)
