"""The last failure of what was asked of a query, and what follows from it. Pure.

When nobody is trying any more, the desired state is the actual one: a query whose desired state is ``active`` runs,
waits for hosts, or is being started. So a reader waits for such a query, and is told the reason of any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DELIVERING = ("run", "activate", "recover")
"""Actions after which a query delivers results."""


def failure(action: str, operation: str | None, at_s: float) -> dict[str, Any]:
    """What failed; the problem itself is kept as the query's error."""
    return {"action": action, "operation": operation, "at": at_s}


def cannot_deliver(query: Mapping[str, Any]) -> bool:
    """Whether a query, as people see it, gives no results because something failed, and nobody is trying again."""
    if query["desired"] == "active":
        return False
    return query["state"] == "failed" or (query.get("failure") or {}).get("action") in DELIVERING
