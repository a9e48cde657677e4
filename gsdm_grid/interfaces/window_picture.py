"""A picture of the newest windows of a stream: vectors as a line and a waterfall, numbers as a line over time.

Vectors of complex numbers are drawn as magnitudes in dB. Where a picture has fewer columns than a vector has values,
the greatest of a group is drawn. When and for whom pictures are drawn is not decided here.
"""

from __future__ import annotations

import base64
import html
import io
from collections import deque
from typing import Any

import numpy as np

from gsdm_grid.errors import QueryError
from gsdm_grid.model import Array, PhysicalWindow, StreamType

COLUMNS = 640
_FLOOR = 1e-10
_HTML = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">{refresh}
<title>{title}</title>
<style>body {{ margin: 0; background: #fff; text-align: center }} img {{ max-width: 100%; max-height: 100vh }}</style>
</head>
<body><img alt="{title}" src="data:image/png;base64,{png}"></body>
</html>
"""


class WindowPicture:
    """Keeps what is drawn of the last ``rows`` windows, not the windows. For one thread.

    ``attribute``: which one, by default the first of vectors of numbers, else the first of numbers. With a
    ``sample_rate`` in hertz, vectors are spectra in the order of the transform, and are drawn over frequencies.
    """

    def __init__(
        self,
        stream_type: StreamType,
        attribute: str | None = None,
        rows: int = 200,
        sample_rate: float | None = None,
        title: str | None = None,
    ) -> None:
        self.attribute = attribute or drawable(stream_type)
        self.title = title or f"{stream_type.name}: {self.attribute}"
        kind = stream_type.attribute(self.attribute)
        if not _is_number(kind):
            raise QueryError(f"attribute {self.attribute!r} has no numbers to draw: it is {kind}")
        self._is_complex = kind.numpy.kind == "c"
        self._is_scalar = kind.is_scalar
        self._sample_rate = sample_rate
        self._rows: deque[Array] = deque(maxlen=rows)
        self._times_s: deque[float] = deque(maxlen=rows)
        self._length = 0

    def take(self, block: PhysicalWindow) -> None:
        """Windows that came. Those that would be pushed out again at once are not looked at."""
        most = self._rows.maxlen or len(block)
        newest = block.select(slice(max(len(block) - most, 0), len(block)))
        for value, ts in zip(newest[self.attribute], newest.ts, strict=True):
            self._rows.append(self._row(np.asarray(value)))
            self._times_s.append(int(ts) / 1e9)

    def _row(self, value: Array) -> Array:
        row = (np.abs(value) if self._is_complex else value.astype(np.float64)).reshape(-1)
        self._length = row.size
        if self._is_scalar or not row.size:
            return row
        if self._sample_rate is not None:
            row = np.fft.fftshift(row)
        if row.size > COLUMNS:
            row = np.maximum.reduceat(row, np.arange(0, row.size, -(-row.size // COLUMNS)))
        if self._is_complex:
            row = 20 * np.log10(np.maximum(row, _FLOOR))
        return row

    def png(self) -> bytes:
        """The picture; `QueryError` while no window has come."""
        from matplotlib.figure import Figure

        if not self._rows:
            raise QueryError("a picture needs at least one window")
        figure = Figure(figsize=(9, 4 if self._is_scalar else 6), dpi=100, layout="constrained")
        figure.suptitle(self.title, fontsize=12, fontweight="bold", x=0.01, ha="left")
        self._draw_numbers(figure) if self._is_scalar else self._draw_vectors(figure)
        sink = io.BytesIO()
        figure.savefig(sink, format="png")
        return sink.getvalue()

    def html(self, refresh_s: float | None = None) -> bytes:
        """A page that needs nothing else; it loads itself again every ``refresh_s`` seconds if that is given."""
        refresh = "" if refresh_s is None else f'\n<meta http-equiv="refresh" content="{max(round(refresh_s), 1)}">'
        png = base64.b64encode(self.png()).decode()
        return _HTML.format(title=html.escape(self.title), refresh=refresh, png=png).encode()

    def _draw_numbers(self, figure: Any) -> None:
        panel = figure.subplots()
        times_s = np.asarray(self._times_s) - self._times_s[-1]
        panel.plot(times_s, [row[0] for row in self._rows], linewidth=1)
        panel.set_xlabel("time before the last window [s]")
        panel.set_ylabel(self._named())
        panel.grid(alpha=0.3)

    def _draw_vectors(self, figure: Any) -> None:
        line, waterfall = figure.subplots(2, 1, sharex=True, height_ratios=(2, 3))
        low, high, label = self._axis()
        latest = self._rows[-1]
        step = (high - low) / max(latest.size, 1)
        line.plot(low + (np.arange(latest.size) + 0.5) * step, latest, linewidth=0.8)
        line.set_ylabel(self._named())
        line.grid(alpha=0.3)
        cells = self._cells()
        known = cells[np.isfinite(cells)]
        bottom, top = (np.percentile(known, 10), known.max()) if known.size else (0.0, 1.0)
        oldest_s = min(self._times_s[0] - self._times_s[-1], -1e-9)
        image = waterfall.imshow(
            cells,
            cmap="magma",
            vmin=bottom,
            vmax=max(top, bottom + 1e-9),
            extent=(low, high, oldest_s, 0),
            aspect="auto",
            origin="lower",
            interpolation="nearest",
        )
        waterfall.set_xlabel(label)
        waterfall.set_ylabel("time [s]")
        waterfall.set_xlim(low, high)
        figure.colorbar(image, ax=waterfall, label=self._named(), aspect=12)

    def _cells(self) -> Array:
        """All rows, as wide as the widest."""
        width = max(row.size for row in self._rows) or 1
        cells = np.full((len(self._rows), width), np.nan)
        for place, row in enumerate(self._rows):
            if row.size:
                cells[place] = row[np.arange(width) * row.size // width]
        return cells

    def _named(self) -> str:
        unit = " [dB]" if self._is_complex and not self._is_scalar else ""
        return f"|{self.attribute}|{unit}" if self._is_complex else self.attribute

    def _axis(self) -> tuple[float, float, str]:
        """Both ends of what lies along a vector, and what it is."""
        if self._sample_rate is None:
            return 0.0, float(self._length), "place in the vector"
        half = self._sample_rate / 2
        units = (("GHz", 1e9), ("MHz", 1e6), ("kHz", 1e3), ("Hz", 0.0))
        unit, size = next((name, size or 1.0) for name, size in units if half >= size)
        return -half / size, half / size, f"frequency [{unit}]"


def drawable(stream_type: StreamType) -> str:
    """The attribute that is drawn by default: the first of vectors of numbers, else the first of numbers."""
    kinds = {name: kind for name, kind in stream_type.attributes.items() if _is_number(kind)}
    name = next((name for name, kind in kinds.items() if not kind.is_scalar), next(iter(kinds), None))
    if name is None:
        raise QueryError(f"type {stream_type.name!r} has no numbers to draw")
    return name


def _is_number(kind: Any) -> bool:
    return not kind.is_string and kind.dtype != "timestamp"
