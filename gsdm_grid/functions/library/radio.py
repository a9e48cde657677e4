"""Signal processing over three-channel radio streams (thesis 3.3, 4.2 and its space physics application).

`fft3` and `polarize` are the papers' running examples; each comes with the functions that split a window over
several sites and combine the results. All handle whole physical windows: the vector axis is the last one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from gsdm_grid.errors import FlowError, SchemaError
from gsdm_grid.functions import (
    Lengths,
    StreamView,
    Traits,
    added_lengths,
    check_divides,
    current_window,
    degree_of,
    equal_parts,
    same_lengths,
    sqf,
    window_distribute,
    window_split,
)
from gsdm_grid.model import STREAM, Array, PhysicalWindow, StreamType, create_stream_type, cut

Radio = create_stream_type(
    "Radio", {"x": "vector of complex64", "y": "vector of complex64", "z": "vector of complex64"}
)
Channel = create_stream_type("Channel", {"x": "vector of complex64"})
POLAR_VECTORS = ("phi", "theta", "I", "Q", "U", "V")
Polar = create_stream_type("Polar", dict.fromkeys(POLAR_VECTORS, "vector of float32"))

CHANNELS = ("x", "y", "z")
LINEAR = 1e-6  # V / I below which polarization is linear: single precision does not tell it from zero


def _each_length(windows: Any, transform: Any) -> Any:
    """Apply ``transform`` to a block of equally long vectors; part by part where lengths differ."""
    parts = windows.dense_parts()
    if len(parts) == 1:
        return transform(parts[0])
    return PhysicalWindow.concat([transform(part) for part in parts])


def _fft(array: Array) -> Array:
    from scipy import fft

    if not array.shape[-1]:
        return array
    result: Array = fft.fft(array, axis=-1)
    return result


@sqf(
    Radio,
    returns=Radio,
    whole=True,
    strategies=(window_distribute(), window_split("fft3part", "fft3combine")),
    imports=("scipy.fft",),
    lengths=same_lengths,
    traits=Traits(spectra=True),
)
def fft3(s: StreamView) -> Any:
    """Fast Fourier transform of each of the three channels (thesis 3.3.1)."""
    return _each_length(current_window(s), lambda v: v.replace(**{c: _fft(v[c]) for c in CHANNELS}))


@sqf(Radio, returns=Radio, whole=True, kind="partitioning", lengths=equal_parts("fft3part", *CHANNELS))
def fft3part(s: StreamView, n: int, i: int) -> Any:
    """Sub-window ``i`` of ``n`` for the radix-n FFT: every n-th sample from the i-th (decimation in time)."""

    def part(v: Any) -> Any:
        for c in CHANNELS:
            check_divides(v[c].shape[-1], n, "fft3part")
        return v.replace(**{c: v[c][..., i::n] for c in CHANNELS})

    return _each_length(current_window(s), part)


@sqf(Radio, returns=Radio, whole=True, kind="combine", imports=("scipy.fft",), lengths=added_lengths)
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


@lru_cache(64)
def _twiddles(ways: int, length: int) -> Array:
    angle = np.outer(np.arange(ways), np.arange(length)) * (-2j * np.pi / max(ways * length, 1))
    factors: Array = np.exp(angle).astype(np.complex64)
    return factors


@sqf(
    Radio,
    returns=Radio,
    whole=True,
    strategies=(window_distribute(), window_split("dft3part", "dft3combine")),
    lengths=same_lengths,
    traits=Traits(spectra=True),
)
def dft3(s: StreamView) -> Any:
    """Discrete Fourier transform of the three channels by its definition: an expensive function, O(n²)."""

    return _each_length(current_window(s), lambda v: v.replace(**{c: _dft(v[c]) for c in CHANNELS}))


def _dft(array: Array) -> Array:
    numbers = np.arange(array.shape[-1])
    scale = max(len(numbers), 1)
    matrix: Array = np.exp((-2j * np.pi / scale) * (np.outer(numbers, numbers) % scale))
    return array @ matrix


@sqf(Radio, returns=Radio, whole=True, kind="partitioning", lengths=equal_parts("dft3part", *CHANNELS))
def dft3part(s: StreamView, n: int, i: int) -> Any:
    """Sub-window whose transform holds every n-th frequency from the i-th on (decimation in frequency).

    The partition does the butterflies, so that the combine phase only interleaves.
    """

    def fold(array: Array) -> Array:
        length = check_divides(array.shape[-1], n, "dft3part") // n
        turn = np.exp((-2j * np.pi / n) * (i * np.arange(n)))[:, None]
        slope = np.exp((-2j * np.pi / (n * max(length, 1))) * i * np.arange(length))
        folded: Array = (array.reshape(len(array), n, length) * turn).sum(axis=1) * slope
        return folded

    return _each_length(current_window(s), lambda v: v.replace(**{c: fold(v[c]) for c in CHANNELS}))


@sqf(Radio, returns=Radio, whole=True, kind="combine", lengths=added_lengths)
def dft3combine(parts: Sequence[PhysicalWindow]) -> PhysicalWindow:
    """Interleave the frequencies that the sub-windows hold."""
    return _by_window(parts, lambda group: {c: _interleaved([p[c] for p in group]) for c in CHANNELS})


def _interleaved(spectra: Sequence[Array]) -> Array:
    count, length = spectra[0].shape
    return np.stack(spectra, axis=-1).reshape(count, length * len(spectra))


def _polar_lengths(inputs: Sequence[Lengths], params: Mapping[str, Any]) -> Lengths:  # noqa: ARG001
    lengths = {inputs[0].get(channel) for channel in CHANNELS}
    length = lengths.pop()
    return {} if lengths or length is None else dict.fromkeys(POLAR_VECTORS, length)


@sqf(
    Radio,
    returns=Polar,
    whole=True,
    lengths=_polar_lengths,
    strategies=(window_distribute(), window_split("slicepart", "polarcombine")),
    traits=Traits(spectra=True),
)
def polarize(s: StreamView) -> Any:
    """Polarization ellipse per frequency, from the spectra of the three channels (thesis 3.3.3).

    Six vectors: azimuth ``phi`` in (-π, π] and polar angle ``theta`` in [0, π] of the ellipse's normal, and
    the Stokes parameters ``I, Q, U, V`` in its plane. The normal is the direction of 2·Im(E×E*); where that
    vanishes (linear polarization) it is the perpendicular of the line that is nearest to the z axis. In the
    plane, the first axis points towards growing theta, the second towards growing phi: V is never negative.
    """
    return _each_length(current_window(s), lambda v: v.as_type(Polar, **polarization(v["x"], v["y"], v["z"])))


@sqf(Radio, returns=Polar, whole=True, imports=("scipy.fft",), lengths=_polar_lengths, traits=Traits(spectra=True))
def polar(s: StreamView) -> Any:
    """`polarize` of `fft3` in one function (thesis 3.3.3)."""

    def transform(v: Any) -> Any:
        return v.as_type(Polar, **polarization(*(_fft(v[c]) for c in CHANNELS)))

    return _each_length(current_window(s), transform)


def polarization(x: Array, y: Array, z: Array) -> dict[str, Array]:
    """Angles of the normal and Stokes parameters of the field (x, y, z); elementwise, any shape."""
    field = [channel.astype(np.complex128) for channel in (x, y, z)]
    real, imag = [e.real for e in field], [e.imag for e in field]
    power = sum(a * a + b * b for a, b in zip(real, imag, strict=True))
    # half of Im(E×E*), whose length is V and whose direction is the normal
    normal = np.stack([imag[j] * real[k] - imag[k] * real[j] for j, k in ((1, 2), (2, 0), (0, 1))])
    size = _length(normal)
    flat = 2 * size <= LINEAR * power
    if flat.any():
        normal[:, flat] = _normal_of_line(np.stack(real)[:, flat], np.stack(imag)[:, flat])
        size[flat] = 1
    normal /= size
    normal += 0.0  # turns -0.0 to 0.0, whose angle is 0 and not π
    across = np.hypot(normal[0], normal[1])  # sine of theta
    upright = across == 0
    cos_phi = np.divide(normal[0], across, out=np.ones_like(across), where=~upright)
    sin_phi = np.divide(normal[1], across, out=np.zeros_like(across), where=~upright)
    first = normal[2] * (cos_phi * field[0] + sin_phi * field[1]) - across * field[2]
    second = cos_phi * field[1] - sin_phi * field[0]
    cross = 2 * first * second.conj()
    one, two = first.real**2 + first.imag**2, second.real**2 + second.imag**2
    made = {
        "phi": np.arctan2(normal[1], normal[0]),
        "theta": np.arctan2(across, normal[2]),
        "I": one + two,
        "Q": one - two,
        "U": cross.real,
        "V": np.maximum(cross.imag, 0),
    }
    return {name: values.astype(np.float32) for name, values in made.items()}


def _normal_of_line(real: Array, imag: Array) -> Array:
    """Perpendicular of a line of polarization that is nearest to the z axis, x if the line is that axis."""
    line = np.where(_length(real) >= _length(imag), real, imag)
    length = _length(line)
    line = line / np.where(length > 0, length, 1)
    normal: Array = -line[2] * line
    normal[2] += 1
    size = _length(normal)
    along_z = size <= LINEAR
    normal[:, along_z] = np.array([[1.0], [0.0], [0.0]])
    normal /= np.where(along_z, 1, size)
    return normal


def _length(vectors: Array) -> Array:
    """Euclidean length over the first axis."""
    length: Array = np.sqrt(np.sum(vectors * vectors, axis=0))
    return length


def _sliced_type(inputs: Sequence[StreamType], params: Mapping[str, Any]) -> StreamType:
    """The type of slices is that of the windows: so the sliced vectors must be of a type that lets lengths vary."""
    stream_type = inputs[0]
    for name in _sliced(stream_type, params.get("vectors")):
        kind = stream_type.attribute(name)
        if not kind.varies:
            raise SchemaError(stream_type.name, name, "a vector whose length may vary, to slice", str(kind))
    return stream_type


def _named(vectors: str | Sequence[str]) -> list[str]:
    return [vectors] if isinstance(vectors, str) else list(vectors)


def _sliced(stream_type: StreamType, vectors: Sequence[str] | None) -> list[str]:
    """Names of the attributes to slice: those asked for, or all vectors."""
    if vectors is not None:
        return _named(vectors)
    names = [name for name, kind in stream_type.attributes.items() if kind.shape != ()]
    if not names:
        raise SchemaError(stream_type.name, None, "at least one vector, to slice", "none")
    return names


def _sliced_lengths(inputs: Sequence[Lengths], params: Mapping[str, Any]) -> Lengths:
    """Slices may differ by one in length; vectors that are sliced must be equally long."""
    lengths, chosen = dict(inputs[0]), params.get("vectors")
    n, i = degree_of(params, "slicepart"), params["i"]
    names = list(lengths) if chosen is None else [name for name in _named(chosen) if name in lengths]
    _check_equally_long({name: lengths[name] for name in names})
    return lengths | {name: _slice_end(lengths[name], n, i + 1) - _slice_end(lengths[name], n, i) for name in names}


def _slice_end(length: int, n: int, i: int) -> int:
    return length * i // n


def _check_equally_long(lengths: Lengths) -> None:
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise FlowError("slicepart", f"vectors of one window differ in length ({listed}): name some in 'vectors'")


@sqf(STREAM, returns=_sliced_type, whole=True, kind="partitioning", lengths=_sliced_lengths)
def slicepart(s: StreamView, n: int, i: int, vectors: Sequence[str] | None = None) -> Any:
    """Sub-window ``i`` of ``n``: a contiguous slice of each vector, for functions of single elements.

    ``vectors`` names the attributes to slice; without it all vectors are sliced. Others are in every sub-window.
    """

    def cut(array: Array) -> Array:
        length = array.shape[-1]
        return array[..., _slice_end(length, n, i) : _slice_end(length, n, i + 1)]

    def part(v: Any) -> Any:
        names = _sliced(v.type, vectors)
        _check_equally_long({name: v[name].shape[-1] for name in names})
        return v.replace(**{name: cut(v[name]) for name in names})

    return _each_length(current_window(s), part)


@sqf(Polar, returns=Polar, whole=True, kind="combine", lengths=added_lengths)
def polarcombine(parts: Sequence[PhysicalWindow]) -> PhysicalWindow:
    """Slices one after the other."""
    return _concatenated(parts, POLAR_VECTORS)


@sqf(STREAM, returns=_sliced_type, whole=True, kind="combine", lengths=added_lengths)
def slicecombine(parts: Sequence[PhysicalWindow]) -> PhysicalWindow:
    """Slices of all vectors one after the other, for any type: what `slicepart` without ``vectors`` has cut."""
    return _concatenated(parts, _sliced(parts[0].type, None))


def _concatenated(parts: Sequence[PhysicalWindow], names: Sequence[str]) -> PhysicalWindow:
    return _by_window(parts, lambda group: {name: np.concatenate([p[name] for p in group], axis=-1) for name in names})


@sqf(Radio, returns=Channel, whole=True, lengths=same_lengths)
def xchannel(s: StreamView) -> Any:
    """Timestamp and x channel only (thesis 3.3.3): a projection."""
    v: Any = current_window(s)
    return v.as_type(Channel)


@sqf(Radio, returns=Radio, whole=True, imports=("scipy.fft",), lengths=same_lengths)
def xmagn(s: StreamView, threshold: float) -> Any:
    """Only windows whose x channel has a spectral magnitude above the threshold (thesis 3.3.3)."""
    v: Any = current_window(s)
    keep = [bool(len(x)) and np.abs(_fft(x)).max() > threshold for x in v.x]
    return v.select(np.array(keep, bool))


def _by_window(parts: Sequence[PhysicalWindow], combine: Any) -> PhysicalWindow:
    """Combine dense blocks at once, or window by window where vectors differ in length."""
    dense = [part.dense_parts() for part in parts]
    if all(len(pieces) == 1 for pieces in dense):
        return parts[0].replace(**combine([pieces[0] for pieces in dense]))
    rows = [[cut(part, row, row + 1).dense_parts()[0] for part in parts] for row in range(len(parts[0]))]
    combined = PhysicalWindow.concat([group[0].replace(**combine(group)) for group in rows])
    return combined.stamped(mark=parts[0].mark, halo=parts[0].halo)
