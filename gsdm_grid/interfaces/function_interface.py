"""Stream interfaces out of four plain functions: ``open``, ``next``, ``insert`` and ``close`` (thesis 2.4 and 3.2.2).

`interface_class` makes a `StreamInterface` class of them; whoever needs more (going back in a stream, statistics,
readiness, exclusive use) derives from `StreamInterface` instead. ``open(stream)`` is called with the interface, which
has ``stream_type``, ``options`` and ``context``, and what it returns is what the others are called with: ``next(x)``
returns a window, a block, a mapping or a tuple of attribute values, or None while there is nothing; ``insert(x,
window)`` takes a window; ``close(x)`` is called when the stream ends or the query stops. Without ``open`` the others
get the interface itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from gsdm_grid.errors import QueryError
from gsdm_grid.interfaces.interface import (
    EndOfStream,
    InterfaceContext,
    StreamInterface,
    path_in,
)
from gsdm_grid.interfaces.memory import WindowFeed
from gsdm_grid.interfaces.user_calls import name_of, user_call
from gsdm_grid.model import PhysicalWindow, StreamType

ASK_AGAIN_S = 0.01
"""When ``next`` is called again after it had nothing, unless the function's thread calls ``context.wake()``."""

UserFunction = Callable[..., Any]


class FunctionInterface(StreamInterface):
    """Base of the classes that `interface_class` makes: opens and closes. An option ``path`` is taken for a file."""

    made_of_functions: ClassVar[bool] = True
    interface_name: ClassVar[str]
    functions: ClassVar[Mapping[str, UserFunction]]
    """The functions by what they do: open, next, insert, close."""
    whole: ClassVar[bool]
    """Whether ``insert`` takes physical windows."""

    def __init__(self, stream_type: StreamType, options: Mapping[str, Any]) -> None:
        super().__init__(stream_type, options)
        self._handle: Any = None
        self._is_open = False

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[Path]:
        """The option ``path``, if there is one."""
        return path_in(options)

    def open(self, context: InterfaceContext) -> None:
        """See `StreamInterface`."""
        super().open(context)
        if not self._is_open:
            self._handle = self._call("open", self) if "open" in self.functions else self
            self._is_open = True

    def finish(self) -> None:
        """See `StreamInterface`. What was written is to be seen now, not only when the query is removed."""
        self.close()

    def pause(self) -> None:
        """See `StreamInterface`. Opened again when the query goes on."""
        self.close()

    def close(self) -> None:
        """See `StreamInterface`. The function is called once for each time that it was opened."""
        if self._is_open:
            self._is_open = False
            if "close" in self.functions:
                self._call("close", self._handle)

    def _call(self, role: str, *arguments: Any) -> Any:
        function = self.functions[role]
        with user_call(self.interface_name, function):
            try:
                return function(*arguments)
            except StopIteration:  # of an iterator that the function reads
                raise EndOfStream from None


class _Reading(FunctionInterface):
    """One with a function ``next``."""

    def __init__(self, stream_type: StreamType, options: Mapping[str, Any]) -> None:
        super().__init__(stream_type, options)
        self._calls = _Calls(lambda: self._call("next", self._handle))
        self._feed = WindowFeed(self.interface_name, stream_type, self._calls)
        self._ask_again_s: float | None = None

    def next(self, limit: int) -> PhysicalWindow | None:
        """See `StreamInterface`. Several windows of the function are packed into one block."""
        self._ask_again_s = None
        try:
            return self._feed.take(limit, self.context)
        except EndOfStream:
            if self._calls.ended:
                self.close()
                raise
            self._ask_again_s = self.context.clock.monotonic_s() + ASK_AGAIN_S
            return None

    def due_s(self) -> float | None:
        """See `StreamInterface`."""
        return self._ask_again_s


class _Writing(FunctionInterface):
    """One with a function ``insert``."""

    def insert(self, block: PhysicalWindow) -> None:
        """See `StreamInterface`."""
        for window in (block,) if self.whole else block:
            self._call("insert", self._handle, window)


class _Calls(Iterator[Any]):
    """What calls of ``next`` return, one after the other; it stops where there is nothing, and may go on later."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self.ended = False

    def __next__(self) -> Any:
        if self.ended:
            raise StopIteration
        try:
            item = self._call()
        except EndOfStream:
            self.ended = True
            raise StopIteration from None
        if item is None:
            raise StopIteration
        return item


def interface_class(
    name: str,
    accepts: StreamType,
    functions: Mapping[str, UserFunction | None],
    options: Iterable[str] | None = None,
    whole: bool = False,
) -> type[StreamInterface]:
    """A stream interface class out of functions by what they do; ``options`` are the names of its options."""
    present = {role: function for role, function in functions.items() if function is not None}
    for role, function in present.items():
        if not callable(function):
            raise QueryError(f"stream interface {name!r}: {role} must be a function, got {function!r:.80}")
    bases = [base for role, base in (("next", _Reading), ("insert", _Writing)) if role in present]
    if not bases:
        raise QueryError(f"stream interface {name!r} needs a function next to be read from, or insert to be written to")
    first = next(iter(present.values()))
    described = [f"{role}: {name_of(function)}" for role, function in present.items()]
    docs = [function.__doc__ for role, function in present.items() if role in ("next", "insert") and function.__doc__]
    return type(
        name_of(first),
        tuple(bases),
        {
            "__module__": getattr(first, "__module__", None) or "__main__",
            "__doc__": "\n\n".join(docs) or f"Functions {', '.join(described)}.",
            "interface_name": name,
            "functions": present,
            "whole": whole,
            "accepts": accepts,
            "known_options": None if options is None else frozenset(options),
        },
    )
