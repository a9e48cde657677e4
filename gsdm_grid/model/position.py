"""How far a stream has been read, and what to leave out when its windows come a second time.

A producer that is started anew, or resumed, begins again at, or before, the place where its reader is. Windows come in
the order of their ordinals, so the reader leaves out what lies before its place and sees every window once, in order.
Connections that count windows use their numbers as ordinals.
"""

from __future__ import annotations

import numpy as np

from gsdm_grid.model.physical import PhysicalWindow, as_array, cut

_ALL = 1 << 62


class StreamPosition:
    """One reader's place in one stream. Bound to its reader.

    Several windows may have one ordinal: those that a function makes of one window. They may come in several blocks,
    and readers may stop between them, so a place is an ordinal and how many of its windows were read.
    """

    __slots__ = ("_repeated", "count", "duplicates", "ordinal")

    def __init__(self, ordinal: int | None = None, count: int = 0) -> None:
        self.ordinal = ordinal
        """The last that was read; None at the beginning."""
        self.count = count
        """How many windows with this ordinal were read."""
        self.duplicates = 0
        """How many windows were left out."""
        self._repeated: tuple[int, int] | None = None  # windows up to this place may come again

    @staticmethod
    def before(ordinal: int) -> StreamPosition:
        """The place of a reader that needs nothing from before this ordinal."""
        return StreamPosition(ordinal - 1, _ALL)

    def advance(self, block: PhysicalWindow) -> None:
        """These windows were read."""
        if not len(block):
            return
        ordinals = block.ordinals
        last = int(ordinals[-1])
        same = 1 if isinstance(ordinals, range) else len(ordinals) - int(np.searchsorted(ordinals, last))
        self.count = same + (self.count if same == len(block) and last == self.ordinal else 0)
        self.ordinal = last

    def advance_to(self, ordinal: int) -> None:
        """All windows up to this ordinal were read, or will not come. Never goes back."""
        if self.ordinal is None or ordinal >= self.ordinal:
            self.ordinal, self.count = ordinal, _ALL

    def has_passed(self, ordinal: int) -> bool:
        """Whether a window with this ordinal, or a later one, was read."""
        return self.ordinal is not None and ordinal <= self.ordinal

    def missing_before(self, ordinal: int) -> int:
        """How many ordinals lie between the last that was read and this one; at the beginning none."""
        return 0 if self.ordinal is None else max(0, ordinal - self.ordinal - 1)

    def expect_duplicates(self) -> None:
        """The producer begins again, at this place or before it."""
        self._repeated = None if self.ordinal is None else (self.ordinal, self.count)

    def without_duplicates(self, block: PhysicalWindow) -> PhysicalWindow:
        """What of a block is new: all of it, unless duplicates are expected. Keeps the marks.

        Duplicates are expected no longer once a window has come that lies behind all that was read.
        """
        if self._repeated is None or not len(block):
            return block
        ordinal, count = self._repeated
        ordinals = as_array(block.ordinals)
        before, after = (int(np.searchsorted(ordinals, ordinal, side)) for side in ("left", "right"))
        same = min(after - before, count)
        self._repeated = None if after < len(block) else (ordinal, count - same)
        self.duplicates += before + same
        return cut(block, before + same).marked_as(block) if before + same else block
