"""What all commands share: the application, how errors are shown, options of commands that ask a coordinator."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar

import typer
from typer.core import TyperGroup

from gsdm_grid.errors import GsdmError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from gsdm_grid.client import Client

ROOT = Path(__file__).resolve().parents[2]
INTERRUPTED = 130
COMMANDS = {
    "compile": "run",
    "install": "run",
    "activate": "run",
    "deactivate": "stop",
    "uninstall": "stop",
    "rescale": "scale",
    "delete": "rm",
    "drop": "rm",
}
"""Commands for actions of the REST face, and steps of the life cycle, that have another name on the command line."""
PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


class HasDocument(Protocol):
    """What a coordinator lists, with the document that it said it by."""

    @property
    def document(self) -> Mapping[str, Any]:
        """As it came."""


T = TypeVar("T", bound=HasDocument)


class GsdmCommands(TyperGroup):
    """All commands, with the way in which their errors are shown."""

    def list_commands(self, ctx: Any) -> list[str]:
        """In the order of the help: `serve` stands before `submit`, as it is used."""
        names = [name for name in super().list_commands(ctx) if name != "serve"]
        names.insert(names.index("submit"), "serve")
        return names

    def invoke(self, ctx: Any) -> Any:
        """Run the command; see the package."""
        try:
            return super().invoke(ctx)
        except GsdmError as error:
            if ctx.params.get("debug"):
                raise
            message = " ".join(f"error: {in_commands(error)}".split())
            typer.secho("\n".join((message, *getattr(error, "__notes__", ()))), fg="red", err=True)
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            if ctx.params.get("debug"):
                raise
            typer.secho("interrupted", fg="red", err=True)
            raise typer.Exit(INTERRUPTED) from None


def in_commands(error: GsdmError) -> str:
    """The text of an error; a refusal by the state of a query names commands, where REST has names of its own."""
    from gsdm_grid.client import ApiProblem

    if not (isinstance(error, ApiProblem) and error.kind == "invalid-transition" and "query" in error.extras):
        return str(error)
    asked, possible = error.extras["action"], error.extras["allowed"]
    commands = dict.fromkeys(COMMANDS.get(action, action) for action in possible)
    return (
        f"query {error.extras['query']!r} is {error.extras['state']}: cannot {COMMANDS.get(asked, asked)}; "
        f"allowed now: {', '.join(commands) or 'nothing'}"
    )


app = typer.Typer(
    name="gsdm",
    cls=GsdmCommands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="GSDM-grid: continuous queries over high-volume numerical streams, on Ray and Spark.",
)


def known_queries() -> list[str]:
    """Names of queries, for shell completion; none if nobody answers at once."""
    from gsdm_grid.client import Client, RetryPolicy

    try:
        with Client(retries=RetryPolicy(attempts=1)) as client:
            return [query.name for query in client.queries()]
    except GsdmError:
        return []


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ServerUrl = Annotated[
    str | None,
    typer.Option("--server", envvar="GSDM_SERVER", help="The coordinator's address; else the one on this machine."),
]
Secret = Annotated[
    str | None,
    typer.Option("--token", envvar="GSDM_TOKEN", help="Token to show there; else the one on this machine."),
]
QueryName = Annotated[str, typer.Argument(help="Name of the query.", autocompletion=known_queries)]
HERE, OF_COORDINATOR = "On this machine", "Of a coordinator"


@app.callback()
def options(
    debug: Annotated[
        bool, typer.Option("--debug", envvar="GSDM_DEBUG", help="Show the traceback of an error.")
    ] = False,
) -> None:
    """Options of all commands; `GsdmCommands` reads them."""


def connect(server: str | None, token: str | None) -> Client:
    """A client of the coordinator that is asked."""
    from gsdm_grid.client import Client

    return Client(server, token)


def print_json(document: Any) -> None:
    """Print one JSON document."""
    typer.echo(json.dumps(document, indent=2))


def print_list(
    things: Sequence[T], as_json: bool, table: Callable[[Sequence[T]], RenderableType], nothing: str
) -> None:
    """Print what a coordinator listed: as JSON, or as a table; if it listed nothing, say so."""
    if as_json:
        print_documents(thing.document for thing in things)
    elif things:
        console().print(table(things))
    else:
        typer.echo(nothing)


def print_documents(documents: Iterable[Mapping[str, Any]]) -> None:
    """Print a list of documents as one JSON document."""
    print_json([dict(one) for one in documents])


@contextmanager
def until_interrupted(endless: bool) -> Iterator[None]:
    """For what goes on until somebody has seen enough: Ctrl-C is then no error."""
    try:
        yield
    except KeyboardInterrupt:
        if not endless:
            raise
        typer.echo(err=True)  # the terminal has shown ^C


def console(error: bool = False) -> Console:
    """Where tables and live views go."""
    from rich.console import Console

    return Console(stderr=error, highlight=False, markup=False)


def end_on_signals() -> None:
    """A lost terminal or a polite kill ends the command as Ctrl-C does: everything it started is stopped."""

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
