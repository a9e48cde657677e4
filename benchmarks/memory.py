"""Memory with a sink ten times too slow: resident memory of all processes of the query over a minute must stay flat."""

from __future__ import annotations

import time
from typing import Any

import psutil
from fft import SOURCE, Pipeline
from reporting import Report, arguments

from gsdm_grid import PCC, Grid, PhysicalWindow, register_input_stream, register_result_stream

WINDOW = 8192


def resident_mb(pids: list[int]) -> float:
    """Proportional resident memory of the processes: shared pages count once."""
    return sum(psutil.Process(pid).memory_full_info().pss for pid in pids) / 1e6


def main() -> int:
    """Run it."""
    options = arguments(__doc__ or "")
    report = Report("memory with a sink ten times too slow", options.json)
    seconds = 10.0 if options.quick else 60.0
    report.row("seconds", "resident MB", "windows delivered")
    flow = PCC(2, "RRpart", "fft3", {}, "S-Merge")
    with Grid("grid") as grid:
        report.progress("measuring full speed")
        full = Pipeline(grid, "full", flow, WINDOW)
        full.run(1000)
        full.measure(2.0, 200.0)
        full.close()
        pause_s = 10 / (
            full.rates[-1] / (WINDOW * 24e-6)
        )  # per window: a tenth of the speed that the query could reach
        delivered = 0

        def slow(block: PhysicalWindow) -> None:
            nonlocal delivered
            delivered += len(block)
            time.sleep(pause_s * len(block))

        source = register_input_stream("Radio", None, SOURCE, window=WINDOW)
        query = grid.cq(flow, [source], [register_result_stream(slow)])
        query.install()
        assert query.plan is not None
        pids = sorted({grid.control.registration(query.node(site)).pid for site in query.plan.sites})
        query.activate()
        samples: list[tuple[float, float]] = []
        started_s = time.monotonic()
        while (passed_s := time.monotonic() - started_s) < seconds:
            samples.append((passed_s, resident_mb(pids)))
            report.row(passed_s, samples[-1][1], delivered)
            report.progress(f"{passed_s:5.1f} s: {samples[-1][1]:.0f} MB, {delivered} windows delivered")
            time.sleep(seconds / 12)
        query.drop()
    settled = [value for passed_s, value in samples if passed_s > seconds / 4]
    growth = (settled[-1] - settled[0]) / settled[0]
    figures: dict[str, Any] = {
        "first_mb": settled[0],
        "last_mb": settled[-1],
        "growth": growth,
        "flat": abs(growth) < 0.05,
    }
    return report.finish(figures)


if __name__ == "__main__":
    raise SystemExit(main())
