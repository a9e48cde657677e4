"""The coordinator: queries as people submit them, their desired and actual state, and their way back after a crash.

The store says what should be; the grid does it. Every state change of a query is written to the store by one thread, in
order. After a restart the coordinator brings queries back to their desired state; their result streams go on after
the last kept window (see `gsdm_grid.compiler.recovery`).
"""

from __future__ import annotations

import contextlib
import difflib
import fcntl
import logging
import os
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, cast

import sqlalchemy as sa

from api.errors import Problem, document, problem_of
from api.http import Role
from api.metrics import Sample, chosen, samples_of, totals_of
from api.operations import MEASURING, TRIALS, CrashWatch, Operations, actions, crashes, failure
from api.optimization import ChosenPlans, Optimizations, Segments, Trials
from api.queries.autoscaling import Autoscaler, Watched
from api.registry import check_specification, check_stream
from api.settings import ServiceSettings
from api.store import Store, events, queries, streams
from gsdm_grid.compiler import compile_query, pinned_names, resumption
from gsdm_grid.coordination import ContinuousQuery, Grid
from gsdm_grid.errors import FlowError, GsdmError, NodeLost, ResourceError, UnknownName
from gsdm_grid.flow import TEMPLATES, DataFlow, at_most
from gsdm_grid.functions import functions
from gsdm_grid.plan import (
    Demands,
    Plan,
    check_sites,
    placement_policy,
    placement_warnings,
)
from gsdm_grid.spec import (
    KEPT,
    ResolvedQuery,
    Stop,
    parse,
    parse_stop,
    references,
    with_degree,
    with_plan,
)
from gsdm_grid.splitting import scaled_sites
from gsdm_grid.storage import ResultLog, end_of
from resource_manager.policy import AutoscalePolicy
from resource_manager.pools import named_pools, own_pools

_log = logging.getLogger("gsdm.coordinator")
COMEBACK_S = 600.0
LOOK_S = 1.0
SETTLE_S = 60.0


