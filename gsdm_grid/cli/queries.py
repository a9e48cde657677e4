"""Commands about the queries of a coordinator: submit, look at, run, stop, remove."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gsdm_grid.cli import tables
from gsdm_grid.cli.commands import (
    COMMANDS,
    OF_COORDINATOR,
    AsJson,
    QueryName,
    Secret,
    ServerUrl,
    app,
    connect,
    console,
    print_documents,
    print_json,
    print_list,
)

if TYPE_CHECKING:
    from gsdm_grid.client import Client, Operation

StopAfter = Annotated[int | None, typer.Option(min=1, help="Stop after so many windows of each input stream.")]
Seconds = Annotated[float | None, typer.Option("--time", min=0.001, help="Stop after so many seconds.")]
Patience = Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to wait for it.")]
ACTIONS = {
    "run": "is running",
    "deactivate": "has stopped; `gsdm run {name}` lets it go on",
    "delete": "is gone",
    "scale": "has been rescaled",
}


@app.command(rich_help_panel=OF_COORDINATOR)
def submit(
    spec: Annotated[Path, typer.Argument(help="The query's specification, a file in YAML or JSON.")],
    name: Annotated[str | None, typer.Option(help="Store it under this name.")] = None,
    run: Annotated[bool, typer.Option("--run/--no-run", help="Whether to run it at once.")] = True,
    count: StopAfter = None,
    time_s: Seconds = None,
    timeout_s: Patience = 180.0,
    server: ServerUrl = None,
    token: Secret = None,
    as_json: AsJson = False,
) -> None:
    """Check a query's specification, store it as a query, and run it."""
    with connect(server, token) as client:
        query = client.submit(spec, name)
        if run:
            if not as_json:
                typer.echo(f"query {query.name} is stored")
            _carry_out(client, client.run(query.name, count, time_s, wait=False), timeout_s, quiet=as_json)
            query = client.query(query.name)
    if as_json:
        print_json(query.document)
    elif run:
        typer.echo(f"read its results: gsdm results {query.name} --follow")
    else:
        typer.echo(f"query {query.name} is stored; run it: gsdm run {query.name}")


@app.command(name="ls", rich_help_panel=OF_COORDINATOR)
def list_queries(
    state: Annotated[str | None, typer.Option(help="Only queries in this state.")] = None,
    name: Annotated[str | None, typer.Option(help="Only queries whose names begin so.")] = None,
    server: ServerUrl = None,
    token: Secret = None,
    as_json: AsJson = False,
) -> None:
    """List the queries with their states."""
    with connect(server, token) as client:
        listed = list(client.queries(state, name))
    nothing = "there are no queries" + (" like that" if state or name else ": gsdm submit SPEC makes one")
    print_list(listed, as_json, partial(tables.queries_table, now=datetime.now(UTC)), nothing)


@app.command(rich_help_panel=OF_COORDINATOR)
def show(name: QueryName, server: ServerUrl = None, token: Secret = None, as_json: AsJson = False) -> None:
    """Show a query: its state, why it failed, what it has gone through, its specification."""
    import yaml

    with connect(server, token) as client:
        query = client.query(name)
        events = list(client.events(name))
    if as_json:
        print_json({**query.document, "events": [dict(event) for event in events]})
        return
    now = datetime.now(UTC)
    out = console()
    out.print(tables.title(query, now))
    if query.error:
        out.print(f"{query.error.kind}: {tables.failed(query, now)}", style="red")
        for note in getattr(query.error, "__notes__", ()):
            out.print(note, style="red", soft_wrap=True)
    for event in events[:10]:
        reached = datetime.fromtimestamp(event["at"], UTC)
        detail = f"  {event['detail']}" if event.get("detail") else ""
        out.print(f"  {tables.ago(reached, now):>12}  {event['state']}{detail}")
    for stream, read in query.document.get("shared", {}).items():
        out.print(f"  input {stream} is {tables.sharing(read)}")
    out.print(yaml.safe_dump(dict(query.specification), sort_keys=False, allow_unicode=True).rstrip(), soft_wrap=True)


@app.command(rich_help_panel=OF_COORDINATOR)
def run(
    name: QueryName,
    count: StopAfter = None,
    time_s: Seconds = None,
    timeout_s: Patience = 180.0,
    server: ServerUrl = None,
    token: Secret = None,
    as_json: AsJson = False,
) -> None:
    """Run a query, or let it go on: compile, install and activate it, as far as that has not been done."""
    with connect(server, token) as client:
        _end(client, client.run(name, count, time_s, wait=False), timeout_s, as_json)


