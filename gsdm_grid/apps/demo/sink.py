"""The demo's sink: counts results and checks their places where they arrive, and keeps the first of them in a file.

So a measured run moves no result into the process that shows the demo, and still no window can be lost, doubled or
reordered without being counted.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from gsdm_grid.errors import QueryError
from gsdm_grid.interfaces import InterfaceContext, StreamInterface
from gsdm_grid.model import PhysicalWindow, StreamType

ORDINALS = "ordinals"


class PlaceCheck:
    """Follows a result stream: ordinals count up by one from 0, and time never goes back."""

    def __init__(self) -> None:
        self.arrived = 0
        self.missing = 0
        """Ordinals that were passed over."""
        self.misplaced = 0
        """Windows that came again, or after a later one."""
        self.time_reversals = 0
        self._next = 0
        self._last_ts: int | None = None

    def take(self, block: PhysicalWindow) -> None:
        """The next windows of the stream."""
        if not len(block):
            return
        ordinals = np.asarray(block.ordinals, np.int64)
        reached = np.maximum.accumulate(np.concatenate([[self._next - 1], ordinals]))
        self.missing += int(np.maximum(ordinals - reached[:-1] - 1, 0).sum())
        self.misplaced += int((ordinals <= reached[:-1]).sum())
        self._next = int(reached[-1]) + 1
        times = np.asarray(block.ts)
        self.time_reversals += int((np.diff(times) <= 0).sum())
        self.time_reversals += int(self._last_ts is not None and times[0] <= self._last_ts)
        self._last_ts = int(times[-1])
        self.arrived += len(block)

    def figures(self) -> dict[str, int | float]:
        """What was counted."""
        return {
            "arrived": self.arrived,
            "missing": self.missing,
            "misplaced": self.misplaced,
            "time_reversals": self.time_reversals,
        }


class CheckedResults(StreamInterface):
    """Options: ``path`` of a ``.npz`` file for the first ``keep`` windows. The rest is checked and let go.

    The file is there when the run in which the last of them came is over.
    """

    known_options: ClassVar[frozenset[str] | None] = frozenset({"keep", "path"})
    sink_option: ClassVar[str] = "path"

    @classmethod
    @override
    def files(cls, options: Mapping[str, Any]) -> list[Path]:
        return [Path(str(options["path"]))] if "path" in options else []

    def __init__(self, stream_type: StreamType, options: Mapping[str, Any]) -> None:
        super().__init__(stream_type, options)
        if "path" not in options:
            raise QueryError("the demo's sink needs option 'path'")
        self._path = Path(str(options["path"]))
        self._keep = int(options.get("keep", 0))
        self._kept: list[PhysicalWindow] = []
        self._check = PlaceCheck()

    @override
    def open(self, context: InterfaceContext) -> None:
        """What was counted before goes on."""
        super().open(context)

    @override
    def insert(self, block: PhysicalWindow) -> None:
        room = self._keep - self._check.arrived
        self._check.take(block)
        if room > 0 and len(block):
            self._kept.append(_copied(block.select(slice(0, min(room, len(block))))))
            if room <= len(block):
                self._write()

    @override
    def pause(self) -> None:
        self._write()

    @override
    def finish(self) -> None:
        self._write()

    @override
    def statistics(self) -> dict[str, int | float]:
        return self._check.figures()

    def _write(self) -> None:
        if not self._kept:
            return
        block = PhysicalWindow.concat(self._kept)
        whole = self._path.with_suffix(".part")
        with whole.open("wb") as file:
            columns: dict[str, Any] = {**block.columns, ORDINALS: np.asarray(block.ordinals, np.int64)}
            np.savez(file, **columns)
        os.replace(whole, self._path)
        if len(block) >= self._keep:
            self._kept = []


def read_kept(path: Path, stream_type: StreamType) -> PhysicalWindow:
    """The windows that a sink has kept, at the places that they came with."""
    if not path.exists():
        return PhysicalWindow.empty(stream_type)
    with np.load(path) as file:
        columns = {name: file[name] for name in stream_type.attributes}
        ordinals = file[ORDINALS]
    return stream_type.block(**columns).stamped(ordinals=ordinals)


def _copied(block: PhysicalWindow) -> PhysicalWindow:
    """The same windows in memory of their own: a block may lie in memory that its sender uses again."""
    columns: dict[str, Any] = {name: np.array(column) for name, column in block.columns.items()}
    return PhysicalWindow(block.type, columns, block.ordinals)
