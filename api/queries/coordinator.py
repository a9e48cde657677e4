"""The coordinator: everything that has threads of its own, or hosts, started and ended together.

The store says what should be; the grid does it. After a restart the coordinator brings queries back to their desired
state; their result streams go on after the last kept window (see `gsdm_grid.compiler.recovery`).
"""

from __future__ import annotations

import fcntl
import logging
import os
from pathlib import Path
from typing import IO

import sqlalchemy as sa

from api.operations import CrashWatch, Operations
from api.queries.autoscaling import Autoscaler
from api.queries.idle_hosts import IdleHosts
from api.queries.query_recovery import QueryRecovery
from api.queries.result_logs import ResultLogs
from api.queries.service_grid import ServiceGrid
from api.queries.state_recorder import StateRecorder
from gsdm_grid.errors import ResourceError

_log = logging.getLogger("gsdm.coordinator")


class Coordinator:
    """Starts and ends. One per database and home folder; `start` it before use, `close` it at the end."""

    def __init__(
        self,
        home: Path,
        grid: ServiceGrid,
        logs: ResultLogs,
        operations: Operations,
        watch: CrashWatch,
        states: StateRecorder,
        recovery: QueryRecovery,
        idle_hosts: IdleHosts,
        autoscaler: Autoscaler,
    ) -> None:
        self._grid = grid
        self._logs = logs
        self._operations = operations
        self._watch = watch
        self._states = states
        self._recovery = recovery
        self._idle_hosts = idle_hosts
        self._autoscaler = autoscaler
        self._lock_file = _claim(home)

    @property
    def ready(self) -> bool:
        """Whether it has started and is not ending."""
        return self._grid.ready

    def start(self) -> None:
        """Begin: bring back what should run, and carry out what was promised."""
        self._grid.open(self._states.on_change, self._idle_hosts.give_up_one)
        self._states.start()
        promised = self._recovery.promised()
        self._grid.ready = True  # else the first of them could be refused
        for operation in promised:
            self._operations.enqueue({**operation, "resumed": True})
        self._grid.current().warm()
        self._autoscaler.start()

    def close(self) -> None:
        """End everything that runs here; the next start brings it back."""
        self._operations.stop()
        self._grid.ready = False
        self._states.freeze()
        self._watch.close()
        self._autoscaler.close()
        self._grid.close()
        self._operations.close()
        self._states.close()
        try:
            self._watch.forget()
        except sa.exc.SQLAlchemyError:
            _log.exception("it could not be stored that the coordinator was asked to end")
        self._logs.close()
        self._lock_file.close()


def _claim(home: Path) -> IO[str]:
    """Only one coordinator may use a folder at a time: it is claimed until the file is closed, or the process ends."""
    home.mkdir(parents=True, exist_ok=True)
    file = (home / "lock").open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        holder = file.read().strip() or "?"
        file.close()
        raise ResourceError(
            f"another coordinator (process {holder}) uses {home}: stop it, or choose another --home"
        ) from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file
