"""What the demo tells whoever shows it, while it runs."""

from __future__ import annotations

from typing import Protocol

from gsdm_grid.model import PhysicalWindow


class DemoView(Protocol):
    """Who shows the demo. Called from several threads; should return soon."""

    def began(self, step: str, text: str) -> None:
        """A step begins; steps may overlap."""

    def progressed(
        self, step: str, reached: int, total: int, text: str = "", latest: PhysicalWindow | None = None
    ) -> None:
        """A step has come this far and does this now; ``latest`` are result windows to look at."""

    def ended(self, step: str, text: str) -> None:
        """A step is over."""
