"""What every operator is: blocks in, blocks out, no I/O, no clock of its own.

The engine pushes blocks into the ports that an operator wants, passes on what it returns, tells it the time, and says
when a port has nothing more for now. Operators are bound to one thread and may be asked for their state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gsdm_grid.model import PhysicalWindow

Blocks = Sequence[PhysicalWindow]


@dataclass(frozen=True)
class Held:
    """Windows that an operator keeps for results to come. Immutable, pickled.

    ``at`` is the row number of the first of them, or of the next window to come if there are none, counted from where
    the next result begins: rows below 0 are only looked back at, or skipped.
    """

    at: int
    windows: PhysicalWindow


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

    def floor(self, port: int) -> int | None:  # noqa: ARG002
        """Smallest ordinal of this port that it still holds; None where it holds nothing."""
        return None

    def state(self) -> Any:
        """What the function remembers from window to window; None where it remembers nothing."""
        return None

    def restore(self, state: Any) -> None:
        """Remember this instead, before the first block."""

    def held(self) -> Held | None:
        """What it keeps of its first port for results to come; None where it keeps nothing."""
        return None

    def hold(self, held: Held) -> None:
        """Begin with these windows, before the first block."""
        raise NotImplementedError

    def dispose(self) -> None:
        """The operator is being dropped."""

    def statistics(self) -> dict[str, Any]:
        """Figures of its own, such as late windows and gaps."""
        return {}