class Coordinator:
    """Owns the grid and the queries. One per database. Thread-safe; `start` it before use, `close` it at the end."""

    def __init__(self, settings: ServiceSettings, store: Store) -> None:
        self.settings = settings
        self.operations = Operations(store, self._carry_out)
        self._autoscaler = Autoscaler(self._autoscaled, self._autoscale)
        self._watch = CrashWatch(store, self._deliveries)
        self.trials = Trials(store, self.operations, self.checked, lambda: self.grid, self._watch)
        self.segments = Segments(store, self.operations, settings.home / "segments", self.source, lambda: self.grid)
        self.optimizations = Optimizations(store, self.operations, self.trials, self.segments, self, self._adopt)
        self.chosen_plans = ChosenPlans(store, self, self.segments, self.optimizations, settings.placement)
        self.ready = False
        self._store = store
        self._changes: SimpleQueue[tuple[Any, ...] | None] = SimpleQueue()
        self._grid: Grid | None = None
        self._pools = own_pools(settings.grid)
        self._resolved: dict[str, ResolvedQuery] = {}
        self._logs: dict[tuple[str, str], ResultLog] = {}
        self._ran: dict[str, bool] = {}
        self._replaced: dict[str, ContinuousQuery] = {}  # by name: another takes its place, and counts on
        self._comebacks: dict[str, list[float]] = {}
        self._activating: dict[str, Mapping[str, Any]] = {}  # the operation that last activated each query
        self._lock = threading.RLock()
        self._closing = threading.Event()
        self._unstored = threading.Event()  # a state change waits until the database has room for it
        self._recorder = threading.Thread(target=self._record_changes, name="gsdm-states", daemon=True)
        self._lock_file = _claim(settings.home)

    # -- start and end ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin: bring back what should run, and carry out what was promised."""
        self._grid = Grid(
            self.settings.placement,
            self.settings.grid,
            on_change=self._on_change,
            on_waiting=self._on_waiting,
            named=named_pools(self.settings.grid),
            pools=self._pools,
        )
        self._recorder.start()
        self.operations.forget_old()
        rows = self._store.rows(sa.select(queries))
        given_up = self._give_up_at_start(rows)
        promised = self.operations.unfinished()
        busy = {operation["query"] for operation in promised}
        for row in rows:
            if row["name"] in given_up:
                continue
            gone = row["state"] in ("installed", "active", "stopping")
            if gone:
                self._write(row["name"], "compiled" if row["plan"] else "specified", "the coordinator was restarted")
            wanted = row["desired"] in ("installed", "active") and row["state"] != "failed"
            if gone and wanted and row["name"] not in busy:
                with self._store.begin() as connection:
                    promised.append(self.operations.record(connection, row["name"], "recover"))
        for operation in promised:
            self.operations.enqueue({**operation, "resumed": True})
        self.ready = True
        self._grid.warm()
        self._autoscaler.start()

    def close(self) -> None:
        """End everything that runs here; the next start brings it back."""
        self.ready = False
        self._closing.set()
        self._watch.close()
        self._autoscaler.close()
        self.operations.stop()
        if self._grid is not None:
            self._grid.close()
        for pool in self._pools.values():
            pool.close()
        self.operations.close()
        self._changes.put(None)
        if self._recorder.is_alive():
            self._recorder.join(10)
        try:
            self._watch.forget()
        except sa.exc.SQLAlchemyError:
            _log.exception("it could not be stored that the coordinator was asked to end")
        with self._lock:
            for log in self._logs.values():
                log.close()
        self._lock_file.close()

    @property
    def trial_share(self) -> float:
        """Share of a pool's hosts that trials may use."""
        return self.settings.trial_share

    @property
    def grid(self) -> Grid:
        """The grid that queries run on."""
        if self._grid is None or not self.ready:
            raise Problem("not-ready", "the coordinator is starting or stopping")
        return self._grid

    # -- queries as people see them -------------------------------------------------------------------------------

    def submit(self, given: Any, token_id: str, role: str) -> dict[str, Any]:
        """Check a specification and store it as a new query."""
        query = self.checked(given, role)
        now_s = time.time()
        row = {
            "name": query.name,
            "specification": given,
            "desired": "specified",
            "state": "specified",
            "since_s": now_s,
            "error": None,
            "plan": None,
            "run": None,
            "version": 1,
            "token_id": token_id,
            "created_s": now_s,
            "failure": None,
            "starting": None,
        }
        limit = self.settings.limits.queries_per_token
        with self._lock:
            held = self._store.row(
                sa.select(sa.func.count()).where(queries.c.token_id == token_id).select_from(queries)
            )
            if held and next(iter(held.values())) >= limit:
                raise Problem("too-many", f"this token has {limit} queries, which is the limit: remove some")
            try:
                with self._store.begin() as connection:
                    connection.execute(queries.insert().values(**row))
                    connection.execute(_event(query.name, "specified", None))
            except sa.exc.IntegrityError:
                taken = f"there is a query named {query.name!r} already: remove it, or choose another name"
                raise Problem("name-taken", taken, name=query.name) from None
            self._resolved[query.name] = query
        return self._view(row)

    def replace(self, name: str, given: Any, role: str, if_match: str | None) -> dict[str, Any]:
        """Give a query that is not installed another specification; what was kept of its results goes."""
        query = self.checked({**given, "name": given.get("name", name)}, role)
        if query.name != name:
            raise FlowError("name", f"is {query.name!r}, but the query's is {name!r}")
        with self._lock:
            row = self._row(name, if_match)
            pending = self._pending(name)
            if row["state"] not in ("specified", "compiled", "failed") or pending:
                detail = f"query {name!r} is {row['state']}: its specification can be replaced before it is installed"
                if pending:
                    detail = f"query {name!r} has an operation under way, wait for it: {', '.join(sorted(pending))}"
                raise Problem("invalid-transition", detail, state=row["state"], allowed=actions.allowed(row["state"]))
            self._forget(name)
            with self._store.begin() as connection:
                values = {"specification": {**given, "name": name}, "plan": None, "run": None, "error": None}
                changed = {"desired": "specified", "state": "specified", "since_s": time.time(), "failure": None}
                connection.execute(
                    queries.update()
                    .where(queries.c.name == name)
                    .values(**values, **changed, version=queries.c.version + 1)
                )
                connection.execute(_event(name, "specified", "another specification"))
            self._resolved[name] = query
        return self.view(name)

    def act(
        self, name: str, action: str, params: Mapping[str, Any] | None = None, if_match: str | None = None
    ) -> dict[str, Any]:
        """Promise an action: checked against what will be by then, stored, and queued."""
        given = dict(params or {})
        with self._lock:
            row = self._row(name, if_match)
            pending = self._pending(name)
            step = actions.step(action, given)
            state = row["desired"] if pending and row["state"] != "failed" else row["state"]
            if "delete" in pending:
                raise Problem("invalid-transition", f"query {name!r} is being removed", state="dropped", allowed=[])
            if action == "scale":
                with_degree(row["specification"], given["degree"])  # complains if there is no degree
            if step != "rescale" or state == "stopping":
                actions.check(name, state, step)
            if action in ("activate", "run"):
                given = {"stop": parse_stop(given.get("stop"), "body").to_json()}
            desired = actions.desired(step, row["desired"])
            with self._store.begin() as connection:
                changed = {"desired": desired, "version": queries.c.version + 1, "failure": None}
                if row["state"] != "failed":
                    changed["error"] = None
                connection.execute(queries.update().where(queries.c.name == name).values(**changed))
                operation = self.operations.record(connection, name, action, given)
        self.operations.enqueue(operation)
        return operation

    def view(self, name: str) -> dict[str, Any]:
        """A query as people see it."""
        return self._view(self._row(name))

    def page(
        self, limit: int, after: str | None, state: str | None = None, prefix: str | None = None
    ) -> list[dict[str, Any]]:
        """Queries by name, from the one after ``after`` on."""
        wanted = sa.select(queries).order_by(queries.c.name).limit(limit)
        if after is not None:
            wanted = wanted.where(queries.c.name > after)
        if state is not None:
            wanted = wanted.where(queries.c.state == state)
        if prefix is not None:
            wanted = wanted.where(queries.c.name.startswith(prefix, autoescape=True))
        return [self._view(row) for row in self._store.rows(wanted)]

    def events(self, name: str, limit: int) -> list[dict[str, Any]]:
        """State changes of a query, the newest first."""
        self._row(name)
        wanted = sa.select(events).where(events.c.query == name).order_by(events.c.id.desc()).limit(limit)
        return self._store.rows(wanted)

    def flow(self, name: str) -> DataFlow:
        """The data flow of a query."""
        return self._resolve(self._row(name)).flow

    def plan(self, name: str) -> dict[str, Any]:
        """The compiled plan of a query, without the code of its functions."""
        row = self._row(name)
        if row["plan"] is None:
            raise Problem("not-found", f"query {name!r} has not been compiled")
        shown: dict[str, Any] = _without_code(row["plan"])
        return shown

    def plans(self, limit: int, after: str | None) -> list[tuple[str, dict[str, Any]]]:
        """Names and plans of compiled queries, by name."""
        wanted = sa.select(queries.c.name, queries.c.plan).order_by(queries.c.name).limit(limit)
        wanted = wanted.where(queries.c.name > (after or ""), queries.c.state != "specified")
        return [(row["name"], row["plan"]) for row in self._store.rows(wanted) if row["plan"]]

    def compiled(self, name: str) -> Plan:
        """The plan of a query, as it is or would be compiled."""
        row = self._row(name)
        return Plan.from_json(row["plan"]) if row["plan"] else self._compiled(self._resolve(row))

    def statistics(self, name: str) -> dict[str, Any]:
        """The latest statistics of each site of a query."""
        self._row(name)
        query = self.grid.queries.get(name)
        return query.statistics() if query is not None and query.plan is not None else {}

    def metrics(self) -> Iterator[Sample]:
        """Figures of all queries, for Prometheus."""
        rows = self._store.rows(sa.select(queries.c.name, queries.c.state, queries.c.since_s))
        yield from totals_of(row["state"] for row in rows)
        live = dict(self._grid.queries) if self._grid is not None else {}
        for row in chosen(rows):
            query = live.get(row["name"])
            if query is None:
                yield from samples_of(row, {})
            else:
                counted = {"restarts": query.restarts, "totals": query.totals()}
                yield from samples_of({**row, **counted}, query.statistics())

    def sites(self) -> Iterator[dict[str, Any]]:
        """All sites that are at work: where they are and how busy."""
        for name, query in list(self.grid.queries.items()):
            if query.plan is None or query.state not in ("installed", "active", "stopping"):
                continue
            told = query.statistics()
            for site in query.plan.sites:
                where = self.grid.whereabouts(query.node(site))
                yield {
                    "query": name,
                    "site": site.id,
                    "role": site.role,
                    "host": site.host,
                    "functions": [operator.function["name"] for operator in site.operators],
                    "utilization": told.get(site.id, {}).get("utilization", 0.0),
                    **where,
                }

    def result_log(self, name: str, stream: str | None) -> ResultLog:
        """What is kept of a result stream; it is there from the moment the query is submitted."""
        row = self._row(name)
        kept = self._resolve(row).kept
        if not kept:
            raise Problem("not-found", f"query {name!r} keeps no results here: its result streams go elsewhere")
        wanted = stream or kept[0]
        if wanted not in kept:
            known = ", ".join(kept)
            raise Problem("not-found", f"query {name!r} keeps no result stream {wanted!r}; kept: {known}")
        with self._lock:
            if (name, wanted) in self._logs:
                return self._logs[name, wanted]
        return self._log(name, wanted, self.compiled(name).stream(wanted).type)

    def gives_spectra(self, name: str, stream: str | None) -> bool:
        """Whether the vectors of a kept result stream are spectra, as the query's plan says; false if it has none."""
        row = self._row(name)
        wanted = stream or next(iter(self._resolve(row).kept), None)
        sinks = [one for one in (row["plan"] or {}).get("streams", ()) if one["kind"] == "sink"]
        return any(one["name"] == wanted and one.get("spectra", False) for one in sinks)

    def registered(self, kind: str, name: str) -> Mapping[str, Any]:
        """The document of a registered source or sink, or of a recorded segment."""
        if kind == "segment":
            return self.segments.document(name)
        found = self._store.row(sa.select(streams.c.document).where(streams.c.kind == kind, streams.c.name == name))
        if found is None:
            raise FlowError(kind, f"there is no registered {kind} {name!r:.80}")
        document: Mapping[str, Any] = found["document"]
        place = f"{kind} {name!r}"
        check_stream(document, place, "admin", self.settings.data_folders, self.settings.allowed_modules)
        return document

    def source(self, given: Any, role: str) -> Mapping[str, Any]:
        """The document of a source, from its registered name or as it is; checked for a role."""
        if isinstance(given, str):
            return self.registered("source", given)
        if not isinstance(given, Mapping):
            raise FlowError("source", f"expected the name of a source or a mapping, got {type(given).__name__}")
        check_stream(given, "source", cast(Role, role), self.settings.data_folders, self.settings.allowed_modules)
        return {name: value for name, value in given.items() if name in ("type", "interface", "options", "order")}

    def _adopt(self, *chosen: Any) -> list[Any]:
        return self.chosen_plans.adopt(*chosen)

    def uses(self, kind: references.Kind, name: str) -> str | None:
        """Name of a query whose specification names this source, sink, stream type or function."""
        for row in self._store.rows(sa.select(queries.c.name, queries.c.specification)):
            if name in references.names(row["specification"], kind):
                return str(row["name"])
        return None

    # -- carrying out ---------------------------------------------------------------------------------------------

    def _carry_out(self, operation: Mapping[str, Any]) -> Mapping[str, Any] | None:
        name, action = operation["query"], operation["action"]
        if action in MEASURING:
            return self._measure(name, action)
        try:
            result = self._step(name, action, operation)
        except Exception as error:
            if not self._closing.is_set():
                self._keep_failure(operation, error)
            raise
        self._clear_failure(operation)
        return result

    def _measure(self, name: str, action: str) -> Mapping[str, Any] | None:
        if action == "optimize":
            return self.optimizations.carry_out(name)
        (self.trials if action == "trial" else self.segments).carry_out(name)
        return None

    def _keep_failure(self, operation: Mapping[str, Any], error: Exception) -> None:
        """What was asked failed: the query says so, and if nothing else was asked, nobody is trying any more."""
        self._settle()
        name = operation["query"]
        with self._lock:
            row = self._store.row(sa.select(queries.c.state).where(queries.c.name == name))
            if row is None:
                return
            values: dict[str, Any] = {
                "error": document(problem_of(error), f"/v1/queries/{name}"),
                "failure": failure(operation["action"], operation["id"], time.time()),
            }
            if not self._others(name, operation):
                values["desired"] = row["state"]
            self._update(name, **values)

    def _clear_failure(self, operation: Mapping[str, Any]) -> None:
        name = operation["query"]
        with self._lock:
            row = self._store.row(sa.select(queries.c.state, queries.c.failure).where(queries.c.name == name))
            if row is None or not row["failure"] or row["state"] == "failed":
                return
            if row["failure"]["operation"] != operation["id"]:
                self._update(name, error=None, failure=None)

    def _others(self, name: str, operation: Mapping[str, Any] | None) -> bool:
        """Whether something else than this operation was asked of a query, and is not done."""
        done = operation["id"] if operation is not None else None
        return any(one["id"] != done for one in self.operations.unfinished(name))

    def _step(self, name: str, action: str, operation: Mapping[str, Any]) -> Mapping[str, Any] | None:
        if action == "delete":
            return self._delete(name)
        row, query = self._live(name)
        if action in ("compile", "deactivate") and not operation.get("resumed"):
            return self._carried(query, row, action, operation)
        with self._watched(query, one_by_one=bool(operation.get("resumed"))):
            return self._carried(query, row, action, operation)

    def _carried(
        self, query: ContinuousQuery, row: Mapping[str, Any], action: str, operation: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        name = query.id
        if action in ("activate", "run") or operation.get("resumed"):
            self._activating[name] = operation
        if operation.get("resumed"):
            self._bring_back(query, row)
        if action in ("scale", "replan"):  # also after a restart: it may have come in between
            return self._rewire(query, row, action, operation["params"])
        if operation.get("resumed"):
            return None
        if action == "compile":
            query.compile()
        elif action == "install":
            self._install(query)
        elif action in ("activate", "run"):
            if query.state != "installed":
                self._install(query)
            self._activate(query, parse_stop(operation["params"].get("stop")))
        elif operation["params"].get("mode") == "immediate":
            left = query.uninstall() if query.state != "compiled" else []
            self._settle()
            if reason := operation["params"].get("reason"):
                self._update(name, _event(name, "compiled", reason))
            return _warning(left)
        else:
            query.deactivate()
            query.wait()
        self._settle()
        return None

    @contextlib.contextmanager
    def _watched(self, query: ContinuousQuery, one_by_one: bool) -> Iterator[None]:
        """While a query is started, and for a while after, a death of ours may be its doing (see `crashes`)."""

        def runs() -> bool:
            self._settle()
            return query.state in ("active", "stopping")

        watched = crashes.in_threads(query.plan or self._compiled(self._resolve(self._row(query.id))))
        with self._watch.starting(query.id, watched, one_by_one, runs):
            yield

    def _deliveries(self, name: str) -> dict[str, int]:
        """How many windows each result log of a query has had."""
        with self._lock:
            logs = {stream: log for (query, stream), log in self._logs.items() if query == name}
        folders = {path.name: path for path in self._results_of(name).glob("*") if path.is_dir()}
        return {stream: logs[stream].next if stream in logs else end_of(path) for stream, path in folders.items()}

    def _give_up_at_start(self, rows: Sequence[Mapping[str, Any]]) -> set[str]:
        """Queries that are not started by themselves again: they may have ended us, or name what is not allowed."""
        given_up = set()
        for key in self._watch.begin():
            if key.startswith(TRIALS):
                self._give_up_trial(key.removeprefix(TRIALS))
            else:
                self._give_up(key, Problem("crashed-while-starting", crashes.reason(key)))
                given_up.add(key)
        for row in rows:
            if row["name"] not in given_up and row["state"] != "failed":
                try:
                    self._check_code(row["specification"])
                except (Problem, GsdmError) as error:
                    self._give_up(row["name"], problem_of(error))
                    given_up.add(row["name"])
        return given_up

    def _give_up_trial(self, trial_id: str) -> None:
        """We died while this trial ran; the search that asked for it would go on with the same functions."""
        trial = self.trials.view(trial_id)
        problem = Problem("crashed-while-running", crashes.reason_of_trial(trial_id, trial["query"]))
        self.trials.give_up(trial_id, problem)
        if trial["optimization"] is not None:
            self.optimizations.give_up(trial["optimization"], problem)
        _log.error("trial is not run again", extra={"query": trial_id, "reason": problem.detail})

    def _give_up(self, name: str, problem: Problem) -> None:
        """This query is not started by itself again."""
        self._watch.settled(name)
        error = document(problem, f"/v1/queries/{name}")
        promised = [one for one in self.operations.unfinished(name) if one["action"] != "delete"]
        for operation in promised:
            self.operations.finish(operation["id"], error)
        last: Mapping[str, Any] = promised[-1] if promised else {"action": "recover", "id": None}
        now_s = time.time()
        self._update(
            name,
            _event(name, "failed", error["detail"]),
            **{"state": "failed", "desired": "failed", "since_s": now_s, "error": error},
            failure=failure(last["action"], last["id"], now_s),
        )
        _log.error("query is not started again", extra={"query": name, "reason": error["detail"]})

    def _rewire(
        self, query: ContinuousQuery, row: Mapping[str, Any], action: str, params: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Another degree of parallelism, or the plan that was chosen; gives how long the stream stood still."""
        outcome: dict[str, Any]
        if action == "scale":
            given = with_degree(row["specification"], params["degree"])
            what, outcome = f"degree {params['degree']}", {"degree": params["degree"]}
        else:
            given = with_plan(row["specification"], params["plan"]) if params["plan"] else row["specification"]
            what, outcome = f"plan {params['chosen']} of {params['optimization']}", {"plan": params["chosen"]}
        with functions.pinned(TEMPLATES.pins(pinned_names(query.plan)) if query.plan is not None else {}):
            resolved = self.checked(given, "admin")  # who may submit it was checked when it was submitted
        was = query.state
        stall_s = 0.0
        if was in ("active", "stopping"):
            stall_s = query.rescale(resolved.flow)
            plan = query.plan
        else:
            self.grid.forget(query.id)
            if was == "installed":
                query.uninstall()
            self._replaced[query.id] = query
            plan = None
        self._settle()
        with self._lock:
            self._resolved[query.id] = resolved
        told = [what, params.get("reason"), f"stood still for {stall_s:.3f} s" if stall_s else None]
        detail = "; ".join(part for part in told if part)
        state = was if plan is not None else "specified"
        planned = plan.to_json() if plan is not None else None
        changed = {"specification": given, "plan": planned, "state": state}
        if row["desired"] == "failed":
            changed["desired"] = state
        self._update(query.id, _event(query.id, state, detail), **changed)
        if was == "installed":
            self._install(self._live(query.id)[1])
            self._settle()
        return {**outcome, "stall_s": stall_s}

    def _autoscaled(self) -> Iterator[Watched]:
        """Running queries that scale by themselves."""
        for name, query in list(self.grid.queries.items()):
            with self._lock:
                resolved = self._resolved.get(name)
            bounds = None if resolved is None else resolved.specification.autoscale
            if query.state != "active" or query.plan is None or bounds is None:
                continue
            if self._pending(name):
                continue
            yield Watched(name, AutoscalePolicy(bounds.min, bounds.max), scaled_sites(query.plan), query.statistics())

    def _autoscale(self, name: str, degree: int, reason: str) -> None:
        self.act(name, "scale", {"degree": degree, "reason": reason})

    def _bring_back(self, query: ContinuousQuery, row: Mapping[str, Any]) -> None:
        """To the desired state, as if the coordinator had never been away."""
        desired = row["desired"]
        if desired == "compiled" and query.state == "specified":
            query.compile()
        if desired in ("installed", "active") and query.state in ("specified", "compiled", "failed"):
            self._install(query)
        if desired == "active" and query.state == "installed":
            run = row["run"] or {}
            stop = parse_stop(run["stop"]) if run.get("stop") else self._resolve(row).stop
            if run.get("running") and stop.count is not None:
                query.activate(upto=run["base"] + stop.count)
            elif run.get("running") and stop.time_s is not None:
                query.activate(time_s=max(stop.time_s - (time.time() - run["started_s"]), 0.001))
            else:
                self._activate(query, stop)
        self._settle()

    def _install(self, query: ContinuousQuery) -> None:
        if query.state in ("specified", "failed"):
            query.compile()
        plan = query.plan
        assert plan is not None
        row = self._row(query.id)
        kept = [stream for stream in plan.streams if stream.interface == KEPT]
        logs = {stream.name: self._log(query.id, stream.name, stream.type) for stream in kept}
        read = (row["run"] or {}).get("positions", {})
        last = {name: log.last_ordinal for name, log in logs.items()}
        found = resumption(plan, query.replayable(), read, last)
        for log in logs.values():
            if found.exact:
                log.resume()
        new = not any(read.values()) and all(ordinal is None for ordinal in last.values())
        query.install(found.positions, joining=new)

    def _activate(self, query: ContinuousQuery, stop: Stop) -> None:
        if not (stop.count or stop.time_s):
            stop = self._resolve(self._row(query.id)).stop
        positions = query.positions()
        read = {**positions, **((self._row(query.id)["run"] or {}).get("positions", {}))}
        base = max([0, *positions.values(), *read.values()])
        run = {"stop": stop.to_json(), "started_s": time.time(), "base": base, "positions": read, "running": True}
        self._update(query.id, run=run)
        query.activate(time_s=stop.time_s, upto=None if stop.count is None else base + stop.count)
        begun = max(query.begun_at().values(), default=base)
        if begun > base and (self._row(query.id)["run"] or {}).get("running"):  # it joined others in mid-stream
            self._update(query.id, run={**run, "base": begun})

    def _delete(self, name: str) -> Mapping[str, Any] | None:
        query = self.grid.queries.get(name)
        left = query.drop() if query is not None else []
        self._settle()
        with self._lock:
            self._forget(name)
            with self._store.begin() as connection:
                connection.execute(queries.delete().where(queries.c.name == name))
                connection.execute(events.delete().where(events.c.query == name))
        return _warning(left)

    def _forget(self, name: str) -> None:
        """Let go of what lives here of a query, and of what was kept of its results."""
        query = self.grid.queries.get(name)
        if query is not None:
            query.drop()
        self._settle()
        self._resolved.pop(name, None)
        self._ran.pop(name, None)
        self._replaced.pop(name, None)
        for key in [key for key in self._logs if key[0] == name]:
            self._logs.pop(key).remove()
        shutil.rmtree(self._results_of(name), ignore_errors=True)

    def _live(self, name: str) -> tuple[dict[str, Any], ContinuousQuery]:
        """What is stored of a query, and the query on the grid; made of that, if it is not there yet."""
        with self._lock:  # else it may be removed in between, and would be made again
            row = self._row(name)
            query = self.grid.queries.get(name)
            if query is not None:
                return row, query
            resolved = self._resolve(row)
            outputs = [
                _kept(stream, lambda kind, stream_name=stream.name: self._log(name, stream_name, kind))
                for stream in resolved.outputs
            ]
            query = self.grid.new_query(resolved.flow, resolved.inputs, outputs, name, resolved.specification)
            if (before := self._replaced.pop(name, None)) is not None:
                query.go_on_counting(before)
            if row["plan"]:
                query.adopt(Plan.from_json(row["plan"]))
            return row, query

    def _results_of(self, name: str) -> Path:
        """The folder of what is kept of a query's results."""
        return self.settings.home / "results" / name

    def _log(self, name: str, stream: str, stream_type: Any) -> ResultLog:
        with self._lock:
            if (name, stream) not in self._logs:
                self._row(name)  # it may have been removed while it was being installed
                path = self._results_of(name) / stream
                self._logs[name, stream] = ResultLog(path, stream_type, keep_bytes=self.settings.result_bytes)
            return self._logs[name, stream]

    # -- states -------------------------------------------------------------------------------------------------------

    def _on_change(self, query: ContinuousQuery) -> None:
        """A query's state has changed. Called by any thread, must not block."""
        if not self._closing.is_set() and query.state not in ("specified", "dropped"):
            self._changes.put((query, query.state, query.since_s, query.error))

    def _record_changes(self) -> None:
        while True:
            for name in self._watch.look():
                try:
                    self._watch.settled(name)
                except sa.exc.SQLAlchemyError as failure:  # it is tried again after the next change, or look
                    details = {"query": name, "reason": str(failure)}
                    _log.error("it could not be stored that a query has settled", extra=details)
            try:
                change = self._changes.get(timeout=LOOK_S)
            except Empty:
                continue
            if change is None:
                return
            if isinstance(change[0], threading.Event):
                change[0].set()
                continue
            try:
                self._record_when_possible(*change)
            except Exception:
                _log.exception("a state change could not be stored", extra={"query": change[0].id, "state": change[1]})

    def _record_when_possible(
        self, query: ContinuousQuery, state: str, since_s: float, error: Exception | None
    ) -> None:
        """Store a state change as soon as the database takes it: its disk may be full for a while. Later ones wait."""
        try:
            while True:
                try:
                    self._record(query, state, since_s, error)
                    return
                except sa.exc.OperationalError as failure:
                    if self._closing.is_set():
                        raise
                    details = {"query": query.id, "state": state, "reason": str(failure.orig)}
                    _log.error("a state change cannot be stored yet", extra=details)
                self._unstored.set()
                self._closing.wait(LOOK_S)
        finally:
            self._unstored.clear()

    def _record(self, query: ContinuousQuery, state: str, since_s: float, error: Exception | None) -> None:
        """Store a state change, and what follows from it. Changes nothing else if it cannot be stored."""
        name = query.id
        ran, runs = self._ran.get(name, False), state in ("active", "stopping")
        values: dict[str, Any] = {"state": state, "since_s": since_s}
        values["error"] = document(problem_of(error), f"/v1/queries/{name}") if error is not None else None
        if state == "compiled" and query.plan is not None:
            values["plan"] = query.plan.to_json()
        row = self._store.row(
            sa.select(queries.c.run, queries.c.desired, queries.c.state).where(queries.c.name == name)
        )
        if row is None:
            self._ran[name] = runs
            return
        if isinstance(error, NodeLost) and row["desired"] in ("installed", "active") and self._may_come_back(name):
            self._come_back(name, values, error)
            self._ran[name] = runs
            return
        activating = self._activating.get(name)
        values["failure"] = None
        if error is not None:
            asked: Mapping[str, Any] = activating or {"action": "run", "id": None}
            values["failure"] = failure(asked["action"], asked["id"], since_s)
            if not self._others(name, activating):
                values["desired"] = "failed"
        if self._watch.is_settling(name) and not runs:
            self._watch.settled(name)
        if ran and not runs:
            values["run"] = {**(row["run"] or {}), "positions": query.positions(), "running": False}
            if state == "installed" and row["desired"] == "active" and not self._others(name, activating):
                values["desired"] = "installed"
        changed = _event(name, state, str(error) if error else None) if state != row["state"] else None
        self._update(name, changed, **values)
        self._ran[name] = runs
        _log.info("state changed", extra={"query": name, "state": state, "reason": str(error) if error else None})

    def _may_come_back(self, name: str) -> bool:
        """Whether a query that lost a working node is brought back; not over and over."""
        now_s = time.monotonic()
        self._comebacks[name] = [then_s for then_s in self._comebacks.get(name, []) if now_s - then_s < COMEBACK_S]
        return not self._closing.is_set() and len(self._comebacks[name]) < self.settings.grid.restarts

    def _come_back(self, name: str, values: Mapping[str, Any], error: Exception) -> None:
        """What a query ran on is gone: it begins again after its last kept window, as after a crash of ours."""
        with self._store.begin() as connection:
            connection.execute(queries.update().where(queries.c.name == name).values(**values))
            connection.execute(_event(name, values["state"], f"{error}; it is brought back"))
            operation = self.operations.record(connection, name, "recover")
        self._comebacks[name].append(time.monotonic())
        _log.warning("query is brought back", extra={"query": name, "reason": str(error)})
        self.operations.enqueue({**operation, "resumed": True})

    def _on_waiting(self, query: ContinuousQuery) -> None:
        """A query waits for hosts: one that has run and stopped gives its hosts up. Called now and then."""
        for name, other in list(self.grid.queries.items()):
            if other is query or other.state != "installed" or self._pending(name):
                continue
            row = self._store.row(sa.select(queries.c.run, queries.c.desired).where(queries.c.name == name))
            if row is None or row["desired"] != "installed" or not row["run"] or row["run"].get("running"):
                continue  # installed, and about to be activated
            reason = f"its hosts were given to {query.id!r}, which waited for them"
            with contextlib.suppress(Problem, GsdmError):
                self.act(name, "deactivate", {"mode": "immediate", "reason": reason})
                _log.info("hosts given up", extra={"query": name, "reason": reason})
                return

    def _settle(self) -> None:
        """Wait until all state changes so far are stored, or the database has no room for them."""
        if self._recorder.is_alive() and threading.current_thread() is not self._recorder:
            stored, until_s = threading.Event(), time.monotonic() + SETTLE_S
            self._changes.put((stored,))
            while not stored.wait(0.1) and not self._unstored.is_set() and time.monotonic() < until_s:
                pass

    def _write(self, name: str, state: str, detail: str) -> None:
        self._update(name, _event(name, state, detail), state=state, since_s=time.time())

    def _update(self, name: str, event: sa.Insert | None = None, **values: Any) -> None:
        with self._store.begin() as connection:
            changed = queries.update().where(queries.c.name == name)
            connection.execute(changed.values(**values, version=queries.c.version + 1))
            if event is not None:
                connection.execute(event)

    # -- inside -------------------------------------------------------------------------------------------------------

    def checked(self, given: Any, role: str) -> ResolvedQuery:
        """A specification that compiles, and names nothing that its author may not; says what is wrong otherwise."""
        if isinstance(given, Mapping):
            self._check_code(given, role)
        with at_most(self.settings.limits.vertices):
            query = parse(given, self.registered, chosen=self.chosen_plans.find)
        if len(query.flow.vertices) > self.settings.limits.vertices:
            limit = self.settings.limits.vertices
            raise FlowError("flow", f"has {len(query.flow.vertices)} vertices; at most {limit} are allowed")
        self._compiled(query)
        return query

    def _check_code(self, given: Mapping[str, Any], role: str = "admin") -> None:
        """Refuse a specification that names code or files it may not; what is stored may be an older version's."""
        check_specification(given, cast(Role, role), self.settings.data_folders, self.settings.allowed_modules)

    def _compiled(self, query: ResolvedQuery) -> Plan:
        options = query.specification
        policy = placement_policy(options.placement or self.settings.placement)
        outputs = [_kept(stream, lambda _: None).spec() for stream in query.outputs]
        inputs = [stream.spec() for stream in query.inputs]
        plan = compile_query(query.name, query.flow, inputs, outputs, policy, options.share, options.demands)
        check_sites(options.demands, plan)
        self._check_pools(options.demands)
        return plan

    def _check_pools(self, demands: Demands) -> None:
        known = self.settings.grid.pools
        for name in (demands.pool, *(needs.pool for needs in demands.sites.values())):
            if name is not None and name not in known:
                raise UnknownName("resource pool", name, known)

    def _resolve(self, row: Mapping[str, Any]) -> ResolvedQuery:
        with self._lock:
            if row["name"] not in self._resolved:
                self._check_code(row["specification"])
                self._resolved[row["name"]] = parse(
                    row["specification"], self.registered, chosen=self.chosen_plans.find
                )
            return self._resolved[row["name"]]

    def _row(self, name: str, if_match: str | None = None) -> dict[str, Any]:
        row = self._store.row(sa.select(queries).where(queries.c.name == name))
        if row is None:
            raise self._no_query(name)
        if if_match is not None and if_match not in ("*", etag(row["version"])):
            raise Problem(
                "precondition-failed", f"query {name!r} has changed: it is {etag(row['version'])}, not {if_match:.60}"
            )
        return row

    def _no_query(self, name: str) -> Problem:
        known = [row["name"] for row in self._store.rows(sa.select(queries.c.name))]
        similar = difflib.get_close_matches(name, known, n=3)
        hint = f"; did you mean {' or '.join(map(repr, similar))}?" if similar else ""
        return Problem("not-found", f"there is no query {name!r:.80}{hint}", did_you_mean=similar)

    def _pending(self, name: str) -> set[str]:
        return {one["action"] for one in self.operations.unfinished(name)}

    def _view(self, row: Mapping[str, Any]) -> dict[str, Any]:
        here = f"/v1/queries/{row['name']}"
        query = self._grid.queries.get(row["name"]) if self._grid is not None else None
        return {
            "name": row["name"],
            "specification": row["specification"],
            "desired": row["desired"],
            "state": row["state"],
            "since": row["since_s"],
            "error": row["error"],
            "failure": row["failure"],
            "waiting": query.waiting if query is not None else None,
            "warnings": placement_warnings(row["specification"].get("placement") or self.settings.placement),
            "created": row["created_s"],
            "version": row["version"],
            "allowed": actions.allowed(row["state"]),
            "shared": query.shared() if query is not None else {},
            "totals": query.totals() if query is not None else None,
            "links": {
                "self": here,
                **{part: f"{here}/{part}" for part in ("graph", "plan", "statistics", "results", "events")},
            },
        }


def etag(version: int) -> str:
    """The entity tag of a version of a query."""
    return f'"{version}"'


def _warning(left: Sequence[str]) -> Mapping[str, Any] | None:
    """The result of an operation that ended working nodes, given those that it could not end."""
    return {"warning": crashes.reason_of_removal(left)} if left else None


def _kept(stream: Any, opener: Any) -> Any:
    """A result stream with the log it is kept in, if it is one that is kept."""
    return (
        type(stream)(stream.name, stream.interface, stream.type, {"log": opener, "resume": False})
        if stream.interface == KEPT
        else stream
    )


def _event(name: str, state: str, detail: str | None) -> sa.Insert:
    return events.insert().values(query=name, at_s=time.time(), state=state, detail=detail)


def _without_code(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: "…" if key == "code" else _without_code(item) for key, item in value.items()}
    return [_without_code(item) for item in value] if isinstance(value, list) else value


def _claim(home: Path) -> Any:
    """Only one coordinator may use a folder at a time."""
    home.mkdir(parents=True, exist_ok=True)
    file = (home / "lock").open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        holder = file.read().strip() or "?"
        file.close()
        raise ResourceError(
            f"another coordinator (process {holder}) uses {home}: stop it, or choose another --home"
        ) from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file
