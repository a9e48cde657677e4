"""Interface ``stdout``: a sink that prints a line per window.

Options: ``format``, ``"repr"`` (the default) or ``"json"`` (an object per line; complex numbers as pairs,
numbers that JSON does not know as null); ``every``, to print only one window out of so many.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from gsdm_grid.errors import ChannelError, QueryError
from gsdm_grid.interfaces.interface import StreamInterface, interfaces
from gsdm_grid.model import LogicalWindow, PhysicalWindow, StreamType


class StdoutSink(StreamInterface):
    """Prints to the standard output of the process that hosts it."""

    known_options: ClassVar[frozenset[str] | None] = frozenset({"every", "format"})

    def __init__(self, stream_type: StreamType, options: Mapping[str, Any]) -> None:
        super().__init__(stream_type, options)
        formats = {"repr": repr, "json": to_json}
        name = options.get("format", "repr")
        if name not in formats:
            raise QueryError(f"interface 'stdout', option 'format': one of {', '.join(formats)}; got {name!r}")
        self._format = formats[name]
        self._every = options.get("every", 1)
        if not isinstance(self._every, int) or self._every < 1:
            raise QueryError(f"interface 'stdout', option 'every': expected 1, 2, …; got {self._every!r}")
        self._windows = 0
        self._printed = 0

    def insert(self, block: PhysicalWindow) -> None:
        """See `StreamInterface`."""
        rows = range(-self._windows % self._every, len(block), self._every)
        self._windows += len(block)
        self._printed += len(rows)
        try:
            sys.stdout.write("".join(f"{self._format(block[row])}\n" for row in rows))
            sys.stdout.flush()
        except OSError as error:
            raise ChannelError(f"interface 'stdout' cannot print: {error}") from error

    def statistics(self) -> dict[str, int | float]:
        """How many windows came, and how many were printed."""
        return {"windows": self._windows, "printed": self._printed}


def to_json(window: LogicalWindow) -> str:
    """A window as one line of JSON."""
    return json.dumps({name: _plain(value) for name, value in window.values().items()}, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return value
    array = np.asarray(value)
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag], -1)
    return _finite(array.tolist())


def _finite(value: Any) -> Any:
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


interfaces.add("stdout", StdoutSink)
