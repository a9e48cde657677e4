"""When a choice of the optimizer no longer holds: it was made for other work, on another machine, or for other data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

ON_THE_MACHINE = ("name", "processor", "cores", "gsdm", "python", "numpy", "scipy")
"""What of a machine and its software a measurement depends on."""
OTHER_DATA = 0.25
"""Windows whose size differs by more than this share are other data."""


def work_fingerprint(work: Mapping[str, Any]) -> str:
    """A short name of what is computed from what: functions, parameters, types of the inputs, placement.

    >>> work_fingerprint({"function": "fft3"}) == work_fingerprint({"function": "fft3"})
    True
    """
    return hashlib.sha256(json.dumps(work, sort_keys=True, default=str).encode()).hexdigest()[:32]


def stale(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Why a choice that was made on machine ``then`` does not hold on machine ``now``; empty if it does."""
    return [
        f"it was chosen with {name} {then.get(name)!r}, here it is {now.get(name)!r}"
        for name in ON_THE_MACHINE
        if then.get(name) != now.get(name)
    ]


def stale_data(then_bytes: float | None, now_bytes: float | None) -> list[str]:
    """Why a choice that was made for windows of some size does not hold for others; empty if it does.

    >>> stale_data(1000, 1100), len(stale_data(1000, 8000))
    ([], 1)
    """
    if not then_bytes or not now_bytes or abs(now_bytes / then_bytes - 1) <= OTHER_DATA:
        return []
    return [f"it was chosen for windows of {then_bytes:.0f} bytes, these have {now_bytes:.0f}"]
