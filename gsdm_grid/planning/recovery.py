"""Which sites can be started anew in the middle of a run without losing, doubling or reordering a window.

Producers keep what was not acknowledged and send it again, and consumers know by ordinals what they have seen. That is
enough for sites whose results depend only on what is sent again. It is not for sites that number windows themselves,
or whose functions keep state: those need snapshots, which the engine does not take yet.
"""

from __future__ import annotations

from gsdm_grid.functions import resolve
from gsdm_grid.planning.plan import Plan, PlanSite


def recovery_obstacle(plan: Plan, site: PlanSite) -> str | None:
    """Why a site cannot be started anew without loss; None if it can."""
    for stream in plan.streams_of(site.id):
        if stream.kind == "source":
            return f"it reads source {stream.name!r}, whose place is not kept elsewhere"
        if stream.kind == "sink" and stream.interface != "null":
            return f"it writes result stream {stream.name!r}, whose place is not kept elsewhere"
    for operator in site.operators:
        function = resolve(operator.function)
        if operator.renumber:
            return f"{operator.id!r} numbers its results"
        if function.init is not None:
            return f"{function.name!r} keeps state"
        if function.builtin in ("overlap_part", "time_overlap_part"):
            return f"{operator.id!r} counts windows"
    return None
