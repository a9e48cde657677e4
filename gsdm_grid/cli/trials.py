"""Commands about trial runs: what a plan costs, site by site."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gsdm_grid.cli import tables
from gsdm_grid.cli.commands import (
    OF_COORDINATOR,
    AsJson,
    Secret,
    ServerUrl,
    app,
    connect,
    console,
    print_json,
    print_list,
)

if TYPE_CHECKING:
    from gsdm_grid.client import Trial

trials = typer.Typer(no_args_is_help=True, help="Run a query over some windows and see what each site spends.")
app.add_typer(trials, name="trial", rich_help_panel=OF_COORDINATOR)
TrialId = Annotated[str, typer.Argument(metavar="ID", help="Id of the trial, as `gsdm trial ls` shows it.")]


@trials.command("run")
def run_trial(
    spec: Annotated[Path, typer.Argument(help="The query's specification, a file in YAML or JSON.")],
    count: Annotated[int, typer.Option(min=1, help="Windows of each input stream.")] = 1000,
    name: Annotated[str | None, typer.Option(help="Keep it under this query's name.")] = None,
    timeout_s: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to wait for it.")] = 600.0,
    server: ServerUrl = None,
    token: Secret = None,
    as_json: AsJson = False,
) -> None:
    """Run a specification over some windows, and show what each site spent. Its results are written nowhere.

    Trials run one at a time. What they measured stays with the coordinator until it is removed.
    """
    with connect(server, token) as client:
        begun = client.submit_trial(spec, count, name, wait=False)
        if as_json:
            print_json(client.wait_for_trial(begun, timeout_s).document)
            return
        with console(error=True).status(f"trial of {begun.query}, {count:,} windows …"):
            done = client.wait_for_trial(begun, timeout_s)
    _show(done)


@trials.command("ls")
def list_trials(
    query: Annotated[str | None, typer.Option(help="Only of this query.")] = None,
    last: Annotated[int, typer.Option(min=1, help="So many, the newest first.")] = 20,
    server: ServerUrl = None,
    token: Secret = None,
    as_json: AsJson = False,
) -> None:
    """List the trials with what they cost, the newest first."""
    with connect(server, token) as client:
        listed = list(islice(client.trials(query), last))
    nothing = "there are no trials" + (" of that query" if query else ": gsdm trial run SPEC makes one")
    print_list(listed, as_json, partial(tables.trials_table, now=datetime.now(UTC)), nothing)


@trials.command("show")
def show_trial(trial: TrialId, server: ServerUrl = None, token: Secret = None, as_json: AsJson = False) -> None:
    """Show what each site of a trial spent."""
    with connect(server, token) as client:
        shown = client.trial(trial)
    if as_json:
        print_json(shown.document)
    else:
        _show(shown)


@trials.command("rm")
def remove_trial(trial: TrialId, server: ServerUrl = None, token: Secret = None, as_json: AsJson = False) -> None:
    """Cancel a trial if it runs, and forget it."""
    with connect(server, token) as client:
        gone = client.trial(trial)
        client.remove_trial(trial)
    if as_json:
        print_json(gone.document)
    else:
        typer.echo(f"trial {trial} is gone")


def _show(trial: Trial) -> None:
    out = console()
    out.print(tables.trial_title(trial, datetime.now(UTC)), soft_wrap=True)
    if trial.error:
        out.print(f"{trial.error.kind}: {trial.error}", style="red")
    if trial.result is None:
        return
    if trial.result.short:
        out.print(trial.result.short, style="yellow")
    out.print(tables.costs_table(trial.result))
    out.print(tables.costs(trial.result), soft_wrap=True)
