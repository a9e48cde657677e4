"""Latency at 20 % load: windows of 2048 samples through fft3 by window distribute, from source stamp to sink.

The source stamps each window with the time at which it is due, so a late source counts against us. Structured Streaming
does the same job at the same rate in its configuration for low latency.
"""

from __future__ import annotations

from fft import SOURCE, Pipeline
from reporting import Report, arguments, median
from structured_streaming import latency

from gsdm_grid import PCC, Grid, register_input_stream, register_result_stream

WINDOW = 2048
LOAD = 0.2


def main() -> int:
    """Run it."""
    options = arguments(__doc__ or "")
    report = Report(f"latency, windows of {WINDOW}, {LOAD:.0%} load", options.json)
    rounds, seconds = (1, 3.0) if options.quick else (3, 10.0)
    report.row("what", "windows/s", "p50 ms", "p99 ms", "max ms")
    flow = PCC(2, "RRpart", "fft3", {}, "S-Merge")
    with Grid("grid") as grid:
        report.progress("measuring full speed")
        full = Pipeline(grid, "full", flow, WINDOW)
        full.run(2000)
        full.measure(2.0, 200.0)
        full.close()
        rate = LOAD * full.rates[-1] / (WINDOW * 24e-6)
        told = []
        for number in range(rounds):
            report.progress(f"round {number + 1} of {rounds}: {rate:.0f} windows/s")
            source = register_input_stream("Radio", None, SOURCE, window=WINDOW, rate=rate, stamp=True)
            query = grid.cq(flow, [source], [register_result_stream(None, "latency", name="measured")])
            query.install()
            query.activate(count=int(rate))  # the first second warms up
            query.wait(60)
            query.activate(time_s=seconds)
            query.wait(60 + seconds)
            told.append(query.statistics()["combine.0"]["streams"]["measured"])
            query.drop()
    report.progress("Structured Streaming")
    other = latency(WINDOW, rate, seconds)
    p50, p99, top = (median([one[key] for one in told]) for key in ("p50_ms", "p99_ms", "max_ms"))
    report.row("GSDM", rate, p50, p99, top)
    report.row("Structured Streaming", rate, other["p50_ms"], other["p99_ms"], "")
    return report.finish(
        {
            "p50_ms": p50,
            "p99_ms": p99,
            "windows_s": rate,
            "structured_streaming_p50_ms": other["p50_ms"],
            "structured_streaming_p99_ms": other["p99_ms"],
        }
    )


if __name__ == "__main__":
    raise SystemExit(main())
