"""Shapes of splitstream plans: how many outputs the nodes of a tree have, and which of them a tuple takes. Pure.

Symbols as in "Scalable splitting of massive data streams" (equations 2, 3 and 9): ``w`` outputs, fanout f_ℓ and
cumulative fanout λ_ℓ of level ℓ, routing and broadcast share ``r`` and ``b``, a = cc / (cp + ce). What a shape costs is
the business of `gsdm_grid.splitting`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

from gsdm_grid.errors import QueryError

Fanouts = tuple[int, ...]
MAX_WIDTH = 10_000


def exptree_fanouts(w: int) -> Fanouts:
    """Fanouts 2, 4, 8, … until the tree has ``w`` outputs: nothing about the stream needs to be known.

    >>> exptree_fanouts(64), exptree_fanouts(16), exptree_fanouts(2)
    ((2, 4, 8), (2, 4, 2), (2,))
    """
    return _grown(w, lambda level, _cumulative: 2**level)


def maxtree_fanouts(w: int, b: float, a: float = 1.0) -> Fanouts:
    """The tree of the greatest throughput and then of the least cost (equation 9), for r = 1 - b.

    The root has two outputs; every other level has as many as it can without being a bottleneck.

    >>> maxtree_fanouts(64, b=0.005), maxtree_fanouts(64, b=1.0)
    ((2, 32), (2, 2, 2, 2, 2, 2))
    """
    if not 0.0 <= b <= 1.0:
        raise QueryError(f"maxtree: the broadcast share b must be from 0 to 1, got {b}")
    if not a >= 0.0:
        raise QueryError(f"maxtree: a = cc / (cp + ce) must not be negative, got {a}")

    def fanout(level: int, cumulative: int) -> int:
        if level == 1:
            return 2
        if b == 0.0:
            return w
        most = (1 - b) / b * (1 + a) * (1 - 1 / cumulative)
        return w if most >= w else 2 + math.floor(most)

    return _grown(w, fanout)


def cumulative_fanouts(fanouts: Sequence[int]) -> tuple[int, ...]:
    """λ_0, λ_1, …, λ_d (equation 3): λ_(ℓ-1) is also the number of nodes of level ℓ.

    >>> cumulative_fanouts((2, 4, 8))
    (1, 2, 8, 64)
    """
    made = [1]
    for fanout in fanouts:
        made.append(made[-1] * fanout)
    return tuple(made)


def tree_nodes(fanouts: Sequence[int], w: int) -> list[dict[int, int]]:
    """How many nodes of each level have how many outputs, in a tree cut to ``w`` outputs.

    Only the last level can have nodes of different widths. A node with one output would do nothing: there is none, and
    the level above has its place.

    >>> tree_nodes((2, 3, 3, 3, 2), 64)
    [{2: 1}, {3: 2}, {3: 6}, {3: 18}, {2: 10}]
    """
    made = []
    for cumulative, fanout in zip(cumulative_fanouts(fanouts), fanouts, strict=False):
        if cumulative * fanout < w:
            made.append({fanout: cumulative})
            continue
        narrow, wider = w // cumulative, w % cumulative
        made.append({k: n for k, n in ((narrow, cumulative - wider), (narrow + 1, wider)) if n and (k > 1 or w == 1)})
    return made


def autosplit_choice(has_bfn: bool) -> Literal["fsplit", "exptree"]:
    """The rule of autosplit: without a broadcasting function a tree only costs more, with one it scales."""
    return "exptree" if has_bfn else "fsplit"


def window_splitters(q: int, phi_d: float, phi_ps: float, b: float = 0.01, o: float = 0.0) -> int:
    """How many window splitters parasplit needs: p = ⌈Φ_D / Φ_PS · (1 - b - o + b·q)⌉ (equation 6).

    ``phi_d`` is the desired rate and ``phi_ps`` that of one splitter with a single output, in the same unit; ``o`` is a
    known lower bound of the omitted share, which the paper takes as 0.

    >>> window_splitters(512, 500, 123.7)
    25
    """
    if phi_d <= 0 or phi_ps <= 0:
        raise QueryError(f"parasplit: rates must be greater than zero, got Φ_D = {phi_d} and Φ_PS = {phi_ps}")
    if b < 0 or o < 0 or b + o > 1:
        raise QueryError(f"parasplit: shares must be from 0 to 1 together, got b = {b} and o = {o}")
    _check_width(q)
    wanted = phi_d / phi_ps * (1 - o + b * (q - 1))
    return max(1, math.ceil(round(wanted, 9)))  # a whole number stays one, whatever its last binary digit says


def _grown(w: int, fanout: Callable[[int, int], int]) -> Fanouts:
    """Levels until there are ``w`` outputs; the last has no more than are missing."""
    _check_width(w)
    if w == 1:
        return (1,)
    made: list[int] = []
    cumulative = 1
    while cumulative < w:
        missing = -(-w // cumulative)
        made.append(min(fanout(len(made) + 1, cumulative), missing))
        cumulative *= made[-1]
    return tuple(made)


def _check_width(w: int) -> None:
    if not isinstance(w, int) or isinstance(w, bool) or not 1 <= w <= MAX_WIDTH:
        raise QueryError(f"splitstream: the number of outputs must be a whole number from 1 to {MAX_WIDTH}, got {w!r}")
