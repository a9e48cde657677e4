"""A synthetic antenna: polarized carriers in noise, as fast as memory delivers them and the same every time.

Window k of a stream depends on k and the options alone, so the stream can be read again from any place, on
any machine, in blocks of any size. Real receivers are other stream interfaces; what the windows mean is
in the radio library of `gsdm_grid.functions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from gsdm_grid.errors import QueryError
from gsdm_grid.functions.library.radio import CHANNELS, Radio
from gsdm_grid.interfaces import (
    EndOfStream,
    InterfaceContext,
    Pacer,
    StreamInterface,
    equally_long,
)
from gsdm_grid.model import Array, PhysicalWindow, StreamType, seconds

FRESH_CYCLE = 256
WINDOW = 8192


@dataclass(frozen=True)
class CarrierWave:
    """One polarized signal. Immutable. All its movements are periodic, over the cycle of its synthesizer.

    ``frequency`` and ``drift`` (how far it swings to either side) are in cycles per sample, between -0.5 and
    0.5. The field turns on an ellipse of this ``amplitude`` whose axes are as 1 to ``axial_ratio``
    (0: linear, 1: circular). The ellipse's normal has polar angle ``theta``, nodding by ``nod``, and azimuth
    ``phi``, which goes once around. ``phase`` says where in the cycle the movements start. Angles in radians.
    """

    frequency: float
    drift: float = 0.0
    amplitude: float = 0.5
    axial_ratio: float = 1.0
    theta: float = np.pi / 4
    nod: float = 0.0
    phi: float = 0.0
    phase: float = 0.0

    def normal(self, turn: float) -> tuple[float, float]:
        """Polar angle and azimuth of the ellipse's normal after this part of a cycle."""
        angle = 2 * np.pi * turn
        return self.theta + self.nod * float(np.sin(angle + self.phase)), self.phi + angle

    def field(self, first_sample: int, samples: int, cycle: int) -> Array:
        """Complex field in x, y and z; ``cycle`` in samples. Its phase never jumps."""
        turns = (first_sample + np.arange(samples)) / cycle
        swing = self.drift * cycle / (2 * np.pi) * np.cos(2 * np.pi * turns + self.phase)
        wave = np.exp(2j * np.pi * (np.round(self.frequency * cycle) * turns - swing))
        theta, phi = self.normal((first_sample + samples / 2) / cycle)
        towards_theta = np.array([np.cos(theta) * np.cos(phi), np.cos(theta) * np.sin(phi), -np.sin(theta)])
        towards_phi = np.array([-np.sin(phi), np.cos(phi), 0.0])
        ellipse = (towards_theta - 1j * self.axial_ratio * towards_phi) / np.hypot(1, self.axial_ratio)
        made: Array = (self.amplitude * ellipse)[:, None] * wave
        return made


def _draw_carriers(seed: int, count: int = 5) -> tuple[CarrierWave, ...]:
    """Carriers in lanes of the band that they never leave, so that they do not cross."""
    random = np.random.default_rng((seed, count))
    lane = 0.9 / count
    axial_ratios = random.permutation(np.linspace(0.1, 1.0, count))
    return tuple(
        CarrierWave(
            frequency=-0.45 + lane * (place + random.uniform(0.4, 0.6)),
            drift=lane * random.uniform(0.05, 0.35),
            amplitude=random.uniform(0.2, 1.0),
            axial_ratio=float(axial_ratios[place]),
            theta=random.uniform(0.25, 0.75) * np.pi,
            nod=random.uniform(0.05, 0.2) * np.pi,
            phi=random.uniform(0, 2 * np.pi),
            phase=random.uniform(0, 2 * np.pi),
        )
        for place in range(count)
    )


