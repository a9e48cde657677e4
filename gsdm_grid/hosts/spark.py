"""Working nodes in long-lived Spark tasks: the compute phase.

A query's compute sites are one Spark job, in a job group named after the query; each of its tasks runs one working node
until the query is dropped, then returns a row of final statistics. Spark schedules, retries and isolates the tasks; the
windows themselves do not pass through the JVM.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from gsdm_grid.engine import Bootstrap, run_node
from gsdm_grid.errors import ResourceError
from gsdm_grid.hosts.base import Live

EMBEDDED_SLOTS = 64  # logical: tasks mostly wait for windows, so more of them than cores may run
TASK_FAILURES = 8
SCHEMA = "site long, node string, statistics string"


def run_sites(bootstraps: Sequence[Bootstrap], batches: Iterator[Any]) -> Iterator[Any]:
    """The task: runs the node whose number is in its only row."""
    import pyarrow as pa

    for batch in batches:
        for site in batch.column(0).to_pylist():
            bootstrap = bootstraps[site]
            statistics = run_node(bootstrap)
            yield pa.RecordBatch.from_pydict(
                {"site": [site], "node": [bootstrap.node], "statistics": [json.dumps(statistics, default=str)]}
            )


class SparkGroup:
    """The job of one query, run from a thread of its own."""

    def __init__(self, session: Any, query: str, bootstraps: Sequence[Bootstrap]) -> None:
        from pyspark import InheritableThread

        self._session = session
        self._query = query
        self._nodes = [bootstrap.node for bootstrap in bootstraps]
        self._error: str | None = None
        self.rows: list[Any] = []
        self._thread = InheritableThread(target=self._run, args=(list(bootstraps),), session=session)
        self._thread.daemon = True
        self._thread.start()

    def _run(self, bootstraps: list[Bootstrap]) -> None:
        from functools import partial

        count = len(bootstraps)
        try:
            context = self._session.sparkContext
            context.setJobGroup(self._query, f"compute sites of query {self._query}", interruptOnCancel=True)
            numbers = self._session.range(0, count, 1, count)
            self.rows = numbers.mapInArrow(partial(run_sites, bootstraps), SCHEMA).collect()
        except Exception as error:
            self._error = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__

    def lost(self) -> dict[str, str]:
        """See `HostGroup`: Spark retries single tasks by itself, so only a failed job is a loss."""
        return dict.fromkeys(self._nodes, f"Spark job failed: {self._error}") if self._error else {}

    def restart(self, node: str) -> bool:  # noqa: ARG002
        """See `HostGroup`: a job that failed has used up Spark's retries."""
        return False

    def release(self, nodes: Sequence[str], timeout_s: float) -> None:
        """See `HostGroup`: a task ends when its node does."""

    def stop(self, timeout_s: float) -> None:
        """See `HostGroup`."""
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            self._session.sparkContext.cancelJobGroup(self._query)
            self._thread.join(timeout_s)


class SparkPool:
    """Starts nodes as Spark tasks; makes its session (``local[n]`` unless a master is given) when first needed."""

    def __init__(self, master: str | None = None, config: dict[str, str] | None = None) -> None:
        self._master = master
        self._config = config or {}
        self._session: Any = None
        self._own = False
        self._lock = threading.Lock()

    @property
    def session(self) -> Any:
        """The Spark session."""
        with self._lock:
            if self._session is None:
                self._session = self._connect()
            return self._session

    def _connect(self) -> Any:
        from pyspark.sql import SparkSession

        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        active = SparkSession.getActiveSession()
        if active is not None:
            return active
        self._own = True
        builder = SparkSession.builder.appName("gsdm-grid")
        builder = builder.master(self._master or f"local[{EMBEDDED_SLOTS},{TASK_FAILURES}]")
        for name, value in {**_defaults(self._master is None), **self._config}.items():
            builder = builder.config(name, value)
        try:
            session = builder.getOrCreate()
        except Exception as error:
            raise ResourceError(f"Spark could not be started (is Java 17 or newer installed?): {error}") from error
        session.sparkContext.setLogLevel("OFF")
        return session

    def start(self, query: str, bootstraps: Sequence[Bootstrap], live: Live) -> SparkGroup:  # noqa: ARG002
        """See `HostPool`: what Spark will never have is refused at once, unless its master can acquire more."""
        session = self.session
        slots = session.sparkContext.defaultParallelism
        if self._master is None and len(bootstraps) > slots:
            raise ResourceError(
                f"query {query!r} asks for {len(bootstraps)} Spark tasks at a time; there are {slots} slots"
            )
        return SparkGroup(session, query, bootstraps)

    def warm(self) -> None:
        """See `HostPool`."""
        with contextlib.suppress(ResourceError):
            _ = self.session

    def inventory(self) -> dict[str, Any]:
        """See `HostPool`."""
        told: dict[str, Any] = {"started": self._session is not None, "master": self._master or "embedded"}
        if self._session is not None:
            context = self._session.sparkContext
            told |= {"slots": context.defaultParallelism, "ui": context.uiWebUrl, "application": context.applicationId}
        return told

    def close(self) -> None:
        """See `HostPool`: stops only the session that it started."""
        with self._lock:
            if self._session is not None and self._own:
                self._session.stop()
            self._session = None


def _defaults(embedded: bool) -> dict[str, str]:
    settings = {
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
        "spark.task.maxFailures": str(TASK_FAILURES),
        "spark.log.level": "ERROR",
    }
    if embedded:
        settings |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    return settings
