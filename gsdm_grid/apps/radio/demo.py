"""The demo: one synthetic radio stream, five parallel plans of the same query, all on one grid.

Every plan runs twice after it was installed once. The first run gives the windows that are compared with the
central plan's (`comparison`), the second one is measured. The results of both come to this process, which
checks the order of every window; that costs less than a tenth of what the query itself costs, so it does not
decide the figures. How it looks on a terminal is in `demo_view`.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from gsdm_grid.apps.plan_picture import HOST_NAMES, draw_plan, functions_of
from gsdm_grid.apps.radio.comparison import difference
from gsdm_grid.apps.radio.pictures import draw_waterfall
from gsdm_grid.config import Settings
from gsdm_grid.coordination import ContinuousQuery, Grid, register_input_stream
from gsdm_grid.errors import QueryError, ResourceError
from gsdm_grid.flow import PCC, DataFlow, lpipe, pipe
from gsdm_grid.functions.library.radio import Radio
from gsdm_grid.hosts import RayPool, SparkPool
from gsdm_grid.model import PhysicalWindow

SOURCE = "gsdm_grid.apps.radio:SyntheticRadio"
CYCLE = 128  # windows after which the synthetic carriers have gone through all their movements
SAMPLE_RATE = 1_000_000
BYTES_PER_SAMPLE = 24  # three channels of complex64
DROP_S = 4.0  # an interrupted demo does not wait long for processes that are still starting
PLACEMENTS = ("grid", "threads")


@dataclass(frozen=True)
class DemoOptions:
    """What a person may choose. Immutable."""

    windows: int = 1500
    """Windows of the measured run of each plan."""
    window: int = 4096
    """Samples per window."""
    placement: str = "grid"
    out: Path = Path("gsdm-out")
    seed: int = 0

    def checked(self) -> DemoOptions:
        """The options themselves, if the demo can run with them."""
        if self.windows < 1:
            raise QueryError(f"demo: windows must be at least 1, got {self.windows}")
        if self.window < 16 or self.window % 2:
            raise QueryError(f"demo: window must be an even number of samples from 16 on, got {self.window}")
        if self.placement not in PLACEMENTS:
            raise QueryError(f"demo: placement is one of {', '.join(PLACEMENTS)}; got {self.placement!r}")
        return self

    @property
    def compared(self) -> int:
        """Windows of the run that is compared with the central plan's."""
        return min(self.windows, CYCLE)


@dataclass(frozen=True)
class Strategy:
    """One plan of the demo: fft3, then polarize, in parallel in its own way."""

    name: str
    what: str
    degree: int
    flow: Callable[[], DataFlow]


def _split_fft() -> DataFlow:
    return PCC(2, "fft3part", "fft3", {}, "OS-Join", {"fft3combine"})


STRATEGIES = (
    Strategy("central", "both functions in one task", 1, lambda: lpipe("fft3", "polarize")),
    Strategy(
        "window_distribute",
        "whole windows to 2 tasks in turn",
        2,
        lambda: PCC(2, "RRpart", lpipe("fft3", "polarize"), None, "S-Merge"),
    ),
    Strategy(
        "window_split",
        "each window in 2 parts, FFTs combined, then polarize",
        2,
        lambda: pipe(_split_fft(), "polarize"),
    ),
    Strategy(
        "tree",
        "split in 2 inside of distribute to 2, then polarize",
        4,
        lambda: pipe(PCC(2, "RRpart", _split_fft(), None, "S-Merge"), "polarize"),
    ),
    Strategy("pipe", "fft3 in one task, polarize in the next", 1, lambda: pipe("fft3", "polarize")),
)


@dataclass
class Measured:
    """What a plan did. ``difference`` says in words what was not as in the central plan, if anything.

    ``utilization`` is the busiest site's CPU time as a share of the run's duration.
    """

    strategy: Strategy
    windows: int = 0
    compared: int = 0
    mb_s: float = 0.0
    in_order: bool = True
    difference: str | None = None
    busiest: str = ""
    busiest_does: str = ""
    utilization: float = 0.0

    @property
    def ok(self) -> bool:
        """Everything arrived, in order and equal."""
        return self.in_order and self.difference is None

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        made: dict[str, Any] = {"windows": self.windows, "mb_s": round(self.mb_s, 2)}
        if self.strategy.name != "central":
            made = {"degree": self.strategy.degree, **made}
        return made | {
            "in_order": self.in_order,
            "equals_central": self.difference is None,
            "windows_compared": self.compared,
            "busiest_site": self.busiest,
            "busiest_does": self.busiest_does,
            "utilization": round(self.utilization, 3),
        }