class RadioSynthesizer:
    """Makes windows of three channels of ``window`` samples. Not thread-bound; holds its pool while it lives.

    ``pool`` windows are synthesized once and then come again and again with rising timestamps, because noise
    is expensive; the carriers go through one cycle of their movements meanwhile, so the stream has no seam.
    With a pool of 0 every window has noise of its own, and the cycle is 256 windows.
    """

    def __init__(
        self,
        window: int = WINDOW,
        seed: int = 0,
        sample_rate: int = 1_000_000,
        pool: int = 64,
        carriers: Sequence[CarrierWave] | None = None,
    ) -> None:
        for name, value, least in (
            ("window", window, 1),
            ("seed", seed, 0),
            ("sample_rate", sample_rate, 1),
            ("pool", pool, 0),
        ):
            if not isinstance(value, int | np.integer) or value < least:
                raise QueryError(f"synthetic radio: {name} must be an integer from {least} on, got {value!r}")
        self.window, self.seed = int(window), int(seed)
        self.sample_rate, self.pool = int(sample_rate), int(pool)
        self.carriers = _draw_carriers(self.seed) if carriers is None else tuple(carriers)
        self.cycle = self.pool or FRESH_CYCLE
        self._pool: Array | None = None

    def block(self, start: int, count: int) -> PhysicalWindow:
        """Windows ``start`` to ``start + count - 1``: a view of the pool unless they reach over its end."""
        if self.pool:
            if self._pool is None:
                self._pool = self._synthesize(range(self.pool))
            first = start % self.pool
            if first + count <= self.pool:
                made = self._pool[:, first : first + count]
            else:
                made = np.take(self._pool, np.arange(first, first + count) % self.pool, axis=1)
        else:
            made = self._synthesize(range(start, start + count))
        made.flags.writeable = False
        columns = {"ts": self.timestamps(start, count), **dict(zip(CHANNELS, made, strict=True))}
        return PhysicalWindow(Radio, columns)

    def timestamps(self, start: int, count: int) -> Array:
        """Time of each window's first sample, in nanoseconds since the first window's."""
        whole, rest = np.divmod((start + np.arange(count, dtype=np.int64)) * self.window, self.sample_rate)
        made: Array = whole * seconds(1) + rest * seconds(1) // self.sample_rate
        return made

    def _synthesize(self, ordinals: range) -> Array:
        """Channels × windows × samples. The noise has variance 1 per channel."""
        made = np.empty((len(CHANNELS), len(ordinals), self.window), np.complex64)
        for row, ordinal in enumerate(ordinals):
            random = np.random.default_rng((self.seed, ordinal, self.window))
            noise = random.standard_normal((len(CHANNELS), 2 * self.window), np.float32) * np.float32(np.sqrt(0.5))
            made[:, row] = noise.view(np.complex64)
            for carrier in self.carriers:
                made[:, row] += carrier.field(ordinal % self.cycle * self.window, self.window, self.cycle * self.window)
        return made


class SyntheticRadio(StreamInterface):
    """The synthesizer as a source. Options ``window``, ``seed``, ``sample_rate`` (Hz) and ``pool``: as there.

    ``limit``: the stream ends after this many windows (default: never). ``rate``: windows per second that it
    gives (default: as many as are asked for); a reader who is late gets all the windows that he missed. ``stamp``:
    timestamps are the wall-clock times at which windows are due at the rate, for measuring latency.
    """

    replayable: bool = True
    known_options: ClassVar[frozenset[str] | None] = frozenset(
        {"limit", "pool", "rate", "sample_rate", "seed", "stamp", "window"}
    )

    @classmethod
    @override
    def vector_lengths(cls, stream_type: StreamType, options: Mapping[str, Any]) -> dict[str, int]:
        return equally_long(stream_type, options.get("window", WINDOW))

    def __init__(self, stream_type: StreamType, options: Mapping[str, Any]) -> None:
        super().__init__(stream_type, options)
        PhysicalWindow.empty(Radio).as_type(stream_type)  # complains of attributes that it cannot fill
        chosen = {name: options[name] for name in ("window", "seed", "sample_rate", "pool") if name in options}
        self._synthesizer = RadioSynthesizer(**chosen)
        self._limit: int | None = options.get("limit")
        self._rate: float | None = options.get("rate")
        if self._limit is not None and not (isinstance(self._limit, int) and self._limit > 0):
            raise QueryError(f"synthetic radio: limit must be a positive integer, got {self._limit!r}")
        if self._rate is not None and not (isinstance(self._rate, int | float) and self._rate > 0):
            raise QueryError(f"synthetic radio: rate must be a positive number, got {self._rate!r}")
        self._position = 0
        self._stamp = bool(options.get("stamp", False))
        self._pacer = Pacer(self.context.clock, self._rate)

    @override
    def open(self, context: InterfaceContext) -> None:
        """The pace is counted from here on, the windows from where reading stopped."""
        super().open(context)
        self._pacer = Pacer(context.clock, self._rate)

    @override
    def next(self, limit: int) -> PhysicalWindow | None:
        left = limit if self._limit is None else min(limit, self._limit - self._position)
        if left <= 0:
            raise EndOfStream
        left = self._pacer.allowed(left)
        if not left:
            return None
        block = self._synthesizer.block(self._position, left)
        if self._stamp:
            block = block.replace(ts=self._pacer.stamps(left))
        self._pacer.passed(left)
        self._position += left
        return block if self.stream_type == Radio else block.as_type(self.stream_type)

    @override
    def due_s(self) -> float | None:
        return self._pacer.due_s

    @override
    def seek(self, ordinal: int) -> None:
        self._position = ordinal
        self._pacer = Pacer(self.context.clock, self._rate)
