"""What every operator is: blocks in, blocks out, no I/O, no clock of its own.

The engine pushes blocks into the ports that an operator wants, passes on what it returns, tells it the time, and says
when a port has nothing more for now. Operators are bound to one thread.

Everything that an operator remembers from block to block is in its `Snapshot`: restored into a new operator, it goes
on with the same results. What it only counts for its statistics need not be there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gsdm_grid.model import PhysicalWindow

Blocks = Sequence[PhysicalWindow]
Combine = Callable[[list[PhysicalWindow]], PhysicalWindow]
"""Makes one block of those that belong together, one of each input."""


@dataclass(frozen=True)
class Kept:
    """Windows of one input that an operator keeps for results to come. Immutable, pickled.

    ``at`` is the row number of the first of them, or of the next window to come if there are none, counted from where
    the next result begins: rows below 0 are only looked back at, or skipped.
    """

    at: int
    windows: PhysicalWindow


@dataclass(frozen=True)
class Snapshot:
    """What an operator remembers between two blocks. Immutable, pickled.

    ``kept`` are windows, by input; operators that take over from others, in another number, may begin with them.
    ``memory`` is what the user's function remembers, which the function itself knows how to divide. ``progress`` is how
    far the operator is, and means something only to an operator of the same kind with the same inputs; without it, an
    operator begins anew with what is kept. ``numbered`` is how many results have been numbered.
    """

    kept: tuple[Kept | None, ...] = ()
    memory: Any = None
    progress: Mapping[str, Any] | None = None
    numbered: int = 0


class StreamOperator:
    """Base of operators; the defaults fit those without time-outs and memory."""

    def wants(self, port: int) -> bool:  # noqa: ARG002
        """Whether it can use another block of this port now; what it does not want waits upstream."""
        return True

    def push(self, port: int, block: PhysicalWindow) -> Blocks:
        """Take one block, in stream order, and return results, in result order.

        An operator with several result streams returns one block for each, in the order of their numbers.
        """
        raise NotImplementedError

    def close(self, port: int) -> Blocks:  # noqa: ARG002
        """This port has ended for good; returns what was waiting for it."""
        return ()

    def resume(self) -> None:
        """A stopped query goes on: state is kept, and the time in between did not pass."""

    def tick(self, now_s: float) -> Blocks:  # noqa: ARG002
        """Let time pass; returns what a time-out sets free."""
        return ()

    def deadline_s(self) -> float | None:
        """When `tick` has something to do, on the engine's monotonic clock."""
        return None

    def snapshot(self) -> Snapshot:
        """What it remembers. Who keeps it pickles it before the next block: parts may change with the operator."""
        return Snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        """Remember this instead, before the first block."""

    def waiting(self, port: int) -> Blocks:  # noqa: ARG002
        """Windows of this port that it holds for results to come, in stream order."""
        return ()

    def floor(self, port: int) -> int | None:
        """Smallest ordinal of this port that it still holds, and producers hence must not forget; None if none."""
        places = [block.ordinals for block in self.waiting(port) if len(block)]
        return min((int(one[0] if isinstance(one, range) else one.min()) for one in places), default=None)

    def dispose(self) -> None:
        """The operator is being dropped."""

    def statistics(self) -> dict[str, Any]:
        """Figures of its own, such as late windows and gaps."""
        return {}
