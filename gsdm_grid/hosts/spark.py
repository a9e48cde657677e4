"""Working nodes in long-lived Spark tasks: the compute phase.

A query's compute sites are one Spark job, in a job group named after the query; each of its tasks runs one working node
until the query is dropped, then returns a row of final statistics. Spark schedules, retries and isolates the tasks; the
windows themselves do not pass through the JVM.

A task lives as long as its query, so a job whose tasks find no free slot would wait for ever, half started. Where
executors are acquired as they are needed (`executors`), a job is therefore started only when its slots are there.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from typing_extensions import override

from gsdm_grid.channels import shared_memory
from gsdm_grid.engine import Bootstrap, run_node
from gsdm_grid.errors import ResourceError
from gsdm_grid.hosts.base import HostGroup, HostPool, HostRequest
from gsdm_grid.hosts.executors import Claim, Executors, registered_executors
from gsdm_grid.hosts.spark_java import start_java
from gsdm_grid.hosts.spark_tasks import END_S, KILLED_AT_ONCE, SparkTasks

EMBEDDED_SLOTS = 64  # logical: tasks mostly wait for windows, so more of them than cores may run
TASK_FAILURES = 8
ON_RAY = "ray"
"""The master of a pool whose executors are acquired."""
SCHEMA = "site long, node string, statistics string"
PACKAGES = "GSDM_PACKAGES"
_environment_lock = threading.Lock()


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


class SparkGroup(HostGroup):
    """The job of one query, run from a thread of its own. ``claim`` is what it holds of slots that were acquired."""

    def __init__(self, session: Any, query: str, bootstraps: Sequence[Bootstrap], claim: Claim | None = None) -> None:
        from pyspark import InheritableThread

        self._session = session
        self._claim = claim
        self._nodes = [bootstrap.node for bootstrap in bootstraps]
        self._released: set[str] = set()
        self._tasks = SparkTasks(session.sparkContext, query)
        self._cancelled = False
        self._error: str | None = None
        self.rows: list[Any] = []
        self._thread = InheritableThread(target=self._run, args=(list(bootstraps),), session=session)
        self._thread.daemon = True
        self._thread.start()

    def _run(self, bootstraps: list[Bootstrap]) -> None:
        count = len(bootstraps)
        try:
            context = self._session.sparkContext
            self._tasks.begin()
            numbers = self._session.range(0, count, 1, count)
            with _workers_apart(context, bootstraps):
                tasks = numbers.mapInArrow(partial(run_sites, bootstraps), SCHEMA)
            self.rows = tasks.collect()
        except Exception as error:
            self._error = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        finally:
            if not self._cancelled:  # else the tasks go on for a while after their job
                self._keep(0)

    def _keep(self, slots: int) -> None:
        if self._claim is not None:
            self._claim.keep(slots)

    @override
    def lost(self) -> dict[str, str]:
        """Spark retries single tasks by itself, so only a failed job is a loss."""
        return dict.fromkeys(self._nodes, f"Spark job failed: {self._error}") if self._error else {}

    @override
    def restart(self, node: str) -> bool:
        """A job that failed has used up Spark's retries."""
        return False

    @override
    def release(self, nodes: Sequence[str], timeout_s: float) -> Sequence[str]:
        """A task ends when its node does."""
        numbers = {number for number, node in enumerate(self._nodes) if node in nodes}
        if numbers and self._thread.is_alive() and not self._tasks.ended(numbers, timeout_s):
            self._tasks.end(numbers)
            shared_memory.sweep()
        self._released |= {self._nodes[number] for number in numbers}
        self._keep(len(self._nodes) - len(self._released))
        return ()

    @override
    def stop(self, timeout_s: float) -> Sequence[str]:
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            self._cancelled = True
            self._tasks.cancel()
            self._thread.join(END_S)
            shared_memory.sweep()
        self._keep(0)
        return ()


