"""Lines that say what is being started while a person waits: Ray and Spark take seconds each.

They go to standard error, so that what a program prints stays what it prints.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

from gsdm_grid.hosts import HostPool
from gsdm_grid.plan import HostKind

ENGINES: dict[HostKind, str] = {"ray": "Ray", "spark": "Spark"}
"""Kinds of hosts that take a while to start."""


class StartProgress:
    """Says when an engine begins to start and when it has started. Thread-safe; lives as long as its grid.

    ``wish`` None: only where somebody looks, at a terminal or in a notebook.
    """

    def __init__(self, wish: bool | None) -> None:
        self._wish = wish
        self._lock = threading.Lock()
        self._starting: set[HostPool] = set()

    @contextlib.contextmanager
    def starting(self, kind: HostKind, pool: HostPool) -> Iterator[None]:
        """Around the start of a pool; silent if it is up, or somebody else is starting it."""
        if kind not in ENGINES or not self._claim(pool):
            yield
            return
        began_s = time.monotonic()
        _say(f"{ENGINES[kind]}: starting …")
        try:
            yield
        finally:
            with self._lock:
                self._starting.discard(pool)
            became = "started" if pool.inventory()["started"] else "could not be started"
            _say(f"{ENGINES[kind]}: {became} ({time.monotonic() - began_s:.1f} s)")

    def _claim(self, pool: HostPool) -> bool:
        if not (self._wish if self._wish is not None else _somebody_looks()):
            return False
        with self._lock:
            if pool in self._starting or pool.inventory()["started"]:
                return False
            self._starting.add(pool)
            return True


def _somebody_looks() -> bool:
    return "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
