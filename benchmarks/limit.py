"""What the machine could do at most: a stream query function in bare loops, one process per core.

Each process holds its windows in memory and calls the function on them as the engine does (see
`gsdm_grid.apps.demo.bare_kernel`). No stream system that calls this function can be faster.

    python benchmarks/limit.py fft3 --window 8192 --seconds 2
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics


def limit(
    function_name: str,
    window: int,
    seconds: float,
    repeats: int = 3,
    processes: int = os.cpu_count() or 1,
) -> list[float]:
    """MB/s of input of all processes together, once per repeat. ``function_name`` may be one of ours here."""
    from gsdm_grid.apps.demo.bare_kernel import BareKernel
    from gsdm_grid.functions import functions, reference

    if not functions.has(function_name):
        importlib.import_module(f"{__package__}.functions" if __package__ else "functions")
    chain = [reference(functions.get(function_name))]
    with BareKernel([chain], window, processes) as kernel:
        kernel.wait()
        return [kernel.measure(0, processes, seconds).mb_s for _ in range(repeats)]


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
