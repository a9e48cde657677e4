"""Daemons of a Spark standalone cluster, each in a Ray actor: started where there is room, asked, ended.

How many there are is decided elsewhere (`spark_slots`), and carried out by `SparkCluster`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from typing_extensions import override

from gsdm_grid.errors import ResourceError
from gsdm_grid.hosts import (
    CPU,
    LOOPBACK,
    MasterRole,
    SparkDaemon,
    WorkerRole,
    clusters_machines,
)

NAMESPACE = "gsdm-spark"
START_S = 60.0

Place = Callable[[str, float], Mapping[str, Any]]


class Daemon(Protocol):
    """One master or worker. Used by one thread; no call blocks long."""

    name: str

    def url(self) -> str | None:
        """Where it is reached; None while it starts. `ResourceError` if it does not."""

    def ended(self) -> str | None:
        """Why it has ended, when nothing is left of it; None while it lives."""

    def decommission(self) -> None:
        """A worker takes no more tasks from now on."""

    def stop(self) -> None:
        """End it; `ended` says when that is done."""

    def kill(self) -> None:
        """Give it up: end its host by force, and give back its place. After `ended`, or when that takes too long."""


class Daemons(Protocol):
    """Starts daemons."""

    def connect(self) -> None:
        """Reach the machines. May take a while; `ResourceError` if there are none."""

    def address(self) -> str:
        """Address of this process, as daemons reach it."""

    def room(self, slots: int) -> float:
        """How many slots there could be at most, in workers of this size."""

    def start(self, name: str, role: MasterRole | WorkerRole, secret: str) -> Daemon:
        """Start a daemon; returns at once."""


def one_cpu_per_slot(name: str, slots: float) -> Mapping[str, Any]:  # noqa: ARG001
    """Ray's options for a daemon: as many logical CPUs as it has slots, wherever they are."""
    return {"num_cpus": slots}


def _nowhere(_name: str) -> None:
    return None


class RayDaemons(Daemons):
    """Daemons in Ray actors. ``place`` gives Ray's options for the actor of a name and so many slots.

    ``connect`` connects this process to Ray, if it is not connected; ``vacate`` is told when an actor's place is free
    again. ``local`` says that Ray is on this machine only, so that daemons need not be reached from elsewhere.
    ``most_cpus`` is for a cluster with an autoscaler, and says how many it may come to have.
    """

    def __init__(
        self,
        connect: Callable[[], None],
        local: bool = True,
        place: Place = one_cpu_per_slot,
        vacate: Callable[[str], None] = _nowhere,
        most_cpus: float | None = None,
    ) -> None:
        self._connect = connect
        self._local = local
        self._place = place
        self._vacate = vacate
        self._most_cpus = most_cpus

    @override
    def connect(self) -> None:
        self._connect()

    @override
    def address(self) -> str:
        import ray

        return LOOPBACK if self._local else str(ray.util.get_node_ip_address())

    @override
    def room(self, slots: int) -> float:
        if self._most_cpus is not None:
            return self._most_cpus // slots * slots
        machines = clusters_machines()
        return sum(machine.resources.get(CPU, 0.0) // slots for machine in machines) * slots

    @override
    def start(self, name: str, role: MasterRole | WorkerRole, secret: str) -> Daemon:
        """The master is on the machine of this process, without which it is of no use."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        if isinstance(role, WorkerRole):
            options = dict(self._place(name, role.slots))
        else:
            here = ray.get_runtime_context().get_node_id()
            options = {"num_cpus": 0, "scheduling_strategy": NodeAffinitySchedulingStrategy(here, soft=False)}
        remote = ray.remote(max_restarts=0, max_concurrency=4)(SparkDaemon)
        actor = remote.options(name=name, namespace=NAMESPACE, **options).remote(name, role, secret, self._local)
        return RayDaemon(name, actor, self._vacate)


class RayDaemon(Daemon):
    """A daemon in a Ray actor."""

    def __init__(self, name: str, actor: Any, vacate: Callable[[str], None]) -> None:
        self.name = name
        self.actor = actor
        self._vacate = vacate
        self._url = actor.url.remote(START_S)
        self._run = actor.run.remote()
        self._gone = False

    @override
    def url(self) -> str | None:
        try:
            return str(_result(self._url)) if _done(self._url) else None
        except Exception as error:
            raise ResourceError(_reason(error)) from error

    @override
    def ended(self) -> str | None:
        if not self._gone and not _done(self._run):
            return None
        try:
            return "it was given up" if self._gone else str(_result(self._run))
        except Exception as error:
            return _reason(error)

    @override
    def decommission(self) -> None:
        self.actor.decommission.remote()

    @override
    def stop(self) -> None:
        self.actor.stop.remote()

    @override
    def kill(self) -> None:
        """Ray ends the actor; the keeper of its process ends what is left."""
        import ray

        if not self._gone:
            self._gone = True
            with contextlib.suppress(Exception):  # Ray may be gone already
                ray.kill(self.actor)
            self._vacate(self.name)


def _done(ref: Any) -> bool:
    import ray

    return bool(ray.wait([ref], timeout=0)[0])


def _result(ref: Any) -> Any:
    import ray

    return ray.get(ref)


def _reason(error: Exception) -> str:
    cause = getattr(error, "cause", None)
    return (str(cause or error).strip().splitlines() or [type(error).__name__])[-1]
