"""Union: several streams into one, as they arrive. Nobody waits for anybody; the engine numbers the result anew."""

from __future__ import annotations

from gsdm_grid.model import PhysicalWindow
from gsdm_grid.operators.base import Blocks, StreamOperator


class Union(StreamOperator):
    """Passes blocks on. What its inputs promised about ordinals does not hold for the result, so marks end here."""

    def push(self, port: int, block: PhysicalWindow) -> Blocks:  # noqa: ARG002
        """See `StreamOperator`."""
        return [block] if len(block) else []
