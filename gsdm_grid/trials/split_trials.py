"""Measuring what splitting costs: splitstream plans run over synthetic tuples, and coefficients are fitted to them.

The tuples are as wide as those of Linear Road: fifteen 32-bit integers, and the timestamp that all windows have. A plan
runs a little first; what sites spent in that time on getting started is subtracted.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import numpy as np

from gsdm_grid.config import Settings
from gsdm_grid.coordination import DEFAULT_BLOCK_BYTES, Grid
from gsdm_grid.flow import DataFlow, mapstream, parasplit, pipe, splitstream
from gsdm_grid.functions import routing
from gsdm_grid.model import PhysicalWindow, TypeRegistry, create_stream_type
from gsdm_grid.plan import Plan
from gsdm_grid.spec import register_input_stream, register_result_stream
from gsdm_grid.splitting import (
    Observed,
    fit,
    median_error,
    observations,
)
from gsdm_grid.tuning import SplitProfile, window_size

ATTRIBUTES = (
    *("kind", "time", "vid", "spd", "xway", "lane", "dir", "seg", "pos"),
    *("qid", "s_init", "s_end", "dow", "tod", "day"),
)
SplitTuple = create_stream_type("SplitTuple", dict.fromkeys(ATTRIBUTES, "int32"), registry=TypeRegistry())
TUPLE_BYTES = 4 * len(ATTRIBUTES) + 8
POSITION, BALANCE, TRAVEL_TIME = 0, 2, 4
RFN = f"xway if kind == {POSITION} else None"
BFN = f"kind == {BALANCE}"
POOL = 4  # different physical windows; more would only fill the memory
SHARED_SITES = 2
"""Sites that the query processors of a measured plan share: hundreds of them would need hundreds of threads."""
WAIT_S = 240.0
Progress = Callable[[str], None]
ProfileRound = dict[tuple[Any, ...], Observed]
"""What sites spent, by the size of physical windows, the plan and what they do in it."""
ROUNDS = 3
"""Rounds that coefficients come from."""


@lru_cache(2)
def tuple_pool(n: int, w: int, b: float, o: float, seed: int = 0) -> list[PhysicalWindow]:
    """Physical windows of ``n`` tuples: position reports of ``w`` expressways, a share b to broadcast and o to omit."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(POOL):
        columns = {name: rng.integers(0, 100, n, np.int32) for name in ATTRIBUTES}
        lot = rng.random(n)
        columns["kind"] = np.where(lot < b, BALANCE, np.where(lot < b + o, TRAVEL_TIME, POSITION)).astype(np.int32)
        columns["xway"] = rng.integers(0, w, n, np.int32)
        made.append(SplitTuple.block(ts=np.zeros(n, np.int64), **columns))
    return made


def tuple_stream(n: int, w: int, b: float, o: float, seed: int = 0) -> Iterator[PhysicalWindow]:
    """The pool over and over, with timestamps that rise; for interface ``generator``."""
    pool = tuple_pool(n, w, b, o, seed)
    for number in itertools.count():
        block = pool[number % POOL]
        yield PhysicalWindow(block.type, {**block.columns, "ts": np.arange(number * n, number * n + n)})


@dataclass(frozen=True)
class SplitRun:
    """A run of a splitstream plan: what its sites did and spent, without what they did to get started."""

    plan: Plan
    tuples: int
    seconds: float
    observed: Mapping[str, Observed]

    def spent_s(self, *kinds: str) -> float:
        """CPU seconds of all sites of these kinds."""
        return sum(one.cost_s for one in self.observed.values() if one.kind in kinds)

    @property
    def alike(self) -> dict[tuple[str, int, int], Observed]:
        """Sites that do the same at the same level, as one observation each: by kind, level and outputs."""
        found: dict[tuple[str, int, int], list[Observed]] = {}
        for site in self.plan.sites:
            if (one := self.observed.get(site.id)) is not None:
                found.setdefault((one.kind, site.level, one.outputs), []).append(one)
        return {key: Observed.together(sites) for key, sites in found.items()}

    @property
    def derived_rate(self) -> float:
        """Tuples per second with one core for each router, splitter and query processor: the busiest sets the pace.

        Those that do the same at the same level get the same share of these tuples: their mean is taken, because the
        slowest of a hundred that share a core is slow by chance.
        """
        return self.tuples / max(one.member_cost_s for one in self.alike.values())


def split_flow(plan: str, w: int, *, p: int = 2, b: float = 0.0, a: float = 1.0) -> DataFlow:
    """A plan of this name with query processors that only count."""
    bfn = BFN if b > 0 else None
    if plan == "parasplit":
        return parasplit(p, w, RFN, bfn, sites=SHARED_SITES)
    options = {"b": b, "a": a} if plan == "maxtree" else {}
    return pipe(splitstream(w, RFN, bfn, plan, **options), mapstream("identity", {}, w, SHARED_SITES))


def measuring_settings(n: int) -> Settings:
    """Settings for runs over physical windows of ``n`` tuples whose CPU times are to say what a site costs by itself.

    Threads share one core: on several they spend up to three times as much on handing Python's lock to each other
    across cores, which sites with a process each do not. Few windows are under way, because many outputs, each with
    many of them, would fill the memory.
    """
    return Settings(block_bytes=n * TUPLE_BYTES, channel_blocks=3, thread_cores=1)


