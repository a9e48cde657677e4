"""A Spark standalone cluster that follows the queries: it grows before a job starts and shrinks when slots are idle.

Queries claim slots; a thread of the cluster's own compares what is claimed with what there is, and has the difference
carried out (`spark_fleet`).
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import override

from gsdm_grid.errors import ResourceError
from gsdm_grid.hosts import Claim, Executors, KeptProcess, Observe
from resource_manager.spark_daemon_actors import START_S, Daemons
from resource_manager.spark_fleet import FleetSettings, SparkFleet
from resource_manager.spark_slots import Claimed, SlotBook, WorkerState

TICK_S = 0.2
QUIET_TICK_S = 1.0
TELL_S = 0.5


class SparkCluster(Executors):
    """The executors of one Spark application. Starts when first asked; thread-safe."""

    def __init__(
        self,
        daemons: Daemons,
        settings: FleetSettings | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings or FleetSettings()
        self._daemons = daemons
        self._clock = clock
        self._book = SlotBook()
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._folder: KeptProcess | None = None
        self._observe: Observe | None = None
        self._secret = ""
        self._url: str | None = None  # this and what follows is what the thread last saw
        self._trouble: str | None = None
        self._workers: list[WorkerState] = []

    # -- the port ---------------------------------------------------------------------------------------------------

    @override
    def begin(self) -> None:
        self._daemons.connect()
        with self._changed:
            if self._closing.is_set():
                raise ResourceError("the Spark cluster is closed")
            if self._thread is None:
                folder = Path(tempfile.mkdtemp(prefix="gsdm-spark-recovery-"))
                self._folder = KeptProcess((), folder)
                fleet = SparkFleet(self._daemons, self.settings, folder, self._clock)
                self._secret = fleet.secret
                self._thread = threading.Thread(
                    target=self._live, args=(fleet,), name="gsdm-spark-cluster", daemon=True
                )
                self._thread.start()

    @override
    def claim(self, query: str, slots: int) -> SlotClaim:
        self.begin()
        size = self.settings.slots
        room = self._daemons.room(size)
        if slots > room:
            raise ResourceError(
                f"query {query!r} asks for {slots} Spark tasks at a time; "
                f"the cluster has room for {room:g}, in workers of {size} slots, a logical CPU each"
            )
        with self._changed:
            claim = self._book.claim(query, slots)
            self._changed.notify_all()
        return SlotClaim(self, claim)

    @override
    def application(self) -> Mapping[str, str]:
        self.begin()
        with self._changed:
            self._changed.wait_for(lambda: self._url is not None or self._closing.is_set(), START_S)
            if self._url is None:
                raise ResourceError(f"the Spark master did not start: {self._trouble or f'not within {START_S:g} s'}")
        address = self._daemons.address()
        return {
            "spark.master": self._url,
            "spark.authenticate": "true",
            "spark.authenticate.secret": self._secret,
            "spark.network.crypto.enabled": "true",
            "spark.driver.host": address,
            "spark.driver.bindAddress": address,
            "spark.executor.memory": f"{self.settings.memory_mb}m",
            "spark.executor.extraJavaOptions": "-XX:+UseSerialGC",
            "spark.executor.syncLogLevel.enabled": "true",
            "spark.decommission.enabled": "true",
            "spark.dynamicAllocation.enabled": "false",
            "spark.ui.retainedDeadExecutors": "5",
        }

    @override
    def watch(self, observe: Observe) -> None:
        with self._changed:
            self._observe = observe
            self._changed.notify_all()

    @override
    def inventory(self) -> dict[str, Any]:
        with self._changed:
            return {
                "master": self._url,
                "slots": self._registered(),
                "claimed": _by_query(claim for claim in self._book.claims if claim.granted),
                "waiting": _by_query(claim for claim in self._book.claims if not claim.granted),
                "workers": [
                    {"name": one.name, "slots": one.slots, "tasks": one.tasks, "state": one.state}
                    for one in self._workers
                ],
                "trouble": self._trouble,
            }

    @override
    def close(self) -> None:
        with self._changed:
            self._closing.set()
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
        """Wait until the slots of a claim are there, as `Claim.wait` says."""
        until_s = time.monotonic() + deadline_s
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: claim.granted or self._closing.is_set(), min(deadline_s, TELL_S))
                    if claim.granted:
                        return
                    reason = self._why(claim)
                if self._closing.is_set():
                    raise ResourceError(f"query {claim.query!r} has no Spark tasks: the cluster is being closed")
                if time.monotonic() > until_s:
                    raise ResourceError(f"query {claim.query!r} found no Spark tasks in {deadline_s:g} s: {reason}")
                waiting(reason)
        except BaseException:
            self.keep(claim, 0)
            raise

    def keep(self, claim: Claimed, slots: int) -> None:
        """Keep so many slots of a claim at most, as `Claim.keep` says."""
        with self._changed:
            self._book.keep(claim, slots)
            self._changed.notify_all()

    def _why(self, claim: Claimed) -> str:
        starting = sum(one.state == "starting" for one in self._workers)
        parts = [f"{self._registered()} slots are there, of which other queries have {self._book.granted}"]
        if starting:
            parts.append(f"{starting} workers of {self.settings.slots} slots wait for machines or are starting")
        if self._trouble:
            parts.append(self._trouble)
        return f"it asks for {claim.slots} slots; {'; '.join(parts)}"

    def _registered(self) -> int:
        return sum(one.slots for one in self._workers if one.state == "ready")

    # -- the thread -------------------------------------------------------------------------------------------------

    def _live(self, fleet: SparkFleet) -> None:
        while not self._closing.is_set():
            try:
                self._tick(fleet)
            except Exception as error:  # such as Ray being away; whoever waits is told
                fleet.fail(f"{type(error).__name__}: {error}")
            with self._changed:
                self._trouble = fleet.trouble
                quiet = fleet.settled and self._book.wanted == self._book.granted
                if not self._closing.is_set():
                    self._changed.wait(QUIET_TICK_S if quiet else TICK_S)
        fleet.end(lambda: threading.Event().wait(0.05))
        with self._changed:
            self._workers = []

    def _tick(self, fleet: SparkFleet) -> None:
        with self._changed:
            observe = self._observe
        try:
            executors = observe() if observe is not None and fleet.workers() else ()
        except OSError as error:
            fleet.fail(f"the Spark application does not say which executors it has: {error}")
            return
        fleet.look({one.worker: one.tasks for one in executors})
        with self._changed:
            self._url, self._workers = fleet.url, fleet.workers()
            tasks = sum(one.tasks for one in self._workers if not one.draining)
            self._book.grant(self._registered(), tasks)
            wanted = self._book.wanted + self.settings.spare_slots
            self._changed.notify_all()
        fleet.follow(wanted)
        with self._changed:
            self._workers = fleet.workers()


@dataclass(frozen=True)
class SlotClaim(Claim):
    """Slots that one query asked of a cluster."""

    cluster: SparkCluster
    claimed: Claimed

    @override
    def wait(self, deadline_s: float, waiting: Callable[[str], None]) -> None:
        self.cluster.wait_for(self.claimed, deadline_s, waiting)

    @override
    def keep(self, slots: int) -> None:
        self.cluster.keep(self.claimed, slots)


def _by_query(claims: Iterable[Claimed]) -> dict[str, int]:
    slots: Counter[str] = Counter()
    for claim in claims:
        slots[claim.query] += claim.slots
    return dict(slots)
