"""Optimizations that this coordinator drives: it asks for rounds, runs their trials, and asks for the choice.

Whatever is done is stored by then, so that a coordinator which was killed goes on where it had got to. Clients drive
others, through the same steps of `Optimizations`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from api.errors import Problem, document, problem_of
from api.operations import Operations
from api.optimization.optimization_requests import OptimizationSetup
from api.optimization.optimizations import Optimizations
from api.optimization.segments import Segments
from api.optimization.trials import TrialOrder, Trials


class OptimizationDriver:
    """Carries out searches in the threads of their operations. Thread-safe."""

    def __init__(
        self, optimizations: Optimizations, operations: Operations, trials: Trials, segments: Segments
    ) -> None:
        self._optimizations = optimizations
        self._operations = operations
        self._trials = trials
        self._segments = segments

    def carry_out(self, optimization_id: str) -> Mapping[str, Any]:
        """All of it, from the first round to the publication; goes on where a coordinator that is gone had got to."""
        search = self._optimizations
        try:
            self._record_segments(optimization_id)
            number = 0
            while requests := search.round(optimization_id, number):
                self._run_all(optimization_id, requests)
                number += 1
            search.choose(optimization_id)
            self._run_all(optimization_id, search.verification(optimization_id))
            choice = search.choose(optimization_id)
            published = search.publish(optimization_id)
        except Exception as error:
            if not self._operations.closed:
                self._fail(optimization_id, problem_of(error))
            raise
        return {"plan": choice["plan"], "published": published}

    def give_up(self, optimization_id: str, problem: Problem) -> None:
        """It is not carried out by itself any more; one that a client drives is that client's business."""
        for operation in self._operations.unfinished(optimization_id):
            self._operations.finish(operation["id"], self._fail(optimization_id, problem))

    def _fail(self, optimization_id: str, problem: Problem) -> dict[str, Any]:
        error = document(problem, f"/v1/optimizations/{optimization_id}")
        self._optimizations.keep(optimization_id, status="failed", error=error, finished_s=time.time())
        return error

    def _record_segments(self, optimization_id: str) -> None:
        """Record the inputs that cannot be read more than once."""
        row = self._optimizations.row(optimization_id)
        setup = OptimizationSetup.from_json(row["settled"])
        if not setup.to_record:
            return
        for number in setup.to_record:
            segment = f"{optimization_id}-in{number}"
            if not self._segments.exists(segment):
                windows = setup.options.count
                self._segments.record_row(setup.document["inputs"][number], windows, segment, row["token_id"], "admin")
            self._segments.carry_out(segment)
            setup = setup.with_segment(number, segment)
        self._optimizations.keep(optimization_id, settled=setup.to_json())

    def _run_all(self, optimization_id: str, requests: Sequence[Mapping[str, Any]]) -> None:
        for request in requests:
            row = self._optimizations.row(optimization_id)  # it may have been removed meanwhile
            trial = self._trials.of_search(optimization_id, request["key"])
            if trial is None:
                order = TrialOrder(
                    request["specification"], request["count"], optimization_id, request["key"], request["latency"]
                )
                _, operation = self._trials.stored(order, row["token_id"], "admin")
                self._operations.perform(operation)
            else:  # a coordinator that is gone had begun it
                for operation in self._operations.unfinished(trial["id"]):
                    self._operations.perform(operation)
            ended = self._trials.of_search(optimization_id, request["key"])
            if ended is not None and (ended["failure"] or {}).get("short"):
                raise Problem(**ended["failure"])  # no plan's fault, and no plan can do better
