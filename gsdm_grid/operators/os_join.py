"""OS-Join: sub-windows of the same window, combined in order (thesis algorithm 15).

The inputs are ordered, so the join is a merge join: what all inputs have passed is decided, and a sub-window that an
input left out is known to be missing without waiting. Algorithm 15 probes hash tables with one input instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gsdm_grid.model import PhysicalWindow, StreamType, as_array, cut
from gsdm_grid.operators.base import Combine
from gsdm_grid.operators.ports import OrderedPorts
from gsdm_grid.operators.s_merge import interleave

Partial = Callable[[list[PhysicalWindow | None]], PhysicalWindow | None]


class OSJoin(OrderedPorts):
    """``combine`` gets one block per input with equal keys; ``partial`` one-row blocks, None where one is missing."""

    joins: ClassVar[bool] = True
    calls_functions: ClassVar[bool] = True

    def __init__(
        self,
        ports: int,
        stream_type: StreamType,
        combine: Combine,
        order: str = "ordinal",
        timeout_s: float | None = None,
        partial: Partial | None = None,
    ) -> None:
        super().__init__(ports, order, timeout_s)
        self._type = stream_type
        self._combine = combine
        self._partial = partial
        self.partial_results = 0
        self.incomplete = 0

    @property
    def output_type(self) -> StreamType:
        """Type of the joined stream."""
        return self._type

    def decide(self, pieces: list[PhysicalWindow | None]) -> list[PhysicalWindow]:
        """See `OrderedPorts`."""
        keys = _told_apart([self._keys(piece) for piece in pieces])
        if all(np.array_equal(keys[0], other) for other in keys[1:]):
            return [self._combined([piece for piece in pieces if piece is not None])]
        common = keys[0]
        for other in keys[1:]:
            common = np.intersect1d(common, other, assume_unique=True)
        results = []
        if len(common):
            matching = [
                piece.select(np.searchsorted(key, common))
                for piece, key in zip(pieces, keys, strict=True)
                if piece is not None
            ]
            results.append(self._combined(matching))
        results += self._missing(pieces, keys, np.setdiff1d(np.concatenate(keys), common))
        return [interleave(results, self.by_ordinal)] if results else []

    def progress(self) -> dict[str, Any]:
        """See `OrderedPorts`."""
        return {**super().progress(), "partial_results": self.partial_results, "incomplete": self.incomplete}

    def go_on(self, progress: Mapping[str, Any]) -> None:
        """See `OrderedPorts`."""
        super().go_on(progress)
        self.partial_results, self.incomplete = progress["partial_results"], progress["incomplete"]

    def statistics(self) -> dict[str, Any]:
        """See `StreamOperator`."""
        return {**super().statistics(), "partial_results": self.partial_results, "incomplete": self.incomplete}

    def _keys(self, piece: PhysicalWindow | None) -> NDArray[np.int64]:
        if piece is None:
            return np.empty(0, np.int64)
        return as_array(piece.ordinals) if self.by_ordinal else piece.ts

    def _combined(self, parts: list[PhysicalWindow]) -> PhysicalWindow:
        return self._combine(parts).stamped(ordinals=parts[0].ordinals)

    def _missing(
        self, pieces: list[PhysicalWindow | None], keys: list[NDArray[np.int64]], missing: NDArray[np.int64]
    ) -> list[PhysicalWindow]:
        """Partial results for windows of which some parts are missing, or recorded gaps."""
        results = []
        for wanted in missing:
            rows: list[PhysicalWindow | None] = []
            for piece, key in zip(pieces, keys, strict=True):
                at = int(np.searchsorted(key, wanted))
                found = piece is not None and at < len(key) and key[at] == wanted
                rows.append(cut(piece, at, at + 1) if found and piece is not None else None)
            made = self._partial(rows) if self._partial is not None else None
            present = next(row for row in rows if row is not None)
            if made is None:
                self.incomplete += 1
                self.gap_count += 1
                at = int(self._keys(present)[0])
                self.gaps.append({"input": rows.index(None), "after": at - 1, "until": at + 1})
            else:
                self.partial_results += 1
                results.append(made.stamped(ordinals=present.ordinals))
        if len(results) > 1:
            return [PhysicalWindow.concat(results)]
        return results


def _told_apart(keys: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
    """Keys in the same order, those that come several times told apart: the n-th joins the n-th of the others."""
    if not any((np.diff(given) == 0).any() for given in keys):
        return keys
    ranks = [np.searchsorted(np.unique(np.concatenate(keys)), given) for given in keys]
    repeats = [np.arange(len(given)) - np.searchsorted(given, given) for given in keys]
    most = 1 + max(int(repeat.max()) for repeat in repeats if len(repeat))
    return [rank * most + repeat for rank, repeat in zip(ranks, repeats, strict=True)]
