"""Signal processing over three-channel radio streams (thesis 3.3, 4.2 and its space physics application).

`fft3` and `polarize` are the papers' running examples; each comes with the functions that split a window over several
sites and put the results together. All handle whole physical windows: the vector axis is the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gsdm_grid.errors import QueryError
from gsdm_grid.functions.sqf import sqf
from gsdm_grid.functions.strategies import window_distribute, window_split
from gsdm_grid.functions.windows import StreamView, current_window
from gsdm_grid.model import Array, PhysicalWindow, Ragged, create_stream_type

Radio = create_stream_type(
    "Radio", {"x": "vector of complex64", "y": "vector of complex64", "z": "vector of complex64"}
)
Channel = create_stream_type("Channel", {"x": "vector of complex64"})
Polar = create_stream_type(
    "Polar", {name: "vector of float32" for name in ("phi", "theta", "I", "Q", "U", "V")}
)

CHANNELS = ("x", "y", "z")


def _each_length(windows: Any, transform: Any) -> Any:
    """Apply ``transform`` to a block of equally long vectors, or to each window where lengths differ."""
    if not any(isinstance(column, Ragged) for column in windows.columns.values()):
        return transform(windows)
    return PhysicalWindow.concat([transform(windows[row : row + 1]) for row in range(len(windows))])


def _fft(array: Array) -> Array:
    from scipy import fft

    if not array.shape[-1]:
        return array
    result: Array = fft.fft(array, axis=-1)
    return result


@sqf(Radio, returns=Radio, whole=True, strategies=(window_distribute(), window_split("fft3part", "fft3combine")))
def fft3(s: StreamView) -> Any:
    """Fast Fourier transform of each of the three channels (thesis 3.3.1)."""
    return _each_length(current_window(s), lambda v: v.replace(**{c: _fft(v[c]) for c in CHANNELS}))


@sqf(Radio, returns=Radio, whole=True, kind="partitioning")
def fft3part(s: StreamView, n: int, i: int) -> Any:
    """Sub-window ``i`` of ``n`` for the radix-n FFT: every n-th sample from the i-th on (decimation in time)."""

    def part(v: Any) -> Any:
        _check_divides(v, n, "fft3part")
        return v.replace(**{c: v[c][..., i::n] for c in CHANNELS})

    return _each_length(current_window(s), part)


@sqf(Radio, returns=Radio, whole=True, kind="combine")
def fft3combine(parts: Sequence[PhysicalWindow]) -> PhysicalWindow:
    """Last step of the radix-K FFT: spectra of the K sub-windows into the spectrum of the window, for any K.

    X[k + m·M] = Σ_r W_N^(r·k) · W_K^(r·m) · F_r[k], with N = K·M and W_n = exp(-2πi/n).
    """
    return _by_window(parts, lambda group: {c: _radix_combine([p[c] for p in group]) for c in CHANNELS})


def _radix_combine(spectra: Sequence[Array]) -> Array:
    ways, length = len(spectra), spectra[0].shape[-1]
    if ways == 2:  # the butterfly, without the general machinery
        turned = spectra[1] * _twiddles(2, length)[1]
        return np.concatenate([spectra[0] + turned, spectra[0] - turned], axis=-1)
    from scipy import fft

    stacked = np.stack(spectra, axis=-2) * _twiddles(ways, length)
    whole: Array = fft.fft(stacked, axis=-2).reshape(*spectra[0].shape[:-1], ways * length)
    return whole


_twiddle_cache: dict[tuple[int, int], Array] = {}


def _twiddles(ways: int, length: int) -> Array:
    key = (ways, length)
    if key not in _twiddle_cache:
        if len(_twiddle_cache) > 64:
            _twiddle_cache.clear()
        angle = np.outer(np.arange(ways), np.arange(length)) * (-2j * np.pi / (ways * length))
        _twiddle_cache[key] = np.exp(angle).astype(np.complex64)
    return _twiddle_cache[key]


@sqf(Radio, returns=Radio, whole=True, strategies=(window_distribute(), window_split("dft3part", "dft3combine")))
def dft3(s: StreamView) -> Any:
    """Discrete Fourier transform of the three channels by its definition: an expensive function, O(n²)."""

    def transform(v: Any) -> Any:
        length = v["x"].shape[-1]
        power = np.outer(np.arange(length), np.arange(length)) % max(length, 1)
        matrix = np.exp((-2j * np.pi / max(length, 1)) * power)
        return v.replace(**{c: v[c] @ matrix for c in CHANNELS})

    return _each_length(current_window(s), transform)


@sqf(Radio, returns=Radio, whole=True, kind="partitioning")
def dft3part(s: StreamView, n: int, i: int) -> Any:
    """Sub-window whose transform holds every n-th frequency from the i-th on (decimation in frequency).

    The partition does the butterflies, so that the combine phase only interleaves.
    """

    def part(v: Any) -> Any:
        length = _check_divides(v, n, "dft3part") // n
        turn = np.exp((-2j * np.pi / n) * (i * np.arange(n)))[:, None]
        slope = np.exp((-2j * np.pi / (n * max(length, 1))) * i * np.arange(length))
        folded = {c: (v[c].reshape(len(v), n, length) * turn).sum(axis=1) * slope for c in CHANNELS}
        return v.replace(**folded)

    return _each_length(current_window(s), part)


@sqf(Radio, returns=Radio, whole=True, kind="combine")
def dft3combine(parts: Sequence[PhysicalWindow]) -> PhysicalWindow:
    """Interleave the frequencies that the sub-windows hold."""
    return _by_window(
        parts,
        lambda group: {c: np.stack([p[c] for p in group], axis=-1).reshape(len(group[0]), -1) for c in CHANNELS},
    )


@sqf(Radio, returns=Polar, whole=True, strategies=(window_distribute(), window_split("slicepart", "polarcombine")))
def polarize(s: StreamView) -> Any:
    """Polarization ellipse per frequency, from the spectra of the three channels (thesis 3.3.3).

    Six vectors: azimuth ``phi`` in (-π, π] and polar angle ``theta`` in [0, π] of the ellipse's normal, and the Stokes
    parameters ``I, Q, U, V`` in its plane. The normal is the direction of 2·Im(E×E*); where that vanishes (linear
    polarization) it is the perpendicular of the line that is nearest to the z axis. In the plane, the first axis
    points towards growing theta and the second towards growing phi, so V is never negative.
    """
    return _each_length(current_window(s), lambda v: v.as_type(Polar, **polarization(v["x"], v["y"], v["z"])))


@sqf(Radio, returns=Polar, whole=True)
def polar(s: StreamView) -> Any:
    """`polarize` of `fft3` in one function (thesis 3.3.3)."""

    def transform(v: Any) -> Any:
        return v.as_type(Polar, **polarization(*(_fft(v[c]) for c in CHANNELS)))

    return _each_length(current_window(s), transform)


def polarization(x: Array, y: Array, z: Array) -> dict[str, Array]:
    """Angles of the normal and Stokes parameters of the field (x, y, z); elementwise, any shape."""
    field = np.stack([x, y, z]).astype(np.complex128)
    real, imag = field.real, field.imag
    normal = 2 * np.imag(np.cross(field, field.conj(), axis=0))
    power = np.sum(real**2 + imag**2, axis=0)
    size = np.linalg.norm(normal, axis=0)
    flat = size <= 1e-12 * power  # linear polarization, or no field at all
    if flat.any():
        axis = np.where(np.linalg.norm(real, axis=0) >= np.linalg.norm(imag, axis=0), real, imag)
        length = np.linalg.norm(axis, axis=0)
        axis = axis / np.where(length > 0, length, 1)
        upright = np.zeros_like(real)
        upright[2] = 1
        substitute = upright - axis[2] * axis
        along_z = np.linalg.norm(substitute, axis=0) <= 1e-9
        substitute[:, along_z] = np.array([1.0, 0.0, 0.0])[:, None]
        normal = np.where(flat, substitute, normal)
        size = np.where(flat, np.linalg.norm(normal, axis=0), size)
    normal = normal / size
    theta = np.arccos(np.clip(normal[2], -1, 1))
    phi = np.arctan2(normal[1], normal[0])
    first = np.cos(theta) * (np.cos(phi) * field[0] + np.sin(phi) * field[1]) - np.sin(theta) * field[2]
    second = np.cos(phi) * field[1] - np.sin(phi) * field[0]
    cross = first * second.conj()
    one, two = np.abs(first) ** 2, np.abs(second) ** 2
    made = {"phi": phi, "theta": theta, "I": one + two, "Q": one - two, "U": 2 * cross.real, "V": 2 * cross.imag}
    return {name: values.astype(np.float32) for name, values in made.items()}


@sqf(Radio, returns=Radio, whole=True, kind="partitioning")
def slicepart(s: StreamView, n: int, i: int) -> Any:
    """Sub-window ``i`` of ``n``: a contiguous slice of each vector, for functions that work element by element."""

    def part(v: Any) -> Any:
        length = v["x"].shape[-1]
        bounds = slice(length * i // n, length * (i + 1) // n)
        return v.replace(**{c: v[c][..., bounds] for c in CHANNELS})

    return _each_length(current_window(s), part)


@sqf(Polar, returns=Polar, whole=True, kind="combine")
def polarcombine(parts: Sequence[PhysicalWindow]) -> PhysicalWindow:
    """Slices one after the other."""
    names = [name for name in Polar.attributes if name != "ts"]
    return _by_window(
        parts, lambda group: {name: np.concatenate([p[name] for p in group], axis=-1) for name in names}
    )


@sqf(Radio, returns=Channel, whole=True)
def xchannel(s: StreamView) -> Any:
    """Timestamp and x channel only (thesis 3.3.3): a projection."""
    v: Any = current_window(s)
    return v.as_type(Channel)


@sqf(Radio, returns=Radio, whole=True)
def xmagn(s: StreamView, threshold: float) -> Any:
    """Only windows whose x channel has a spectral magnitude above the threshold (thesis 3.3.3): a selection."""
    v: Any = current_window(s)
    keep = [bool(len(x)) and np.abs(_fft(x)).max() > threshold for x in v.x]
    return v.select(np.array(keep, bool))


def _check_divides(windows: Any, ways: int, function: str) -> int:
    length = int(windows["x"].shape[-1])
    if length % ways:
        raise QueryError(f"{function}: a window of {length} samples cannot be split in {ways}: {ways} must divide it")
    return length


def _by_window(parts: Sequence[PhysicalWindow], combine: Any) -> PhysicalWindow:
    """Combine dense blocks at once, or window by window where vectors differ in length."""
    if not any(isinstance(column, Ragged) for part in parts for column in part.columns.values()):
        return parts[0].replace(**combine(parts))
    rows = [[part[row : row + 1] for part in parts] for row in range(len(parts[0]))]
    return PhysicalWindow.concat([group[0].replace(**combine(group)) for group in rows])

