"""Every error the product raises, sorted by whose fault it is.

::

    GsdmError
    ├── QueryError               the query is wrong: the person who wrote it can mend it
    │   ├── SchemaError          a value, attribute or type does not fit its stream type
    │   ├── UnknownName          a function, type, interface, template or host that nobody registered
    │   │   └── UnknownAttribute an attribute that a stream type does not have
    │   ├── FlowError            a data flow that does not fit together (arity, width, parameters)
    │   └── InvalidTransition    the life cycle does not allow this step now
    ├── PlanError                the query is fine, but no plan was found for it
    ├── ResourceError            the grid cannot serve it (hosts, slots, deadlines)
    ├── FunctionError            user code raised, or returned what it did not promise
    ├── NodeLost                 a working node died
    ├── ChannelError             a data or control connection failed, or refused somebody
    └── InternalError            our bug

Messages name the thing, what came and what is allowed. Constructor arguments go to ``super().__init__``
and the text is made in ``__str__``, so that an error survives pickling between processes.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class GsdmError(Exception):
    """Root of the tree; catch it to catch everything that the product raises on purpose."""


class QueryError(GsdmError):
    """The query, or something registered for it, is wrong."""


class SchemaError(QueryError):
    """A value does not fit the stream type it is meant for."""

    def __init__(self, stream_type: str, attribute: str | None, expected: str, got: str) -> None:
        super().__init__(stream_type, attribute, expected, got)

    def __str__(self) -> str:
        stream_type, attribute, expected, got = self.args
        place = f"stream type {stream_type!r}" + (f", attribute {attribute!r}" if attribute else "")
        return f"{place}: expected {expected}, got {got}"


class UnknownName(QueryError):
    """Somebody asked for a name that nobody registered."""

    def __init__(self, kind: str, name: str, known: Iterable[str], place: str = "") -> None:
        super().__init__(kind, name, tuple(sorted(known)), place)

    @property
    def place(self) -> str:
        """Where the name stands, as a path in a document if it came in one; empty if nobody knows."""
        return str(self.args[3])

    @property
    def similar(self) -> tuple[str, ...]:
        """Known names that look like the unknown one, the most similar first."""
        _, name, known, _ = self.args
        return tuple(difflib.get_close_matches(name, known, n=3))

    def at(self, place: str) -> UnknownName:
        """The same error at a place."""
        kind, name, known, _ = self.args
        return type(self)(kind, name, known, place)

    def __str__(self) -> str:
        kind, name, known, place = self.args
        where = f"{place}: " if place else ""
        hint = f"; did you mean {' or '.join(map(repr, self.similar))}?" if self.similar else ";"
        listed = ", ".join(known[:20]) + (", …" if len(known) > 20 else "")
        return f"{where}unknown {kind} {name!r}{hint} known: {listed or 'none'}"


class UnknownAttribute(UnknownName, AttributeError):
    """A stream type has no such attribute. Also an `AttributeError`, so that ``hasattr`` works on windows."""

    def __init__(self, stream_type: str, name: str, known: Iterable[str], place: str = "") -> None:
        super().__init__(stream_type, name, known, place)

    def __str__(self) -> str:
        stream_type, name, known, place = self.args
        where = f"{place}: " if place else ""
        return f"{where}unknown attribute {name!r} of stream type {stream_type!r}; known: {', '.join(known)}"


class FlowError(QueryError):
    """A data flow does not fit together."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(place, reason)

    def __str__(self) -> str:
        place, reason = self.args
        return f"{place}: {reason}"


class InvalidTransition(QueryError):
    """The life cycle does not allow this step in the present state."""

    def __init__(self, query: str, action: str, state: str, allowed: Iterable[str]) -> None:
        super().__init__(query, action, state, tuple(allowed))

    def __str__(self) -> str:
        query, action, state, allowed = self.args
        return f"query {query!r} is {state}: cannot {action}; allowed now: {', '.join(allowed) or 'nothing'}"


class PlanError(GsdmError):
    """No plan serves this query under the given limits."""


class ResourceError(GsdmError):
    """The grid cannot serve what was asked."""


class FunctionError(GsdmError):
    """User code raised, or returned what it did not promise. ``cause`` is the text of the original error.

    The traceback is also a note (PEP 678): Python prints it under the message, and the message stays one line.
    """

    def __init__(self, vertex: str, function: str, cause: str, trace: str = "") -> None:
        super().__init__(vertex, function, cause, trace)
        if trace:
            self.add_note(trace)

    @property
    def trace(self) -> str:
        """The part of the traceback in user code (file, line, source line); empty if nothing was raised there."""
        return str(self.args[3])

    def __str__(self) -> str:
        vertex, function, cause, _ = self.args
        return f"vertex {vertex!r}, function {function!r}: {cause}"


class NodeLost(GsdmError):
    """A working node died or stopped answering."""

    def __init__(self, node: str, reason: str) -> None:
        super().__init__(node, reason)

    def __str__(self) -> str:
        node, reason = self.args
        return f"working node {node!r} was lost: {reason}"


class ChannelError(GsdmError):
    """A data or control connection failed."""


class InternalError(GsdmError):
    """A state that our own code promised could not happen."""
