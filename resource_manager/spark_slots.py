"""Which Spark workers there should be: a pure function of what queries claim and of what there is.

Laws: a worker whose executor runs a task is left alone; what is kept serves all that is claimed; a worker that is not
needed goes only after it has been idle for a while, so that the next query finds it. Claims are served in the order in
which they came: a large one is not overtaken for ever by small ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

DRAIN_S = 10.0


@dataclass(frozen=True)
class WorkerState:
    """What is known of one worker. Immutable."""

    name: str
    slots: int
    registered: bool = False
    """Whether its executor has registered with the application."""
    draining: bool = False
    """Whether it takes no more tasks."""
    tasks: int = 0
    idle_since_s: float | None = None
    """Since when its executor is seen without a task; None if it is not."""

    @property
    def state(self) -> str:
        """In a word, for people."""
        return "draining" if self.draining else "ready" if self.registered else "starting"


@dataclass(frozen=True)
class StartWorkers:
    """Start so many workers."""

    count: int


@dataclass(frozen=True)
class Decommission:
    """Let a worker take no more tasks."""

    name: str


@dataclass(frozen=True)
class EndWorker:
    """End a worker that runs nothing."""

    name: str


Step = StartWorkers | Decommission | EndWorker


def next_steps(now_s: float, workers: Sequence[WorkerState], wanted: int, size: int, linger_s: float) -> list[Step]:
    """What to do so that there are ``wanted`` slots, in workers of ``size``, and no idle worker beyond them."""
    steps: list[Step] = [EndWorker(one.name) for one in workers if one.draining and _drained(one, now_s)]
    kept = [one for one in workers if not one.draining]
    there = sum(one.slots for one in kept)
    if there < wanted:
        return [*steps, StartWorkers(math.ceil((wanted - there) / size))]
    idle = [one for one in kept if _dispensable(one, now_s, linger_s)]
    for one in sorted(idle, key=lambda one: (one.registered, one.idle_since_s or 0.0, one.name)):
        if there - one.slots >= wanted:
            there -= one.slots
            steps.append(Decommission(one.name) if one.registered else EndWorker(one.name))
    return steps


def _drained(worker: WorkerState, now_s: float) -> bool:
    if not worker.registered:
        return True
    return worker.idle_since_s is not None and now_s - worker.idle_since_s >= DRAIN_S


def _dispensable(worker: WorkerState, now_s: float, linger_s: float) -> bool:
    """Idle for long enough; one that has not got as far as an executor goes at once."""
    if not worker.registered:
        return True
    return worker.idle_since_s is not None and now_s - worker.idle_since_s >= linger_s


@dataclass
class Claimed:
    """Slots that one query wants, or has."""

    query: str
    slots: int
    granted: bool = False


class SlotBook:
    """All claims, oldest first. Not thread-safe."""

    def __init__(self) -> None:
        self.claims: list[Claimed] = []

    def claim(self, query: str, slots: int) -> Claimed:
        """A new claim; `grant` says when it has what it wants."""
        made = Claimed(query, slots)
        self.claims.append(made)
        return made

    def keep(self, claim: Claimed, slots: int) -> None:
        """A claim shrinks; one of nothing is forgotten."""
        claim.slots = min(claim.slots, slots)
        if claim.slots <= 0 and claim in self.claims:
            self.claims.remove(claim)

    def grant(self, registered: int, tasks: int) -> None:
        """Give what is there, slots of executors that have registered, to those who wait, in their order.

        Tasks may still run for a moment when their slots have been given back.
        """
        used = max(self.granted, tasks)
        for claim in self.claims:
            if not claim.granted:
                if used + claim.slots > registered:
                    return
                claim.granted = True
                used += claim.slots

    @property
    def wanted(self) -> int:
        """Slots that are claimed, granted or not."""
        return sum(claim.slots for claim in self.claims)

    @property
    def granted(self) -> int:
        """Slots that queries have."""
        return sum(claim.slots for claim in self.claims if claim.granted)