class SparkPool(HostPool):
    """Starts nodes as Spark tasks; makes its session (``local[n]`` unless a master is given) when first needed.

    With ``executors`` the session is an application of theirs, and has as many as its queries need. With a
    ``log_level`` Spark says on standard error what it says by itself, from that level on, and shows progress bars.
    """

    def __init__(
        self,
        master: str | None = None,
        config: dict[str, str] | None = None,
        executors: Executors | None = None,
        log_level: str | None = None,
    ) -> None:
        self._master = ON_RAY if executors is not None else master
        self._log_level = log_level
        self._config = config or {}
        self._executors = executors
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
        if active is not None and self._executors is None:
            return active
        if active is not None:
            raise ResourceError(
                f"this process has a Spark application already, at {active.sparkContext.master!r}, "
                "and Spark allows one in a process: stop it, or run the coordinator in a process of its own"
            )
        self._own = True
        try:
            return self._started(SparkSession.builder.appName("gsdm-grid"))
        except ResourceError:
            raise
        except Exception as error:
            raise ResourceError(f"Spark could not be started (is Java 17 or newer installed?): {error}") from error

    def _started(self, builder: Any) -> Any:
        settings = {**_defaults(self._master is None, self._log_level), **self._config}
        if self._executors is not None:
            self._executors.begin()
            # The virtual machine before the session: what it is told then is not on its command line, for all to read.
            self._start_java({})
            settings = {**_defaults(False, self._log_level), **self._executors.application(), **self._config}
        elif self._master == ON_RAY:
            raise ResourceError(f"Spark master {ON_RAY!r} is for a coordinator that acquires executors: `gsdm serve`")
        else:
            settings["spark.master"] = self._master or f"local[{EMBEDDED_SLOTS},{TASK_FAILURES}]"
            self._start_java(settings)
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        context = session.sparkContext
        context.setLogLevel(self._log_level or "OFF")
        if self._executors is not None:
            self._executors.watch(partial(registered_executors, context.uiWebUrl, context.applicationId))
        return session

    def _start_java(self, settings: Mapping[str, str]) -> None:
        from pyspark import SparkContext

        if self._log_level is None:
            start_java(settings)
        elif not settings:
            SparkContext._ensure_initialized()

    @override
    def start(self, request: HostRequest) -> SparkGroup:
        """What Spark will never have is refused at once, unless its master can acquire more."""
        query, bootstraps = request.query, request.bootstraps
        if self._executors is not None:
            return self._start_acquired(self._executors, request)
        session = self.session
        slots = session.sparkContext.defaultParallelism
        if self._master is None and len(bootstraps) > slots:
            raise ResourceError(
                f"query {query!r} asks for {len(bootstraps)} Spark tasks at a time; there are {slots} slots"
            )
        return SparkGroup(session, query, bootstraps)

    def _start_acquired(self, executors: Executors, request: HostRequest) -> SparkGroup:
        claim = executors.claim(request.query, len(request.bootstraps))  # workers start while the session does
        try:
            session = self.session
            claim.wait(request.deadline_s, request.waiting)
            return SparkGroup(session, request.query, request.bootstraps, claim)
        except BaseException:
            claim.keep(0)
            raise

    @override
    def warm(self) -> None:
        with contextlib.suppress(ResourceError):
            _ = self.session

    @override
    def inventory(self) -> dict[str, Any]:
        told: dict[str, Any] = {"started": self._session is not None, "master": self._master or "embedded"}
        if self._session is not None:
            context = self._session.sparkContext
            told |= {"slots": context.defaultParallelism, "ui": context.uiWebUrl, "application": context.applicationId}
        return told | (self._executors.inventory() if self._executors is not None else {})

    @override
    def close(self) -> None:
        """Stops only the session that it started."""
        with self._lock:
            if self._session is not None and self._own:
                self._session.stop()
            self._session = None
        if self._executors is not None:
            self._executors.close()


@contextlib.contextmanager
def _workers_apart(context: Any, bootstraps: Sequence[Bootstrap]) -> Iterator[None]:
    """Jobs made meanwhile share Spark's Python workers only with jobs that need the same packages.

    Spark uses a worker again for later tasks, of other queries too, if their environment variables are the same.
    """
    needed = ",".join(sorted({digest for bootstrap in bootstraps for digest in bootstrap.packages}))
    with _environment_lock:
        context.environment |= {PACKAGES: needed} if needed else {}
        try:
            yield
        finally:
            context.environment.pop(PACKAGES, None)


def _defaults(embedded: bool, log_level: str | None) -> dict[str, str]:
    settings = {
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": str(log_level is not None).lower(),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
        "spark.task.maxFailures": str(TASK_FAILURES),
        **KILLED_AT_ONCE,
        "spark.log.level": log_level or "ERROR",
    }
    if embedded:
        settings |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    return settings
