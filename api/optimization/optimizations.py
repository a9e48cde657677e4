"""Optimizations: searches for the best plan of a query, kept in the store, driven by this coordinator or by a client.

The search is that of `gsdm_grid.optimizer`. It is rebuilt from what is stored whenever it is needed (what was asked,
and what its trials told), so it outlives the coordinator. Who drives it asks for rounds, runs their trials, and then
asks for the choice, its verification and its publication; `OptimizationDriver` does all of that here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from api.errors import Problem
from api.operations import Operations
from api.optimization.optimization_requests import OptimizationContext, OptimizationSetup, read_request
from api.optimization.segments import Segments
from api.optimization.trials import Trials
from api.store import Store, newest
from api.store import optimizations as table
from gsdm_grid.ids import IdFactory
from gsdm_grid.optimizer import (
    Failure,
    Outcome,
    Search,
    TrialRequest,
    TrialResult,
    replayed,
    stale,
)
from gsdm_grid.trials import this_machine

OVER = ("published", "failed")
"""States in which nothing more happens by itself."""

Adopt = Callable[[str, str, Mapping[str, Any], Sequence[str]], list[Any]]
"""Gives the choice of an optimization to the queries with its work, and to those named (see `PlanAdoption.adopt`)."""


class Optimizations:
    """Stores searches, and takes them on step by step. Thread-safe."""

    def __init__(
        self,
        store: Store,
        operations: Operations,
        trials: Trials,
        segments: Segments,
        context: OptimizationContext,
        adopt: Adopt,
    ) -> None:
        self._store = store
        self._operations = operations
        self._trials = trials
        self._segments = segments
        self._context = context
        self._adopt = adopt
        self._ids = IdFactory()

    # -- as people see them ---------------------------------------------------------------------------------------

    def submit(
        self, given: Mapping[str, Any], token_id: str, role: str
    ) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Store a search; gives it, and its operation if this coordinator is to carry it out."""
        setup, _ = self._setup_and_search(given, role)
        row = {
            "id": self._ids.new("opt"),
            "query": setup.document["name"],
            "request": dict(given),
            "settled": setup.to_json(),
            "work": setup.work,
            "status": "searching",
            "rounds": 0,
            "choice": None,
            "published": None,
            "published_s": None,
            "error": None,
            "machine": this_machine(),
            "token_id": token_id,
            "created_s": time.time(),
            "finished_s": None,
        }
        operation = None
        with self._store.begin() as connection:
            connection.execute(table.insert().values(**row))
            if setup.driver == "coordinator":
                operation = self._operations.record(connection, row["id"], "optimize")
        if operation is not None:
            self._operations.enqueue(operation)
        return self.view(row["id"]), operation

    def check(self, given: Mapping[str, Any], role: str) -> dict[str, Any]:
        """What a search would choose from; refuses what `submit` would refuse, and begins nothing."""
        setup, search = self._setup_and_search(given, role)
        names = [stage.function.name for stage in search.space.work]
        return {"query": setup.document["name"], "functions": names, "plans": search.space.size}

    def view(self, optimization_id: str) -> dict[str, Any]:
        """A search with all that it knows."""
        row = self.row(optimization_id)
        search = self._search(row)
        shown = self._shown(row)
        shown["trials"] = [self._request(row, one) for asked in search.rounds for one in asked]
        if row["choice"] is None:
            shown["choice"] = {"table": [one.to_json() for one in search.tried()], "skipped": []}
        return shown

    def page(self, limit: int, before_s: float | None, query: str | None) -> list[dict[str, Any]]:
        """Searches, the newest first."""
        rows = self._store.rows(newest(table, limit, before_s, query=query))
        return [{**self._shown(row), "trials": []} for row in rows]

    def remove(self, optimization_id: str) -> None:
        """Cancel a search if it is under way, and forget it and its trials."""
        self.row(optimization_id)
        with self._trials.storing, self._store.begin() as connection:
            connection.execute(table.delete().where(table.c.id == optimization_id))
        for trial in self._trials.all_of_search(optimization_id):
            self._trials.remove(trial["id"])

    # -- step by step ---------------------------------------------------------------------------------------------

    def round(self, optimization_id: str, number: int) -> list[dict[str, Any]]:
        """The trials of a round; none when the search is over. Asking again for a round gives the same trials."""
        row = self.row(optimization_id)
        search = self._search(row)
        if number < len(search.rounds):
            return [self._request(row, one) for one in search.rounds[number]]
        if number > len(search.rounds):
            detail = f"round {number} comes after round {len(search.rounds)}, which has not been asked for"
            raise Problem("invalid-transition", detail, state=row["status"], allowed=["rounds"])
        self._refuse_if_waiting(row, search, "rounds")
        asked = search.ask()
        if asked:
            self.keep(optimization_id, rounds=len(search.rounds))
        return [self._request(row, one) for one in asked]

    def check_key(self, optimization_id: str, key: str) -> None:
        """Refuse a trial that the search did not ask for."""
        search = self._search(self.row(optimization_id))
        known = [one.key for asked in search.rounds for one in asked]
        if key not in known and not any(one.key == key for one in search.asked_to_verify):
            raise Problem("not-found", f"optimization {optimization_id!r} did not ask for a trial {key!r:.80}")

    def choose(self, optimization_id: str) -> dict[str, Any]:
        """The best plan of those tried. The search must be over."""
        row = self.row(optimization_id)
        search = self._search(row)
        self._refuse_if_waiting(row, search, "choice")
        if not search.over and search.ask():
            detail = f"the search goes on: round {len(search.rounds) - 1} has not been asked for"
            raise Problem("invalid-transition", detail, state=row["status"], allowed=["rounds"])
        choice = search.choice().to_json()
        status = row["status"] if row["status"] in OVER else "verified" if choice["verification"] else "chosen"
        self.keep(optimization_id, choice=choice, status=status)
        return choice

    def verification(self, optimization_id: str) -> list[dict[str, Any]]:
        """Trials that run winner and runner-up again, in turn; always the same ones."""
        row = self.row(optimization_id)
        if row["choice"] is None:
            raise Problem("invalid-transition", "nothing has been chosen yet", state=row["status"], allowed=["choice"])
        requests = self._search(row).verification()
        if row["status"] == "chosen":
            self.keep(optimization_id, status="verifying")
        return [self._request(row, one) for one in requests]

    def publish(self, optimization_id: str) -> list[Any]:
        """Give the chosen plan to the queries that want it; tells which, and whether they use it now."""
        row = self.row(optimization_id)
        if row["choice"] is None:
            raise Problem("invalid-transition", "nothing has been chosen yet", state=row["status"], allowed=["choice"])
        choice = self.choose(optimization_id)  # verification may have turned it round
        now_s = time.time()
        self.keep(optimization_id, published_s=now_s)  # where queries that get it look for it
        named = row["request"].get("publish_to") or []
        published = self._adopt(optimization_id, row["work"], choice, named)
        self.keep(optimization_id, status="published", published=published, finished_s=row["finished_s"] or now_s)
        return published

    # -- what is stored ------------------------------------------------------------------------------------------

    def keep(self, optimization_id: str, **values: Any) -> None:
        """Change columns of a search."""
        with self._store.begin() as connection:
            connection.execute(table.update().where(table.c.id == optimization_id).values(**values))

    def row(self, optimization_id: str) -> dict[str, Any]:
        """What is stored of a search; says if there is none."""
        row = self._store.row(sa.select(table).where(table.c.id == optimization_id))
        if row is None:
            raise Problem("not-found", f"there is no optimization {optimization_id!r:.60}")
        return row

    # -- inside ---------------------------------------------------------------------------------------------------

    def _setup_and_search(self, given: Mapping[str, Any], role: str) -> tuple[OptimizationSetup, Search]:
        """What follows from a request, and its search; a `GsdmError` says what is wrong, or that no plan is left."""
        setup = read_request(given, role, self._context, self._segments)
        return setup, self._search_of(setup, 0, {})

    def _search(self, row: Mapping[str, Any]) -> Search:
        outcomes: dict[str, Outcome] = {}
        for trial in self._trials.all_of_search(row["id"]):
            if trial["result"] is not None:
                outcomes[trial["key"]] = TrialResult.from_json(trial["result"])
            elif trial["failure"] is not None:
                outcomes[trial["key"]] = Failure(str(trial["failure"]["detail"]))
        search = self._search_of(OptimizationSetup.from_json(row["settled"]), row["rounds"], outcomes)
        if row["choice"] is not None and not search.waiting():
            for request in search.verification():
                if request.key in outcomes:
                    search.tell(request.key, outcomes[request.key])
        return search

    def _search_of(self, setup: OptimizationSetup, rounds: int, outcomes: Mapping[str, Outcome]) -> Search:
        return replayed(setup.space(self._context), setup.criteria, setup.options, rounds, outcomes)

    def _refuse_if_waiting(self, row: Mapping[str, Any], search: Search, step: str) -> None:
        waiting = [one.key for asked in search.rounds for one in asked if one in search.waiting()]
        if waiting:
            detail = f"{len(waiting)} trials of round {len(search.rounds) - 1} are not over: {', '.join(waiting[:5])}"
            raise Problem("invalid-transition", detail, state=row["status"], allowed=["trials"], step=step)

    def _request(self, row: Mapping[str, Any], request: TrialRequest) -> dict[str, Any]:
        setup = OptimizationSetup.from_json(row["settled"])
        return {
            "key": request.key,
            "label": request.plan.key,
            "specification": setup.specification(request.plan),
            "count": request.count,
            "round": request.round,
            "predicted": request.predicted_s,
            "latency": setup.criteria.needs_latency,
        }

    def _shown(self, row: Mapping[str, Any]) -> dict[str, Any]:
        named = {name: row[name] for name in ("id", "query", "status", "rounds", "request", "published", "error")}
        choice = row["choice"] and {"summary": row["choice"]["key"], **row["choice"]}  # older ones have no summary
        return {
            **named,
            "choice": choice,
            "verified": None if choice is None else choice["verified"],
            "stale": stale(row["machine"], this_machine()),
            "machine": row["machine"],
            "created": row["created_s"],
            "finished": row["finished_s"],
            "links": {part: f"/v1/optimizations/{row['id']}{end}" for part, end in _LINKS.items()},
        }


_LINKS = {"self": "", "report": "/report", "picture": "/report.png"}
