"""S-Merge: several ordered streams into one (thesis algorithm 14).

Beyond the thesis it merges whole runs of windows at once, uses marks so as not to wait for windows that cannot come,
and waits for a silent input only once: after the time-out it is left behind until it delivers again, where algorithm 14
would wait anew for every window.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gsdm_grid.model import NO_MARK, Column, PhysicalWindow, StreamType, as_array
from gsdm_grid.operators.ports import OrderedPorts

UNCOPIED_BYTES = 1 << 16  # smaller runs are worth joining: blocks cost more than copies


class SMerge(OrderedPorts):
    """Orders by (key, port): the same result whatever the order of arrival."""

    def __init__(
        self, ports: int, stream_type: StreamType, order: str = "ordinal", timeout_s: float | None = None
    ) -> None:
        super().__init__(ports, order, timeout_s)
        self._type = stream_type

    @property
    def output_type(self) -> StreamType:
        """Type of the merged stream."""
        return self._type

    def decide(self, pieces: list[PhysicalWindow | None]) -> list[PhysicalWindow]:
        """See `OrderedPorts`. Runs that only follow each other are passed on as they are."""
        runs = sorted((piece for piece in pieces if piece is not None), key=lambda run: self._ends(run)[0])
        if sum(run.nbytes for run in runs) >= UNCOPIED_BYTES and all(
            self._ends(one)[1] < self._ends(other)[0] for one, other in pairwise(runs)
        ):
            return [run.stamped(mark=NO_MARK) for run in runs]  # a port's own mark is no promise for the others
        return [interleave([piece for piece in pieces if piece is not None], self.by_ordinal)]

    def _ends(self, run: PhysicalWindow) -> tuple[int, int]:
        keys = run.ordinals if self.by_ordinal else run.ts
        return int(keys[0]), int(keys[-1])


def interleave(pieces: list[PhysicalWindow], by_ordinal: bool) -> PhysicalWindow:
    """The rows of ordered pieces in the order of their keys, equal keys in the order of the pieces."""
    if len(pieces) == 1:
        return pieces[0]
    keys = np.concatenate([as_array(piece.ordinals) if by_ordinal else piece.ts for piece in pieces])
    order = np.argsort(keys, kind="stable")
    if order[0] == 0 and (np.diff(order) == 1).all():
        return PhysicalWindow.concat(pieces)
    places = np.empty(len(order), np.intp)
    places[order] = np.arange(len(order))
    bounds = np.cumsum([0, *(len(piece) for piece in pieces)])
    targets = [_regular(places[a:b]) for a, b in pairwise(bounds)]
    first = pieces[0]
    columns: dict[str, Column] = {}
    for name in first.type.attributes:
        column = _scatter([piece.columns[name] for piece in pieces], targets, len(order))
        if column is None:  # vectors of different lengths
            return PhysicalWindow.concat(pieces).select(order)
        columns[name] = column
    ordinals = keys[order] if by_ordinal else np.concatenate([as_array(piece.ordinals) for piece in pieces])[order]
    if by_ordinal and ordinals[-1] - ordinals[0] == len(ordinals) - 1 and (np.diff(ordinals) == 1).all():
        return PhysicalWindow(first.type, columns, range(int(ordinals[0]), int(ordinals[-1]) + 1))
    return PhysicalWindow(first.type, columns, ordinals)


def _regular(places: NDArray[np.intp]) -> slice | NDArray[np.intp]:
    """Places as a slice where they are evenly spaced: round robin is, and slices copy faster."""
    if len(places) == 1:
        return slice(int(places[0]), int(places[0]) + 1)
    step = int(places[1] - places[0])
    if step > 0 and (np.diff(places) == step).all():
        return slice(int(places[0]), int(places[-1]) + 1, step)
    return places


def _scatter(parts: list[Column], targets: list[slice | NDArray[np.intp]], count: int) -> Column | None:
    """Each part's rows to their places in one new array: every byte is copied once."""
    first = parts[0]
    if not isinstance(first, np.ndarray) or any(
        not isinstance(part, np.ndarray) or part.shape[1:] != first.shape[1:] for part in parts
    ):
        return None
    whole = np.empty((count, *first.shape[1:]), first.dtype)
    for part, target in zip(parts, targets, strict=True):
        whole[target] = part
    return whole
