"""What the hosts of a query's sites must have: CPUs, memory, custom resources, labels; and which sites belong together.

A query says it by role or by site (``{"source": {"near": "antenna-3"}, "compute": {"cpus": 2}}``); what it does not say
is one logical CPU anywhere. Pure: acquiring is the business of `gsdm_grid.hosts`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from gsdm_grid.errors import FlowError
from gsdm_grid.flow import SiteRole
from gsdm_grid.plan.plan import Plan, PlanSite

NEAR = "near"
"""Label of the machines that are near something: ``near: antenna-3`` asks for it."""


@dataclass(frozen=True)
class Needs:
    """What the host of one site must have. Immutable; ``cpus`` are logical ones, of which a machine may have many."""

    cpus: float = 1.0
    memory_mb: float = 0.0
    resources: Mapping[str, float] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    pool: str | None = None

    def to_json(self) -> dict[str, Any]:
        """What is asked for, as plain JSON."""
        told = {**vars(self), "resources": dict(self.resources), "labels": dict(self.labels)}
        return {key: value for key, value in told.items() if value}


@dataclass(frozen=True)
class Demands:
    """What a query asks for: its pool, how long it waits, and the needs of its sites by role or site. Immutable."""

    pool: str | None = None
    deadline_s: float | None = None
    sites: Mapping[str, Needs] = field(default_factory=dict)

    def of(self, site: PlanSite) -> Needs:
        """The needs of a site; what is said of the site itself counts more than what is said of its role."""
        needs = self.sites.get(site.id, self.sites.get(site.role, Needs()))
        return needs if needs.pool else replace(needs, pool=self.pool)

    def by_role(self) -> Demands:
        """What is said of no site in particular: it holds for what the query shares with others, too."""
        return replace(self, sites={role: needs for role, needs in self.sites.items() if role in get_args(SiteRole)})

    def to_json(self) -> dict[str, Any]:
        """Pool and needs, as plain JSON."""
        return {"pool": self.pool, "sites": {name: needs.to_json() for name, needs in self.sites.items()}}


@dataclass(frozen=True)
class SiteGroup:
    """Sites that one machine should host, because they exchange most with each other, and what they need together.

    ``apart`` says that the group may be given back while the others stay.
    """

    sites: tuple[str, ...]
    needs: Needs
    apart: bool = False

    def single(self, demands: Mapping[str, Needs]) -> list[SiteGroup]:
        """The same sites one by one, for grids whose machines are too small for them together."""
        return [SiteGroup((site,), demands[site], self.apart) for site in self.sites]


def site_groups(plan: Plan, sites: Sequence[PlanSite], demands: Demands) -> list[SiteGroup]:
    """Which of a plan's sites belong together.

    A relay belongs to the site it serves: everything that one reads the other has read. Compute sites stand alone, so
    that they can come and go; partition and combine sites are to be spread over machines.
    """
    chosen = {site.id: site for site in sites}
    served = _served(plan)
    groups: list[list[PlanSite]] = []
    placed: set[str] = set()
    for site in sites:
        if site.id in placed:
            continue
        group = [site, *(chosen[other] for other in served.get(site.id, ()) if other in chosen and other not in placed)]
        group = [one for one in group if one is site or _compatible(demands.of(site), demands.of(one))]
        placed |= {one.id for one in group}
        groups.append(group)
    return [
        SiteGroup(
            tuple(site.id for site in group),
            _together([demands.of(site) for site in group]),
            all(site.role == "compute" for site in group),
        )
        for group in groups
    ]


def _served(plan: Plan) -> dict[str, list[str]]:
    """For sites and relays, each other: a relay (of a source or sink) whose one neighbour does not compute."""
    roles = {site.id: site.role for site in plan.sites}
    neighbours: dict[str, set[str]] = {}
    for stream in plan.streams:
        if stream.kind == "channel" and stream.from_site is not None and stream.to_site is not None:
            neighbours.setdefault(stream.from_site, set()).add(stream.to_site)
            neighbours.setdefault(stream.to_site, set()).add(stream.from_site)
    found: dict[str, list[str]] = {}
    for relay, others in neighbours.items():
        (other, *more) = others
        if roles[relay] in ("source", "sink") and not more and roles[other] != "compute":
            found.setdefault(relay, []).append(other)
            found.setdefault(other, []).append(relay)
    return found


def _compatible(one: Needs, other: Needs) -> bool:
    shared = set(one.labels) & set(other.labels)
    return one.pool == other.pool and all(one.labels[key] == other.labels[key] for key in shared)


def _together(needs: Sequence[Needs]) -> Needs:
    resources: dict[str, float] = {}
    for one in needs:
        for name, amount in one.resources.items():
            resources[name] = resources.get(name, 0.0) + amount
    return Needs(
        sum(one.cpus for one in needs),
        sum(one.memory_mb for one in needs),
        resources,
        {key: value for one in needs for key, value in one.labels.items()},
        needs[0].pool,
    )


def check_sites(demands: Demands, plan: Plan) -> None:
    """Complain if the demands name a site that the plan does not have."""
    known = [*get_args(SiteRole), *(site.id for site in plan.sites)]
    for name in demands.sites:
        if name not in known:
            raise FlowError("resources.sites", f"there is no site or role {name!r:.80}; there are: {', '.join(known)}")
