"""Leases: what queries hold of a Ray cluster, as placement groups. Three things are kept apart and shown.

*Planned* is what the query's sites need, *requested* the placement groups that were asked of Ray for it, *observed*
where Ray put them. Each group of sites is a bundle, in Ray's word, of a placement group. Bundles that may come and go
have a placement group each; all others of a request share one, so that a request gets all of them or none. Requests are
spread over machines where there are several.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gsdm_grid.errors import ResourceError
from gsdm_grid.hosts.base import HostRequest
from gsdm_grid.hosts.ray_calls import RayCalls
from gsdm_grid.plan import Needs, SiteGroup

LOOK_S = 0.5
CPU = "CPU"
MEMORY = "memory"


@dataclass(frozen=True)
class Machine:
    """What one machine of the cluster has in all. Immutable."""

    resources: Mapping[str, float]
    labels: Mapping[str, str] = field(default_factory=dict)

    def fits(self, needs: Needs) -> bool:
        """Whether a host with these needs could ever be here."""
        enough = all(self.resources.get(name, 0.0) >= amount for name, amount in quantities(needs).items())
        return enough and all(self.labels.get(name) == value for name, value in needs.labels.items())


def quantities(needs: Needs) -> dict[str, float]:
    """Needs in Ray's terms, labels apart."""
    told = {CPU: needs.cpus, MEMORY: needs.memory_mb * 1e6, **needs.resources}
    return {name: amount for name, amount in told.items() if amount > 0}


def described(amounts: Mapping[str, float]) -> str:
    """Amounts as people read them."""
    named = {CPU: "CPUs", MEMORY: "MB of memory"}
    parts = [
        f"{amount / 1e6 if name == MEMORY else amount:g} {named.get(name, name)}"
        for name, amount in sorted(amounts.items())
        if not name.startswith(("node:", "object_store"))
    ]
    return ", ".join(parts) or "nothing"


def obstacle(bundles: Sequence[SiteGroup], machines: Sequence[Machine], most_cpus: float | None = None) -> str | None:
    """Why a cluster of such machines can never host these bundles; None if it may.

    With an autoscaler, which may bring it to ``most_cpus``, machines may come that nobody knows yet.
    """
    total: Counter[str] = Counter()
    for bundle in bundles:
        total.update(quantities(bundle.needs))
    if most_cpus is not None:
        if total[CPU] <= most_cpus:
            return None
        return f"it asks for {total[CPU]:g} CPUs, and there are {most_cpus:g} at most"
    for bundle in bundles:
        if not any(machine.fits(bundle.needs) for machine in machines):
            labels = ", ".join(f"{name}={value}" for name, value in bundle.needs.labels.items())
            asked = described(quantities(bundle.needs)) + (f" on a machine labelled {labels}" if labels else "")
            return f"no machine has {asked} for {' and '.join(bundle.sites)}"
    for name, amount in total.items():
        there = sum(machine.resources.get(name, 0.0) for machine in machines)
        if amount > there:
            return f"it asks for {described({name: amount})} in all, and there are {described({name: there})}"
    return None


@dataclass
class _Reservation:
    """One placement group and the nodes that it is for, by bundle."""

    group: Any
    bundles: list[SiteGroup]
    released: set[str] = field(default_factory=set)

    @property
    def nodes(self) -> list[str]:
        return [node for bundle in self.bundles for node in bundle.sites]


