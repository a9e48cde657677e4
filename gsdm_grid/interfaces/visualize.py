"""Interface ``visualize``: a sink that draws the newest windows, for people to look at while the query runs.

Options: ``path``, a ``.png`` or ``.html`` file that is written anew with each picture (the page loads itself again);
without it, a window on the screen of the machine that hosts the sink. ``every`` (1), seconds between two pictures at
least; ``rows`` (200), windows in a picture; ``attribute``, ``sample_rate`` and ``title`` as in `WindowPicture`.

The query never waits: a thread of the sink draws, for a tenth of its time at most, and windows that came and went
meanwhile are counted as ``dropped_undrawn``. Law: windows = drawn + dropped_undrawn + waiting.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from gsdm_grid.errors import ChannelError, QueryError
from gsdm_grid.interfaces.interface import (
    InterfaceContext,
    StreamInterface,
    interfaces,
    path_in,
)
from gsdm_grid.interfaces.picture_window import PictureWindow, screen
from gsdm_grid.interfaces.window_picture import WindowPicture
from gsdm_grid.model import PhysicalWindow, StreamType

_log = logging.getLogger("gsdm.visualize")
_WAITING_BYTES = 16 << 20
_SHARE = 0.1
_CLOSE_S = 30.0


class VisualizeSink(StreamInterface):
    """Draws to a file or a window; see the module for options. What was drawn stays when it is opened again."""

    known_options: ClassVar[frozenset[str] | None] = frozenset(
        {"attribute", "every", "path", "rows", "sample_rate", "title"}
    )

    sink_option: ClassVar[str] = "path"

    def __init__(self, stream_type: StreamType, options: Mapping[str, Any]) -> None:
        super().__init__(stream_type, options)
        path = options.get("path")
        if path is not None and not (isinstance(path, str | Path) and Path(path).suffix in (".png", ".html")):
            raise QueryError(f"interface 'visualize' draws .png and .html files; got path {path!r}")
        self._path = None if path is None else Path(path)
        self._every_s = float(self._number("every", 1.0))
        self._most = int(self._number("rows", 200))
        rate = self._number("sample_rate", None)
        self._picture = WindowPicture(stream_type, options.get("attribute"), self._most, rate, options.get("title"))
        self._lock = threading.Lock()
        self._waiting: deque[PhysicalWindow] = deque()
        self._counts = {"windows": 0, "drawn": 0, "dropped_undrawn": 0, "pictures": 0, "failed_pictures": 0}
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._window: PictureWindow | None = None

    def _number(self, name: str, default: float | None) -> Any:
        number = self.options.get(name, default)
        kinds = int if name == "rows" else int | float
        if number is not None and (isinstance(number, bool) or not isinstance(number, kinds) or not number > 0):
            allowed = "1, 2, …" if name == "rows" else "a number above 0"
            raise QueryError(f"interface 'visualize', option {name!r}: expected {allowed}; got {number!r}")
        return number

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[Path]:
        """See `StreamInterface`."""
        return path_in(options)

    def open(self, context: InterfaceContext) -> None:
        """See `StreamInterface`."""
        super().open(context)
        if self._path is None:
            if not screen():
                raise ChannelError("interface 'visualize': no screen here; give a path to a .png or .html file")
            self._window = PictureWindow(self._picture.title)
        elif not os.access(self._path.parent, os.W_OK):
            raise ChannelError(f"interface 'visualize' cannot write to the folder {str(self._path.parent)!r}")
        self._closing.clear()
        self._thread = threading.Thread(target=self._draw_until_closed, name="visualize", daemon=True)
        self._thread.start()

    def insert(self, block: PhysicalWindow) -> None:
        """See `StreamInterface`. Only keeps the block; of many, the newest."""
        if not len(block):
            return
        with self._lock:
            self._counts["windows"] += len(block)
            self._waiting.append(block)
            windows, size = sum(map(len, self._waiting)), sum(one.nbytes for one in self._waiting)
            while len(self._waiting) > 1 and (windows - len(self._waiting[0]) >= self._most or size > _WAITING_BYTES):
                oldest = self._waiting.popleft()
                windows, size = windows - len(oldest), size - oldest.nbytes
                self._counts["dropped_undrawn"] += len(oldest)

    def close(self) -> None:
        """See `StreamInterface`. The last windows are drawn before."""
        self._closing.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(_CLOSE_S)
        window, self._window = self._window, None
        if window is not None:
            window.close()

    def statistics(self) -> dict[str, int | float]:
        """Windows that came, were drawn, were dropped and wait; pictures, and those that could not be shown."""
        with self._lock:
            return {**self._counts, "waiting": sum(map(len, self._waiting))}

    # -- in the sink's own thread --------------------------------------------------------------------------------------

    def _draw_until_closed(self) -> None:
        pause_s = 0.0
        while not self._closing.wait(pause_s):
            began_s = time.monotonic()
            self._draw()
            spent_s = time.monotonic() - began_s
            pause_s = max(self._every_s - spent_s, spent_s * (1 - _SHARE) / _SHARE, 0.01)
        self._draw()

    def _draw(self) -> None:
        with self._lock:
            blocks = list(self._waiting)
            self._waiting.clear()
            self._counts["drawn"] += sum(map(len, blocks))
        if not blocks:
            return
        try:
            for block in blocks:
                self._picture.take(block)
            self._show()
        except Exception as error:  # a picture is no reason to end a query: it is counted, and the next one is tried
            if not self._counts["failed_pictures"]:
                _log.warning("a picture of results cannot be shown: %s", error, exc_info=error)
            self._count("failed_pictures")
        else:
            self._count("pictures")

    def _count(self, name: str) -> None:
        with self._lock:
            self._counts[name] += 1

    def _show(self) -> None:
        if self._path is None:
            if self._window is not None and not self._window.show(self._picture.png()):
                raise ChannelError("its window was closed")
            return
        is_page = self._path.suffix == ".html"
        content = self._picture.html(self._every_s) if is_page else self._picture.png()
        scratch = self._path.with_name(self._path.name + ".part")
        try:
            scratch.write_bytes(content)
            scratch.replace(self._path)  # whoever looks never sees half a picture
        finally:
            scratch.unlink(missing_ok=True)


interfaces.add("visualize", VisualizeSink)
