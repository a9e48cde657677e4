"""Windows as text against our binary form (thesis 6.5): time to write and read a window, and its size."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import orjson
from reporting import Report, median

from gsdm_grid.apps.radio.synthetic import RadioSynthesizer
from gsdm_grid.functions.library.radio import CHANNELS, Radio
from gsdm_grid.model import PhysicalWindow
from gsdm_grid.model.wire import describe, rebuild

SIZES = (256, 1024, 4096, 8192, 16384)


def marshaling(report: Report, quick: bool) -> list[dict[str, Any]]:
    """A row for each window size; times are of one window, there and back."""
    made = []
    for window in SIZES:
        block = RadioSynthesizer(window, pool=1).block(0, 1)
        rounds = 5 if quick else 30
        text_s, text_bytes = _timed(partial(_as_text, block), _from_text, rounds)
        binary_s, binary_bytes = _timed(partial(_as_binary, block), _from_binary, rounds)
        row = {"window": window, "text_ms": text_s * 1e3, "binary_ms": binary_s * 1e3}
        made.append({**row, "text_bytes": text_bytes, "binary_bytes": binary_bytes, "ratio": text_s / binary_s})
        report.progress(f"marshaling, window {window}: text {text_s * 1e3:.3g} ms, binary {binary_s * 1e3:.3g} ms")
    return made


def _timed(write: Callable[[], list[bytes]], read: Callable[[list[bytes]], Any], rounds: int) -> tuple[float, int]:
    """Median seconds to write and read, and the number of bytes in between."""
    taken = []
    for _ in range(rounds):
        started_s = time.thread_time()
        written = write()
        read(written)
        taken.append(time.thread_time() - started_s)
    return median(taken), sum(map(len, written))


def _as_text(block: PhysicalWindow) -> list[bytes]:
    """Numbers in decimal, by the fastest writer and parser at hand: both are compiled code."""
    channels = {c: block[c][0].view(np.float32) for c in CHANNELS}
    return [orjson.dumps({"ts": int(block.ts[0]), **channels}, option=orjson.OPT_SERIALIZE_NUMPY)]


def _from_text(parts: list[bytes]) -> PhysicalWindow:
    told = orjson.loads(parts[0])
    channels = {c: np.array(told[c], np.float32).view(np.complex64)[None] for c in CHANNELS}
    return Radio.block(ts=[told["ts"]], **channels)


def _as_binary(block: PhysicalWindow) -> list[bytes]:
    """Header and columns, copied once, as into a socket or shared memory."""
    header, arrays = describe(block)
    return [header, *(array.tobytes() for array in arrays)]


def _from_binary(parts: list[bytes]) -> PhysicalWindow:
    return rebuild(Radio, parts[0], parts[1:])
