"""The ``gsdm`` command. Each command imports what it needs when it runs, so that ``--help`` answers at once.

Errors of the product are one red line and exit code 1; ``--debug`` shows where they came from.
"""

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
from typer.core import TyperGroup

from gsdm_grid.errors import FlowError, GsdmError, QueryError, UnknownName

ROOT = Path(__file__).resolve().parents[1]
INTERRUPTED = 130


class GsdmCommands(TyperGroup):
    """All commands, with the way in which their errors are shown."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; see the module."""
        try:
            return super().invoke(ctx)
        except GsdmError as error:
            if ctx.params.get("debug"):
                raise
            message = " ".join(f"error: {error}".split())
            typer.secho(message, fg="red", err=True)
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            if ctx.params.get("debug"):
                raise
            typer.secho("interrupted", fg="red", err=True)
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    name="gsdm",
    cls=GsdmCommands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="GSDM-grid: continuous queries over high-volume numerical streams, on Ray and Spark.",
)
PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class Drawing(StrEnum):
    """Forms in which a data flow is printed."""

    text = "text"
    dot = "dot"
    mermaid = "mermaid"


class Placement(StrEnum):
    """Where the demo runs."""

    grid = "grid"
    threads = "threads"


@app.callback()
def options(
    debug: Annotated[
        bool, typer.Option("--debug", envvar="GSDM_DEBUG", help="Show the traceback of an error.")
    ] = False,
) -> None:
    """Options of all commands; `GsdmCommands` reads them."""


@app.command()
def demo(
    windows: Annotated[int, typer.Option(min=1, help="Windows of each measured run.")] = 1500,
    window: Annotated[int, typer.Option(min=16, help="Samples per window.")] = 4096,
    placement: Annotated[
        Placement, typer.Option(help="On Ray and Spark, or on threads of this process.")
    ] = Placement.grid,
    out: Annotated[Path, typer.Option(help="Folder for pictures and logs.")] = Path("gsdm-out"),
    seed: Annotated[int, typer.Option(min=0, help="Another seed, other carriers.")] = 0,
    headless: Annotated[bool, typer.Option("--headless", help="Plain lines, no live graphics.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The outcome as JSON on the last line.")] = False,
) -> None:
    """Run one radio query as five parallel plans, compare their results, and draw pictures."""
    from gsdm_grid.apps.radio.demo import DemoOptions, run_demo
    from gsdm_grid.apps.radio.demo_view import LiveView, PlainView, headline, show_report

    _end_on_signals()
    # JSON has the standard output to itself; a copy of the error stream, because the demo lends that to Spark
    chosen = DemoOptions(windows, window, placement.value, out, seed).checked()
    console = _console(sys.stderr.fileno() if as_json else sys.stdout.fileno())
    console.print(headline(chosen))
    live = console.is_terminal and not headless
    with LiveView(console) if live else PlainView(console) as view:
        report = run_demo(chosen, view)
    show_report(report, console)
    if as_json:
        typer.echo(json.dumps(report.to_json()))
    if not report.ok:
        wrong = [one.strategy.name for one in report.measured if not one.ok]
        typer.secho(f"error: not equal to the central plan, or not in order: {', '.join(wrong)}", fg="red", err=True)
        raise typer.Exit(1)