class Lease:
    """What one request of a query holds. Made by `RayLeases`; released when its hosts are no longer needed."""

    def __init__(self, leases: RayLeases, request: HostRequest, bundles: Sequence[SiteGroup]) -> None:
        self.holder = request.query
        self.bundles = list(bundles)
        self.reason: str | None = None
        """Why it still waits; None when it is held."""
        self.got: list[SiteGroup] = []
        """What Ray has granted so far."""
        self.since_s = time.time()
        self._leases = leases
        self._needs = _needs(request)
        self._reservations: list[_Reservation] = []

    def options(self, node: str) -> dict[str, Any]:
        """Ray's options for the actor of a node: in its bundle, with what it needs."""
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        needs = self._needs[node]
        group, index = self._place(node)
        return {
            "num_cpus": needs.cpus,
            "memory": needs.memory_mb * 1e6 or None,
            "resources": dict(needs.resources) or None,
            "scheduling_strategy": PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index),
        }

    def machine(self, node: str) -> str | None:
        """Id of the Ray node that a node's bundle is on, if Ray has placed it."""
        group, index = self._place(node)
        return _placed(group).get(index)

    def plain(self, node: str) -> bool:
        """Whether any host on the right machine will do for a node."""
        needs = self._needs[node]
        return not needs.resources and not needs.memory_mb

    def _place(self, node: str) -> tuple[Any, int]:
        for reservation in self._reservations:
            for index, bundle in enumerate(reservation.bundles):
                if node in bundle.sites:
                    return reservation.group, index
        raise ResourceError(f"query {self.holder!r} holds no host for {node!r}")

    def reserve(self, group: Any, bundles: Sequence[SiteGroup]) -> None:
        """Ray was asked for this."""
        self._reservations.append(_Reservation(group, list(bundles)))

    def release(self, nodes: Sequence[str] | None = None) -> None:
        """Give back what these nodes had (all, if none are named). Safe to call twice."""
        from ray.util import remove_placement_group

        for reservation in list(self._reservations):
            reservation.released |= set(reservation.nodes if nodes is None else nodes) & set(reservation.nodes)
            if len(reservation.released) == len(reservation.nodes):
                self._reservations.remove(reservation)
                with contextlib.suppress(Exception):  # the cluster may be gone
                    remove_placement_group(reservation.group)
        if not self._reservations:
            self._leases.ended(self)

    @property
    def requested(self) -> dict[str, float]:
        """What was asked of Ray and has not been given back."""
        total: Counter[str] = Counter()
        for bundle in self.bundles if self.reason is not None else (b for r in self._reservations for b in r.bundles):
            total.update(quantities(bundle.needs))
        return dict(total)

    def to_json(self) -> dict[str, Any]:
        """The three things, as plain JSON."""
        observed = {}
        for reservation in list(self._reservations):
            placed = _placed(reservation.group)
            for index, bundle in enumerate(reservation.bundles):
                for node in bundle.sites:
                    if node not in reservation.released:
                        observed[node] = (placed.get(index) or "")[:12] or None
        return {
            "query": self.holder,
            "state": "held" if self.reason is None else "waiting",
            "reason": self.reason,
            "since": self.since_s,
            "planned": {node: needs.to_json() for node, needs in self._needs.items()},
            "requested": self.requested,
            "observed": observed,
        }


