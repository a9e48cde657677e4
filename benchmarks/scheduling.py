"""Latency by scheduling policy (thesis 6.3.4): two working nodes over TCP, the second with each of the policies.

The first node sends windows at a fixed rate, each stamped with the time at which it is due. The second has periods of a
fixed length, with one execution in each (fixed-number), or periods that begin when there is something to do, and take
what there is (variable-length, greedy). Its function is either the identity, or transforms that take about 20 ms. The
first windows, which find the nodes still starting, are not counted.
"""

from __future__ import annotations

import socket
import statistics
import time
from typing import Any

from fft import SOURCE
from functions import expensive_fft3
from reporting import Report

from gsdm_grid import DataFlow, Grid, central, register_input_stream, register_result_stream
from gsdm_grid.apps.radio.synthetic import RadioSynthesizer

WINDOW = 2048
WORK_S = 0.020
"""What a window costs; the thesis's fft3 took 0.107 s, so our turn-around times are five times shorter."""
LIGHT = (0.08, 0.1, 0.2, 0.3)
LOADED = (0.056, 0.037, 0.028, 0.0225)
OVERLOADED = (0.0187, 0.0168)


def _rounds() -> int:
    """How often the expensive function must transform a window so that it takes the time wanted."""
    from scipy import fft

    signal = RadioSynthesizer(WINDOW, pool=1).block(0, 1).x
    started_s = time.thread_time()
    for _ in range(200):
        fft.ifft(fft.fft(signal))
    return max(1, round(WORK_S / (3 * (time.thread_time() - started_s) / 200)))


def scheduling(report: Report, quick: bool) -> dict[str, list[dict[str, Any]]]:
    """Tables 6.1 to 6.4."""
    windows = 20 if quick else 200
    working = central(expensive_fft3, {"rounds": _rounds()})
    with Grid("threads") as grid:
        made = {
            "light": [_row(grid, period_s, central("identity"), windows) for period_s in LIGHT],
            "loaded": [_row(grid, period_s, working, windows) for period_s in LOADED],
            "overloaded": [_row(grid, period_s, working, windows) for period_s in OVERLOADED],
        }
    for name, rows in made.items():
        told = ", ".join(f"{row['period_s']:g} s: {row['fixed_s']:.3f} / {row['variable_s']:.3f}" for row in rows)
        report.progress(f"latency, {name}, fixed / variable: {told}")
    return made


def _row(grid: Grid, period_s: float, function: DataFlow, windows: int) -> dict[str, Any]:
    """One line of a table: both policies at one rate."""
    count = max(10, int(min(windows, 12.0 / period_s)))
    fixed = _run(grid, period_s, function, count, {"period_s": period_s, "repetition": 1})
    variable = _run(grid, period_s, function, count, {})
    return {
        "period_s": period_s,
        "rate": 1 / period_s,
        "load": fixed["load"],
        "fixed_s": fixed["latency_s"],
        "variable_s": variable["latency_s"],
        "fixed_sender_s": fixed["sender_s"],
        "variable_sender_s": variable["sender_s"],
        "windows": count,
    }


def _run(grid: Grid, period_s: float, function: DataFlow, count: int, schedule: dict[str, Any]) -> dict[str, float]:
    """Mean latency of ``count`` windows; the load of the second node; what the first spent on sending."""
    address = f"127.0.0.1:{_free_port()}"
    late: list[float] = []

    def arrived(block: Any) -> None:
        late.extend(((time.time_ns() - block.ts) / 1e9).tolist())

    source = register_input_stream("Radio", None, SOURCE, window=WINDOW, pool=2, rate=1 / period_s, stamp=True)
    middle = register_input_stream("Radio", address, "tcp", listen=True)
    receiver = grid.cq(function, [middle], [register_result_stream(arrived)], schedule=schedule, flush_s=0.0)
    sender = grid.cq(central("identity"), [source], [register_result_stream(address, "tcp")], flush_s=0.0)
    try:
        receiver.run(count=count)
        sender.run(count=count)
        sender.wait(120)
        receiver.wait(120)
        told, sent = (next(iter(query.refresh().values())) for query in (receiver, sender))
    finally:
        sender.drop()
        receiver.drop()
    busy_s = told["processing_s"] + told["communication_s"] + told["system_s"]
    return {
        "latency_s": statistics.mean(late[len(late) // 5 :]),
        "load": busy_s / told["active_s"] if told["active_s"] else 0.0,
        "sender_s": sent["communication_s"],
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
