"""Splitting streams: one splitter, plans by width and by broadcast share, parasplit end to end, each beside the papers.

Tuples are as wide as Linear Road's: fifteen 32-bit integers and a timestamp. Rates with one core per site are *derived*
from the CPU time of the busiest site, because this machine has fewer cores than the plans have sites; only what is
called measured is one. All sites share one core in those runs (`measuring_settings` says why). Coefficients of the cost
model are fitted to other runs than those it is compared with.

    ./gsdm bench split [--json] [--quick] [--plots docs/images]
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from reporting import Report, median
from split_plots import plot_measured, plot_theory

from gsdm_grid import Grid, Settings
from gsdm_grid.engine.freed_memory import keep_freed_memory
from gsdm_grid.flow import DataFlow
from gsdm_grid.flow.split_shapes import maxtree_fanouts
from gsdm_grid.functions.routing import routing
from gsdm_grid.model import PhysicalWindow
from gsdm_grid.operators.splitter import Splitter
from gsdm_grid.splitting.parasplit_cost import cost_model_p, efficiency, parasplit_prediction
from gsdm_grid.splitting.split_choice import choose_split
from gsdm_grid.splitting.split_cost import (
    Coefficients,
    Prediction,
    StreamShares,
    tree_prediction,
    with_query_processors,
)
from gsdm_grid.splitting.split_fit import fit, median_error
from gsdm_grid.trials.split_trials import (
    BFN,
    POSITION,
    RFN,
    TUPLE_BYTES,
    ProfileRound,
    SplitRun,
    SplitTuple,
    measuring_settings,
    profile_round,
    run_split,
    split_flow,
    tuple_pool,
    typical,
)
from gsdm_grid.tuning import window_size

BLOCK_BYTES = 8 << 20
"""Physical windows of the plans: where doubling stops to gain on this kind of machine (`gsdm tune`)."""
N = BLOCK_BYTES // TUPLE_BYTES
N_WIDE, N_BROADCAST = N // 2, N // 8
"""Tuples per physical window where plans are compared by width, and by what is broadcast: 64 times as much leaves a
splitter as enters it, and all of that is in memory."""
N_SPLITTER = (2 << 20) // TUPLE_BYTES
"""Tuples per physical window of the splitter by itself: 2 MiB, the default of queries."""
MOST_P = 24
MOST_SPLITTERS = 100
"""Plans with more of them are not run: with hundreds of threads on two cores their CPU times say nothing any more."""
ROUNDS = 5
"""Runs of each plan, whose median is taken."""
P = 4
"""Window splitters of parasplit in the comparison of plans."""
PLANS = ("fsplit", "exptree", "maxtree", "autosplit", "parasplit")
B = 0.005
Sweep = tuple[Coefficients, float, list[dict[str, Any]]]
PAPERS = {"splitter into 64 of the first paper": 0.1, "parasplit of the second paper, p = 55, q = 512": 1.6}
"""Million tuples per second; the second paper gives 913 Mbit/s."""


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="only the JSON object, on the last line")
    parser.add_argument("--quick", action="store_true", help="shorter runs: for a look, not for a figure")
    parser.add_argument("--plots", type=Path, help="folder for the plots")
    options = parser.parse_args()
    report = Report(f"splitting tuples of {TUPLE_BYTES} bytes", options.json)
    report.row("what", "million tuples/s", "model", "CPU ns per tuple", "model")
    report.progress("one splitter, a loop and a copy, in turn")
    single = one_splitter(3 if options.quick else 9)
    for name, rate in single.items():
        report.row(name, rate / 1e6, "", 1e9 / rate, "")
    for name, rate in PAPERS.items():
        report.row(name, rate, "", "", "")
    coefficients, fit_error, points = by_width(report, options.quick)
    parasplit = parasplit_end_to_end(coefficients, report, options.quick)
    channel_tuples_s = channel_rate(options.quick) / TUPLE_BYTES
    p, at_channel = parasplit_at_channel(coefficients, channel_tuples_s, report)
    points += by_broadcast(report, options.quick)[-1]
    report.row("channel, shared memory (measured)", channel_tuples_s / 1e6, "", "", "")
    report.row(f"parasplit, p = {p}, q = 64 (derived)", at_channel / 1e6, "", "", "")
    if options.plots:
        plot_theory(options.plots / "split-theory.png")
        for key, label in (("w", "w, b = 0.5 %"), ("b", "b, w = 64")):
            plot_measured(options.plots / f"split-by-{key}.png", [p for p in points if p["sweep"] == key], key, label)
    return report.finish(
        {
            "splitter_tuples_s": single["splitter"],
            "vs_loop": single["splitter"] / single["Python loop"],
            "of_copy": single["splitter"] / single["copy"],
            "parasplit_tuples_s": parasplit["tuples_s"],
            "parasplit_tuples_s_on": parasplit["tuples_s_on"],
            "of_channel": at_channel / channel_tuples_s,
            "efficiency": parasplit["efficiency"],
            "model_error": statistics.median(point["error"] for point in points),
            "derived": {
                "parasplit_tuples_s": parasplit["derived_tuples_s"],
                "parasplit_p": p,
                "channel_tuples_s": channel_tuples_s,
            },
            "fit_error": fit_error,
            "coefficients": coefficients.to_json(),
            "points": points,
        }
    )


def one_splitter(rounds: int) -> dict[str, float]:
    """Tuples per CPU second of one splitter (q = 64, b = 0.5 %), of a loop over tuples, and of copying their bytes."""
    n = N_SPLITTER
    keep_freed_memory()  # as working nodes do
    pool = [block.stamped(ordinals=range(k * n, k * n + n)) for k, block in enumerate(tuple_pool(n, 64, B, 0.0))]
    splitter = Splitter(SplitTuple, 64, routing(RFN, BFN, SplitTuple, 64))
    target = [{name: np.empty_like(column) for name, column in block.columns.items()} for block in pool]

    def split(block: PhysicalWindow, _at: int) -> None:
        splitter.push(0, block)

    def copy(block: PhysicalWindow, at: int) -> None:
        for name, column in block.columns.items():
            np.copyto(target[at][name], column)

    def loop(block: PhysicalWindow, _at: int) -> None:
        loop_over_tuples(block[: n // 16], 64)

    ways = {"splitter": (split, n, 40), "copy": (copy, n, 80), "Python loop": (loop, n // 16, 4)}
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, (work, tuples, times) in ways.items():
            for at, block in enumerate(pool):
                work(block, at)
            began_s = time.thread_time()
            for at in itertools.islice(itertools.cycle(range(len(pool))), times):
                work(pool[at], at)
            found[name].append(times * tuples / (time.thread_time() - began_s))
    return {name: median(rates) for name, rates in found.items()}


def loop_over_tuples(block: PhysicalWindow, w: int) -> list[list[tuple[int, ...]]]:
    """The same split as a person would write it in Python."""
    outputs: list[list[tuple[int, ...]]] = [[] for _ in range(w)]
    kind, xway = list(block.columns).index("kind"), list(block.columns).index("xway")
    for row in zip(*(column.tolist() for column in block.columns.values()), strict=True):
        if row[kind] == POSITION:
            outputs[row[xway]].append(row)
        elif row[kind] == 2:
            for output in outputs:
                output.append(row)
    return outputs


def by_width(report: Report, quick: bool) -> Sweep:
    """Plans by width at b = 0.5 %."""
    widths = (2, 16, 64) if quick else (2, 8, 32, 64, 128, 256, 512)
    return sweep("w", N_WIDE, [(w, B) for w in widths], report, quick)


def by_broadcast(report: Report, quick: bool) -> Sweep:
    """Plans by broadcast share at w = 64."""
    shares = (0.0, 0.05, 0.5) if quick else (0.0, 0.005, 0.05, 0.2, 0.5, 1.0)
    return sweep("b", N_BROADCAST, [(64, b) for b in shares], report, quick)


def sweep(name: str, n: int, settings: Sequence[tuple[int, float]], report: Report, quick: bool) -> Sweep:
    """All plans at these widths and broadcast shares, in turn, with what the model says of each.

    Coefficients come from runs that are compared with nothing, made in between: machines change their pace. Gives the
    coefficients, how well they fit those runs, and the points.
    """
    rounds: list[ProfileRound] = []
    runs: dict[tuple[int, float, str], list[SplitRun]] = {}
    a = None  # of the shape of maxtree, which is to be the same in all rounds
    for number in range(1 if quick else ROUNDS):
        rounds.append(profile_round("threads", report.progress, quick=quick))
        a = fit(typical(rounds)).a if a is None else a
        with Grid("threads", measuring_settings(n)) as grid:
            for (w, b), plan in itertools.product(settings, PLANS):
                flow = split_flow(plan, w, p=P, b=b, a=a)
                if (splitters := splitter_count(flow)) > MOST_SPLITTERS:
                    report.progress(f"{plan}, w = {w}, b = {b:.1%}: {splitters} splitters, too many for this machine")
                    continue
                run = run_split(grid, flow, max(int(2_000_000 / (1 + w * b)), 6 * n), n, b)
                runs.setdefault((w, b, plan), []).append(run)
                rate = run.derived_rate / 1e6
                report.progress(f"{plan}, w = {w}, b = {b:.1%}, round {number + 1}: {rate:.1f} M tuples/s (derived)")
    observed = typical(rounds)
    coefficients = fit(observed)
    points = []
    for (w, b, plan), found in runs.items():
        shares = StreamShares(b=b, n=n)
        predicted = choose_split(coefficients, shares, w, has_bfn=b > 0, p=P).named(plan)
        if plan == "maxtree":
            tree = tree_prediction(plan, coefficients, shares, maxtree_fanouts(w, b, a or 0.0), w)
            predicted = with_query_processors(tree, coefficients, shares, w)
        points.append({"sweep": name, "plan": plan, "w": w, "b": b, **compared(found, predicted)})
        show_point(points[-1], report)
    return coefficients, median_error(coefficients, observed), points


def splitter_count(flow: DataFlow) -> int:
    """Splitters of a plan."""
    return sum(vertex.function["name"] == "split" for vertex in flow.vertices)


def show_point(point: Mapping[str, Any], report: Report) -> None:
    """In the table."""
    name = f"{point['plan']}, w = {point['w']}, b = {point['b']:.1%}"
    rate, cost = point["tuples_s"] / 1e6, point["cpu_s_per_tuple"] * 1e9
    predicted = point["predicted_tuples_s"] / 1e6, point["predicted_cpu_s_per_tuple"] * 1e9
    report.row(f"{name} (derived)", rate, predicted[0], cost, predicted[1])


def compared(runs: Sequence[SplitRun], predicted: Prediction) -> dict[str, Any]:
    """Runs beside their prediction: rate with one core per site, CPU per tuple, and the error of the rate."""
    rate = median([run.derived_rate for run in runs])
    return {
        "tuples_s": rate,
        "predicted_tuples_s": predicted.rate,
        "cpu_s_per_tuple": median([run.spent_s("router", "splitter", "processor") / run.tuples for run in runs]),
        "predicted_cpu_s_per_tuple": predicted.cost_s,
        "error": abs(predicted.rate - rate) / rate,
    }


def parasplit_end_to_end(coefficients: Coefficients, report: Report, quick: bool) -> dict[str, Any]:
    """p = 2, q = 64, b = 0.5 %: tuples per second on the clock of this machine, and the efficiency (equation 7).

    Threads run on all cores and on one, in turn (setting ``thread_cores``): the faster is taken, both are told.
    """
    found: dict[str, list[SplitRun]] = {"all cores": [], "one core": []}
    for number, (name, runs) in itertools.product(range(1 if quick else 5), found.items()):
        cores = 1 if name == "one core" else None
        with Grid("threads", Settings(block_bytes=BLOCK_BYTES, thread_cores=cores)) as grid:
            runs.append(
                run_split(grid, split_flow("parasplit", 64, p=2, b=B), 2_000_000 if quick else 32_000_000, N, B)
            )
        rate = runs[-1].tuples / runs[-1].seconds / 1e6
        report.progress(f"parasplit end to end on {name}, round {number + 1}: {rate:.1f} M tuples/s (measured)")
    predicted = parasplit_prediction(coefficients, StreamShares(b=B, n=N), 2, 64)
    kinds = ("router", "splitter", "processor")
    rates = {}
    for name, runs in found.items():
        rates[name] = median([run.tuples / run.seconds for run in runs])
        cost_s = median([run.spent_s(*kinds) / run.tuples for run in runs])
        told = f"parasplit, p = 2, q = 64, on {name} (measured)"
        report.row(told, rates[name] / 1e6, "", cost_s * 1e9, predicted.cost_s * 1e9)
    best = found[max(rates, key=rates.__getitem__)]
    return {
        "tuples_s": max(rates.values()),
        "tuples_s_on": rates,
        "derived_tuples_s": median([run.derived_rate for run in best]),
        "efficiency": efficiency(*(median([run.spent_s(kind) for run in best]) for kind in kinds)),
    }


def channel_rate(quick: bool) -> float:
    """Bytes per second of physical windows of this size through shared memory to a process that reads them."""
    return window_size.measure_channel(BLOCK_BYTES, total_bytes=1 << (27 if quick else 29), rounds=1 if quick else 5)


def parasplit_at_channel(coefficients: Coefficients, channel_tuples_s: float, report: Report) -> tuple[int, float]:
    """Parasplit into 64 with as many splitters as equation 3 asks for to keep up with the channel: p, and tuples/s.

    The rate is derived from the CPU time of the sites of a run, and is at most that of the channel.
    """
    p = min(cost_model_p(coefficients, StreamShares(b=B, n=N), 64, channel_tuples_s), MOST_P)
    with Grid("threads", measuring_settings(N)) as grid:
        run = run_split(grid, split_flow("parasplit", 64, p=p, b=B), max(4 * p, 24) * N, N, B)
    report.progress(f"parasplit, p = {p}: {run.derived_rate / 1e6:.1f} M tuples/s (derived)")
    return p, min(run.derived_rate, channel_tuples_s)


if __name__ == "__main__":
    raise SystemExit(main())
