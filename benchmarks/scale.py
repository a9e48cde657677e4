"""Elasticity: how long a query takes to be active, cold and warm, and how long its stream stands still when it scales.

Cold: Ray and Spark are not running. Warm: they are, with spare hosts, but nothing of the query is. The stalls are of a
query under load: from the moment at which its sources hold until all its sites are active again, growing from 1 to 4
compute sites, and shrinking from 4 to 2.
"""

from __future__ import annotations

import time
from typing import Any

from fft import SOURCE
from reporting import Report, arguments, median

from gsdm_grid import PCC, Grid, Settings, register_input_stream, register_result_stream

WINDOW = 2048
RATE = 500.0
SPARES = 3


def main() -> int:
    """Run it."""
    options = arguments(__doc__ or "")
    report = Report(f"elasticity, windows of {WINDOW}", options.json)
    rounds = 1 if options.quick else 3
    warm, grow, shrink = [], [], []
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
            time.sleep(1.0)
            report.progress(f"round {number + 1} of {rounds}: 1 → 4")
            grow.append(query.rescale(_flow(4)))
            time.sleep(1.0)
            report.progress(f"round {number + 1} of {rounds}: 4 → 2")
            shrink.append(query.rescale(_flow(2)))
            query.drop()
    for name, seconds, count in (
        ("activation, cold", cold, 1),
        ("activation, warm", median(warm), rounds),
        ("stall, 1 → 4", median(grow), rounds),
        ("stall, 4 → 2", median(shrink), rounds),
    ):
        report.row(name, seconds, count)
    return report.finish(
        {
            "activate_cold_s": cold,
            "activate_warm_s": median(warm),
            "grow_stall_s": median(grow),
            "shrink_stall_s": median(shrink),
        }
    )


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
