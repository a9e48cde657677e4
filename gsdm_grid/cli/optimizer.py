"""Commands about finding the best plan: record a segment, search, look at what was tried and chosen."""

from __future__ import annotations

import time
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gsdm_grid.cli import plan_tables
from gsdm_grid.cli.commands import (
    OF_COORDINATOR,
    AsJson,
    Secret,
    ServerUrl,
    app,
    connect,
    console,
    known_queries,
    print_json,
    print_list,
)
from gsdm_grid.errors import QueryError

if TYPE_CHECKING:
    from gsdm_grid.client import Client, Optimization

POLL_S = 0.3
searches = typer.Typer(no_args_is_help=True, help="Look at searches for plans.")
app.add_typer(searches, name="optimization", rich_help_panel=OF_COORDINATOR)
segments = typer.Typer(no_args_is_help=True, help="Record parts of streams, for trials to read again and again.")
app.add_typer(segments, name="segment", rich_help_panel=OF_COORDINATOR)
SearchId = Annotated[str, typer.Argument(metavar="ID", help="Id of the search, as `gsdm optimization ls` shows it.")]
SearchOrQuery = Annotated[
    str, typer.Argument(metavar="ID|QUERY", help="Id of the search, or name of a query: the latest search for it.")
]
SegmentId = Annotated[str, typer.Argument(metavar="ID", help="Id of the segment, as `gsdm segment ls` shows it.")]


class Method(StrEnum):
    """How plans are searched."""

    heuristic = "heuristic"
    exhaustive = "exhaustive"


@app.command(rich_help_panel=OF_COORDINATOR)
def optimize(
    what: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="Name of a query, or a specification in a file.", autocompletion=known_queries
        ),
    ],
    count: Annotated[int, typer.Option(min=1, help="Windows of the longest trials.")] = 1000,
    most: Annotated[int | None, typer.Option(min=1, help="Largest degree of parallelism.")] = None,
    segment: Annotated[list[str] | None, typer.Option(help="Recorded segment to read, one for each input.")] = None,
    pool: Annotated[str | None, typer.Option(help="Where trials run: grid, processes, ray, spark or threads.")] = None,
    method: Annotated[Method, typer.Option(help="Search, or try everything.")] = Method.heuristic,
    minimize: Annotated[str | None, typer.Option(help="cost_s, cpu_s_per_window, p99_ms or hosts.")] = None,
    maximize: Annotated[str | None, typer.Option(help="throughput or measured_throughput.")] = None,
    subject_to: Annotated[
        list[str] | None, typer.Option(metavar="FIGURE=BOUND", help="A bound, such as hosts=6; may be repeated.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Show the trials as they run, and what was chosen.")] = False,
    server: ServerUrl = None,
    token: Secret = None,
    as_json: AsJson = False,
) -> None:
    """Find the best parallel plan of a query by trial runs, and give it to the query.

    The plan goes to the query that is named, and to all that leave their plan to the optimizer (`plan: auto`) and
    compute the same from the same streams.
    """
    criteria = _criteria(minimize, maximize, subject_to)
    with connect(server, token) as client:
        spec, publish_to = _specification(client, what)
        search = {"method": method.value, **({"most": most} if most is not None else {})}
        begun = client.optimize(
            spec, segment=segment, count=count, pool=pool, search=search, criteria=criteria, publish_to=publish_to
        )
        if as_json:
            print_json(client.wait_for_optimization(begun).document if watch else begun.document)
            return
        if not watch:
            typer.echo(f"search {begun.id} has begun: gsdm optimization show {begun.id}")
            return
        done = _watched(client, begun)
    _show(done)
    if done.error:
        raise typer.Exit(1)


def _specification(client: Client, what: str) -> tuple[Any, list[str] | None]:
    """What to optimize, and which query it is for."""
    if Path(what).suffix in (".yaml", ".yml", ".json"):
        return Path(what), None
    return client.query(what).specification, [what]


def _criteria(minimize: str | None, maximize: str | None, subject_to: list[str] | None) -> dict[str, Any] | None:
    made: dict[str, Any] = {}
    if minimize is not None:
        made["minimize"] = minimize
    if maximize is not None:
        made["maximize"] = maximize
    for one in subject_to or ():
        name, _, bound = one.partition("=")
        try:
            made.setdefault("subject_to", {})[name] = float(bound)
        except ValueError:
            raise QueryError(f"--subject-to takes FIGURE=BOUND, such as hosts=6; got {one!r}") from None
    return made or None


