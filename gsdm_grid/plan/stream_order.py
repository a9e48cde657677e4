"""In which order of time an input stream comes, as its query declares it. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from gsdm_grid.errors import QueryError

Late = Literal["fail", "drop"]
MOST_WITHIN_S = 1e9
"""About thirty years: timestamps reach from 1677 to 2262."""


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
_NAMED = {"ordered": ORDERED, "arrival": ARRIVAL}


def parse_order(given: Any, place: str = "order") -> StreamOrder:
    """``"ordered"``, ``"arrival"``, or ``{"within": seconds, "late": "fail" or "drop"}``.

    >>> parse_order({"within": 2.0, "late": "drop"})
    StreamOrder(within_s=2.0, late='drop')
    """
    if isinstance(given, StreamOrder):
        return given
    if isinstance(given, str) and given in _NAMED:
        return _NAMED[given]
    if not isinstance(given, Mapping):
        raise QueryError(f"{place}: expected 'ordered', 'arrival' or {{within: SECONDS, late: …}}, got {given!r:.80}")
    unknown = sorted(set(given) - {"within", "late"})
    if unknown:
        raise QueryError(f"{place}: unknown member {unknown[0]!r:.80}; allowed: within, late")
    within_s, late = given.get("within", 0.0), given.get("late", "fail")
    if isinstance(within_s, bool) or not isinstance(within_s, int | float) or not 0 <= within_s <= MOST_WITHIN_S:
        allowed = f"expected a number of seconds from 0 to {MOST_WITHIN_S:g}"
        raise QueryError(f"{place}.within: {allowed}, got {within_s!r:.80}")
    if late not in get_args(Late):
        raise QueryError(f"{place}.late: expected one of {', '.join(get_args(Late))}, got {late!r:.80}")
    return StreamOrder(float(within_s), late)
