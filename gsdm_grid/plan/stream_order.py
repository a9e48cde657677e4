"""In which order of time an input stream comes, as its query declares it. Plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Late = Literal["fail", "drop"]


@dataclass(frozen=True)
class StreamOrder:
    """``within_s``: how much earlier than one before it a window may be: it is sorted in as it enters. 0: none may.

    None promises nothing: windows stay as they come, and only functions that do not go by time may follow. ``late``
    says what becomes of windows that are earlier than declared: the query fails, or they are dropped and counted.
    """

    within_s: float | None = 0.0
    late: Late = "fail"

    @property
    def renumbers(self) -> bool:
        """Whether windows may be at other places than where they came: some dropped, or sorted in."""
        return self.within_s is not None and (self.within_s > 0 or self.late != "fail")

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {"within_s": self.within_s, "late": self.late}


ORDERED = StreamOrder()
"""What is assumed where nothing is declared."""
ARRIVAL = StreamOrder(within_s=None)