@app.command()
def functions(
    name: Annotated[str | None, typer.Argument(help="Only this one, with all it says about itself.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the stream query functions, with signature and valid parallel strategies."""
    from gsdm_grid.functions import functions as registry

    found = [registry.get(known) for known in ([name] if name else registry.names())]
    described = [function.describe() for function in found]
    if as_json:
        typer.echo(json.dumps(described[0] if name else described, indent=2))
    elif name:
        typer.secho(_signature(described[0]), bold=True)
        typer.echo(f"{described[0]['doc']}\n\nkind: {described[0]['kind']}")
        typer.echo(f"parallel strategies: {_strategies(described[0])}")
    else:
        width = max(len(_signature(one)) for one in described)
        for kind in dict.fromkeys(one["kind"] for one in described):
            typer.secho(f"{kind} functions", bold=True)
            for one in (one for one in described if one["kind"] == kind):
                strategies = f"  {_strategies(one)}" if kind == "transforming" else ""
                typer.echo(f"  {_signature(one):<{width}}{strategies}".rstrip())


def _signature(described: dict[str, Any]) -> str:
    given = [p["name"] if p["required"] else f"{p['name']}={p['default']}" for p in described["parameters"]]
    arrow = described["output"] if described["output"] != "derived from the input" else "…"
    several = described["kind"] in ("combining", "combine")
    taken = f"[{described['input']}]" if several else described["input"]
    return f"{described['name']}({', '.join([taken, *given])}) → {arrow}"


def _strategies(described: dict[str, Any]) -> str:
    return ", ".join(strategy["name"].replace("_", " ") for strategy in described["strategies"]) or "none"


@app.command()
def graph(
    spec: Annotated[str, typer.Argument(help="A file, '-' for standard input, or the specification itself.")],
    form: Annotated[Drawing, typer.Option("--format", "-f", help="How to print it.")] = Drawing.text,
    as_json: AsJson = False,
) -> None:
    """Print the data flow that a specification in JSON or YAML describes.

    For example: gsdm graph '{template: PCC, args: [2, RRpart, fft3, {}, S-Merge]}'
    """
    from gsdm_grid.flow import build

    flow = build(_parsed(_text_of(spec)))
    drawings = {Drawing.text: flow.to_text, Drawing.dot: flow.to_dot, Drawing.mermaid: flow.to_mermaid}
    typer.echo(json.dumps(flow.to_json(), indent=2) if as_json else drawings[form]())


def _text_of(spec: str) -> str:
    if spec == "-":
        return sys.stdin.read()
    names_file = spec.endswith((".json", ".yaml", ".yml")) or ("/" in spec and not {"\n", "{"} & set(spec))
    if not names_file:
        return spec
    try:
        return Path(spec).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise QueryError(f"data flow {spec!r} cannot be read: {error}") from error


def _parsed(text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise FlowError("data flow", f"is neither JSON nor YAML: {error}") from error


@app.command(context_settings=PASS_ON)
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
    sys.path.insert(0, str(ROOT / "benchmarks"))
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


@app.command(context_settings={**PASS_ON, "help_option_names": []})
def test(ctx: typer.Context) -> None:
    """Run the tests. What follows is passed on to pytest."""
    root = _checkout("tests")
    done = subprocess.run([sys.executable, "-m", "pytest", *ctx.args], cwd=root, check=False)
    raise typer.Exit(done.returncode)


def _checkout(folder: str) -> Path:
    """The root of the repository, which has the folder."""
    if not (ROOT / "pyproject.toml").is_file() or not (ROOT / folder).is_dir():
        raise QueryError(f"the {folder} are in the source repository, not in the installed package: run it there")
    return ROOT


@app.command()
def tune(as_json: AsJson = False) -> None:
    """Measure which size of physical windows is best on this machine, and remember it."""
    from gsdm_grid.channels import profiling

    def measure(size: int) -> float:
        found = profiling.measure_channel(size)
        typer.echo(f"{size >> 10:>6} KiB  {found / 1e9:6.2f} GB/s", err=True)
        return found

    choice = profiling.choose(measure)
    path = profiling.remember(choice)
    told = {"block_bytes": choice.block_bytes, "tried": choice.tried, "remembered_in": str(path)}
    typer.echo(json.dumps(told) if as_json else f"chosen: {choice.block_bytes >> 10} KiB, remembered in {path}")


@app.command()
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


def _end_on_signals() -> None:
    """A lost terminal or a polite kill ends the command as Ctrl-C does: everything it started is stopped."""
    import signal

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)


def main() -> None:
    """Entry point of the console script."""
    app()


if __name__ == "__main__":
    main()
