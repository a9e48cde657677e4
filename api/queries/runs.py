"""A run of a query, as it is stored: how it stops, and at which window of its inputs it began. Pure.

``positions`` say how many windows of each input have been read in all runs; a run that stops after a count stops at so
many windows more than its ``base``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gsdm_grid.spec import Stop

SHORTEST_S = 0.001
"""A run whose time is over ends at once."""


def begun(stop: Stop, positions: Mapping[str, int], before: Mapping[str, Any] | None, now_s: float) -> dict[str, Any]:
    """A run that begins now; ``before`` is the one before it, if there was one.

    >>> begun(Stop(count=10), {"in0": 5}, {"positions": {"in0": 7}}, 0.0)["base"]
    7
    """
    read = {**positions, **((before or {}).get("positions", {}))}
    base = max([0, *positions.values(), *read.values()])
    return {"stop": stop.to_json(), "started_s": now_s, "base": base, "positions": read, "running": True}


def last_window(run: Mapping[str, Any], stop: Stop) -> int | None:
    """The window at which a run stops; None if it does not stop by a count."""
    return None if stop.count is None else run["base"] + stop.count


def rest(run: Mapping[str, Any] | None, stop: Stop, now_s: float) -> dict[str, Any] | None:
    """How a run that was broken off goes on (see `ContinuousQuery.activate`); None if it begins anew.

    >>> rest({"running": True, "base": 100, "started_s": 0.0}, Stop(count=50), 10.0)
    {'upto': 150}
    >>> rest({"running": True, "base": 0, "started_s": 0.0}, Stop(time_s=30.0), 10.0)
    {'time_s': 20.0}
    >>> rest({"running": False, "base": 100}, Stop(count=50), 10.0) is None
    True
    """
    if run is None or not run.get("running"):
        return None
    if stop.count is not None:
        return {"upto": last_window(run, stop)}
    if stop.time_s is not None:
        return {"time_s": max(stop.time_s - (now_s - run["started_s"]), SHORTEST_S)}
    return None
