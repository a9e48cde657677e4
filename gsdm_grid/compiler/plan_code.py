"""Code that a plan brings along: versions of functions, packages that they need, and where those cannot be. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gsdm_grid.errors import FlowError, QueryError
from gsdm_grid.functions import packages
from gsdm_grid.plan import Plan, PlanSite

_SHARED = ("thread", "local")
"""Hosts in the coordinator's own process, which belongs to all queries."""


def packages_of(site: PlanSite) -> tuple[str, ...]:
    """Digests of the sets of packages that the functions of a site need."""
    named = (one["packages"] for one in _references(site) if "packages" in one)
    return tuple(dict.fromkeys(named))


def pinned_names(plan: Plan) -> dict[str, str]:
    """For each uploaded function of a plan, the name that means the version it was compiled with."""
    sites = [site for one in plan.whole for site in one.sites]
    return {one["name"]: one["pinned"] for site in sites for one in _references(site) if "pinned" in one}


def _references(given: Any) -> Iterator[Mapping[str, str]]:
    """References with code in a site: functions of operators, and functions among their parameters."""
    if isinstance(given, PlanSite):
        for operator in given.operators:
            yield from _references([operator.function, operator.params])
    elif isinstance(given, Mapping):
        if "code" in given and "name" in given:
            yield given
        for value in given.values():
            yield from _references(value)
    elif isinstance(given, list | tuple):
        for value in given:
            yield from _references(value)


def check_packages(plan: Plan) -> None:
    """Complain where functions cannot have their packages.

    A process has one version of a package. Ray's hosts are processes of their own, and so are those of `processes`;
    Spark's tasks of one query may come into the same process one after the other; the coordinator's own threads share
    it with everybody.
    """
    for site in plan.sites:
        needed = packages_of(site)
        if needed and site.host in _SHARED:
            named = ", ".join(f"{name} {version}" for name, version in packages.get(needed[0]).distributions().items())
            raise FlowError(
                site.id,
                f"its functions need packages of their own ({named}), which threads of the coordinator cannot have: "
                "place the query on 'processes', 'grid', 'ray' or 'spark'",
            )
    on_spark = {digest: None for site in plan.sites if site.host == "spark" for digest in packages_of(site)}
    together = {"the query's Spark tasks": on_spark} | {
        f"site {site.id!r}": dict.fromkeys(packages_of(site)) for site in plan.sites if site.host in ("ray", "process")
    }
    for place, digests in together.items():
        try:
            packages.check_together(digests, place)
        except QueryError as error:
            raise FlowError("flow", str(error)) from None
