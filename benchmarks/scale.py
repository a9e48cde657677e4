"""Elasticity: how long a query takes to be active, cold and warm, and how long its stream stands still when it scales.

Cold: Ray and Spark are not running. Warm: they are, with spare hosts, but nothing of the query is. The stalls are of a
query under load: from the moment at which its sources hold until all its sites are active again, growing from 1 to 4
compute sites, and shrinking from 4 to 2, in one query over and over. *CPU after shrinking* is what all processes
together spend with 1 compute site after it, as a share of what they spent before growing.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

import psutil
from fft import SOURCE
from reporting import Report, arguments, median

from gsdm_grid import PCC, Grid, Settings, register_input_stream, register_result_stream

WINDOW = 2048
RATE = 500.0
SPARES = 3
SETTLE_S, MEASURE_S = 4.0, 8.0


def main() -> int:
    """Run it."""
    options = arguments(__doc__ or "")
    report = Report(f"elasticity, windows of {WINDOW}", options.json)
    rounds = 1 if options.quick else 3
    warm, grow, shrink, after = [], [], [], []
    report.row("what", "seconds", "of")
    with Grid("grid", Settings(spare_hosts=SPARES)) as grid:
        report.progress("cold start")
        cold = _activation(grid)
        for number in range(rounds):
            report.progress(f"round {number + 1} of {rounds}: warm start")
            _wait_for_spares(grid)
            warm.append(_activation(grid))
        query = _query(grid, 1)
        query.run()
        time.sleep(SETTLE_S)
        for number in range(rounds):
            before = _cpu_share()
            report.progress(f"round {number + 1} of {rounds}: 1 → 4 → 2 → 1, from {before:.2f} of a core")
            grow.append(query.rescale(_flow(4)))
            time.sleep(1.0)
            shrink.append(query.rescale(_flow(2)))
            time.sleep(1.0)
            query.rescale(_flow(1))
            time.sleep(SETTLE_S)
            after.append(_cpu_share() / before)
        query.drop()
    for name, seconds, count in (
        ("activation, cold", cold, 1),
        ("activation, warm", median(warm), rounds),
        ("stall, 1 → 4", median(grow), rounds),
        ("longest stall, 1 → 4", max(grow), rounds),
        ("stall, 4 → 2", median(shrink), rounds),
        ("longest stall, 4 → 2", max(shrink), rounds),
    ):
        report.row(name, seconds, count)
    return report.finish(
        {
            "activate_cold_s": cold,
            "activate_warm_s": median(warm),
            "grow_stall_s": median(grow),
            "shrink_stall_s": median(shrink),
            "cpu_after_shrinking": median(after),
        }
    )


def _cpu_share() -> float:
    """Cores that this process and all below it keep busy, over some seconds."""
    started_s, spent_s = time.monotonic(), _cpu_seconds()
    time.sleep(MEASURE_S)
    return (_cpu_seconds() - spent_s) / (time.monotonic() - started_s)


def _cpu_seconds() -> float:
    spent_s = 0.0
    for process in [here := psutil.Process(), *here.children(recursive=True)]:
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            spent_s += times.user + times.system
    return spent_s


def _wait_for_spares(grid: Grid) -> None:
    """Spare hosts that were taken are replaced when things have settled."""
    while grid.inventory()["ray"].get("spares", 0) < SPARES:
        time.sleep(0.1)
    time.sleep(1.0)


def _flow(degree: int) -> Any:
    return PCC(degree, "RRpart", "fft3", {}, "S-Merge")


def _query(grid: Grid, degree: int) -> Any:
    source = register_input_stream("Radio", None, SOURCE, window=WINDOW, rate=RATE)
    return grid.cq(_flow(degree), [source], [register_result_stream(None, "null")])


def _activation(grid: Grid) -> float:
    """Seconds from a submitted query of two compute sites to an active one."""
    query = _query(grid, 2)
    started_s = time.monotonic()
    query.run()
    took_s = time.monotonic() - started_s
    query.drop()
    return took_s


if __name__ == "__main__":
    raise SystemExit(main())
