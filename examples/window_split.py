"""A query in ten lines: an FFT whose windows are split over two sites, on threads of this process.

Each window of 1024 samples goes to two compute sites, every other sample to each. OS-Join puts the two half spectra
together with one radix-2 step. ``Grid()`` instead of ``Grid("threads")`` runs the same query on Ray and Spark.
"""

import numpy as np

from gsdm_grid import PCC, Grid, Radio, cq, register_input_stream


def main() -> None:
    """Run the query twice: a stopped query goes on where it was."""
    wave = np.exp(2j * np.pi * np.arange(1024) / 16).astype("complex64")
    s1 = register_input_stream("Radio", (Radio.window(ts=k, x=wave, y=wave, z=wave) for k in range(1000)))
    wsplit = PCC(2, "fft3part", "fft3", {}, "OS-Join", {"fft3combine"})
    print(wsplit)
    with Grid("threads") as grid:
        q = cq(wsplit, [s1], grid=grid)
        q.compile()
        for window in q.run(count=3):
            print(f"window {window.ts}: strongest at frequency {abs(window.x).argmax()} of {len(window.x)}")
        q.stop()
        print("windows of the second run:", [int(window.ts) for window in q.run(count=3)])
        q.stop()


if __name__ == "__main__":
    main()