class RayLeases:
    """The book of all leases on the Ray cluster that this process is connected to. Thread-safe.

    One request waits at a time: two never hold half of what both need. ``most_cpus`` is for a cluster with an
    autoscaler, and says how many it may come to have.
    """

    def __init__(self, most_cpus: float | None, calls: RayCalls) -> None:
        self._most_cpus = most_cpus
        self._calls = calls
        self._leases: list[Lease] = []
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._numbers = itertools.count()

    def acquire(self, request: HostRequest) -> Lease:
        """A lease for a request; waits for what others hold, refuses what there will never be."""
        machines = clusters_machines()
        wanted = _bundles(request, machines)
        why = obstacle(wanted, machines, self._most_cpus)
        if why is not None:
            raise ResourceError(f"query {request.query!r} cannot be placed: {why}; the cluster has {self.there()}")
        lease = Lease(self, request, wanted)
        lease.reason = "it is not its turn yet"
        with self._lock:
            self._leases.append(lease)
        deadline_s = time.monotonic() + request.deadline_s
        try:
            with self._in_turn(lease, request, deadline_s), self._asked_for():
                for together in _gangs(wanted):
                    self._reserve(lease, together, request, deadline_s)
        except BaseException:
            lease.release()
            self.ended(lease)
            raise
        lease.reason = None
        return lease

    @contextlib.contextmanager
    def _in_turn(self, lease: Lease, request: HostRequest, deadline_s: float) -> Iterator[None]:
        while not self._turn.acquire(timeout=LOOK_S):
            lease.reason = self._why(lease)
            request.waiting(lease.reason)
            self._check(lease, request, deadline_s)
        try:
            yield
        finally:
            self._turn.release()

    @contextlib.contextmanager
    def _asked_for(self) -> Iterator[None]:
        """Tell an autoscaler at once what is needed in all; withdrawn in any case: leases speak for themselves."""
        if self._most_cpus is None:
            yield
            return
        from ray.autoscaler.sdk import request_resources

        with self._lock:
            all_of_it = [quantities(bundle.needs) for one in self._leases for bundle in one.bundles]
        request_resources(bundles=all_of_it)
        try:
            yield
        finally:
            request_resources(bundles=[])

    def _reserve(self, lease: Lease, together: Sequence[SiteGroup], request: HostRequest, deadline_s: float) -> None:
        from ray.util import placement_group

        group = placement_group(
            [quantities(bundle.needs) or {CPU: 0.001} for bundle in together],
            strategy="SPREAD",
            name=f"gsdm/{request.query}/{next(self._numbers)}",
            bundle_label_selector=[dict(bundle.needs.labels) for bundle in together],
        )
        lease.reserve(group, together)
        while not group.wait(LOOK_S):
            lease.reason = self._why(lease)
            request.waiting(lease.reason)
            self._check(lease, request, deadline_s)
        lease.got += together

    def _check(self, lease: Lease, request: HostRequest, deadline_s: float) -> None:
        if self._calls.closed:
            raise ResourceError(f"query {request.query!r} gets no hosts: Ray is being shut down")
        if time.monotonic() > deadline_s:
            raise ResourceError(
                f"query {request.query!r} found no hosts within {request.deadline_s:g} s: {lease.reason}"
            )

    def _why(self, lease: Lease) -> str:
        import ray

        with self._lock:
            others = [one for one in self._leases if one is not lease]
        asked: Counter[str] = Counter()
        for bundle in lease.bundles:
            asked.update(quantities(bundle.needs))
        held = [f"{one.holder!r} holds {described(one.requested)}" for one in others if one.reason is None]
        ahead = [f"{one.holder!r} waits too" for one in others if one.reason is not None]
        got: Counter[str] = Counter()
        for bundle in lease.got:
            got.update(quantities(bundle.needs))
        has = f" and has {described(got)} of them" if got else ""
        free = {name: ray.available_resources().get(name, 0.0) for name in asked}
        who = "; ".join([*held, *ahead]) or "others hold them"
        return f"it needs {described(asked)}{has}, free are {described(free)}; {who}"

    def ended(self, lease: Lease) -> None:
        """A lease holds nothing any more."""
        with self._lock:
            if lease in self._leases:
                self._leases.remove(lease)

    def there(self) -> str:
        """What the cluster has, as people read it."""
        import ray

        total, free = ray.cluster_resources(), ray.available_resources()
        count = sum(1 for node in ray.nodes() if node["Alive"])
        machines = "1 machine" if count == 1 else f"{count} machines"
        return f"{machines} with {total.get(CPU, 0.0):g} CPUs, of which {free.get(CPU, 0.0):g} are free"

    def to_json(self) -> list[dict[str, Any]]:
        """All leases, as plain JSON."""
        with self._lock:
            leases = list(self._leases)
        return [lease.to_json() for lease in leases]


def clusters_machines() -> list[Machine]:
    """Machines that the cluster has."""
    import ray

    return [Machine(node["Resources"], node["Labels"]) for node in ray.nodes() if node["Alive"]]


def _needs(request: HostRequest) -> dict[str, Needs]:
    return {bootstrap.node: request.needs.get(bootstrap.node, Needs()) for bootstrap in request.bootstraps}


def _bundles(request: HostRequest, machines: Sequence[Machine]) -> list[SiteGroup]:
    """A bundle for each group of sites; the sites of a group that fits no machine are asked for one by one."""
    needs = _needs(request)
    given = [bundle for bundle in request.groups if set(bundle.sites) <= set(needs)]
    alone = set(needs) - {node for bundle in given for node in bundle.sites}
    made: list[SiteGroup] = []
    for bundle in [*given, *(SiteGroup((node,), needs[node]) for node in needs if node in alone)]:
        fits = any(machine.fits(bundle.needs) for machine in machines)
        made += [bundle] if fits else bundle.single(needs)
    return made


def _gangs(bundles: Sequence[SiteGroup]) -> list[list[SiteGroup]]:
    """What to ask for in one placement group each."""
    together = [bundle for bundle in bundles if not bundle.apart]
    return [*([together] if together else []), *([bundle] for bundle in bundles if bundle.apart)]


def _placed(group: Any) -> dict[int, str]:
    """Ids of the Ray nodes that the bundles of a placement group are on."""
    from ray.util import placement_group_table

    try:
        found = placement_group_table(group).get("bundles_to_node_id", {})
    except Exception:  # it has just been removed
        return {}
    return {int(index): node for index, node in found.items() if node}
