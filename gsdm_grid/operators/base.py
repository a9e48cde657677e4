"""What every operator is: blocks in, blocks out, no I/O, no clock of its own.

The engine pushes blocks into the ports that an operator wants, passes on what it returns, tells it the time, and says
when a port has nothing more for now. Operators are bound to one thread and may be asked for their state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gsdm_grid.model import PhysicalWindow

Blocks = Sequence[PhysicalWindow]


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

    def dispose(self) -> None:
        """The operator is being dropped."""

    def statistics(self) -> dict[str, Any]:
        """Figures of its own, such as late windows and gaps."""
        return {}
