"""Whether two result streams are the same: same windows, same order, same values within float tolerance.

Different plans add up the same numbers in another order, so single precision lets them differ a little:
by about 1e-6 of the field's typical strength in the window, at every frequency. What that means for a value
depends on how well the value is defined, so values are compared as follows:

* spectra, everywhere: they may differ by 1e-4 of the channel's strength in the window (its root mean square).
* I and V, everywhere: they may differ by 1e-4 of I, and by 1e-5 of the window's mean I where I is tiny.
* theta, where the ellipse has a plane: V at least a tenth of I (a line has no normal), and I at least a
  twentieth of the window's mean. It may differ by 1e-3 radians.
* phi, modulo 2π, and Q and U, where besides the normal is not along z (sin theta at least a tenth: straight
  up, every azimuth is as good as any other, and with it the axes of Q and U). 1e-3 radians, 1e-3 of I.
"""

from __future__ import annotations

import numpy as np

from gsdm_grid.errors import QueryError
from gsdm_grid.functions.library.radio import CHANNELS, Polar, Radio
from gsdm_grid.model import Array, LogicalWindow, PhysicalWindow, StreamType

_ANGLE, _STOKES, _SPECTRUM = 1e-3, 1e-3, 1e-4


def difference(one: PhysicalWindow, other: PhysicalWindow) -> str | None:
    """The first thing in which two blocks of `Polar` or `Radio` windows differ, in words; None if they are the same."""
    compared = next((kind for kind in (Polar, Radio) if one.type.is_under(kind) and other.type.is_under(kind)), None)
    if compared is None:
        raise QueryError(
            f"polarizations or spectra are compared, got windows of {one.type.name!r} and {other.type.name!r}"
        )
    if len(one) != len(other):
        return f"{len(one)} windows against {len(other)}"
    if list(one.ordinals) != list(other.ordinals):
        return "the ordinals differ"
    if not np.array_equal(one.ts, other.ts):
        return "the timestamps differ"
    differs = _channel_that_differs if compared is Radio else _attribute_that_differs
    for row, (expected, got) in enumerate(zip(one, other, strict=True)):
        name = differs(_vectors(expected, compared), _vectors(got, compared))
        if name is not None:
            return f"{name} differs in window {one.ordinals[row]}"
    return None


def _vectors(window: LogicalWindow, stream_type: StreamType) -> dict[str, Array]:
    names = [name for name in stream_type.attributes if name != "ts"]
    wide = np.complex128 if stream_type is Radio else np.float64
    return {name: np.asarray(getattr(window, name), wide) for name in names}


def _channel_that_differs(one: dict[str, Array], other: dict[str, Array]) -> str | None:
    for name in CHANNELS:
        if one[name].shape != other[name].shape:
            return f"the length of {name}"
        strength = np.sqrt(np.mean(np.abs(one[name]) ** 2)) if one[name].size else 0.0
        if not np.all(np.abs(other[name] - one[name]) <= _SPECTRUM * strength):  # NaN is never within the limit
            return name
    return None


def _attribute_that_differs(one: dict[str, Array], other: dict[str, Array]) -> str | None:
    for name, values in one.items():
        if values.shape != other[name].shape:
            return f"the length of {name}"
    power = one["I"]
    mean = float(power.mean()) if power.size else 0.0
    has_plane, has_azimuth = well_defined(one)
    everywhere = 1e-4 * power + 1e-5 * mean
    off = {name: np.abs(other[name] - values) for name, values in one.items()}
    off["phi"] = np.abs((other["phi"] - one["phi"] + np.pi) % (2 * np.pi) - np.pi)
    checks: tuple[tuple[str, Array | float, Array | bool], ...] = (
        ("I", everywhere, True),
        ("V", everywhere, True),
        ("theta", _ANGLE, has_plane),
        ("phi", _ANGLE, has_azimuth),
        ("Q", _STOKES * power, has_azimuth),
        ("U", _STOKES * power, has_azimuth),
    )
    for name, allowed, where in checks:
        if not np.all((off[name] <= allowed) | ~np.asarray(where)):  # NaN is never within the limit
            return name
    return None


def well_defined(polar: dict[str, Array]) -> tuple[Array, Array]:
    """Where the polarization has a plane, and where besides that plane's normal has an azimuth."""
    power = polar["I"]
    mean = float(power.mean()) if power.size else 0.0
    has_plane: Array = (polar["V"] >= 0.1 * power) & (power >= 0.05 * mean)
    has_azimuth: Array = has_plane & (np.sin(polar["theta"]) >= 0.1)
    return has_plane, has_azimuth