def run_split(grid: Grid, flow: DataFlow, tuples: int, n: int, b: float = 0.0, o: float = 0.0) -> SplitRun:
    """Run a flow over synthetic tuples in physical windows of ``n``; the first tenth is for getting started."""
    params = {"n": n, "w": flow.width, "b": b, "o": o}
    tuple_pool(**params)  # where the source is a thread of this process, it finds them made
    source = register_input_stream(SplitTuple, None, "generator", function=f"{__name__}:tuple_stream", params=params)
    sinks = [register_result_stream(None, "null", name=f"out{number}") for number in range(flow.width)]
    windows = max(-(-tuples // n), 1)
    query = grid.cq(flow, [source], sinks)
    try:
        query.run(count=max(windows // 10, POOL) * n).wait(WAIT_S)
        before = _observed(query)
        began_s = time.perf_counter()
        query.run(count=windows * n).wait(WAIT_S)
        seconds = time.perf_counter() - began_s
        after = _observed(query)
        assert query.plan is not None
        difference = {site: one.less(before[site]) for site, one in after.items() if site in before}
        return SplitRun(query.plan, windows * n, seconds, difference)
    finally:
        query.drop()


def profile_split(
    placement: str, progress: Progress, *, quick: bool = False, block_bytes: int | None = None
) -> SplitProfile:
    """Measure the coefficients of splitting on this installation.

    ``block_bytes`` is the size of physical windows; without it, it is doubled until a channel gains less than 0.15 %.
    """
    channel = _channel(progress, quick, block_bytes)
    rounds = [profile_round(placement, progress, quick=quick) for _ in range(1 if quick else ROUNDS)]
    observed = typical(rounds)
    coefficients = fit(observed)
    n = PROFILE_BYTES[-1] // TUPLE_BYTES
    return SplitProfile(
        placement,
        coefficients,
        TUPLE_BYTES,
        channel.block_bytes,
        deciding_seconds(RFN, BFN, tuple_pool(n, 64, 0.005, 0.0), 64),
        0.0 if placement == "threads" else channel.tried[channel.block_bytes],
        median_error(coefficients, observed),
        datetime.now(UTC).isoformat(timespec="seconds"),
    )


def profile_round(placement: str, progress: Progress, *, quick: bool = False) -> ProfileRound:
    """What the sites of some plans spend, to fit coefficients to: sites that do the same together."""
    found: ProfileRound = {}
    threads = placement == "threads"
    runs = [run for run in PROFILE_RUNS if threads or run[0] != "exptree"]  # dozens of processes, and each has to start
    for size in PROFILE_BYTES:
        n = size // TUPLE_BYTES
        tuples = (8 if quick else 24) * n
        with Grid(placement, measuring_settings(n)) as grid:
            for name, w, p, b in runs:
                progress(f"{name}, w = {w}, b = {b:.1%}, physical windows of {size >> 10} KiB")
                run = run_split(grid, split_flow(name, w, p=p, b=b), tuples, n, b)
                found |= {(size, name, w, p, b, *key): one for key, one in run.alike.items()}
    return found


def typical(rounds: Sequence[ProfileRound]) -> list[Observed]:
    """Of each kind of site the round in which it spent neither much nor little: machines change their pace."""
    found = []
    for key in dict.fromkeys(itertools.chain(*rounds)):
        by_cost = sorted((one[key] for one in rounds if key in one), key=lambda one: one.cost_s / max(one.windows, 1))
        found.append(by_cost[(len(by_cost) - 1) // 2])
    return found


PROFILE_BYTES = (1 << 20, 6 << 20)
"""Sizes of physical windows of the runs: what is spent per window and per tuple is told apart by them."""
PROFILE_RUNS = (
    ("fsplit", 2, 0, 0.0),
    ("fsplit", 16, 0, 0.1),
    ("fsplit", 100, 0, 0.0),
    ("fsplit", 100, 0, 0.02),
    ("fsplit", 300, 0, 0.005),
    ("exptree", 20, 0, 0.1),
    ("exptree", 100, 0, 0.01),
    ("parasplit", 4, 2, 0.0),
    ("parasplit", 50, 3, 0.02),
    ("parasplit", 50, 8, 0.0),
)
"""Plan, width, window splitters and broadcast share of the runs that coefficients come from."""


def deciding_seconds(rfn: Any, bfn: Any, blocks: list[PhysicalWindow], w: int) -> float:
    """CPU seconds per tuple for evaluating rfn and bfn over these blocks."""
    decide = routing(rfn, bfn, blocks[0].type, w)
    decide(blocks[0])
    began_s = time.thread_time()
    for block in blocks:
        decide(block)
    return (time.thread_time() - began_s) / sum(len(block) for block in blocks)


def _channel(progress: Progress, quick: bool, block_bytes: int | None) -> window_size.SizeChoice:
    def measure(size: int) -> float:
        progress(f"channel, physical windows of {size >> 10} KiB")
        return window_size.measure_channel(size, total_bytes=1 << (26 if quick else 28), rounds=3)

    if block_bytes is not None:
        return window_size.SizeChoice(block_bytes, {block_bytes: measure(block_bytes)})
    return window_size.choose(measure)


def _observed(query: Any) -> dict[str, Observed]:
    return observations(query.plan, query.refresh())


def used_block_bytes() -> int:
    """The size of physical windows that queries here use."""
    return window_size.remembered_block_bytes() or DEFAULT_BLOCK_BYTES
