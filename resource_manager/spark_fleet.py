"""The daemons of a Spark standalone cluster: a master and so many workers, kept as `spark_slots` says.

A worker that dies is replaced as a worker that is missing. A master that dies goes on at its address from what it
remembered; the application and its running tasks do not notice that. What does not start is tried again, after pauses
that grow.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gsdm_grid.errors import ResourceError
from gsdm_grid.hosts import MasterRole, WorkerRole
from resource_manager.spark_daemon_actors import START_S, Daemon, Daemons
from resource_manager.spark_slots import Decommission, EndWorker, StartWorkers, Step, WorkerState, next_steps

STOP_S = 10.0
PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0


@dataclass(frozen=True)
class FleetSettings:
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

    def observe(self, tasks: int | None, now_s: float) -> None:
        """What its executor runs now; None if it has none."""
        self.registered, self.tasks = tasks is not None, tasks or 0
        if tasks != 0:
            self.idle_since_s = None
        elif self.idle_since_s is None:
            self.idle_since_s = now_s

    def trouble(self, now_s: float) -> str | None:
        """Why it is of no use any more; None if it is."""
        up, reason = _condition(self.daemon)
        if reason is not None:
            return reason
        if up is None or self.registered or self.draining:
            self.alone_since_s = None
        elif self.alone_since_s is None:
            self.alone_since_s = now_s
        elif now_s - self.alone_since_s > START_S:
            return f"its executor did not register within {START_S:g} s"
        return None


class SparkFleet:
    """Master and workers of one cluster. Used by one thread; no call blocks long, except `end`."""

    def __init__(self, daemons: Daemons, settings: FleetSettings, recovery: Path, clock: Callable[[], float]) -> None:
        self.secret = secrets.token_hex(32)
        self.url: str | None = None
        """Of the master; it stays the same once it is known."""
        self.trouble: str | None = None
        """What went wrong last, until something goes right."""
        self._daemons = daemons
        self._settings = settings
        self._recovery = recovery
        self._clock = clock
        self._id = secrets.token_hex(4)
        self._numbers = itertools.count(1)
        self._master: Daemon | None = None
        self._workers: dict[str, _Worker] = {}
        self._leaving: list[tuple[Daemon, float]] = []
        self._failures = 0
        self._not_before_s = 0.0

    def workers(self) -> list[WorkerState]:
        """The workers as they were last seen."""
        return [
            WorkerState(name, self._settings.slots, one.registered, one.draining, one.tasks, one.idle_since_s)
            for name, one in self._workers.items()
        ]

    @property
    def settled(self) -> bool:
        """Whether nothing is about to change by itself."""
        coming_or_going = any(one.draining or not one.registered for one in self._workers.values())
        return self.url is not None and not self._leaving and not coming_or_going

    def look(self, running: Mapping[str, int]) -> None:
        """Look after all daemons; ``running`` says how many tasks the executors of workers have."""
        now_s = self._clock()
        self._tend_master(now_s)
        for name, worker in list(self._workers.items()):
            worker.observe(running.get(name), now_s)
            if (reason := worker.trouble(now_s)) is not None:
                self._let_go(name, now_s)
                self.fail(f"Spark worker {name!r} was lost: {reason}")
        for leaving in list(self._leaving):
            daemon, until_s = leaving
            if daemon.ended() is not None or now_s > until_s:
                daemon.kill()
                self._leaving.remove(leaving)
        if any(one.registered for one in self._workers.values()):
            self._failures, self.trouble = 0, None

    def follow(self, wanted: int) -> None:
        """Do what is to be done so that there are so many slots."""
        now_s = self._clock()
        for step in next_steps(now_s, self.workers(), wanted, self._settings.slots, self._settings.linger_s):
            self._carry_out(step, now_s)

    def fail(self, trouble: str) -> None:
        """Something went wrong: what is missing is started after a pause."""
        self.trouble = trouble
        self._not_before_s = self._clock() + min(PAUSE_S * 2**self._failures, LONGEST_PAUSE_S)
        self._failures = min(self._failures + 1, 10)

    def end(self, wait: Callable[[], object]) -> None:
        """End everything at once, and wait until nothing is left of it; ``wait`` waits for a moment."""
        daemons = [one.daemon for one in self._workers.values()] + [daemon for daemon, _ in self._leaving]
        daemons += [self._master] if self._master is not None else []
        self._workers, self._leaving, self._master = {}, [], None
        until_s = self._clock() + STOP_S
        for daemon in daemons:
            daemon.stop()
        while any(daemon.ended() is None for daemon in daemons) and self._clock() < until_s:
            wait()
        for daemon in daemons:
            daemon.kill()

    def _tend_master(self, now_s: float) -> None:
        if self._master is not None:
            url, reason = _condition(self._master)
            if reason is not None:
                self._master.kill()
                self._master = None
                self.fail(f"the Spark master was lost: {reason}")
            elif url is not None and self.url is None:
                self.url, self.trouble, self._failures = url, None, 0
        if self._master is None and now_s >= self._not_before_s:
            port = int(self.url.rpartition(":")[2]) if self.url else 0
            role = MasterRole(str(self._recovery), port)
            self._master = self._daemons.start(self._name("master"), role, self.secret)

    def _carry_out(self, step: Step, now_s: float) -> None:
        match step:
            case StartWorkers(count):
                if self.url is None or now_s < self._not_before_s:
                    return
                role = WorkerRole(self.url, self._settings.slots, self._settings.memory_mb)
                for _ in range(count):
                    name = self._name("worker")
                    self._workers[name] = _Worker(self._daemons.start(name, role, self.secret))
            case Decommission(name):
                worker = self._workers[name]
                worker.draining, worker.idle_since_s = True, now_s
                worker.daemon.decommission()
            case EndWorker(name):
                self._let_go(name, now_s)

    def _let_go(self, name: str, now_s: float) -> None:
        daemon = self._workers.pop(name).daemon
        daemon.stop()
        self._leaving.append((daemon, now_s + STOP_S))

    def _name(self, kind: str) -> str:
        return f"spark-{self._id}-{kind}-{next(self._numbers)}"


def _condition(daemon: Daemon) -> tuple[str | None, str | None]:
    """Where a daemon is reached, if it is up; and why it is of no use, if it is not."""
    reason = daemon.ended()
    if reason is not None:
        return None, reason
    try:
        return daemon.url(), None
    except ResourceError as error:
        return None, str(error)
