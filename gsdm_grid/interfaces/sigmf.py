"""Interface ``sigmf``: recordings in the Signal Metadata Format, read and written.

Option ``path``: the ``.sigmf-meta`` file, the ``.sigmf-data`` file, or their common name. As a source it
takes the datatype, channels, sample rate and the captures' times from the metadata; ``window`` (samples per
logical window) may be left out where the stream type fixes it or this interface wrote the recording;
``scale`` as in `raw_iq`, ``repeat``, ``rate`` and ``realtime`` as in `player`. As a sink it writes
``cf32_le``; ``sample_rate`` may be left out where the timestamps tell it. A window whose timestamp is not
where the samples before it end starts a new capture.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np

from gsdm_grid.errors import ChannelError, QueryError, SchemaError
from gsdm_grid.interfaces.interface import equally_long, interfaces, path_in
from gsdm_grid.interfaces.player import positive
from gsdm_grid.interfaces.raw_iq import (
    Capture,
    RawRecording,
    RawSource,
    SampleFormat,
    sample_ts,
    vectors,
)
from gsdm_grid.model import NANOSECONDS, PhysicalWindow, Ragged, StreamType

_META, _DATA = ".sigmf-meta", ".sigmf-data"
_TIME = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(?:Z|[+-]00:00)?$")


class SigmfInterface(RawSource):
    """Reads or writes one recording, whichever is asked of it first; see the module for options."""

    known_options: ClassVar[frozenset[str] | None] = frozenset(
        {"path", "rate", "realtime", "repeat", "stamp", "sample_rate", "scale", "window"}
    )

    sink_option: ClassVar[str] = "path"

    interface_name: ClassVar[str] = "sigmf"

    def __init__(self, stream_type: StreamType, options: Mapping[str, Any]) -> None:
        super().__init__(stream_type, options)
        self.meta_path, self.data_path = self.files(options)
        self._sample_rate = positive("sigmf", options, "sample_rate")
        self._writer: _Writer | None = None

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[Path]:
        """See `StreamInterface`: the metadata, and the samples."""
        bases = [path.with_suffix("") if path.suffix in (_META, _DATA) else path for path in path_in(options)]
        return [base.parent / (base.name + suffix) for base in bases for suffix in (_META, _DATA)]

    @classmethod
    def vector_lengths(cls, stream_type: StreamType, options: Mapping[str, Any]) -> dict[str, int]:
        """See `StreamInterface`: as the options say, or the metadata of a recording that is there."""
        window = options.get("window")
        for meta_path in cls.files(options)[:1] if window is None else ():
            with suppress(OSError, ValueError, KeyError, TypeError):  # reading it will say what is wrong
                window = json.loads(meta_path.read_text("utf-8"))["global"]["gsdm:window"]
        return equally_long(stream_type, window)

    def prepare(self) -> None:
        """See `RecordedSource`: whether there is something to read shows when it is asked for."""

    def load_raw(self) -> RawRecording:
        """See `RawSource`."""
        try:
            meta = json.loads(self.meta_path.read_text("utf-8"))
            common, captures = meta["global"], meta.get("captures") or [{"core:sample_start": 0}]
            rate = self._sample_rate or positive("sigmf", common, "core:sample_rate")
            options = {
                "dtype": common["core:datatype"],
                "channels": common.get("core:num_channels", 1),
                "window": self.options.get("window") or common.get("gsdm:window"),
                "scale": self.options.get("scale", "unit"),
            }
            layout = SampleFormat.make("sigmf", self.stream_type, options)
            if rate is None:
                raise QueryError(f"interface 'sigmf': {str(self.meta_path)!r} has no core:sample_rate; give option")
            exact = Fraction(rate)
            data = self.meta_path.with_name(common["core:dataset"]) if "core:dataset" in common else self.data_path
            trailing = int(common.get("core:trailing_bytes", 0))
            if trailing < 0:
                raise ValueError(f"core:trailing_bytes is {trailing}")
            size = data.stat().st_size - trailing
            parts = _parts_of_file(captures, layout.sample_bytes, size, exact)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise QueryError(f"interface 'sigmf': {str(self.meta_path)!r} is not valid: {error!r}") from error
        return RawRecording(data, self.stream_type, layout, exact, parts)

    def insert(self, block: PhysicalWindow) -> None:
        """See `StreamInterface`."""
        try:
            if self._writer is None:
                self._writer = _Writer(self.stream_type, self.data_path, self._sample_rate)
            self._writer.write(block)
        except OSError as error:
            raise ChannelError(f"interface 'sigmf' cannot write {str(self.data_path)!r}: {error}") from error

    def close(self) -> None:
        """See `StreamInterface`. A written recording is complete afterwards; reopened, it goes on."""
        super().close()
        if self._writer is not None:
            self._writer.close(self.meta_path)


class _Writer:
    """Appends windows to the data file and remembers what the metadata will say."""

    def __init__(self, stream_type: StreamType, path: Path, rate: float | None) -> None:
        self._type = stream_type
        self._names = vectors("sigmf", stream_type, "c")
        if not self._names:
            raise QueryError(f"interface 'sigmf': type {stream_type.name!r} has no vectors to write")
        self._path = path
        self._file: IO[bytes] | None = path.open("wb")
        self._rate = None if rate is None else Fraction(rate)
        self._window: int | None = None
        self._windows = 0
        self._captures: list[tuple[int, int]] = []
        self._waiting: list[int] = []

    def write(self, block: PhysicalWindow) -> None:
        if not len(block):
            return
        for name in self._names:
            column = block.columns[name]
            length = "different lengths" if isinstance(column, Ragged) else column.shape[1]
            if self._window is None and isinstance(length, int):
                self._window = length
            if length != self._window:
                raise SchemaError(self._type.name, name, f"vectors of {self._window}, as before", str(length))
        if self._file is None:
            self._file = self._path.open("ab")
        columns: list[Any] = [block.columns[name] for name in self._names]
        self._file.write(np.stack(columns, -1).astype("<c8").tobytes())
        self._waiting += block.ts.tolist()
        if self._rate is None and len(self._waiting) > 1 and self._waiting[1] > self._waiting[0]:
            self._rate = _nice(Fraction((self._window or 0) * NANOSECONDS, self._waiting[1] - self._waiting[0]))
        if self._rate is not None:
            self._place(self._rate)

    def _place(self, rate: Fraction) -> None:
        """Note where each waiting window starts a new capture."""
        for ts in self._waiting:
            sample = self._windows * (self._window or 0)
            if not self._captures or sample_ts(self._captures[-1][1], sample - self._captures[-1][0], rate) != ts:
                self._captures.append((sample, ts))
            self._windows += 1
        self._waiting = []

    def close(self, path: Path) -> None:
        if self._file is None:
            return
        self._file.close()
        self._file = None
        rate = self._rate
        if rate is None:
            # Nothing tells the rate (one window, or all at one time): each window is a capture of its own.
            rate = Fraction(self._window or 1)
            self._place(rate)
        exact = int(rate) if rate.denominator == 1 else float(rate)
        meta = {
            "global": {
                "core:datatype": "cf32_le",
                "core:sample_rate": exact,
                "core:num_channels": len(self._names),
                "core:version": "1.0.0",
                "core:recorder": "gsdm-grid",
                "core:description": f"stream type {self._type!r}",
                "core:extensions": [{"name": "gsdm", "version": "1.0.0", "optional": True}],
                **({"gsdm:window": self._window} if self._window else {}),
            },
            "captures": [{"core:sample_start": at, "core:datetime": _to_text(ts)} for at, ts in self._captures],
            "annotations": [],
        }
        scratch = path.with_name(path.name + ".part")
        scratch.write_text(json.dumps(meta, indent=2), "utf-8")
        scratch.replace(path)


def _nice(rate: Fraction) -> Fraction:
    """The rate as the metadata will hold it: a whole number, or a JSON number."""
    return Fraction(round(rate)) if abs(rate - round(rate)) < Fraction(1, 1000) else Fraction(float(rate))


def _parts_of_file(captures: list[Any], sample_bytes: int, size: int, rate: Fraction) -> list[Capture]:
    """Captures as parts of the file. One without a time goes on from the one before it."""
    parts: list[Capture] = []
    starts = [int(capture.get("core:sample_start", 0)) for capture in captures]
    headers = [int(capture.get("core:header_bytes", 0)) for capture in captures]
    if starts != sorted(starts) or starts[0] < 0 or min(headers) < 0:
        raise ValueError("captures must be in the order of core:sample_start")
    total = max(0, size - sum(headers)) // sample_bytes
    for index, capture in enumerate(captures):
        stop = min(total, starts[index + 1] if index + 1 < len(starts) else total)
        if "core:datetime" in capture:
            ts = _from_text(capture["core:datetime"])
        else:
            ts = sample_ts(parts[-1].start_ts, starts[index] - starts[index - 1], rate) if parts else 0
        byte = starts[index] * sample_bytes + sum(headers[: index + 1])
        parts.append(Capture(byte, max(0, stop - starts[index]), ts))
    return parts


def _to_text(ts: int) -> str:
    return f"{np.datetime64(ts, 'ns')}Z"


def _from_text(text: str) -> int:
    match = _TIME.match(text)
    if match is None:
        raise ValueError(f"core:datetime {text!r} is not an RFC 3339 time in UTC")
    whole = int(np.datetime64(match[1], "s").astype(np.int64))
    return whole * NANOSECONDS + int((match[2] or "0")[:9].ljust(9, "0"))


interfaces.add("sigmf", SigmfInterface)
