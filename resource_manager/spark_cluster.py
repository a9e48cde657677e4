"""A Spark standalone cluster that follows the queries: it grows before a job starts and shrinks when slots are idle.

A thread of its own compares what is claimed with what there is, and has the difference carried out (`spark_slots` says
what). So a worker that dies is replaced as a worker that is missing, and a master that dies goes on at its address from
what it remembered; the application and its running tasks do not notice that.
"""

from __future__ import annotations

import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gsdm_grid.errors import ResourceError
from gsdm_grid.hosts.executors import Observe
from gsdm_grid.hosts.kept_process import KeptProcess
from gsdm_grid.hosts.spark_daemon import MasterRole, WorkerRole
from resource_manager.spark_daemons import START_S, Daemon, Daemons
from resource_manager.spark_slots import (
    Claimed,
    Decommission,
    EndWorker,
    SlotBook,
    StartWorkers,
    Step,
    WorkerState,
    next_steps,
)

TICK_S = 0.2
QUIET_TICK_S = 1.0
STOP_S = 10.0
PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0


@dataclass(frozen=True)
class ClusterSettings:
    """Sizes and times of a cluster. Immutable."""

    slots: int = 4
    """Tasks that one worker runs at a time; they mostly wait for windows, so this is not its number of cores."""
    linger_s: float = 10.0
    """How long a worker stays when it has nothing to do."""
    spare_slots: int = 0
    """Slots that are kept ready beyond what is claimed, so that queries start sooner."""
    memory_mb: int = 1024
    """Heap of an executor's virtual machine; windows do not pass through it."""


@dataclass
class _Worker:
    daemon: Daemon
    registered: bool = False
    draining: bool = False
    tasks: int = 0
    idle_since_s: float | None = None
    alone_since_s: float | None = None
    """Since when it is up without an executor."""

    def trouble(self, now_s: float) -> str | None:
        """Why it is of no use any more; None if it is."""
        if (reason := self.daemon.ended()) is not None:
            return reason
        try:
            up = self.daemon.url() is not None
        except ResourceError as error:
            return str(error)
        if not up or self.registered or self.draining:
            self.alone_since_s = None
        elif self.alone_since_s is None:
            self.alone_since_s = now_s
        elif now_s - self.alone_since_s > START_S:
            return f"its executor did not register within {START_S:g} s"
        return None

    def observe(self, tasks: int | None, now_s: float) -> None:
        """What its executor runs now; None if it has none."""
        self.registered, self.tasks = tasks is not None, tasks or 0
        if tasks != 0:
            self.idle_since_s = None
        elif self.idle_since_s is None:
            self.idle_since_s = now_s


