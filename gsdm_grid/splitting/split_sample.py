"""What becomes of the tuples of a stream, judged by a sample of them. Pure.

The second paper takes o = 0, which asks for more window splitters than needed, and leaves a known lower bound of o to
future work. Here it is: a sample gives shares with bounds that hold in 95 of 100 cases, and the side is taken on which
an error does not starve anybody: little omitted, much broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gsdm_grid.errors import QueryError
from gsdm_grid.splitting.split_cost import StreamShares

ONE_SIDED_95 = 1.6449


@dataclass(frozen=True)
class SplitSample:
    """Counts of sampled tuples. Immutable. ``per_output`` counts routed tuples only."""

    tuples: int
    omitted: int
    broadcast: int
    per_output: tuple[int, ...] = ()
    deciding_s: float = 0.0
    """CPU seconds per tuple that rfn and bfn took."""

    def __post_init__(self) -> None:
        if self.tuples < 1 or not 0 <= self.omitted + self.broadcast <= self.tuples:
            raise QueryError(
                f"a sample of {self.tuples} tuples cannot have {self.omitted} omitted and {self.broadcast} broadcast"
            )

    @property
    def o_at_least(self) -> float:
        """Lower bound of the omitted share."""
        return bounds(self.omitted, self.tuples)[0]

    @property
    def b_at_most(self) -> float:
        """Upper bound of the broadcast share; none at all where there was none to be seen."""
        return bounds(self.broadcast, self.tuples)[1] if self.broadcast else 0.0

    @property
    def hot(self) -> tuple[int, float] | None:
        """The output that gets most, and its share of what is routed; None if nothing is."""
        total = sum(self.per_output)
        if not total:
            return None
        most = max(range(len(self.per_output)), key=self.per_output.__getitem__)
        return most, self.per_output[most] / total

    def shares(self, n: float) -> StreamShares:
        """Shares on the safe side, for physical windows of ``n`` tuples."""
        broadcast = min(self.b_at_most, 1.0)
        return StreamShares(b=broadcast, o=min(self.o_at_least, 1.0 - broadcast), n=n)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        hot = self.hot
        return {
            "tuples": self.tuples,
            "o": self.omitted / self.tuples,
            "b": self.broadcast / self.tuples,
            "r": 1 - (self.omitted + self.broadcast) / self.tuples,
            "o_at_least": self.o_at_least,
            "b_at_most": self.b_at_most,
            "hot_output": None if hot is None else hot[0],
            "hot_share": None if hot is None else hot[1],
            "deciding_s": self.deciding_s,
        }


def bounds(count: int, total: int) -> tuple[float, float]:
    """One-sided 95 % bounds of a share of which ``count`` of ``total`` were seen (Wilson's score).

    >>> [round(bound, 3) for bound in bounds(50, 100)]
    [0.419, 0.581]
    >>> bounds(0, 100)[0], round(bounds(0, 100)[1], 3)
    (0.0, 0.026)
    """
    z2 = ONE_SIDED_95**2
    share = count / total
    middle = share + z2 / (2 * total)
    spread = ONE_SIDED_95 * math.sqrt(share * (1 - share) / total + z2 / (4 * total * total))
    low, high = ((middle + sign * spread) / (1 + z2 / total) for sign in (-1, 1))
    return (0.0 if count == 0 else max(0.0, low), 1.0 if count == total else min(1.0, high))


def joined(samples: Sequence[SplitSample]) -> SplitSample:
    """Several samples of one stream as one, such as those that the window splitters of a running query report."""
    if not samples:
        raise QueryError("there is no sample yet")
    width = max(len(one.per_output) for one in samples)
    filled = [one.per_output + (0,) * (width - len(one.per_output)) for one in samples]
    tuples = sum(one.tuples for one in samples)
    return SplitSample(
        tuples,
        sum(one.omitted for one in samples),
        sum(one.broadcast for one in samples),
        tuple(sum(counts) for counts in zip(*filled, strict=True)),
        sum(one.deciding_s * one.tuples for one in samples) / tuples,
    )