@dataclass
class DemoReport:
    """The outcome of a demo."""

    measured: list[Measured] = field(default_factory=list)
    pictures: list[Path] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether all plans ran, and all were equal to the central one and in order."""
        return len(self.measured) == len(STRATEGIES) and all(one.ok for one in self.measured)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "ok": self.ok,
            "strategies": {one.strategy.name: one.to_json() for one in self.measured},
            "pictures": [str(path) for path in self.pictures],
        }


class DemoView(Protocol):
    """Who shows the demo. Called from several threads; should return soon."""

    def began(self, step: str, text: str) -> None:
        """A step begins; steps may overlap."""

    def progressed(self, step: str, done: int, total: int, latest: PhysicalWindow | None) -> None:
        """A step has come this far; ``latest`` are the result windows that came last."""

    def ended(self, step: str, text: str) -> None:
        """A step is over."""


def run_demo(options: DemoOptions, view: DemoView) -> DemoReport:
    """Run all plans on one grid; nothing of it is left when this returns or raises."""
    options.checked()
    options.out.mkdir(parents=True, exist_ok=True)
    report = DemoReport()
    reference: PhysicalWindow | None = None
    with _stopping(Grid(options.placement, Settings(drop_timeout_s=DROP_S)), view) as grid:
        if options.placement == "grid":
            _start_engines(grid, options.out / "engines.log", view)
        queries = [grid.cq(strategy.flow(), [_source(options)], name=strategy.name) for strategy in STRATEGIES]
        _install(queries, view)
        for strategy, query in zip(STRATEGIES, queries, strict=True):
            one, windows = _measure(strategy, query, options, view)
            reference = windows if reference is None else reference
            one.difference = one.difference or difference(reference, windows)
            report.measured.append(one)
            query.drop()
            view.ended(strategy.name, _outcome(one))
        plans = [(s, query.plan) for s, query in zip(STRATEGIES, queries, strict=True)]
    view.began("pictures", "drawing")
    report.pictures.append(_waterfall(reference, options))
    report.pictures += [
        draw_plan(plan, options.out / f"flow-{s.name}.png", f"{s.name}: {s.what}") for s, plan in plans if plan
    ]
    view.ended("pictures", f"drawn, in {options.out}")
    return report


@contextlib.contextmanager
def _stopping(grid: Grid, view: DemoView) -> Iterator[Grid]:
    """The grid; whatever happens, it is closed in the end, and shown to be."""
    try:
        yield grid
    finally:
        view.began("end", "stopping everything")
        _side_by_side({query.id: query.drop for query in list(grid.queries.values())}, lambda _: None)
        grid.close()
        view.ended("end", "everything stopped")


def _source(options: DemoOptions) -> Any:
    return register_input_stream(
        Radio, None, SOURCE, window=options.window, seed=options.seed, sample_rate=SAMPLE_RATE, pool=CYCLE
    )


def _waterfall(windows: PhysicalWindow | None, options: DemoOptions) -> Path:
    if windows is None:
        raise QueryError("demo: no windows to draw")
    title = f"Synthetic three-channel radio after fft3 and polarize ({options.window:,} samples a window)"
    return draw_waterfall(windows, options.out / "waterfall.png", SAMPLE_RATE, title)


# -- starting --------------------------------------------------------------------------------------------


def _start_engines(grid: Grid, log: Path, view: DemoView) -> None:
    """Start Ray and Spark side by side; what they print goes to ``log``.

    Ray is started in this thread, because its processes end with the thread that started them. An interrupt
    waits until Ray is there: in the middle of its start it would leave half of it behind.
    """
    ray, spark = grid.pool("ray"), grid.pool("spark")
    assert isinstance(ray, RayPool)
    assert isinstance(spark, SparkPool)
    failures: list[Exception] = []

    def start_spark() -> None:
        try:
            _ = spark.session
            view.ended("Spark", "started")
        except Exception as error:
            failures.append(error)

    view.began("Ray", "starting")
    view.began("Spark", "starting")
    with _standard_error_to(log):
        thread = threading.Thread(target=start_spark, name="demo-spark", daemon=True)
        thread.start()
        with _interrupts_held():
            _connect(ray)
        view.ended("Ray", "started")
        while thread.is_alive():
            thread.join(0.2)
    if failures:
        raise failures[0]


def _connect(ray: RayPool) -> None:
    try:
        ray.connect()
    except Exception as error:
        raise ResourceError(f"Ray could not be started: {error}") from error


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """An interrupt takes effect at the end, at the earliest. Elsewhere than in the main thread none come."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: held.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if held:
        raise KeyboardInterrupt


