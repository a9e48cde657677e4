"""The papers' comparisons on this system: window split and window distribute, scheduling policies, marshaling.

Part *fft* (thesis 4.3, VLDB 2005 section 5): window sizes × {central, window distribute, window split} × degrees ×
{flat, tree} × {fast, slow} fft3 over segments of equally many samples. Working nodes are threads that share one core;
the cost of a plan is the CPU time of its busiest site, so speed-ups are *derived*: what one core per site would give.
Window distribute deals whole physical windows, because several windows are transformed at once. Part *scheduling*
(thesis 6.3): latency by fixed- and variable-length periods, below and above what a node can do. Part *marshaling*
(thesis 6.5): numbers as text against our binary form. ``--full`` measures the papers' whole grid, else a part of it;
``--part`` one part; ``--out`` writes plots and figures there.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fft import SOURCE
from functions import expensive_fft3
from marshaling import marshaling
from reporting import Report
from scheduling import scheduling

from gsdm_grid import Grid, Settings, register_input_stream
from gsdm_grid.optimizer.candidates import (
    Candidate,
    Parallel,
    Stage,
    planned_flow,
)
from gsdm_grid.optimizer.trial_result import PARTS as PARTS_OF_TRIAL
from gsdm_grid.optimizer.trial_result import TrialResult
from gsdm_grid.trials.trial_runs import TrialRun, run_trial

SIZES = (256, 512, 1024, 2048, 4096, 8192, 16384)
SOME_SIZES = (256, 1024, 4096, 8192)
SAMPLE_BYTES = 24
"""Three channels of complex numbers."""
SLOW_ROUNDS = 8
"""How often the slow fft3 goes forward and back before: it takes 17 transforms for one."""
SEGMENT_BYTES = 48 << 20
"""As the papers' segment."""
PARTS = ("fft", "scheduling", "marshaling")
Row = dict[str, Any]


def plans(degrees: tuple[int, ...], run: int) -> dict[str, Candidate]:
    """The plans of the papers by their names there; window distribute deals ``run`` windows at a time."""
    made = {"central": Candidate((None,))}
    for degree in degrees:
        for short, how in (
            ("WD", Parallel("window_distribute", degree, run=run)),
            ("WS", Parallel("window_split", degree)),
        ):
            made[f"{short}{degree}"] = Candidate((how,))
            if degree > 2:
                made[f"{short}{degree}-tree"] = Candidate((replace(how, tree=True),))
    return made


def by_role(result: TrialResult) -> dict[str, dict[str, float]]:
    """Milliseconds per window of the busiest site of each role, by kind of task."""
    made: dict[str, dict[str, float]] = {}
    for site in sorted(result.sites, key=lambda site: site.utilization_s):
        times = {"processing": site.processing_s, "communication": site.communication_s, "system": site.system_s}
        made[site.role] = {kind: 1e3 * result.per_window_s(seconds) for kind, seconds in times.items()}
    return made