@app.command(rich_help_panel=OF_COORDINATOR)
def stop(
    name: QueryName,
    immediate: Annotated[bool, typer.Option("--immediate", help="Give up what is under way.")] = False,
    timeout_s: Patience = 120.0,
    server: ServerUrl = None,
    token: Secret = None,
    as_json: AsJson = False,
) -> None:
    """Stop a query so that it can go on later; what was read flows out first."""
    with connect(server, token) as client:
        _end(client, client.deactivate(name, immediate=immediate, wait=False), timeout_s, as_json)


@app.command(rich_help_panel=OF_COORDINATOR)
def scale(
    name: QueryName,
    degree: Annotated[int, typer.Argument(min=1, help="Compute sites from now on.")],
    timeout_s: Patience = 180.0,
    server: ServerUrl = None,
    token: Secret = None,
    as_json: AsJson = False,
) -> None:
    """Change a query's degree of parallelism, also while it runs: no window is lost, doubled or reordered.

    More compute sites than there are CPUs are warned of, and made: scaling back loses nothing either.
    """
    with connect(server, token) as client:
        if (cpus := tables.cpus(client.resources())) is not None and degree > cpus:
            typer.echo(
                f"warning: {degree} compute sites are more than the {cpus} CPUs here: they share them, which makes a "
                f"query slower rather than faster (gsdm scale {name} {cpus} takes it back)",
                err=True,
            )
        done = _carry_out(client, client.scale(name, degree, wait=False), timeout_s, quiet=as_json)
    if as_json:
        print_json(done.document)
    elif stall_s := (done.document.get("result") or {}).get("stall_s"):
        typer.echo(f"its stream stood still for {stall_s:.2f} s")


@app.command(name="rm", rich_help_panel=OF_COORDINATOR)
def remove(
    name: QueryName,
    timeout_s: Patience = 120.0,
    server: ServerUrl = None,
    token: Secret = None,
    as_json: AsJson = False,
) -> None:
    """Remove a query with everything it runs on and everything kept of its results."""
    with connect(server, token) as client:
        _end(client, client.drop(name, wait=False), timeout_s, as_json)


@app.command(rich_help_panel=OF_COORDINATOR)
def operations(
    query: Annotated[str | None, typer.Option(help="Only of this query.")] = None,
    status: Annotated[str | None, typer.Option(help="Only with this status.")] = None,
    last: Annotated[int, typer.Option(min=1, help="So many, the newest first.")] = 20,
    server: ServerUrl = None,
    token: Secret = None,
    as_json: AsJson = False,
) -> None:
    """List what was asked of the coordinator and what became of it."""
    from itertools import islice

    with connect(server, token) as client:
        listed = list(islice(client.operations(query, status), last))
    nothing = "there are no operations"
    print_list(listed, as_json, partial(tables.operations_table, now=datetime.now(UTC)), nothing)


@app.command(rich_help_panel=OF_COORDINATOR)
def sites(
    query: Annotated[str | None, typer.Option(help="Only of this query.")] = None,
    server: ServerUrl = None,
    token: Secret = None,
    as_json: AsJson = False,
) -> None:
    """Show which queries run where, the busiest sites first."""
    with connect(server, token) as client:
        listed = list(client.sites(query, "utilization"))
    if as_json:
        print_documents(listed)
    else:
        console().print(tables.sites_table(listed) if listed else "no query is at work")


@app.command(rich_help_panel=OF_COORDINATOR)
def resources(server: ServerUrl = None, token: Secret = None, as_json: AsJson = False) -> None:
    """Show what each kind of host has and uses, and what queries hold of it or wait for."""
    with connect(server, token) as client:
        kinds = client.resources()
    if as_json:
        print_json(kinds)
    else:
        console().print(tables.resources_table(kinds))
        if (leases := tables.leases_table(kinds)) is not None:
            console().print(leases)


def _end(client: Client, operation: Operation, timeout_s: float, as_json: bool) -> None:
    done = _carry_out(client, operation, timeout_s, quiet=as_json)
    if as_json:
        print_json(done.document)


def _carry_out(client: Client, operation: Operation, timeout_s: float, quiet: bool) -> Operation:
    """Wait for an operation, showing that it is under way."""
    began_s = time.monotonic()
    if quiet:
        return client.wait(operation, timeout_s)
    with console(error=True).status(f"{COMMANDS.get(operation.action, operation.action)} {operation.query} …"):
        done = client.wait(operation, timeout_s)
    became = ACTIONS.get(done.action, f"{done.action} done").format(name=done.query)
    typer.echo(f"query {done.query} {became} ({time.monotonic() - began_s:.1f} s)")
    if warning := (done.document.get("result") or {}).get("warning"):
        typer.echo(f"warning: {warning}", err=True)
    return done