def _side_by_side(works: dict[str, Callable[[], Any]], over: Callable[[str], None]) -> None:
    """Do works in threads; ``over`` is told, in this thread, which have ended. Raises what the first raised."""
    failures: list[Exception] = []
    ended: queue.SimpleQueue[str] = queue.SimpleQueue()

    def run(name: str, work: Callable[[], Any]) -> None:
        try:
            work()
        except Exception as error:
            failures.append(error)
        ended.put(name)

    for name, work in works.items():
        threading.Thread(target=run, args=(name, work), name=f"demo-{name}", daemon=True).start()
    left = len(works)
    while left and not failures:
        with contextlib.suppress(queue.Empty):
            name = ended.get(timeout=0.2)  # in small steps, so that an interrupt is noticed
            left -= 1
            if not failures:
                over(name)
    if failures:
        raise failures[0]


@contextlib.contextmanager
def _standard_error_to(path: Path) -> Iterator[None]:
    """Processes started meanwhile write their standard error to a file, for good."""
    kept = os.dup(2)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _install(queries: list[ContinuousQuery], view: DemoView) -> None:
    """Install all queries at once, each from a thread of its own: their processes start side by side."""
    view.began("queries", f"installing {len(queries)} plans")
    for query in queries:
        query.compile()
    done: list[str] = []

    def over(name: str) -> None:
        done.append(name)
        view.progressed("queries", len(done), len(queries), None)

    _side_by_side({query.id: query.install for query in queries}, over)
    view.ended("queries", f"{len(queries)} plans: {_hosts(queries)}")


def _hosts(queries: list[ContinuousQuery]) -> str:
    hosts = [HOST_NAMES[site.host] for query in queries if query.plan for site in query.plan.sites]
    counts = {name: hosts.count(name) for name in dict.fromkeys(HOST_NAMES.values()) if name in hosts}
    return ", ".join(f"{n} here" if name == HOST_NAMES["local"] else f"{n} {name}s" for name, n in counts.items())


# -- running ---------------------------------------------------------------------------------------------


def _measure(
    strategy: Strategy, query: ContinuousQuery, options: DemoOptions, view: DemoView
) -> tuple[Measured, PhysicalWindow]:
    one = Measured(strategy)
    view.began(strategy.name, strategy.what)
    total = options.compared + options.windows
    kept: list[PhysicalWindow] = []
    order = OrderCheck()

    def took(block: PhysicalWindow) -> None:
        order.take(block)
        view.progressed(strategy.name, order.windows, total, block)

    for block in query.run(count=options.compared).blocks():
        took(block)
        kept.append(block)
    query.wait()
    one.compared = order.windows
    before = _cpu_seconds(query)
    for block in query.run(count=options.windows).blocks():
        took(block)
    query.wait()
    one.windows = order.windows - one.compared
    one.in_order = order.ok
    if order.windows != total:
        one.difference = f"{order.windows} windows arrived of {total}"
    seconds = query.run_seconds or 1e-9
    one.mb_s = options.windows * options.window * BYTES_PER_SAMPLE / 1e6 / seconds
    spent = {site: cpu_s - before[site] for site, cpu_s in _cpu_seconds(query).items()}
    site = max(spent, key=lambda name: spent[name])
    one.utilization = spent[site] / seconds
    plan = query.plan
    one.busiest, one.busiest_does = site, functions_of(plan, site) if plan else site
    return one, PhysicalWindow.concat(kept)


def _cpu_seconds(query: ContinuousQuery) -> dict[str, float]:
    """What each site has worked so far, asked for now."""
    kinds = ("processing_s", "communication_s", "system_s")
    return {site: sum(told[kind] for kind in kinds) for site, told in query.refresh().items()}


class OrderCheck:
    """Follows a result stream: ordinals count up by one from 0, and time never goes back."""

    def __init__(self) -> None:
        self.windows = 0
        self.ok = True
        self._last_ts = -1

    def take(self, block: PhysicalWindow) -> None:
        """The next windows of the stream."""
        times = np.asarray(block.ts)
        expected = range(self.windows, self.windows + len(block))
        rising = bool(np.all(np.diff(times, prepend=self._last_ts) > 0))
        self.ok = self.ok and rising and list(block.ordinals) == list(expected)
        self.windows += len(block)
        if len(times):
            self._last_ts = int(times[-1])


def _outcome(one: Measured) -> str:
    if one.strategy.name == "central":
        return f"{one.mb_s:,.0f} MB/s"
    return f"{one.mb_s:,.0f} MB/s, " + ("equal to central" if one.ok else one.difference or "not in order")


__all__ = ["STRATEGIES", "DemoOptions", "DemoReport", "DemoView", "Measured", "OrderCheck", "Strategy", "run_demo"]
