"""An own stream type and an own function over sliding windows, as a central and as a parallel plan.

The function says how it may run in parallel: its partitions get the overlapping windows that their results need
(``overlap_part``). The parallel plan gives the same windows in the same order as the central one.
"""

import numpy as np

from gsdm_grid import (
    DataFlow,
    Grid,
    LogicalWindow,
    central,
    cq,
    create_stream_type,
    parallelize,
    register_input_stream,
    seconds,
    sliding_window,
    sqf,
    window_distribute,
)

Vibration = create_stream_type("Vibration", {"samples": "vector[256] of float32"})
Loudness = create_stream_type("Loudness", {"rms": "float64", "peak": "float32"})


@sqf(Vibration, returns=Loudness, strategies=(window_distribute("overlap_part", size="$size", step="$step"),))
def loudness(s, size, step=1):
    """Root mean square and peak over ``size`` windows, every ``step`` windows."""
    windows = sliding_window(s, size, step)
    samples = windows.samples.astype(np.float64)
    return Loudness.window(ts=windows.ts[-1], rms=np.sqrt(np.mean(samples**2)), peak=np.abs(samples).max())


def vibrations(count: int = 600) -> list[LogicalWindow]:
    """A machine that gets louder, ten windows per second."""
    noise = np.random.default_rng(1).normal(size=(count, 256)).astype(np.float32)
    return [Vibration.window(ts=seconds(k / 10), samples=noise[k] * np.float32(1 + k / count)) for k in range(count)]


def run(flow: DataFlow, grid: Grid) -> list[LogicalWindow]:
    """All results of a data flow over the vibrations."""
    query = cq(flow, [register_input_stream(Vibration, vibrations())], grid=grid)
    results = list(query.run())
    query.drop()
    return results


def main() -> None:
    """Run both plans and compare them."""
    parallel_plan = parallelize(loudness, {"size": 20, "step": 5}, "window_distribute", 3)
    print(parallel_plan)
    with Grid("threads") as grid:
        expected = run(central(loudness, {"size": 20, "step": 5}), grid)
        got = run(parallel_plan, grid)
    print(f"central plan: {len(expected)} results, from {expected[0].rms:.2f} to {expected[-1].rms:.2f}")
    print("parallel plan gives the same:", got == expected)


if __name__ == "__main__":
    main()