def summed_up(found: Sequence[TrialResult]) -> dict[str, Any]:
    """Trials of one plan: median of the costs, and where the time went in the middle one."""
    in_order = sorted(found, key=lambda one: one.figures()["cost_s"])
    middle = in_order[len(in_order) // 2]
    return {
        "cost_ms": 1e3 * statistics.median(one.figures()["cost_s"] for one in found),
        "busiest": middle.busiest.role if middle.busiest else None,
        "cpu_ms": 1e3 * middle.figures()["cpu_s_per_window"],
        "hosts": len(middle.sites),
        "roles": by_role(middle),
    }


def measure(
    grid: Grid, stage: Stage, window: int, given: Mapping[str, Candidate], count: int, rounds: int
) -> list[Row]:
    """All plans over so many windows, in turn: machines change their pace."""
    found: dict[str, list[TrialResult]] = {name: [] for name in given}
    for _, (name, plan) in itertools.product(range(rounds), given.items()):
        inputs = [register_input_stream("Radio", None, SOURCE, window=window)]
        found[name].append(run_trial(grid, TrialRun(planned_flow((stage,), plan), inputs, count=count)))
    rows = [{"window": window, "plan": name, **summed_up(trials)} for name, trials in found.items()]
    return [{**row, "speed_up": rows[0]["cost_ms"] / row["cost_ms"]} for row in rows]


def fft_grid(report: Report, options: argparse.Namespace) -> list[Row]:
    """All plans of all sizes, fast and slow."""
    sizes = SIZES if options.full else SOME_SIZES
    degrees = (2, 4, 8) if options.full else (2, 4)
    functions = {"fast": Stage.of("fft3"), "slow": Stage.of(expensive_fft3, {"rounds": SLOW_ROUNDS})}
    rows: list[Row] = []
    with Grid("threads", Settings(thread_cores=1)) as grid:
        for window in options.sizes or sizes:
            run = max(1, grid.block_bytes // (window * SAMPLE_BYTES))
            equal = PARTS_OF_TRIAL * degrees[-1] * run  # with so many windows all sites get equally many
            count = equal * max(1, round(SEGMENT_BYTES / options.shorter / (window * SAMPLE_BYTES * equal)))
            for speed, stage in functions.items():
                found = measure(grid, stage, window, plans(degrees, run), count, options.repeats)
                rows += [{"speed": speed, **row} for row in found]
                best = max(found, key=_speed_up)
                report.progress(f"window {window}, {speed}: best {best['plan']}, ×{best['speed_up']:.2f}")
    return rows


def _speed_up(row: dict[str, Any]) -> float:
    return float(row["speed_up"])


def arguments() -> argparse.Namespace:
    """What may be asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="only the JSON object, on the last line")
    parser.add_argument("--full", action="store_true", help="all sizes and degrees of the papers")
    parser.add_argument("--quick", action="store_true", help="short segments, once: for a look, not for a figure")
    parser.add_argument("--part", choices=PARTS, help="only this one")
    parser.add_argument("--sizes", type=int, nargs="+", help="only these window sizes")
    parser.add_argument("--out", type=Path, help="folder for plots and figures; figures there are added to")
    found = parser.parse_args()
    found.shorter, found.repeats = (4, 1) if found.quick else (1, 5)
    return found


def main() -> int:
    """Run it."""
    options = arguments()
    report = Report("window split and window distribute, by derived speed-up", options.json)
    wanted = (options.part,) if options.part else PARTS
    told: dict[str, Any] = {}
    if "fft" in wanted:
        told["fft"] = fft_grid(report, options)
    if "scheduling" in wanted:
        told["scheduling"] = scheduling(report, options.quick)
    if "marshaling" in wanted:
        told["marshaling"] = marshaling(report, options.quick)
    report.row("window", "fft3", "plan", "cost, ms", "busiest", "hosts", "speed-up")
    for row in told.get("fft", ()):
        report.row(*(row[name] for name in ("window", "speed", "plan", "cost_ms", "busiest", "hosts", "speed_up")))
    if options.out is not None:
        from strategy_plots import draw

        draw(_kept(options.out, told), options.out)
    return report.finish(told)


def _kept(out: Path, told: dict[str, Any]) -> dict[str, Any]:
    """The figures in a folder with those that were just measured: parts may be measured one by one."""
    out.mkdir(parents=True, exist_ok=True)
    file = out / "strategies.json"
    before = json.loads(file.read_text()) if file.exists() else {}
    fresh = {(row["window"], row["speed"], row["plan"]) for row in told.get("fft", ())}
    old = [row for row in before.get("fft", ()) if (row["window"], row["speed"], row["plan"]) not in fresh]
    made = {
        **before,
        **told,
        "fft": sorted([*old, *told.get("fft", ())], key=lambda row: (row["window"], row["speed"])),
    }
    file.write_text(json.dumps(made, indent=1))
    return made


if __name__ == "__main__":
    raise SystemExit(main())
