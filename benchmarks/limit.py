"""What the machine could do at most: a stream query function in bare loops, one process per core.

Each process holds its windows in memory and calls the function on them as the engine does, on one physical window after
the other; nothing is moved, ordered or acknowledged. No stream system that calls this function can be faster.

    python benchmarks/limit.py fft3 --window 8192 --seconds 2
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import statistics
import time
from collections.abc import Mapping
from typing import Any

BLOCK_BYTES = 2 << 20
BLOCKS = 6  # as many bytes as the synthetic antenna's pool of 64 windows of 8192 samples
START_S = 120.0  # until all processes have loaded their code and made their windows


def limit(
    function_name: str,
    window: int,
    seconds: float,
    repeats: int = 3,
    processes: int = os.cpu_count() or 1,
) -> list[float]:
    """MB/s of input of all processes together, once per repeat. ``function_name`` may be one of ours here."""
    from gsdm_grid.functions import functions, reference

    if not functions.has(function_name):
        importlib.import_module(f"{__package__}.functions" if __package__ else "functions")
    function = reference(functions.get(function_name))
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(processes)
    results = context.Queue()
    workers = [
        context.Process(target=_loop, args=(function, window, seconds, repeats, barrier, results), daemon=True)
        for _ in range(processes)
    ]
    for worker in workers:
        worker.start()
    try:
        rates = [results.get(timeout=START_S + repeats * (seconds + 5)) for _ in workers]
    finally:
        for worker in workers:
            worker.join(5)
            if worker.is_alive():
                worker.kill()
                worker.join()
    return [sum(together) for together in zip(*rates, strict=True)]


def _loop(reference: Mapping[str, str], window: int, seconds: float, repeats: int, barrier: Any, results: Any) -> None:
    """One process: makes its windows, then measures at the same time as the others."""
    from gsdm_grid.apps.radio.synthetic import RadioSynthesizer
    from gsdm_grid.functions import StreamView, resolve

    function = resolve(reference)
    params = function.bind(None)
    count = max(1, BLOCK_BYTES // (24 * window))
    synthesizer = RadioSynthesizer(window, pool=BLOCKS * count)
    blocks = [synthesizer.block(start, count) for start in range(0, BLOCKS * count, count)]
    view = StreamView(blocks[0].type, function.whole)

    def handle(number: int) -> None:
        view.feed(blocks[number % BLOCKS])
        while view.at < len(view.block):
            function(view, **params)
            view.advance()

    handle(0)
    rates = []
    for _ in range(repeats):
        barrier.wait(START_S)
        began = time.perf_counter()
        done = 0
        while (passed := time.perf_counter() - began) < seconds:
            handle(done)
            done += 1
        rates.append(done * count * 24 * window / passed / 1e6)
    results.put(rates)


def main() -> None:
    """Measure and print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("function")
    parser.add_argument("--window", type=int, default=8192)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    rates = limit(given.function, given.window, given.seconds, given.repeats, given.processes)
    print(json.dumps({"mb_s": rates, "median_mb_s": statistics.median(rates)}))


if __name__ == "__main__":
    main()
