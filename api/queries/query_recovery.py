"""What becomes of queries and trials when the coordinator starts: most are brought back, some are given up."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from api.errors import Problem, document, problem_of
from api.operations import TRIALS, CrashWatch, Operations, crashes, failure
from api.optimization import OptimizationDriver, Trials
from api.queries.query_rows import QueryRows
from api.queries.specifications import Specifications
from gsdm_grid.errors import GsdmError

_log = logging.getLogger("gsdm.coordinator")
GONE = ("installed", "active", "stopping")
"""States in which a query has hosts, which end with the coordinator."""


class QueryRecovery:
    """Finds what is to be done after a start. Used once, before anything else is asked for."""

    def __init__(
        self,
        rows: QueryRows,
        specifications: Specifications,
        operations: Operations,
        watch: CrashWatch,
        trials: TrialRecovery,
    ) -> None:
        self._rows = rows
        self._specifications = specifications
        self._operations = operations
        self._watch = watch
        self._trials = trials

    def promised(self) -> list[dict[str, Any]]:
        """Operations to be carried out: those that were promised, and one for each other query that is brought back."""
        self._operations.forget_old()
        rows = self._rows.all()
        given_up = self._give_up_some(rows)
        promised = self._operations.unfinished()
        busy = {operation["query"] for operation in promised}
        for row in rows:
            name, state = row["name"], state_after_restart(row)
            if name in given_up or state is None:
                continue
            values = {"state": state, "since_s": time.time()}
            self._rows.update_with_event(name, values, state, "the coordinator was restarted")
            if row["desired"] in ("installed", "active") and name not in busy:
                with self._rows.transaction() as connection:
                    promised.append(self._operations.record(connection, name, "recover"))
        return promised

    def _give_up_some(self, rows: Sequence[Mapping[str, Any]]) -> set[str]:
        """Queries that are not started by themselves again: they may have ended us, or name what is not allowed."""
        given_up = set()
        for key in self._watch.begin():
            if key.startswith(TRIALS):
                self._trials.give_up(key.removeprefix(TRIALS))
            else:
                self._give_up(key, Problem("crashed-while-starting", crashes.reason(key)))
                given_up.add(key)
        for row in rows:
            if row["name"] not in given_up and row["state"] != "failed":
                try:
                    self._specifications.check_code(row["specification"])
                except (Problem, GsdmError) as error:
                    self._give_up(row["name"], problem_of(error))
                    given_up.add(row["name"])
        return given_up

    def _give_up(self, name: str, problem: Problem) -> None:
        """This query is not started by itself again."""
        self._watch.settled(name)
        error = document(problem, f"/v1/queries/{name}")
        promised = [operation for operation in self._operations.unfinished(name) if operation["action"] != "delete"]
        for operation in promised:
            self._operations.finish(operation["id"], error)
        last: Mapping[str, Any] = promised[-1] if promised else {"action": "recover", "id": None}
        now_s = time.time()
        values = {"state": "failed", "desired": "failed", "since_s": now_s, "error": error}
        values["failure"] = failure(last["action"], last["id"], now_s)
        self._rows.update_with_event(name, values, "failed", error["detail"])
        _log.error("query is not started again", extra={"query": name, "reason": error["detail"]})


class TrialRecovery:
    """Gives up trials that may have ended the coordinator."""

    def __init__(self, trials: Trials, optimizations: OptimizationDriver) -> None:
        self._trials = trials
        self._optimizations = optimizations

    def give_up(self, trial_id: str) -> None:
        """We died while this trial ran; the search that asked for it would go on with the same functions."""
        trial = self._trials.view(trial_id)
        problem = Problem("crashed-while-running", crashes.reason_of_trial(trial_id, trial["query"]))
        self._trials.give_up(trial_id, problem)
        if trial["optimization"] is not None:
            self._optimizations.give_up(trial["optimization"], problem)
        _log.error("trial is not run again", extra={"query": trial_id, "reason": problem.detail})


def state_after_restart(row: Mapping[str, Any]) -> str | None:
    """The state of a query whose hosts are gone with the coordinator that it was installed by; None if it had none.

    >>> state_after_restart({"state": "active", "plan": {"sites": []}})
    'compiled'
    >>> state_after_restart({"state": "failed", "plan": None}) is None
    True
    """
    if row["state"] not in GONE:
        return None
    return "compiled" if row["plan"] else "specified"
