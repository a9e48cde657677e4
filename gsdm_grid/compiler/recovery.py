"""What can be started anew without losing, doubling or reordering a window: one site of a running plan, or all of it.

Producers keep what was not acknowledged and send it again, and consumers know by ordinals what they have seen. That is
enough for sites whose results depend only on what is sent again. It is not for sites that number windows themselves,
or whose functions keep state: those need snapshots, which the engine does not take yet.

A whole plan is started anew by a coordinator that was itself killed. It goes by what its result streams have kept: the
input is read again from the last window whose result was kept, or from the beginning where results depend on more than
their own window, and what comes out a second time is known by its ordinal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gsdm_grid.plan import Plan, PlanSite


def recovery_obstacle(plan: Plan, site: PlanSite) -> str | None:
    """Why a site cannot be started anew without loss; None if it can."""
    for stream in plan.streams_of(site.id):
        if stream.kind == "source":
            return f"it reads source {stream.name!r}, whose place is not kept elsewhere"
        if stream.kind == "sink" and stream.interface != "null":
            return f"it writes result stream {stream.name!r}, whose place is not kept elsewhere"
    for operator in site.operators:
        function = operator.resolved
        if operator.renumber:
            return f"{operator.id!r} numbers its results"
        if function.init is not None:
            return f"{function.name!r} keeps state"
        if function.traits.overlaps:
            return f"{operator.id!r} counts windows"
        if function.uses_neighbours:
            return f"{operator.id!r} uses neighbouring windows, and its place among them is not kept elsewhere"
        if function.traits.routes_blocks:
            return f"{operator.id!r} goes by physical windows, which may be cut otherwise the next time"
    return None


@dataclass(frozen=True)
class Resumption:
    """Where a plan begins to read its input streams when it is started anew.

    ``exact``: the results that were kept come again with the same ordinals, or not at all, so the rest of the stream
    can be appended to them. Else an input cannot be read again, and windows may be missing in between.
    """

    positions: Mapping[str, int]
    exact: bool


def resumption(
    plan: Plan, replayable: Mapping[str, bool], read: Mapping[str, int], kept: Mapping[str, int | None]
) -> Resumption:
    """Where to go on.

    ``replayable`` says by name which input streams can be read again, ``read`` how far they had been read, ``kept``
    which ordinal the last kept window of each kept result stream has (None if there is none).
    """
    if not all(replayable.values()):
        return Resumption(dict(read), exact=False)
    last = list(kept.values())
    if not last:
        return Resumption(dict(read), exact=True)
    if len(replayable) > 1 or any(ordinal is None for ordinal in last) or not keeps_ordinals(plan):
        return Resumption(dict.fromkeys(replayable, 0), exact=True)
    return Resumption(dict.fromkeys(replayable, min(ordinal for ordinal in last if ordinal is not None)), exact=True)


def keeps_ordinals(plan: Plan) -> bool:
    """Whether each result depends on the input window of the same ordinal alone, in all parts of the plan."""
    operators = [operator for one in plan.whole for site in one.sites for operator in site.operators]
    functions = [operator.resolved for operator in operators]
    windowwise = all(function.init is None and not function.uses_neighbours for function in functions)
    return windowwise and not any(operator.renumber for operator in operators)
