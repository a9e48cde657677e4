"""GSDM-grid: continuous queries over high-volume numerical streams, on Ray and Spark.

The names that a query needs are here; each room's own ``__init__`` says what else it holds.

>>> from gsdm_grid import PCC, Grid, Radio, cq, register_input_stream
>>> import numpy as np
>>> wave = np.exp(2j * np.pi * np.arange(256) / 16).astype("complex64")
>>> s1 = register_input_stream("Radio", [Radio.window(ts=k, x=wave, y=wave, z=wave) for k in range(8)])
>>> with Grid("threads") as grid:
...     q = cq(PCC(2, "fft3part", "fft3", {}, "OS-Join", {"fft3combine"}), [s1], grid=grid)
...     [int(abs(w.x).argmax()) for w in q.run()]
[16, 16, 16, 16, 16, 16, 16, 16]
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gsdm_grid.config import Settings
    from gsdm_grid.coordination import (
        ContinuousQuery,
        Grid,
        cq,
        default_grid,
    )
    from gsdm_grid.flow import (
        PCC,
        DataFlow,
        autosplit,
        central,
        exptree,
        fsplit,
        lpipe,
        mapstream,
        maxtree,
        mergestream,
        parallel,
        parallelize,
        parasplit,
        partition,
        pipe,
        splitstream,
        splittree,
        template,
    )
    from gsdm_grid.functions import (  # type: ignore[no-redef]
        OMIT,
        Traits,
        current_window,
        per_tuple,
        sliding_window,
        sqf,
        time_window,
        window_distribute,
        window_split,
    )
    from gsdm_grid.functions.library.radio import Channel, Polar, Radio
    from gsdm_grid.interfaces import StreamInterface, register_stream_interface
    from gsdm_grid.model import STREAM, LogicalWindow, PhysicalWindow, StreamType, create_stream_type, seconds
    from gsdm_grid.spec import register_input_stream, register_result_stream
    from gsdm_grid.trials import opt

__version__ = "0.1.0"

_ROOMS = {
    "config": ("Settings",),
    "coordination": ("ContinuousQuery", "Grid", "cq", "default_grid"),
    "flow": (
        "PCC",
        "DataFlow",
        "autosplit",
        "central",
        "exptree",
        "fsplit",
        "lpipe",
        "mapstream",
        "maxtree",
        "mergestream",
        "parallel",
        "parallelize",
        "parasplit",
        "partition",
        "pipe",
        "splitstream",
        "splittree",
        "template",
    ),
    "functions": (
        "OMIT",
        "Traits",
        "current_window",
        "per_tuple",
        "sliding_window",
        "sqf",
        "time_window",
        "window_distribute",
        "window_split",
    ),
    "functions.library.radio": ("Channel", "Polar", "Radio"),
    "interfaces": ("StreamInterface", "register_stream_interface"),
    "model": ("STREAM", "LogicalWindow", "PhysicalWindow", "StreamType", "create_stream_type", "seconds"),
    "spec": ("register_input_stream", "register_result_stream"),
    "trials": ("opt",),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> Any:
    """Names are imported when first used: ``gsdm --help`` and clients need few of them."""
    if name not in _ROOM_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f"{__name__}.{_ROOM_OF[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "OMIT",
    "PCC",
    "STREAM",
    "Channel",
    "ContinuousQuery",
    "DataFlow",
    "Grid",
    "LogicalWindow",
    "PhysicalWindow",
    "Polar",
    "Radio",
    "Settings",
    "StreamInterface",
    "StreamType",
    "Traits",
    "autosplit",
    "central",
    "cq",
    "create_stream_type",
    "current_window",
    "default_grid",
    "exptree",
    "fsplit",
    "lpipe",
    "mapstream",
    "maxtree",
    "mergestream",
    "opt",
    "parallel",
    "parallelize",
    "parasplit",
    "partition",
    "per_tuple",
    "pipe",
    "register_input_stream",
    "register_result_stream",
    "register_stream_interface",
    "seconds",
    "sliding_window",
    "splitstream",
    "splittree",
    "sqf",
    "template",
    "time_window",
    "window_distribute",
    "window_split",
]