class SparkCluster:
    """The executors of one Spark application (see `Executors`). Starts when first asked; thread-safe."""

    def __init__(
        self,
        daemons: Daemons,
        settings: ClusterSettings | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings or ClusterSettings()
        self._daemons = daemons
        self._clock = clock
        self._id = secrets.token_hex(4)
        self._secret = secrets.token_hex(32)
        self._book = SlotBook()
        self._changed = threading.Condition()
        self._closing = False
        self._thread: threading.Thread | None = None
        self._folder: KeptProcess | None = None
        self._master: Daemon | None = None
        self._url: str | None = None
        self._workers: dict[str, _Worker] = {}
        self._leaving: list[tuple[Daemon, float]] = []
        self._observe: Observe | None = None
        self._started = 0
        self._trouble: str | None = None
        self._failures = 0
        self._not_before_s = 0.0

    # -- the port ---------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """See `Executors`."""
        self._daemons.connect()
        with self._changed:
            if self._closing:
                raise ResourceError("the Spark cluster is closed")
            if self._thread is None:
                folder = Path(tempfile.mkdtemp(prefix="gsdm-spark-recovery-"))
                self._folder = KeptProcess((), folder)
                self._thread = threading.Thread(target=self._live, name="gsdm-spark-cluster", daemon=True)
                self._thread.start()

    def claim(self, query: str, slots: int) -> SlotClaim:
        """See `Executors`."""
        self.begin()
        room, size = self._daemons.room(self.settings.slots), self.settings.slots
        if slots > room:
            raise ResourceError(
                f"query {query!r} asks for {slots} Spark tasks at a time; "
                f"the cluster has room for {room:g}, in workers of {size} slots, a logical CPU each"
            )
        with self._changed:
            claim = self._book.claim(query, slots)
            self._changed.notify_all()
        return SlotClaim(self, claim)

    def application(self) -> Mapping[str, str]:
        """See `Executors`."""
        self.begin()
        with self._changed:
            self._changed.wait_for(lambda: self._url is not None or self._closing, START_S)
            if self._url is None:
                raise ResourceError(f"the Spark master did not start: {self._trouble or f'not within {START_S:g} s'}")
            url = self._url
        address = self._daemons.address()
        return {
            "spark.master": url,
            "spark.authenticate": "true",
            "spark.authenticate.secret": self._secret,
            "spark.network.crypto.enabled": "true",
            "spark.driver.host": address,
            "spark.driver.bindAddress": address,
            "spark.executor.memory": f"{self.settings.memory_mb}m",
            "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:-UsePerfData",
            "spark.executor.syncLogLevel.enabled": "true",
            "spark.decommission.enabled": "true",
            "spark.dynamicAllocation.enabled": "false",
            "spark.ui.retainedDeadExecutors": "5",
        }

    def watch(self, observe: Observe) -> None:
        """See `Executors`."""
        with self._changed:
            self._observe = observe
            self._changed.notify_all()

    def inventory(self) -> dict[str, Any]:
        """See `Executors`."""
        with self._changed:
            return {
                "master": self._url,
                "slots": self._registered(),
                "claimed": {claim.query: claim.slots for claim in self._book.claims if claim.granted},
                "waiting": {claim.query: claim.slots for claim in self._book.claims if not claim.granted},
                "workers": [
                    {
                        "name": name,
                        "slots": self.settings.slots,
                        "tasks": worker.tasks,
                        "state": "draining" if worker.draining else "ready" if worker.registered else "starting",
                    }
                    for name, worker in self._workers.items()
                ],
                "trouble": self._trouble,
            }

    def close(self) -> None:
        """See `Executors`."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._folder is not None:
            self._folder.close()
            self._folder.wait()
            self._folder = None

    # -- claims -----------------------------------------------------------------------------------------------------

    def wait_for(self, claim: Claimed, deadline_s: float, waiting: Callable[[str], None]) -> None:
        """See `Claim`."""
        until_s = time.monotonic() + deadline_s
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: claim.granted or self._closing, min(deadline_s, 0.5))
                    if claim.granted:
                        return
                    reason = self._why(claim)
                    if self._closing:
                        raise ResourceError(f"query {claim.query!r} has no Spark tasks: the cluster is being closed")
                if time.monotonic() > until_s:
                    raise ResourceError(f"query {claim.query!r} found no Spark tasks in {deadline_s:g} s: {reason}")
                waiting(reason)
        except BaseException:
            self.keep(claim, 0)
            raise

    def keep(self, claim: Claimed, slots: int) -> None:
        """See `Claim`."""
        with self._changed:
            self._book.keep(claim, slots)
            self._changed.notify_all()

    def _why(self, claim: Claimed) -> str:
        registered, starting = self._registered(), sum(not worker.registered for worker in self._workers.values())
        parts = [f"{registered} slots are there, of which other queries have {self._book.granted}"]
        if starting:
            parts.append(f"{starting} workers of {self.settings.slots} slots wait for machines or are starting")
        if self._trouble:
            parts.append(self._trouble)
        return f"it asks for {claim.slots} slots; {'; '.join(parts)}"

    def _registered(self) -> int:
        ready = [worker for worker in self._workers.values() if worker.registered and not worker.draining]
        return len(ready) * self.settings.slots

    # -- the thread -------------------------------------------------------------------------------------------------

    def _live(self) -> None:
        while not self._closing:
            try:
                self._tend_master()
                self._tend_workers()
            except Exception as error:  # such as Ray being away; whoever waits is told
                self._fail(f"{type(error).__name__}: {error}")
            with self._changed:
                if not self._closing:
                    self._changed.wait(QUIET_TICK_S if self._settled() else TICK_S)
        self._end_all()

    def _settled(self) -> bool:
        """Nothing is about to change by itself."""
        starting = self._url is None or self._book.wanted > self._book.granted
        return not starting and not self._leaving and not any(one.draining for one in self._workers.values())

    def _fail(self, trouble: str) -> None:
        """Something did not start: say so, and try again after a while."""
        with self._changed:
            self._trouble = trouble
            self._failures += 1
            pause_s = min(PAUSE_S * 2 ** (self._failures - 1), LONGEST_PAUSE_S)
            self._not_before_s = self._clock() + pause_s
            self._changed.notify_all()

    def _tend_master(self) -> None:
        """Have a master; one after another at the same address."""
        if self._master is not None:
            url, reason = None, self._master.ended()
            try:
                url = self._master.url() if reason is None else None
            except ResourceError as error:
                reason = str(error)
            if reason is not None:
                self._master.kill()
                self._master = None
                self._fail(f"the Spark master was lost: {reason}")
            elif url is not None and url != self._url:
                with self._changed:
                    self._url, self._trouble, self._failures = url, None, 0
                    self._changed.notify_all()
        if self._master is None and self._clock() >= self._not_before_s and self._folder is not None:
            port = int(self._url.rpartition(":")[2]) if self._url else 0
            self._master = self._daemons.start(
                self._name("master"), MasterRole(str(self._folder.folder), port), self._secret
            )

    def _tend_workers(self) -> None:
        now_s = self._clock()
        self._reap(now_s)
        running = {one.worker: one.tasks for one in self._observe()} if self._observe and self._workers else {}
        with self._changed:
            for name, worker in self._workers.items():
                worker.observe(running.get(name), now_s)
            kept = [worker for worker in self._workers.values() if not worker.draining]
            self._book.grant(self._registered(), sum(worker.tasks for worker in kept))
            if self._registered():
                self._failures, self._trouble = 0, None
            wanted = self._book.wanted + self.settings.spare_slots
            self._changed.notify_all()
        states = [
            WorkerState(name, self.settings.slots, one.registered, one.draining, one.tasks, one.idle_since_s)
            for name, one in self._workers.items()
        ]
        for step in next_steps(now_s, states, wanted, self.settings.slots, self.settings.linger_s):
            self._carry_out(step, now_s)

    def _reap(self, now_s: float) -> None:
        """Let go of daemons that have ended, or that take too long to."""
        for name, worker in list(self._workers.items()):
            reason = worker.trouble(now_s)
            if reason is not None:
                self._let_go(name, now_s)
                self._fail(f"Spark worker {name!r} was lost: {reason}")
        for leaving in list(self._leaving):
            daemon, until_s = leaving
            if daemon.ended() is not None or now_s > until_s:
                daemon.kill()
                self._leaving.remove(leaving)

    def _carry_out(self, step: Step, now_s: float) -> None:
        match step:
            case StartWorkers(count):
                if self._url is None or now_s < self._not_before_s:
                    return
                role = WorkerRole(self._url, self.settings.slots, self.settings.memory_mb)
                for _ in range(count):
                    name = self._name("worker")
                    started = _Worker(self._daemons.start(name, role, self._secret))
                    with self._changed:
                        self._workers[name] = started
            case Decommission(name):
                self._workers[name].draining = True
                self._workers[name].idle_since_s = now_s
                self._workers[name].daemon.decommission()
            case EndWorker(name):
                self._let_go(name, now_s)

    def _let_go(self, name: str, now_s: float) -> None:
        with self._changed:
            daemon = self._workers.pop(name).daemon
        daemon.stop()
        self._leaving.append((daemon, now_s + STOP_S))

    def _name(self, kind: str) -> str:
        self._started += 1
        return f"spark-{self._id}-{kind}-{self._started}"

    def _end_all(self) -> None:
        """Workers and master at once, and wait until nothing is left of them."""
        with self._changed:
            daemons = [worker.daemon for worker in self._workers.values()] + [one for one, _ in self._leaving]
            self._workers, self._leaving = {}, []
        if self._master is not None:
            daemons.append(self._master)
        until_s = time.monotonic() + STOP_S
        for daemon in daemons:
            daemon.stop()
        while any(daemon.ended() is None for daemon in daemons) and time.monotonic() < until_s:
            time.sleep(0.05)
        for daemon in daemons:
            daemon.kill()


@dataclass(frozen=True)
class SlotClaim:
    """Slots that one query asked of a cluster (see `Claim`)."""

    cluster: SparkCluster
    claimed: Claimed

    def wait(self, deadline_s: float, waiting: Callable[[str], None]) -> None:
        """See `Claim`."""
        self.cluster.wait_for(self.claimed, deadline_s, waiting)

    def keep(self, slots: int) -> None:
        """See `Claim`."""
        self.cluster.keep(self.claimed, slots)