def _watched(client: Client, begun: Optimization) -> Optimization:
    """Show how the search gets on, until it is over."""
    from rich.live import Live

    out = console()
    with Live(plan_tables.progress(begun), console=out, refresh_per_second=8, transient=True) as live:
        while not begun.over:
            time.sleep(POLL_S)
            begun = client.optimization(begun.id)
            live.update(plan_tables.progress(begun))
    return begun


@searches.command("ls")
def list_searches(
    query: Annotated[str | None, typer.Option(help="Only for this query.")] = None,
    last: Annotated[int, typer.Option(min=1, help="So many, the newest first.")] = 20,
    server: ServerUrl = None,
    token: Secret = None,
    as_json: AsJson = False,
) -> None:
    """List the searches with what they chose, the newest first."""
    with connect(server, token) as client:
        found = list(islice(client.optimizations(query), last))
    nothing = "there are no searches" + (" for that query" if query else ": gsdm optimize NAME makes one")
    print_list(found, as_json, plan_tables.searches_table, nothing)


@searches.command("show")
def show_search(
    search: SearchOrQuery,
    skipped: Annotated[bool, typer.Option("--skipped", help="Also the plans that were not tried, and why.")] = False,
    server: ServerUrl = None,
    token: Secret = None,
    as_json: AsJson = False,
) -> None:
    """Show what was tried, what it cost, and what was chosen."""
    with connect(server, token) as client:
        found = _search(client, search)
    if as_json:
        print_json(found.document)
        return
    _show(found)
    if skipped and found.choice:
        console().print(plan_tables.skipped_table(found.choice))


def _search(client: Client, what: str) -> Optimization:
    """The search of this id, or else the latest one for the query of this name."""
    from gsdm_grid.client import ApiProblem

    try:
        return client.optimization(what)
    except ApiProblem as problem:
        if problem.status != 404:
            raise
    latest = next(iter(client.optimizations(what)), None)
    if latest is None:
        raise QueryError(f"there is no search {what!r}, and none for a query of that name: gsdm optimization ls")
    return client.optimization(latest.id)


@searches.command("report")
def write_report(
    search: SearchOrQuery,
    out: Annotated[Path, typer.Argument(help="File to write: .html or .png.")],
    server: ServerUrl = None,
    token: Secret = None,
) -> None:
    """Write the report of a search to a file."""
    if out.suffix not in (".html", ".png"):
        raise QueryError(f"a report is written to a file ending in .html or .png, got {out.name!r}")
    with connect(server, token) as client:
        found = _search(client, search)
        if out.suffix == ".png":
            content = client.optimization_picture(found.id)
        else:
            content = client.optimization_report(found.id).encode()
    out.write_bytes(content)
    typer.echo(f"written to {out}")


@searches.command("rm")
def remove_search(search: SearchId, server: ServerUrl = None, token: Secret = None, as_json: AsJson = False) -> None:
    """Cancel a search if it is under way, and forget it with its trials."""
    with connect(server, token) as client:
        gone = client.optimization(search)
        client.remove_optimization(search)
    if as_json:
        print_json(gone.document)
    else:
        typer.echo(f"search {search} is gone")


@segments.command("record")
def record(
    source: Annotated[str, typer.Argument(help="Name of a registered source.")],
    windows: Annotated[int, typer.Option(min=1, help="So many windows.")] = 1000,
    name: Annotated[str | None, typer.Option(help="What to call it.")] = None,
    server: ServerUrl = None,
    token: Secret = None,
    as_json: AsJson = False,
) -> None:
    """Record a part of a stream."""
    with connect(server, token) as client, console(error=True).status(f"recording {windows:,} windows of {source} …"):
        made = client.record_segment(source, windows, name)
    if as_json:
        print_json(made.document)
    else:
        typer.echo(f"segment {made.id}: {made.windows:,} windows, {(made.bytes or 0) / 1e6:,.1f} MB")


@segments.command("ls")
def list_segments(server: ServerUrl = None, token: Secret = None, as_json: AsJson = False) -> None:
    """List the recorded segments, the newest first."""
    with connect(server, token) as client:
        found = list(client.segments())
    nothing = "there are no segments: gsdm segment record SOURCE makes one"
    print_list(found, as_json, plan_tables.segments_table, nothing)


@segments.command("rm")
def remove_segment(segment: SegmentId, server: ServerUrl = None, token: Secret = None, as_json: AsJson = False) -> None:
    """Forget a segment and its recording."""
    with connect(server, token) as client:
        gone = client.segment(segment)
        client.remove_segment(segment)
    if as_json:
        print_json(gone.document)
    else:
        typer.echo(f"segment {segment} is gone")


def _show(found: Optimization) -> None:
    out = console()
    if found.choice and found.choice["table"]:
        out.print(plan_tables.plans_table(found.choice))
    out.print(plan_tables.verdict(found), soft_wrap=True)
