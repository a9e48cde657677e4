"""Starting what the demo runs on: Ray and Spark side by side, then the working nodes of all plans side by side."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gsdm_grid.apps.demo.interrupts import interrupts_held
from gsdm_grid.apps.demo.steps import DemoView
from gsdm_grid.coordination import ContinuousQuery, Grid
from gsdm_grid.errors import ResourceError
from gsdm_grid.hosts import RayPool, SparkPool
from gsdm_grid.reports import HOST_NAMES


def start_engines(grid: Grid, log: Path, view: DemoView) -> None:
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
        with interrupts_held():
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


def install(queries: Mapping[str, ContinuousQuery], view: DemoView) -> None:
    """Install all queries at once, each from a thread of its own: their processes start side by side.

    ``queries``: by what people call them.
    """
    view.began("plans", f"installing {len(queries)} queries")
    for query in queries.values():
        query.compile()
    ready: list[str] = []

    def over(name: str) -> None:
        ready.append(name)
        view.progressed("plans", len(ready), len(queries), f"{name} is installed")

    side_by_side({name: query.install for name, query in queries.items()}, over)
    view.ended("plans", f"{len(queries)} queries on {_hosts(queries.values())}")


def side_by_side(works: dict[str, Callable[[], Any]], over: Callable[[str], None]) -> None:
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


def _hosts(queries: Iterable[ContinuousQuery]) -> str:
    hosts = [HOST_NAMES[site.host] for query in queries if query.plan for site in query.plan.sites]
    counts = {name: hosts.count(name) for name in dict.fromkeys(HOST_NAMES.values()) if name in hosts}
    return ", ".join(f"{n} here" if name == HOST_NAMES["local"] else f"{n} {name}s" for name, n in counts.items())
