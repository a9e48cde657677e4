"""Working nodes in threads of this process: for tests, notebooks, and the ends that hold live objects."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any

from gsdm_grid.engine import Bootstrap, run_node
from gsdm_grid.hosts.base import HostRequest, Live


class ThreadGroup:
    """Threads of one query."""

    def __init__(self, bootstraps: Sequence[Bootstrap], live: Live) -> None:
        self._failures: dict[str, str] = {}
        self._threads = [
            threading.Thread(target=self._run, args=(bootstrap, live), name=bootstrap.node, daemon=True)
            for bootstrap in bootstraps
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, bootstrap: Bootstrap, live: Live) -> None:
        try:
            run_node(bootstrap, live)
        except Exception as error:
            self._failures[bootstrap.node] = f"{type(error).__name__}: {error}"

    def lost(self) -> dict[str, str]:
        """See `HostGroup`."""
        return dict(self._failures)

    def restart(self, node: str) -> bool:  # noqa: ARG002
        """See `HostGroup`: what killed a thread here is our own bug, and would do it again."""
        return False

    def release(self, nodes: Sequence[str], timeout_s: float) -> None:
        """See `HostGroup`."""
        for thread in self._threads:
            if thread.name in nodes:
                thread.join(timeout_s)

    def stop(self, timeout_s: float) -> None:
        """See `HostGroup`: threads cannot be ended by force; they end by being dropped, or as orphans."""
        for thread in self._threads:
            thread.join(timeout_s)


class ThreadPool:
    """Starts nodes in threads."""

    def start(self, request: HostRequest) -> ThreadGroup:
        """See `HostPool`."""
        return ThreadGroup(request.bootstraps, request.live)

    def warm(self) -> None:
        """See `HostPool`: nothing to start."""

    def inventory(self) -> dict[str, Any]:
        """See `HostPool`."""
        return {"started": True, "cores": os.cpu_count()}

    def close(self) -> None:
        """See `HostPool`: nothing to give back."""
