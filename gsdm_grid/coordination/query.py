"""A continuous query and its life cycle: compile, install, activate, deactivate, drop.

The query owns its plan and the hosts it runs on. Commands go to its working nodes through the control server; what
they report comes back as events. A query that fails ends its hosts by itself and keeps the reason.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import cloudpickle

from gsdm_grid.compiler import (
    compile_query,
    moved,
    recovery_obstacle,
    remembers,
    replayable_inputs,
    rescaling_obstacle,
)
from gsdm_grid.coordination import lifecycle
from gsdm_grid.coordination.control import Event
from gsdm_grid.coordination.installation import Installation
from gsdm_grid.coordination.lifecycle import Action, State
from gsdm_grid.coordination.shared_parts import Readings
from gsdm_grid.coordination.totals import SiteStatistics, Totals
from gsdm_grid.engine import Schedule, unpack_error
from gsdm_grid.errors import GsdmError, InvalidTransition, NodeLost, PlanError, QueryError
from gsdm_grid.flow import DataFlow
from gsdm_grid.interfaces import MemorySink
from gsdm_grid.model import LogicalWindow, PhysicalWindow
from gsdm_grid.plan import (
    Demands,
    Plan,
    PlanSite,
    check_sites,
    placement_policy,
)
from gsdm_grid.spec import QueryOptions, RegisteredStream

if TYPE_CHECKING:
    from gsdm_grid.coordination.grid import Grid


class ContinuousQuery:
    """One query. Made by `cq`; thread-safe."""

    def __init__(
        self,
        grid: Grid,
        query_id: str,
        flow: DataFlow,
        inputs: Sequence[RegisteredStream],
        outputs: Sequence[RegisteredStream],
        options: QueryOptions,
    ) -> None:
        self.id = query_id
        self.flow = flow
        self.inputs = list(inputs)
        self.outputs = list(outputs)
        self.state: State = "specified"
        self.since_s = time.time()
        self.error: GsdmError | None = None
        self.plan: Plan | None = None
        self.run_seconds: float | None = None
        self._grid = grid
        self._options = options
        self._schedule = asdict(options.schedule or Schedule())
        self._placement = placement_policy(options.placement) if options.placement else grid.placement
        self._hosts = Installation(grid, query_id, options)
        self._readings = Readings(grid, self)
        self._statistics: dict[str, SiteStatistics] = {}
        self._totals = Totals()
        self._finished: dict[str, bool] = {}
        self.restarts: dict[str, int] = {}
        self._read_to_end = False
        self._installed: set[str] = set()
        self._installing = False  # it is claimed: no other step but to drop it is allowed meanwhile
        self._recovery = threading.Lock()
        self._rescaling = threading.Lock()
        self._inherited: set[str] = set()  # operators that were given something when the query was rescaled
        self._held: threading.Event | None = None  # set when a query that is being rescaled has run dry
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._started_s = 0.0

    # -- the life cycle ---------------------------------------------------------------------------------------------

    def compile(self) -> Plan:
        """Bind the data flow to its streams and place its sites; says which vertex does not fit, and why."""
        with self._lock:
            self._require("compile")
            self.plan = self._compiled(self.flow)
            self.error = None
            self._set("compiled")
            return self.plan

    def _compiled(self, flow: DataFlow) -> Plan:
        inputs, outputs = [s.spec() for s in self.inputs], [s.spec() for s in self.outputs]
        share, demands = self._options.share, self._options.demands
        plan = compile_query(self.id, flow, inputs, outputs, self._placement, share, demands)
        check_sites(demands, plan)
        return plan

    def adopt(self, plan: Plan) -> None:
        """Take a plan that was compiled before, by a coordinator that is gone."""
        with self._lock:
            self._require("compile")
            self.plan = plan
            self._set("compiled")

    def install(self, positions: Mapping[str, int] | None = None, joining: bool = True) -> None:
        """Start working nodes and install the plan on them.

        ``positions`` says by name where to begin in input streams; streams that can be read again are, from there.
        ``joining``: what it shares with others may have begun before; else it begins at its positions whatever others
        do.
        """
        with self._lock:
            self._require("install")
            if self.state in ("specified", "failed"):
                self.compile()
            self._installing = True
            plan = self._plan
            self._hosts.positions = dict(positions or {})
            self._hosts.live = {s.name: self._registered(s.name).make(s.type) for s in plan.streams if s.live}
            self._inherited = set()
            self._statistics = {node: self._totals.end_interfaces(last) for node, last in self._statistics.items()}
        try:
            self._readings.acquire(plan, self._hosts.positions, joining)
            self._hosts.start(plan, plan.sites, self._raise_if_ended)
            self._hosts.install(plan)
            with self._lock:
                self._raise_if_ended()
                self._installed = {self.node(site) for site in plan.sites}
                self._set("installed")
        except BaseException:
            self._release_hosts()
            raise
        finally:
            self._installing = False

    def activate(self, count: int | None = None, time_s: float | None = None, upto: int | None = None) -> None:
        """Start, or go on: until stopped, for ``count`` windows of each input stream, or for ``time_s`` seconds.

        ``upto`` is a count from the start of the streams.
        """
        if count is not None and count < 1:
            raise QueryError(f"query {self.id!r}: count must be at least 1, got {count}")
        if time_s is not None and time_s <= 0:
            raise QueryError(f"query {self.id!r}: time must be greater than zero, got {time_s}")
        self._await_last_reports()
        with self._lock:
            self._require("activate")
            plan = self._plan
            self._read_to_end = False
            self._finished = {}
            self._set("active")
            self._started_s = time.monotonic()
        stops = {"position": upto, "count": count, "time": time_s}
        kind, value = next(((kind, value) for kind, value in stops.items() if value is not None), ("none", 0))
        try:
            places = self.positions()
            self._readings.begin(plan, places)
            for site in sorted(plan.sites, key=lambda s: -s.level):
                sources = site in self._with_sources(plan)
                commands: list[dict[str, Any]] = [{"do": "activate", "schedule": self._schedule if sources else {}}]
                if sources:
                    commands.insert(0, {"do": "install_stop", "kind": kind, "value": value})
                commands = [*self._readings.commands(plan, site.id), *commands]
                self._grid.control.call(self.node(site), {"do": "batch", "commands": commands})
            self._readings.attach(plan, places)
        except GsdmError as error:
            self._fail(error)
            raise (self.error or error) from None
        finally:
            self._readings.settle()

    def deactivate(self) -> None:
        """Stop reading the input streams; what was read flows out. Returns at once; see `wait`."""
        with self._lock:
            if self.state in ("stopping", "installed"):
                return
            self._require("deactivate")
            self._set("stopping")
            changing = self._held is not None
        if not changing:  # else it is carried out when the sites are wired anew
            self._deactivate_sources()

    def uninstall(self) -> list[str]:
        """End the working nodes at once; what is under way is given up. The query can be installed again.

        Gives the nodes that run on: threads in which a function does not return.
        """
        with self._lock:
            self._require("uninstall")
            self._set("compiled")
        return self._release_hosts()

    def rescale(self, flow: DataFlow) -> float:
        """Give a running query another data flow of the same shape, such as one with another degree of parallelism.

        New sites are started first. Then the sources hold, what was read flows out, the sites are wired anew, and the
        sources go on: no window is lost, doubled or reordered. Returns how long the stream stood still, in seconds. If
        there is no room for the new sites, or the run comes to its end first, the query stays as it is.
        """
        with self._rescaling:
            with self._lock:
                self._require("rescale")
                before = self._plan
                after = self._compiled(flow)
                if (obstacle := rescaling_obstacle(before, after)) is not None:
                    raise PlanError(f"query {self.id!r} cannot be rescaled while it runs: {obstacle}")
                if [part.query for part in after.parts] != [part.query for part in before.parts]:
                    raise PlanError(f"query {self.id!r} cannot be rescaled while it runs: it shares what would change")
            known = {site.id for site in before.sites}
            new = [site for site in after.sites if site.id not in known]
            try:
                self._hosts.start(after, new, self._raise_if_ended)
                began_s = time.monotonic()
                self._hold(before)
            except GsdmError:
                with self._lock:
                    self._held = None
                self._hosts.release([self.node(site) for site in new])
                raise
            try:
                return self._change(before, after, flow, began_s)
            except GsdmError as error:
                self._fail(error)
                raise (self.error or error) from None

    def _hold(self, plan: Plan) -> None:
        """Let the sources hold, and wait until what was read has flowed out."""
        held = threading.Event()
        with self._lock:
            self._held = held
        self._hosts.at_once([(site, {"do": "hold"}) for site in self._with_sources(plan)])
        while not held.wait(0.1):
            if self.state not in ("active", "stopping"):
                raise QueryError(f"query {self.id!r} came to its end before it was rescaled")

    def _change(self, before: Plan, after: Plan, flow: DataFlow, began_s: float) -> float:
        """Wire the sites anew and let the sources go on; nothing is under way."""
        left = self._hosts.at_once([(site, {"do": "clear"}) for site in before.sites])
        snapshots = {operator: snapshot for one in left for operator, snapshot in one.items()}
        inherited = moved(before, after, snapshots, cloudpickle.loads, cloudpickle.dumps)
        with self._lock:
            self.plan, self.flow = after, flow
            self._finished, self._held = {}, None
            self._inherited = {name for name, snapshot in inherited.items() if remembers(snapshot)}
        self._hosts.install(after, inherited)
        for site in sorted(after.sites, key=lambda s: -s.level):
            schedule = self._schedule if site in self._with_sources(after) else {}
            self._hosts.at_once([(site, {"do": "activate", "schedule": schedule})])
        stall_s = time.monotonic() - began_s
        wanted = {site.id for site in after.sites}
        gone = [site for site in before.sites if site.id not in wanted]
        with self._lock:
            self._raise_if_ended()
            self._installed = {self.node(site) for site in after.sites}
            for site in gone:
                self._count_on(self.node(site), None)
            if self.state == "stopping":  # asked for in between
                self._spawn(self._deactivate_sources)
        self._hosts.release([self.node(site) for site in gone])
        with contextlib.suppress(NodeLost):
            self.refresh()
        return stall_s

    def _with_sources(self, plan: Plan) -> list[PlanSite]:
        return [s for s in plan.sites if any(stream.kind == "source" for stream in plan.streams_of(s.id))]

    def _deactivate_sources(self) -> None:
        self._hosts.at_once([(site, {"do": "deactivate"}) for site in self._with_sources(self._plan)])

    def drop(self) -> list[str]:
        """Remove the query and everything it runs on. Never fails for want of an answer; safe to call twice.

        Gives the nodes that run on: threads in which a function does not return.
        """
        with self._lock:
            if self.state == "dropped":
                return []
            self._require("drop")
            self._set("dropped")
        left = self._release_hosts()
        self._grid.forget(self.id)
        return left

    def run(self, count: int | None = None, time_s: float | None = None) -> ContinuousQuery:
        """Compile and install if that has not been done, and activate. Returns at once."""
        self._await_last_reports()
        self._require("run")
        if self.state != "installed":
            self.install()
        self.activate(count, time_s)
        return self

    def _await_last_reports(self) -> None:
        """Whoever has read all results of a run may be ahead of what its sites report."""
        if self._read_to_end:
            self.wait(self._grid.settings.drop_timeout_s)

    def stop(self, timeout_s: float = 60.0) -> ContinuousQuery:
        """Deactivate and wait until everything has flowed out."""
        self.deactivate()
        return self.wait(timeout_s)

    def wait(self, timeout_s: float | None = None) -> ContinuousQuery:
        """Wait until the run is over; raises what made it fail."""
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        with self._changed:
            while self.state in ("active", "stopping"):
                rest_s = None if deadline_s is None else deadline_s - time.monotonic()
                if rest_s is not None and rest_s <= 0:
                    raise QueryError(f"query {self.id!r} is still {self.state} after {timeout_s:g} s")
                self._changed.wait(0.5 if rest_s is None else min(rest_s, 0.5))
        if self.error is not None:
            raise self.error
        return self

    # -- results ------------------------------------------------------------------------------------------------------

    def blocks(self, stream: str | None = None) -> Iterator[PhysicalWindow]:
        """Physical windows of a result kept for iteration, as they come, until the run is over."""
        sink = self._sink(stream)
        while True:
            try:
                block = sink.take(0.1)
            except queue.Empty:
                if self.error is not None:
                    raise self.error from None
                if self.state in ("dropped", "compiled", "specified"):
                    return
                continue
            if block is None:
                self._read_to_end = True
                return
            yield block

    def results(self, stream: str | None = None) -> Iterator[LogicalWindow]:
        """Logical windows of a result kept for iteration, as they come, until the run is over."""
        for block in self.blocks(stream):
            yield from block

    __iter__ = results

    # -- looking at it --------------------

    def statistics(self) -> dict[str, dict[str, Any]]:
        """The latest statistics of each site."""
        with self._lock:
            told = {node.partition("/")[2]: dict(figures) for node, figures in self._statistics.items()}
        shared = self._readings.told()
        for site, figures in told.items():
            streams = {name: {**one, **shared.get(name, {})} for name, one in figures["streams"].items()}
            told[site] = {**figures, "streams": streams}
        return told

    def refresh(self) -> dict[str, dict[str, Any]]:
        """Ask all working nodes for their statistics now."""
        sites = self._plan.sites
        for site, figures in zip(sites, self._hosts.at_once([(s, {"do": "statistics"}) for s in sites]), strict=True):
            self._count_on(self.node(site), figures)
        return self.statistics()

    def totals(self) -> dict[str, Any]:
        """Windows ``read`` from and ``delivered`` to each stream, and ``dropped`` by operators: in all runs so far.

        The figures of sites begin anew when the query is rescaled; these go on.
        """
        with self._lock:
            return self._totals.document(self.plan.streams if self.plan else (), self.statistics())

    def go_on_counting(self, before: ContinuousQuery) -> None:
        """Count on from what a query has counted that this one takes the place of, and that has ended."""
        with before._lock, self._lock:
            for figures in before._statistics.values():
                before._totals.add(before._totals.end_interfaces(figures))
            before._statistics = {}
            self._totals = before._totals

    def _count_on(self, node: str, figures: dict[str, Any] | None) -> None:
        """The latest statistics of a node, None if it has gone; what it counted before it began anew is kept."""
        with self._lock:
            before = self._statistics.pop(node, None)
            if before is not None and (figures is None or figures["since_s"] != before["since_s"]):
                self._totals.add(before)
            if figures is not None:
                self._statistics[node] = figures

    def positions(self) -> dict[str, int]:
        """How many windows of each input stream have been read, as far as sites have reported; in the plan's order."""
        streams = {name: one for site in self.statistics().values() for name, one in site["streams"].items()}
        sources = [stream.name for stream in self._plan.streams if stream.kind == "source"]
        places = self._hosts.positions | {name: streams[name]["position"] for name in sources if name in streams}
        return {name: places[name] for name in dict.fromkeys((*sources, *places)) if name in places}

    @property
    def demands(self) -> Demands:
        """What the hosts of its sites must have."""
        return self._options.demands

    @property
    def waiting(self) -> str | None:
        """Why the query waits for hosts; None when it does not."""
        return self._hosts.waiting or self._grid.parts.waiting(self._readings)

    @property
    def running(self) -> bool:
        """Whether a run has begun and is not over."""
        return self.state in ("active", "stopping")

    def node(self, site: PlanSite | str) -> str:
        """Name of the working node of a site."""
        return self._hosts.node(site)

    def __repr__(self) -> str:
        reason = f": {self.error}" if self.error else ""
        return f"<query {self.id!r}, {self.state}{reason}>"

    def _repr_markdown_(self) -> str:
        """In notebooks: state, figures and the graph."""
        rows = "".join(
            f"| {site} | {told['utilization']:.0%} | {sum(o['windows_out'] for o in told['operators'].values())} |\n"
            for site, told in sorted(self.statistics().items())
        )
        table = f"\n| site | utilization | windows out |\n|---|---|---|\n{rows}" if rows else ""
        return f"**{self.id}** — {self.state}\n{table}\n```mermaid\n{self.flow.to_mermaid()}\n```"

    # -- events from working nodes --------------------

    def on_event(self, event: Event) -> None:
        """An event of one of the query's nodes. Called in the control server's thread; must not block."""
        kind, node = event["event"], event["node"]
        with self._changed:
            if "statistics" in event:
                self._count_on(node, event["statistics"])
            if kind == "register" and node in self._installed:
                self._spawn(self._recover, node)
            if kind == "finished":
                self._finished[node] = event["final"]
                if len(self._finished) == len(self._plan.sites) and self.state in ("active", "stopping"):
                    if self._held is not None and not all(self._finished.values()):
                        self._held.set()
                    else:
                        self.run_seconds = time.monotonic() - self._started_s
                        taps = self._readings.taps()
                        self._set("installed")
                        if taps:
                            self._spawn(self._readings.detach, taps)
        if kind == "failed":
            self._spawn(self._fail, unpack_error(event["error"]))

    def part_failed(self, error: GsdmError | None) -> None:
        """Something that it shares with others has failed, and so has it."""
        self._fail(error or NodeLost(self.id, "a part that it shares was lost"))

    def shared(self) -> dict[str, dict[str, Any]]:
        """By input stream that is read through a shared part: the part, and the other queries that read it now."""
        return self._readings.told()

    def begun_at(self) -> dict[str, int]:
        """Where this run began to read streams that it joined and that can be read again."""
        return dict(self._readings.begun_at)

    def replayable(self) -> dict[str, bool]:
        """Which input streams can be read again from any place, by name."""
        return replayable_inputs(self._plan, self._readings.can_be_read_again)

    def check_hosts(self) -> None:
        """Start lost working nodes anew where that can be done, else fail. Called regularly by the grid."""
        if self.state not in ("active", "stopping", "installed"):
            return
        for node, reason in self._hosts.lost().items():
            obstacle = self._obstacle_to_recovery(node)
            if obstacle is None and self._hosts.restart(node):
                continue
            self._fail(NodeLost(node, f"{reason}{f' ({obstacle})' if obstacle else ''}"))
            return

    def _obstacle_to_recovery(self, node: str) -> str | None:
        """Why a working node cannot be started anew without loss; None if it can. Counts the attempt."""
        site = self._plan.site(node.partition("/")[2])
        obstacle = recovery_obstacle(self._plan, site)
        if obstacle is None and self._inherited & {operator.id for operator in site.operators}:
            obstacle = "what it was given when the query was rescaled is not kept elsewhere"
        self.restarts[site.id] = self.restarts.get(site.id, 0) + 1
        if obstacle is None and self.restarts[site.id] > self._grid.settings.restarts:
            return f"it died {self.restarts[site.id]} times"
        return obstacle

    def _recover(self, node: str) -> None:
        """A working node has registered anew: install the plan on it, and have its producers send again."""
        site = self._plan.site(node.partition("/")[2])
        if self._plan.site(site.id).host == "spark":  # Spark starts tasks anew by itself
            obstacle = self._obstacle_to_recovery(node)
            if obstacle is not None:
                self._fail(NodeLost(node, f"its Spark task died ({obstacle})"))
                return
        control = self._grid.control
        try:
            with self._recovery:
                endpoint = control.registration(node).endpoint
                control.call(node, {"do": "batch", "commands": self._hosts.commands(self._plan, site)})
                if self.state in ("active", "stopping"):
                    control.call(node, {"do": "activate"})
                self._redirect_producers(site, endpoint)
        except NodeLost:
            return  # it died again: its next registration starts another recovery
        except GsdmError as error:
            self._fail(error)

    def _redirect_producers(self, site: PlanSite, endpoint: str) -> None:
        """Have all that send to a site send to this endpoint, from what it has not acknowledged on.

        One that has died too is told by its own recovery, which comes after this one; others do not wait for it.
        """
        control, calls = self._grid.control, []
        for stream in self._plan.streams_of(site.id):
            if stream.kind == "channel" and stream.to_site == site.id and stream.from_site is not None:
                producer = self.node(stream.from_site)
                with contextlib.suppress(NodeLost):
                    command = {"do": "redirect", "stream": stream.name, "endpoint": endpoint}
                    calls.append(control.send(producer, command))
        for call in calls:
            with contextlib.suppress(NodeLost):
                control.result(call)

    # -- inside --------------------

    @property
    def _plan(self) -> Plan:
        if self.plan is None:
            raise QueryError(f"query {self.id!r} has not been compiled")
        return self.plan

    def _require(self, action: Action) -> None:
        if self._installing and action != "drop":
            raise InvalidTransition(self.id, action, "being installed", ["drop"])
        lifecycle.check(self.id, self.state, action)

    def _set(self, state: State) -> None:
        self.state, self.since_s = state, time.time()
        self._changed.notify_all()
        self._grid.on_change(self)

    def _registered(self, name: str) -> RegisteredStream:
        return next(stream for stream in (*self.inputs, *self.outputs) if stream.name == name)

    def _sink(self, name: str | None) -> MemorySink:
        kept = [s.name for s in self.outputs if s.interface == "result"]
        if not kept:
            raise QueryError(f"query {self.id!r} keeps no result for iteration: its result streams go elsewhere")
        sink = self._hosts.live.get(name or kept[0])
        if not isinstance(sink, MemorySink):
            raise QueryError(
                f"query {self.id!r}: run it before reading results"
                if not self._hosts.live
                else f"query {self.id!r} keeps no result named {name!r}; kept: {', '.join(kept)}"
            )
        return sink

    def _raise_if_ended(self) -> None:
        """For a step that takes a while: what it works on may have been taken away by another."""
        if self.state == "dropped":
            raise QueryError(f"query {self.id!r} was dropped while its working nodes were being installed")
        if self.state == "failed" and self.error is not None:
            raise self.error

    def _spawn(self, work: Callable[..., None], *args: Any) -> None:
        """Do something that may block, away from the thread that delivers events."""
        threading.Thread(target=work, args=args, name=f"{self.id}-{work.__name__}", daemon=True).start()

    def _fail(self, error: GsdmError) -> None:
        with self._hosts.ending:  # whoever sees that it has failed may install it again at once
            with self._changed:
                if not (self._installing or self.state in ("installed", "active", "stopping")):
                    return  # what it ran on has been taken away already
                if self.state in ("failed", "dropped"):
                    return
                self.error = error
                self._set("failed")
            self._release_hosts()

    def _release_hosts(self) -> list[str]:
        """Drop all working nodes and end their hosts, and let go of what is shared with others; gives what runs on."""
        self._readings.release()
        with self._lock:
            self._installed = set()
        return self._hosts.release_all()
