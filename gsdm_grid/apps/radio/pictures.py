"""Pictures of radio results: a spectrum for the terminal, a waterfall of power and polarization as an image.

They take windows in FFT order, as `fft3` and `polarize` give them, and show frequencies from the lowest to
the highest. Where a picture has fewer columns than there are frequencies, the strongest of a group is shown.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np

from gsdm_grid.errors import QueryError
from gsdm_grid.functions.library.radio import CHANNELS, Polar, Radio, polarization
from gsdm_grid.model import Array, PhysicalWindow

_BLOCKS = " ▁▂▃▄▅▆▇█"
_LABEL_WIDTH = 8
_STRONG_DB = 6.0
_BACKGROUND = "#10141c"


def spectral_power(windows: PhysicalWindow) -> Array:
    """Power at each frequency, one row per window, from spectra (`Radio`) or polarizations (`Polar`).

    The sum over the three channels, divided by the length of the window: noise of variance 1 has 3.
    """
    if windows.type.is_under(Radio):
        parts = [np.asarray(windows[channel]) for channel in CHANNELS]
        power = np.sum(
            [part.real.astype(np.float64) ** 2 + part.imag.astype(np.float64) ** 2 for part in parts], axis=0
        )
    elif windows.type.is_under(Polar):
        power = np.asarray(windows["I"], np.float64)
    else:
        raise QueryError(f"a picture of power needs Radio or Polar windows, got {windows.type.name!r}")
    made: Array = power / power.shape[-1]
    return made


def spectrum_text(power: Array, sample_rate: float, width: int = 80, height: int = 16) -> str:
    """A spectrum (power at each frequency in FFT order) as lines of block characters that fit the space.

    It needs 20 columns and 4 lines, and takes them if it is given less.

    >>> print(spectrum_text(np.array([1000.0, 30.0, 1.0, 30.0]), sample_rate=4, width=21, height=6))
      30 dB ┤      ███
      20 dB ┤   ▄▄▄███▄▄▄
      10 dB ┤   █████████
       0 dB ┤████████████
     -10 dB └┴─────┴────┴
             -2    0 2 Hz
    """
    columns, rows = max(width - _LABEL_WIDTH - 1, 11), max(height - 2, 2)
    decibels = _decibels(_peaks(np.fft.fftshift(power), columns)[0])
    low, high = _scale(decibels)
    filled = np.clip((decibels - low) / (high - low), 0, 1) * rows * 8
    lines = []
    for row in range(rows, 0, -1):
        steps = np.clip(np.ceil(filled - (row - 1) * 8), 0, 8).astype(int)
        lower, upper = (low + (high - low) * edge / rows for edge in (row - 1, row))
        tick = _tick_between(lower, upper)
        lines.append(f"{tick:>{_LABEL_WIDTH - 1}} {'┤' if tick else '│'}" + "".join(_BLOCKS[step] for step in steps))
    lines.append(f"{low:>{_LABEL_WIDTH - 4}.0f} dB └" + _frequency_ruler(columns))
    lines.append(" " * (_LABEL_WIDTH + 1) + _frequency_labels(columns, sample_rate))
    return "\n".join(line.rstrip() for line in lines)


def draw_waterfall(
    windows: PhysicalWindow, path: str | Path, sample_rate: float, title: str = "Three-channel radio"
) -> Path:
    """Time against frequency: power of the three channels, polar angle of the normal, circularity V/I.

    ``windows`` are spectra or polarizations. Polarization is drawn where the power stands out of the noise.
    The file's suffix chooses the format (``.png``, ``.svg``, …); the path is returned.
    """
    from matplotlib.figure import Figure

    if not len(windows):
        raise QueryError("a waterfall needs at least one window")
    polar = (
        windows
        if windows.type.is_under(Polar)
        else windows.as_type(Polar, **polarization(*(windows[channel] for channel in CHANNELS)))
    )
    power = np.fft.fftshift(spectral_power(polar), axes=-1)
    peaks, at = _peaks(power, 320)
    decibels = _decibels(peaks)
    decibels = decibels - np.median(decibels)
    shown = {name: np.take_along_axis(np.fft.fftshift(polar[name], axes=-1), at, -1) for name in ("theta", "V", "I")}
    stands_out = np.clip((decibels - _STRONG_DB) / 3, 0, 1)

    unit, per_unit = _unit(sample_rate / 2)
    time_s = np.asarray(polar.ts, np.float64) / 1e9
    step_s = float(time_s[-1] - time_s[0]) / (len(time_s) - 1) if len(time_s) > 1 else 1.0
    extent = (
        -sample_rate / 2 / per_unit,
        sample_rate / 2 / per_unit,
        float(time_s[0]),
        float(time_s[-1]) + step_s,
    )

    figure = Figure(figsize=(13, 5.6), dpi=100, layout="constrained")
    figure.suptitle(title, fontsize=13, fontweight="bold", x=0.01, ha="left")
    panels = figure.subplots(1, 3, sharey=True)
    circularity = shown["V"] / np.maximum(shown["I"], 1e-30)
    drawings: tuple[tuple[str, Any, str, float, float, Any, str], ...] = (
        ("Power of x, y and z", decibels, "magma", -2, float(decibels.max()), None, "dB above the noise"),
        ("Polar angle of the normal, θ", np.degrees(shown["theta"]), "turbo", 0, 180, stands_out, "degrees"),
        ("Circularity, V / I", circularity, "cool", 0, 1, stands_out, "0 linear, 1 circular"),
    )
    for panel, (name, values, colors, low, high, alpha, label) in zip(panels, drawings, strict=True):
        panel.set_facecolor(_BACKGROUND)
        picture = panel.imshow(
            values,
            cmap=colors,
            vmin=low,
            vmax=max(high, low + 1e-9),
            alpha=alpha,
            extent=extent,
            aspect="auto",
            origin="lower",
            interpolation="nearest",
        )
        panel.set_title(name, fontsize=11, loc="left")
        panel.set_xlabel(f"frequency [{unit}]")
        bar = figure.colorbar(picture, ax=panel, orientation="horizontal", shrink=0.85, aspect=32, pad=0.02)
        bar.set_alpha(1)
        bar.set_label(label, fontsize=9)
        bar.ax.tick_params(labelsize=8)
    panels[0].set_ylabel("time [s]")
    figure.savefig(path)
    return Path(path)


def _peaks(power: Array, columns: int) -> tuple[Array, Array]:
    """The strongest value of each group of frequencies, for at most ``columns`` groups, and where it is."""
    length = power.shape[-1]
    if length <= columns:
        at = np.broadcast_to(np.arange(columns) * length // columns, (*power.shape[:-1], columns))
        return np.take_along_axis(power, at, -1), at
    edges = np.arange(columns + 1) * length // columns
    at = np.stack([first + power[..., first:end].argmax(-1) for first, end in itertools.pairwise(edges)], axis=-1)
    return np.take_along_axis(power, at, -1), at


def _decibels(power: Array) -> Array:
    made: Array = 10 * np.log10(np.maximum(power, 1e-20))
    return made


def _scale(decibels: Array) -> tuple[float, float]:
    """A range in whole tens that shows the peaks and a little of the noise."""
    high = float(np.ceil(decibels.max() / 10) * 10)
    low = float(np.floor((np.percentile(decibels, 10) - 3) / 10) * 10)
    return min(low, high - 10), high


def _tick_between(low: float, high: float) -> str:
    """Label of the multiple of ten in a row of the picture, if it has one."""
    tick = float(np.floor(high / 10) * 10)
    return f"{tick:.0f} dB" if tick > low else ""


def _tick_places(columns: int) -> list[int]:
    count = 4 if columns >= 44 else 2
    return [round(place * (columns - 1) / count) for place in range(count + 1)]


def _frequency_ruler(columns: int) -> str:
    places = set(_tick_places(columns))
    return "".join("┴" if column in places else "─" for column in range(columns))


def _frequency_labels(columns: int, sample_rate: float) -> str:
    """Labels under the ruler, each centred at its tick as far as it fits; the last one has the unit."""
    unit, per_unit = _unit(sample_rate / 2)
    line = [" "] * columns
    places = _tick_places(columns)
    for number, place in enumerate(places):
        last = number == len(places) - 1
        text = f"{(number / (len(places) - 1) - 0.5) * sample_rate / per_unit:g}" + (f" {unit}" if last else "")
        start = min(max(place - len(text) // 2, 0), columns - len(text))
        line[start : start + len(text)] = text
    return "".join(line)


def _unit(frequency: float) -> tuple[str, float]:
    for unit, size in (("GHz", 1e9), ("MHz", 1e6), ("kHz", 1e3)):
        if frequency >= size:
            return unit, size
    return "Hz", 1.0
