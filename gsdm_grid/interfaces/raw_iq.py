"""Interface ``raw_iq``: files of raw interleaved samples, and the conversion of such samples to vectors.

Options: ``path``; ``dtype`` in SigMF's spelling (``cu8``, ``ci8``, ``ci16_le``, ``cf32_le``, …; ``r…`` for
real samples); ``channels`` that are interleaved sample by sample (channel k becomes the k-th vector
attribute of the stream type); ``window``, samples per logical window (may be left out where the type fixes
the length); ``sample_rate`` and ``start_ts`` for the timestamps; ``scale``: ``"unit"`` makes integers range
from -1 to 1, ``"none"`` keeps them; ``header_bytes`` to leave out in front. Further options: see `player`.

The file is read piece by piece, and samples that already are what the type wants are not copied again. Samples at the
end that do not fill a window are counted as ``dropped_tail_samples``.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from gsdm_grid.errors import QueryError, SchemaError
from gsdm_grid.interfaces.interface import equally_long, interfaces
from gsdm_grid.interfaces.player import RecordedSource, Recording, positive
from gsdm_grid.interfaces.recorded_file import RecordedFile
from gsdm_grid.model import NANOSECONDS, Array, PhysicalWindow, StreamType

_NAME = re.compile(r"^([cr])(?:(f32|f64|i32|i16|u32|u16)_(le|be)|(i8|u8))$")
_ALLOWED = "c or r, then f32, f64, i32, i16, u32, u16 with _le or _be, or i8, u8; such as cf32_le, ci16_be, cu8"


@dataclass(frozen=True)
class SampleFormat:
    """How raw samples lie in a file or datagram, and which vectors they become. Immutable."""

    component: np.dtype[Any]
    is_complex: bool
    channels: int
    window: int
    names: tuple[str, ...]
    scale: str

    @staticmethod
    def make(interface: str, stream_type: StreamType, options: Mapping[str, Any]) -> SampleFormat:
        """From the options ``dtype``, ``channels``, ``window`` and ``scale``, checked against the stream type."""
        match = _NAME.match(str(options.get("dtype")))
        if match is None:
            raise QueryError(
                f"interface {interface!r}, option 'dtype': expected {_ALLOWED}; got {options.get('dtype')!r}"
            )
        domain, wide, order, narrow = match.groups()
        kind = wide or narrow
        component = np.dtype(f"{'>' if order == 'be' else '<'}{kind[0]}{int(kind[1:]) // 8}")
        is_complex = domain == "c"
        names = vectors(interface, stream_type, "c" if is_complex else "fc")
        channels = options.get("channels", 1)
        if channels != len(names):
            raise QueryError(
                f"interface {interface!r}: {channels} channel(s) need as many vector attributes; "
                f"type {stream_type.name!r} has {', '.join(names) or 'none'}"
            )
        window = options.get("window") or (stream_type.attributes[names[0]].shape or (None,))[0]
        if not isinstance(window, int) or window < 1:
            raise QueryError(f"interface {interface!r} needs option 'window', samples per window; got {window!r}")
        for name in names:
            if stream_type.attributes[name].shape not in (None, (window,)):
                raise SchemaError(stream_type.name, name, str(stream_type.attributes[name]), f"windows of {window}")
        scale = options.get("scale", "unit")
        if scale not in ("unit", "none"):
            raise QueryError(f"interface {interface!r}, option 'scale': 'unit' or 'none'; got {scale!r}")
        return SampleFormat(component, is_complex, channels, window, names, scale)

    @property
    def sample_bytes(self) -> int:
        """Bytes of one sample of all channels."""
        return self.component.itemsize * (2 if self.is_complex else 1) * self.channels

    @property
    def window_bytes(self) -> int:
        """Bytes of one logical window."""
        return self.sample_bytes * self.window

    def decode(self, stream_type: StreamType, raw: Array, ts: Any) -> PhysicalWindow:
        """The windows in some bytes (a contiguous array of whole windows): views where nothing must change."""
        count = len(raw) // self.window_bytes
        columns: dict[str, Any] = {"ts": np.asarray(ts, np.int64)}
        parts = raw.view(self.component).reshape(count, self.window, self.channels, 1 + self.is_complex)
        for channel, name in enumerate(self.names):
            columns[name] = self._convert(parts[:, :, channel], stream_type.attributes[name].numpy)
        return stream_type.block(**columns)

    def _convert(self, parts: Array, wanted: np.dtype[Any]) -> Array:
        """One channel, with a last axis of one or two components, as the type stores it."""
        same = self.component.isnative and self.component == np.empty(0, wanted).real.dtype
        if same and parts.flags.aligned and self.is_complex == (wanted.kind == "c"):
            view: Array = parts.view(wanted)[..., 0]
            return view
        made = np.empty(parts.shape[:2], wanted)
        made.real = self._scaled(parts[..., 0], made.real.dtype)
        if wanted.kind == "c":
            made.imag = self._scaled(parts[..., 1], made.real.dtype) if self.is_complex else 0
        return made

    def _scaled(self, values: Array, dtype: np.dtype[Any]) -> Array:
        if self.component.kind == "f" or self.scale == "none":
            return values
        half = 2.0 ** (8 * self.component.itemsize - 1)
        wide = np.float64 if self.component.itemsize == 4 else dtype
        scaled: Array = values.astype(wide)
        if self.component.kind == "u":
            scaled -= half
        scaled /= half
        return scaled


def header_bytes(interface: str, options: Mapping[str, Any]) -> int:
    """The option ``header_bytes``: how much to leave out in front of samples."""
    count = options.get("header_bytes", 0)
    if not isinstance(count, int) or count < 0:
        raise QueryError(f"interface {interface!r}, option 'header_bytes': expected 0, 1, …; got {count!r}")
    return count


def vectors(interface: str, stream_type: StreamType, kinds: str) -> tuple[str, ...]:
    """Names of the vector attributes; a `QueryError` if there is anything else that samples cannot fill."""
    names = tuple(name for name in stream_type.attributes if name != "ts")
    for name in names:
        kind = stream_type.attributes[name]
        if kind.is_string or kind.numpy.kind not in kinds or not (kind.shape is None or len(kind.shape) == 1):
            wanted = "complex vectors" if kinds == "c" else "vectors of real or complex numbers"
            raise QueryError(
                f"interface {interface!r}: beside 'ts' type {stream_type.name!r} must have {wanted} only, "
                f"but attribute {name!r} is {kind}"
            )
    return names


def sample_ts(start_ts: int, sample: int, sample_rate: Fraction) -> int:
    """Timestamp of a sample: exact, so that it does not drift over a long stream."""
    return start_ts + round(sample * NANOSECONDS / sample_rate)


@dataclass(frozen=True)
class Capture:
    """Consecutive samples in a file, and the timestamp of the first."""

    byte: int
    samples: int
    start_ts: int


class RawRecording:
    """Windows of raw samples in a file. A window never crosses the border of a capture."""

    def __init__(
        self,
        path: Path,
        stream_type: StreamType,
        layout: SampleFormat,
        rate: Fraction,
        captures: Sequence[Capture],
    ) -> None:
        self._type = stream_type
        self._layout = layout
        self._rate = rate
        self._captures = captures
        self._file = RecordedFile(path)
        self._firsts = [0]
        for capture in captures:
            self._firsts.append(self._firsts[-1] + capture.samples // layout.window)
        self.tail_samples = sum(capture.samples % layout.window for capture in captures)

    @property
    def windows(self) -> int:
        """See `Recording`."""
        return self._firsts[-1]

    @property
    def period_ns(self) -> int:
        """See `Recording`: up to where the window after the last one would start."""
        last = self.windows - 1
        at = bisect.bisect_right(self._firsts, last) - 1
        return self._ts(at, last + 1) - self._ts(bisect.bisect_right(self._firsts, 0) - 1, 0)

    def read(self, start: int, stop: int) -> PhysicalWindow:
        """See `Recording`."""
        at = bisect.bisect_right(self._firsts, start) - 1
        stop = min(stop, self._firsts[at + 1])
        size = self._layout.window_bytes
        byte = self._captures[at].byte + (start - self._firsts[at]) * size
        raw = self._file.read(byte, (stop - start) * size)
        return self._layout.decode(self._type, raw, [self._ts(at, row) for row in range(start, stop)])

    def _ts(self, capture: int, row: int) -> int:
        sample = (row - self._firsts[capture]) * self._layout.window
        return sample_ts(self._captures[capture].start_ts, sample, self._rate)


class RawSource(RecordedSource):
    """Base of the sources whose recordings are `RawRecording`."""

    tail_samples = 0

    def load_raw(self) -> RawRecording:
        """Open the file."""
        raise NotImplementedError

    def load(self) -> Recording:
        """See `RecordedSource`."""
        try:
            recording = self.load_raw()
        except OSError as error:
            raise QueryError(f"interface {self.interface_name!r} cannot read {str(self.path)!r}: {error}") from error
        self.tail_samples = recording.tail_samples
        return recording

    def statistics(self) -> dict[str, int | float]:
        """Samples that do not fill a window."""
        return {"dropped_tail_samples": self.tail_samples}


class RawIqSource(RawSource):
    """Reads one raw file; see the module for options."""

    known_options: ClassVar[frozenset[str] | None] = frozenset(
        {
            "channels",
            "dtype",
            "header_bytes",
            "path",
            "rate",
            "realtime",
            "repeat",
            "stamp",
            "sample_rate",
            "scale",
            "start_ts",
            "window",
        }
    )

    interface_name: ClassVar[str] = "raw_iq"

    @classmethod
    def vector_lengths(cls, stream_type: StreamType, options: Mapping[str, Any]) -> dict[str, int]:
        """See `StreamInterface`."""
        return equally_long(stream_type, options.get("window"))

    def __init__(self, stream_type: StreamType, options: Mapping[str, Any]) -> None:
        super().__init__(stream_type, options)
        self._layout = SampleFormat.make("raw_iq", stream_type, options)
        self._header_bytes = header_bytes("raw_iq", options)
        rate = positive("raw_iq", options, "sample_rate")
        if rate is None:
            raise QueryError("interface 'raw_iq' needs option 'sample_rate', samples per second")
        self._sample_rate = Fraction(rate)

    def load_raw(self) -> RawRecording:
        """See `RawSource`."""
        samples = max(0, self.path.stat().st_size - self._header_bytes) // self._layout.sample_bytes
        capture = Capture(self._header_bytes, samples, int(self.options.get("start_ts", 0)))
        return RawRecording(self.path, self.stream_type, self._layout, self._sample_rate, [capture])


interfaces.add("raw_iq", RawIqSource)
