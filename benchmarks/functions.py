"""Stream query functions that only the benchmarks use. They travel to the working nodes as code."""

from __future__ import annotations

from typing import Any

from gsdm_grid.functions import StreamView, current_window, sqf, window_distribute, window_split
from gsdm_grid.functions.library.radio import CHANNELS, Radio
from gsdm_grid.model import Array


@sqf(
    Radio,
    returns=Radio,
    whole=True,
    strategies=(window_distribute(), window_split("fft3part", "fft3combine")),
)
def expensive_fft3(s: StreamView, rounds: int = 32) -> Any:
    """`fft3` the long way: forward and back ``rounds`` times first. The result is that of `fft3` up to rounding."""
    from scipy import fft

    def transform(array: Array) -> Array:
        for _ in range(rounds):
            array = fft.ifft(fft.fft(array, axis=-1), axis=-1, overwrite_x=True)
        result: Array = fft.fft(array, axis=-1)
        return result

    v: Any = current_window(s)
    return v.replace(**{c: transform(v[c]) for c in CHANNELS})
