"""Working nodes in threads of this process: for tests, notebooks, and the ends that hold live objects."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from gsdm_grid.engine import Bootstrap, run_node
from gsdm_grid.errors import QueryError
from gsdm_grid.hosts.base import HostGroup, HostPool, HostRequest, Live

_log = logging.getLogger(__name__)


def usable_cores() -> set[int]:
    """Cores that this process may use, by number; none where the system cannot say, and so not choose either."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


class ThreadGroup(HostGroup):
    """Threads of one query."""

    def __init__(self, bootstraps: Sequence[Bootstrap], live: Live, cores: frozenset[int] = frozenset()) -> None:
        self._cores = cores
        self._failures: dict[str, str] = {}
        self._threads = [
            threading.Thread(target=self._run, args=(bootstrap, live), name=bootstrap.node, daemon=True)
            for bootstrap in bootstraps
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, bootstrap: Bootstrap, live: Live) -> None:
        try:
            if self._cores:
                os.sched_setaffinity(0, self._cores)  # of this thread, and of those it starts
            run_node(bootstrap, live)
        except BaseException as error:  # it can be noticed only here: nobody joins the thread
            self._failures[bootstrap.node] = f"{type(error).__name__}: {error}"

    @override
    def lost(self) -> dict[str, str]:
        return dict(self._failures)

    @override
    def restart(self, node: str) -> bool:
        """What killed a thread here is our own bug, and would do it again."""
        return False

    @override
    def release(self, nodes: Sequence[str], timeout_s: float) -> Sequence[str]:
        return self._join([thread for thread in self._threads if thread.name in nodes], timeout_s)

    @override
    def stop(self, timeout_s: float) -> Sequence[str]:
        """Threads cannot be ended by force; they end by being dropped, or as orphans."""
        return self._join(self._threads, timeout_s)

    def _join(self, threads: Sequence[threading.Thread], timeout_s: float) -> Sequence[str]:
        deadline_s = time.monotonic() + timeout_s
        for thread in threads:
            thread.join(max(deadline_s - time.monotonic(), 0.0))
        if left := [thread.name for thread in threads if thread.is_alive()]:
            _log.warning("%s did not end within %g s, and a thread cannot be ended", ", ".join(left), timeout_s)
        return left


class ThreadPool(HostPool):
    """Starts nodes in threads, all of which share some cores: ``None``, all that this process has."""

    def __init__(self, cores: int | None = None) -> None:
        if cores is not None and cores < 1:
            raise QueryError(f"working nodes in threads need at least one core, got thread_cores = {cores}")
        self._cores = frozenset(sorted(usable_cores())[-cores:] if cores else ())

    @override
    def start(self, request: HostRequest) -> ThreadGroup:
        return ThreadGroup(request.bootstraps, request.live, self._cores)

    @override
    def warm(self) -> None:
        """Nothing to start."""

    @override
    def inventory(self) -> dict[str, Any]:
        return {"started": True, "cores": len(self._cores) or os.cpu_count()}

    @override
    def close(self) -> None:
        """Nothing to give back."""
