"""The demo: one synthetic radio stream, an expensive and a cheap function, and plans of both, all on one grid.

Every query runs three times over after it was installed once. The first windows are compared with the central plan's.
Then all queries are measured in turn, in rounds, beside the bare functions in plain loops. Their results stay where
they arrive: a sink counts them and checks their places (`sink`), so this process is no part of what is measured.
At last one plan grows from one compute site to two while it runs. What the figures say is in `verdict`, how all of
it looks in `view`.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gsdm_grid.apps.demo.bare_kernel import BareKernel
from gsdm_grid.apps.demo.engines import install, side_by_side, start_engines
from gsdm_grid.apps.demo.measuring import (
    DemoQuery,
    compare,
    grow,
    measure,
)
from gsdm_grid.apps.demo.plans import (
    EXPENSIVE,
    GROWING,
    PLANS,
    SAMPLE_RATE,
    TRANSPORT,
    WORKLOADS,
    DemoOptions,
    sink,
    source,
    transport_flow,
)
from gsdm_grid.apps.demo.report import (
    BARE_PROCESSES,
    DemoReport,
    PlanReport,
    work_of,
)
from gsdm_grid.apps.demo.steps import DemoView
from gsdm_grid.apps.radio import draw_waterfall
from gsdm_grid.config import Settings
from gsdm_grid.coordination import Grid
from gsdm_grid.flow import DataFlow
from gsdm_grid.model import PhysicalWindow
from gsdm_grid.reports import draw_plan

DROP_S = 4.0  # an interrupted demo does not wait long for processes that are still starting


def run_demo(options: DemoOptions, view: DemoView) -> DemoReport:
    """Run all plans on one grid; nothing of it is left when this returns or raises."""
    options.checked()
    options.out.mkdir(parents=True, exist_ok=True)
    report = DemoReport()
    with (
        tempfile.TemporaryDirectory(prefix="gsdm-demo-") as folder,
        _stopping(Grid(options.placement, Settings(drop_timeout_s=DROP_S)), view) as grid,
    ):
        if options.placement == "grid":
            start_engines(grid, options.out / "engines.log", view)
        queries = _queries(grid, options, report, Path(folder))
        chains = [workload.chain for workload in WORKLOADS]
        with BareKernel(chains, options.window, max(BARE_PROCESSES), keep_memory=True) as kernel:
            install({one.label: one.query for one in queries}, view)
            kernel.wait()
            for one in queries:
                one.report.compiled = one.query.plan
            windows = compare(queries, view)
            measure(report, queries, kernel, options, windows, view)
        growing = next(one for one in queries if one.report.plan is GROWING)
        report.growth = grow(growing, options, view)
    view.began("pictures", "drawing")
    report.pictures = _pictures(report, windows, options)
    view.ended("pictures", f"drawn, in {options.out}")
    return report


@contextlib.contextmanager
def _stopping(grid: Grid, view: DemoView) -> Iterator[Grid]:
    """The grid; whatever happens, it is closed in the end, and shown to be."""
    try:
        yield grid
    finally:
        view.began("end", "stopping everything")
        side_by_side({query.id: query.drop for query in list(grid.queries.values())}, lambda _: None)
        grid.close()
        view.ended("end", "everything stopped")


def _queries(grid: Grid, options: DemoOptions, report: DemoReport, folder: Path) -> list[DemoQuery]:
    """A query for each plan and one that computes nothing, each with its place in the report."""

    def query(name: str, flow: DataFlow, part: PlanReport) -> DemoQuery:
        kept = folder / f"{name}.npz"
        return DemoQuery(grid.cq(flow, [source(options)], [sink(kept)], name=name), kept, part)

    queries = []
    for plan in PLANS:
        part = PlanReport(plan)
        work_of(report, plan).plans.append(part)
        queries.append(query(plan.id, plan.flow(options.turn), part))
    return [*queries, query(TRANSPORT, transport_flow(), report.transport)]


def _pictures(report: DemoReport, windows: PhysicalWindow, options: DemoOptions) -> list[Path]:
    """The waterfall of the results, and the data flow of each plan of the expensive functions."""
    title = f"Synthetic three-channel radio after fft3 and polarize ({options.window:,} samples a window)"
    paths = [draw_waterfall(windows, options.out / "waterfall.png", SAMPLE_RATE, title)]
    for one in report.plans:
        if one.plan is not None and one.plan.workload is EXPENSIVE and one.compiled is not None:
            path = options.out / f"flow-{one.plan.name.replace('_', '-')}.png"
            paths.append(draw_plan(one.compiled, path, f"{one.plan.label} ({one.plan.what})"))
    return paths


__all__ = ["DemoOptions", "DemoReport", "DemoView", "run_demo"]
