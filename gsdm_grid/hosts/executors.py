"""Where the executors of a Spark application come from, when they are acquired as queries need them.

`SparkPool` asks through this port for slots before it starts a job, and gives them back after it. Who has machines
implements it (`resource_manager.spark_cluster`).
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gsdm_grid.hosts.spark_daemon import WORKER_ATTRIBUTE

_OBSERVE_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Executor:
    """An executor that has registered with the application. Immutable."""

    worker: str
    slots: int
    tasks: int
    """How many it runs now."""


Observe = Callable[[], Sequence[Executor]]


class Claim(Protocol):
    """Slots that one query asked for. Thread-safe."""

    def wait(self, deadline_s: float, waiting: Callable[[str], None]) -> None:
        """Wait until executors with so many free slots have registered.

        ``waiting`` is told now and then why, and may raise. `ResourceError` after the deadline, with what was asked
        and what there is. Whatever is raised, nothing is claimed any more.
        """

    def keep(self, slots: int) -> None:
        """Keep so many at most, and give back the rest. Safe to call twice; 0 gives back all."""


class Executors(Protocol):
    """Executors of one application. Thread-safe; lives as long as the pool that asks it."""

    def begin(self) -> None:
        """Reach the machines and start what all executors need; returns when they are reached. Safe to call twice."""

    def claim(self, query: str, slots: int) -> Claim:
        """Ask for slots; returns at once. What can never be had is refused: `ResourceError`."""

    def application(self) -> Mapping[str, str]:
        """Settings with which the application finds its master, as soon as there is one."""

    def watch(self, observe: Observe) -> None:
        """The application is up; ``observe`` tells which executors it has."""

    def inventory(self) -> dict[str, Any]:
        """What there is and what is claimed, as plain JSON. Never blocks long."""

    def close(self) -> None:
        """End all executors and what they run on; waits until nothing is left. Safe to call twice."""


def registered_executors(web: str, application: str) -> list[Executor]:
    """The executors of an application, asked at its web address."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(f"{web}/api/v1/applications/{application}/executors", timeout=_OBSERVE_TIMEOUT_S) as answer:
        listed = json.load(answer)
    return [
        Executor(one["attributes"].get(WORKER_ATTRIBUTE, one["id"]), one["totalCores"], one["activeTasks"])
        for one in listed
        if one["id"] != "driver" and one["isActive"]
    ]
