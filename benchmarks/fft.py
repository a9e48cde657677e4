"""fft3 from source to ordered sink, against the bare kernel and against Spark Structured Streaming, in one run.

*The limit* is the same function in bare loops over the same in-memory blocks, in as many processes as cores. Structured
Streaming is run in its best configuration (see structured_streaming.py). Rounds alternate; figures are medians. MB/s
are bytes of input (three channels of complex64). A run lasts some seconds, from activation to the last window.
"""

from __future__ import annotations

from typing import Any

from functions import expensive_fft3
from limit import limit
from reporting import Report, arguments, median
from structured_streaming import throughput

from gsdm_grid import PCC, Grid, register_input_stream, register_result_stream
from gsdm_grid.functions import functions

WINDOWS = (512, 8192)
SOURCE = "gsdm_grid.apps.radio:SyntheticRadio"


class Pipeline:
    """An installed query whose throughput can be measured again and again."""

    def __init__(self, grid: Grid, name: str, flow: Any, window: int, pool: int = 64) -> None:
        source = register_input_stream("Radio", None, SOURCE, window=window, pool=pool)
        self._window_mb = window * 24 / 1e6
        self._query = grid.cq(flow, [source], [register_result_stream(None, "null")], name=name)
        self._query.install()
        self.rates: list[float] = []

    def run(self, count: int) -> float:
        """MB/s over ``count`` windows."""
        self._query.activate(count=count)
        self._query.wait(600)
        assert self._query.run_seconds is not None
        return count * self._window_mb / self._query.run_seconds

    def measure(self, seconds: float, guess: float) -> None:
        """One more round of about this many seconds."""
        expected = median(self.rates) if self.rates else guess
        self.rates.append(self.run(max(int(expected * seconds / self._window_mb), 50)))

    def close(self) -> None:
        """Drop the query."""
        self._query.drop()


def measure(report: Report, grid: Grid, window: int, rounds: int, seconds: float) -> dict[str, Any]:
    """All contestants at one window length."""
    run = max(1, (1 << 21) // (window * 24))
    pipelines = {
        "window distribute": Pipeline(
            grid, f"wd-{window}", PCC(2, ("RRpart", {"run": run}), "fft3", {}, "S-Merge"), window
        ),
        "window split": Pipeline(
            grid, f"ws-{window}", PCC(2, "fft3part", "fft3", {}, "OS-Join", {"fft3combine"}), window
        ),
    }
    limits: list[float] = []
    peer: list[float] = []
    for name, pipeline in pipelines.items():
        report.progress(f"window {window}: warming up {name}")
        pipeline.run(max(int(200 / (window * 24e-6)), 50))
    for number in range(rounds):
        report.progress(f"window {window}, round {number + 1} of {rounds}: the limit")
        limits += limit("fft3", window, seconds, 1)
        for name, pipeline in pipelines.items():
            report.progress(f"window {window}, round {number + 1} of {rounds}: {name}")
            pipeline.measure(seconds, limits[-1] / 2)
        report.progress(f"window {window}, round {number + 1} of {rounds}: Structured Streaming")
        peer += throughput(window, seconds, 1)
    for pipeline in pipelines.values():
        pipeline.close()
    bound, other = median(limits), median(peer)
    report.row(window, "limit", bound, 1.0, bound / other)
    rates = {name: median(pipeline.rates) for name, pipeline in pipelines.items()}
    for name, rate in rates.items():
        report.row(window, name, rate, rate / bound, rate / other)
    report.row(window, "Structured Streaming", other, other / bound, 1.0)
    best = max(rates.values())
    return {
        "window": window,
        "limit_mb_s": bound,
        "gsdm_mb_s": best,
        "window_distribute_mb_s": rates["window distribute"],
        "window_split_mb_s": rates["window split"],
        "of_limit": best / bound,
        "structured_streaming_mb_s": other,
        "vs_structured_streaming": best / other,
    }


def expensive(report: Report, grid: Grid, rounds: int, seconds: float) -> float:
    """Share of the limit that a function of at least 5 ms per window reaches."""
    functions.add(expensive_fft3)
    run = 4
    pipeline = Pipeline(grid, "expensive", PCC(2, ("RRpart", {"run": run}), expensive_fft3, {}, "S-Merge"), 8192)
    limits: list[float] = []
    pipeline.run(100)
    for number in range(rounds):
        report.progress(f"expensive function, round {number + 1} of {rounds}")
        limits += limit("expensive_fft3", 8192, seconds, 1)
        pipeline.measure(seconds, limits[-1])
    pipeline.close()
    rate, bound = median(pipeline.rates), median(limits)
    report.row(8192, "expensive: limit", bound, 1.0, "")
    report.row(8192, "expensive: window distribute", rate, rate / bound, "")
    return rate / bound


def main() -> int:
    """Run it."""
    options = arguments(__doc__ or "")
    report = Report("fft3: source → partition → 2 compute sites → combine → sink", options.json)
    rounds, seconds = (1, 1.5) if options.quick else (3, 4.0)
    report.row("window", "what", "MB/s", "of limit", "vs Structured Streaming")
    report.progress("starting Ray and Spark")
    with Grid("grid") as grid:
        measured = [measure(report, grid, window, rounds, seconds) for window in WINDOWS]
        share = expensive(report, grid, rounds, seconds)
    return report.finish({**measured[-1], "expensive_of_limit": share, "windows": measured})


if __name__ == "__main__":
    raise SystemExit(main())
