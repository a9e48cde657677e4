"""Commands that need no coordinator: the demo, measurements, the tests."""

from __future__ import annotations

import ast
import importlib
import json
import os
import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from gsdm_grid.cli import commands
from gsdm_grid.cli.commands import HERE, PASS_ON, AsJson, app, end_on_signals
from gsdm_grid.errors import QueryError, UnknownName


class Placement(StrEnum):
    """Where the demo runs."""

    grid = "grid"
    threads = "threads"


@app.command(rich_help_panel=HERE)
def demo(
    seconds: Annotated[float, typer.Option(help="How long each of the three runs of a plan is measured.")] = 0.6,
    window: Annotated[int, typer.Option(min=16, help="Samples per window.")] = 4096,
    placement: Annotated[
        Placement, typer.Option(help="On Ray and Spark, or on threads of this process.")
    ] = Placement.grid,
    out: Annotated[Path, typer.Option(help="Folder for pictures and logs.")] = Path("gsdm-out"),
    seed: Annotated[int, typer.Option(min=0, help="Another seed, other carriers.")] = 0,
    headless: Annotated[bool, typer.Option("--headless", help="Plain lines, no live graphics.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The outcome as JSON on the last line.")] = False,
) -> None:
    """Show what parallel plans are for: compare and measure some, let one grow while it runs, draw pictures."""
    from gsdm_grid.apps.demo import (
        DemoOptions,
        LiveView,
        PlainView,
        headline,
        open_picture,
        report_json,
        run_demo,
        show_report,
    )

    end_on_signals()
    # JSON has the standard output to itself; a copy of the error stream, because the demo lends that to Spark
    chosen = DemoOptions(seconds, window, placement.value, out, seed).checked()
    console = _console(sys.stderr.fileno() if as_json else sys.stdout.fileno())
    console.print(headline(chosen))
    live = console.is_terminal and not headless
    with LiveView(console) if live else PlainView(console) as view:
        report = run_demo(chosen, view)
    show_report(report, console)
    if live and not as_json:
        open_picture(report.pictures[0], os.environ)
    if as_json:
        typer.echo(json.dumps(report_json(report)))
    if not report.ok:
        typer.secho(f"error: {'; '.join(report.problems)}", fg="red", err=True)
        raise typer.Exit(1)


@app.command(context_settings=PASS_ON, rich_help_panel=HERE)
def bench(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(help="Which one; none lists them.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run a benchmark, or list those that there are. What follows the name is passed on to it."""
    known = _benchmarks()
    if name is None:
        if as_json:
            typer.echo(json.dumps([{"name": known_name, "doc": doc} for known_name, doc in known.items()]))
        for known_name, doc in known.items() if not as_json else ():
            typer.echo(f"{known_name:<{max(map(len, known))}}  {doc}")
        if not known and not as_json:
            typer.echo("there are no benchmarks yet")
        return
    if name not in known:
        raise UnknownName("benchmark", name, known)
    sys.path.insert(0, str(commands.ROOT / "benchmarks"))
    sys.argv = [f"gsdm bench {name}", *ctx.args, *(["--json"] if as_json else [])]
    code = importlib.import_module(name).main()
    if isinstance(code, int) and code:
        raise typer.Exit(code)


def _benchmarks() -> dict[str, str]:
    """First line of what each benchmark says about itself, by name; found without running them."""
    made = {}
    for path in sorted((_checkout("benchmarks") / "benchmarks").glob("[!_]*.py")):
        tree = ast.parse(path.read_text())
        if any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body):
            made[path.stem] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return made


@app.command(context_settings={**PASS_ON, "help_option_names": []}, rich_help_panel=HERE)
def test(ctx: typer.Context) -> None:
    """Run the tests. What follows is passed on to pytest."""
    root = _checkout("tests")
    done = subprocess.run([sys.executable, "-m", "pytest", *ctx.args], cwd=root, check=False)
    raise typer.Exit(done.returncode)


def _checkout(folder: str) -> Path:
    """The root of the repository, which has the folder."""
    if not (commands.ROOT / "pyproject.toml").is_file() or not (commands.ROOT / folder).is_dir():
        raise QueryError(f"the {folder} are in the source repository, not in the installed package: run it there")
    return commands.ROOT


@app.command(rich_help_panel=HERE)
def tune(as_json: AsJson = False) -> None:
    """Measure which size of physical windows is best on this machine, and remember it."""
    from gsdm_grid.tuning import window_size

    def measure(size: int) -> float:
        found = window_size.measure_channel(size)
        typer.echo(f"{size >> 10:>6} KiB  {found / 1e9:6.2f} GB/s", err=True)
        return found

    choice = window_size.choose(measure)
    path = window_size.remember(choice)
    told = {"block_bytes": choice.block_bytes, "tried": choice.tried, "remembered_in": str(path)}
    typer.echo(json.dumps(told) if as_json else f"chosen: {choice.block_bytes >> 10} KiB, remembered in {path}")


@app.command(rich_help_panel=HERE)
def version(as_json: AsJson = False) -> None:
    """Print the version, and with --json those of what it stands on."""
    from importlib import metadata

    from gsdm_grid import __version__

    if not as_json:
        typer.echo(f"gsdm-grid {__version__}")
        return
    beneath = {name: metadata.version(name) for name in ("ray", "pyspark", "numpy", "pyarrow")}
    typer.echo(json.dumps({"gsdm-grid": __version__, "python": sys.version.split()[0], **beneath}))


def _console(descriptor: int) -> Any:
    """A console on a copy of an open file, so that it stays where it is if the file is redirected."""
    from rich.console import Console

    return Console(file=os.fdopen(os.dup(descriptor), "w", buffering=1), soft_wrap=False)
