"""Snapshots of operators as plain data, as control messages carry them.

The coordinator deals out windows that operators keep without looking at them: it goes by where they are (``at``) and
how many they are (``count``). Memories of user functions are pickled apart, because functions divide them themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cloudpickle

from gsdm_grid.operators import Kept, Snapshot


def packed(snapshot: Snapshot) -> dict[str, Any]:
    """As plain data; inputs of which nothing is kept are None."""
    return {
        "kept": [None if kept is None else _packed_windows(kept) for kept in snapshot.kept],
        "memory": _dumped(snapshot.memory),
        "progress": _dumped(snapshot.progress),
        "numbered": snapshot.numbered,
    }


def unpacked(data: Mapping[str, Any]) -> Snapshot:
    """Inverse of `packed`."""
    kept = tuple(None if one is None else Kept(one["at"], cloudpickle.loads(one["windows"])) for one in data["kept"])
    return Snapshot(kept, _loaded(data["memory"]), _loaded(data["progress"]), data["numbered"])


def _packed_windows(kept: Kept) -> dict[str, Any] | None:
    if not (kept.at or len(kept.windows)):
        return None
    return {"at": kept.at, "count": len(kept.windows), "windows": bytes(cloudpickle.dumps(kept.windows))}


def _dumped(value: Any) -> bytes | None:
    return None if value is None else bytes(cloudpickle.dumps(value))


def _loaded(value: bytes | None) -> Any:
    return None if value is None else cloudpickle.loads(value)
