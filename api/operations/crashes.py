"""What ended the coordinator: functions in its own threads can do that, and would again after each start. Pure.

A query with functions in threads of the coordinator is watched from the moment it is started until it has run for
`SETTLED_S`. If the coordinator dies meanwhile, that query is suspected:

- one that was only being started, was not active yet, had delivered no window, and was the only one, is not started by
  itself again;
- others are brought back, one after the other, so that the next death has one suspect; one that is suspected for the
  second time in a row is not started by itself again.

A trial is watched while it runs, as a query that runs: one that is suspected for the second time in a row is not run by
itself again. After one death it is: whoever kills a coordinator wants its trials to go on.

Functions on other hosts cannot end the coordinator: their queries and trials are not watched. Who stores the marks is
`api.operations.crash_watch`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gsdm_grid.plan import Plan

SETTLED_S = 10.0
"""A query that has run for so long has not ended the coordinator by being started."""
DEATHS = 2
"""In a row, after which a query is not brought back."""
Phase = Literal["starting", "running", "queued"]


@dataclass(frozen=True)
class Verdict:
    """What to do with the queries and trials that were watched when the coordinator died."""

    blamed: frozenset[str]
    again: Mapping[str, int]
    """To be brought back one after the other, with the deaths that each is suspected of."""


def mark(phase: Phase, deaths: int, kept: Mapping[str, int] | None = None) -> dict[str, Any]:
    """What is stored of a query that is watched; ``kept`` counts the windows that each of its result logs had had when
    its start began.
    """
    return {"phase": phase, "deaths": deaths, "kept": dict(kept or {})}


def with_progress(starting: Mapping[str, Any], state: str, kept: Mapping[str, int]) -> Mapping[str, Any]:
    """The mark of a query, given its state, and how many windows its logs have had by now.

    One that was active, or has delivered windows, was running: that comes a moment before its start is over.

    >>> with_progress(mark("starting", 0, {"out": 512}), "installed", {"out": 513})["phase"]
    'running'
    """
    before = starting.get("kept", {})
    delivered = any(count > before.get(stream, 0) for stream, count in kept.items())
    began = delivered or state in ("active", "stopping")
    return {**starting, "phase": "running"} if began and starting["phase"] == "starting" else starting


def judge(marks: Mapping[str, Mapping[str, Any]]) -> Verdict:
    """Who is not started by itself again, and who is brought back with care.

    >>> judge({"a": mark("starting", 0)}).blamed
    frozenset({'a'})
    >>> judge({"a": mark("running", 0), "b": mark("queued", 1)})
    Verdict(blamed=frozenset(), again={'a': 1, 'b': 1})
    """
    suspects = {name: one for name, one in marks.items() if one["phase"] != "queued"}
    deaths = {name: one["deaths"] + (name in suspects) for name, one in marks.items()}
    alone = len(suspects) == 1
    blamed = {
        name for name, one in suspects.items() if alone and (one["phase"] == "starting" or deaths[name] >= DEATHS)
    }
    return Verdict(frozenset(blamed), {name: count for name, count in deaths.items() if name not in blamed})


def in_threads(plan: Plan) -> bool:
    """Whether functions of a plan, or of parts that it shares, run in threads of the coordinator."""
    return any(site.host == "thread" for one in plan.whole for site in one.sites)


def reason_of_trial(trial: str, query: str) -> str:
    """Why a trial is not run by itself again, and how to try again."""
    return (
        f"crashed while running: the coordinator died twice while trial {trial!r} of {query!r} ran in its own threads. "
        f"It is not run by itself again; mend its functions or choose another placement, then ask for it again"
    )


def reason_of_removal(nodes: Sequence[str]) -> str:
    """What is left of a query whose functions did not return, in threads of the coordinator.

    >>> reason_of_removal(["q/compute.0"])[:90]
    "site compute.0 of query 'q' still runs: its function has not returned, and a thread cannot"
    """
    query = nodes[0].partition("/")[0]
    sites = ", ".join(node.partition("/")[2] for node in nodes)
    subject = f"site {sites} of query {query!r} still runs" if len(nodes) == 1 else f"sites {sites} still run"
    return (
        f"{subject}: its function has not returned, and a thread cannot be ended. It may keep a core until the "
        "coordinator is restarted. Give such a query placement 'processes': those can be ended"
    )


def reason(name: str) -> str:
    """Why a query is not started by itself again, and how to try again."""
    return (
        f"crashed while starting: the coordinator died while query {name!r} was being started in its own threads. "
        f"It is not started by itself again; mend its functions or choose another placement, "
        f"then try again with: gsdm run {name}"
    )
