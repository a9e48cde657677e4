"""What splitting costs on this installation, kept in a file: `gsdm profile split` measures it, `gsdm explain` reads it.

The file stands beside the one of `gsdm tune` and does not touch it. Profiles are kept by placement, because handing a
physical window to a thread costs something else than handing it to another process; a profile of another machine is not
used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from gsdm_grid.errors import QueryError
from gsdm_grid.splitting import Coefficients
from gsdm_grid.tuning.window_size import hardware, memory_file


@dataclass(frozen=True)
class SplitProfile:
    """Measured coefficients, and the circumstances that they hold for. Immutable."""

    placement: str
    coefficients: Coefficients
    tuple_bytes: float
    """Size of the tuples that were split."""
    block_bytes: int
    """Size W of physical windows at which the window router gained less than 0.15 % by the next one."""
    deciding_s: float
    """CPU seconds per tuple for evaluating the rfn and bfn of the measurement; they are a part of ``cc``."""
    channel_bytes_s: float
    """What one channel between two sites carried at that size."""
    error: float
    """Median relative error of the coefficients over the runs they come from."""
    measured_at: str

    def coefficients_for(self, tuple_bytes: float, deciding_s: float | None = None) -> Coefficients:
        """The coefficients for tuples of another size, and for routing functions that cost something else.

        Moving a tuple costs in proportion to its bytes.
        """
        by = tuple_bytes / self.tuple_bytes
        given = self.coefficients
        deciding = self.deciding_s if deciding_s is None else deciding_s
        reading = max(given.cc - self.deciding_s, 0.0)
        return replace(
            given, cc=reading * by + deciding, cp=given.cp * by, ce=given.ce * by, cr=given.cr * by, cm=given.cm * by
        )

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> SplitProfile:
        """Inverse of `to_json`."""
        return SplitProfile(**{**data, "coefficients": Coefficients(**data["coefficients"])})


def profile_file() -> Path:
    """Where profiles are kept."""
    return memory_file().with_name("split.json")


def keep_profile(profile: SplitProfile, path: Path | None = None) -> Path:
    """Keep a profile for this machine, in the place of an earlier one for the same placement."""
    target = path or profile_file()
    kept = {**_kept(target), profile.placement: profile.to_json()}
    target.parent.mkdir(parents=True, exist_ok=True)
    written = target.with_suffix(".new")
    written.write_text(json.dumps({"hardware": hardware(), "profiles": kept}, indent=2))
    written.replace(target)
    return target


def kept_profile(placement: str, path: Path | None = None) -> SplitProfile | None:
    """The profile that was measured on this machine for this placement, if any."""
    found = _kept(path or profile_file()).get(placement)
    try:
        return None if found is None else SplitProfile.from_json(found)
    except (TypeError, KeyError, AttributeError):  # of another version of this program
        return None


def needed_profile(placement: str, path: Path | None = None) -> SplitProfile:
    """The profile for this placement; without one it says how to get it."""
    found = kept_profile(placement, path)
    if found is None:
        others = ", ".join(sorted(_kept(path or profile_file()))) or "none"
        raise QueryError(
            f"nothing is known of what splitting costs here on {placement!r} (known: {others}): "
            f"run 'gsdm profile split --placement {placement}' first"
        )
    return found


def _kept(path: Path) -> dict[str, Any]:
    try:
        told = json.loads(path.read_text())
        return dict(told["profiles"]) if told["hardware"] == hardware() else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
