"""Commands about functions and data flows; they need no coordinator, but ask one if told to."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from gsdm_grid.cli.commands import HERE, AsJson, Secret, ServerUrl, app, connect, print_json
from gsdm_grid.cli.tables import parameters, signature, strategies
from gsdm_grid.errors import FlowError, QueryError
from gsdm_grid.ids import NAME

if TYPE_CHECKING:
    from gsdm_grid.client import Client
    from gsdm_grid.flow import DataFlow

T = TypeVar("T")
SUFFIXES = (".json", ".yaml", ".yml")


class Drawing(StrEnum):
    """Forms in which a data flow is printed."""

    text = "text"
    dot = "dot"
    mermaid = "mermaid"


@app.command(rich_help_panel=HERE)
def functions(
    name: Annotated[str | None, typer.Argument(help="Only this one, with all it says about itself.")] = None,
    server: Annotated[
        str | None, typer.Option("--server", help="Ask this coordinator, which also knows uploaded functions.")
    ] = None,
    token: Secret = None,
    as_json: AsJson = False,
) -> None:
    """List the stream query functions, with signature and valid parallel strategies.

    An uploaded one, BUNDLE.FUNCTION, is asked for at the coordinator.
    """
    uploaded = name is not None and "." in name
    described = _of_server(server, token, name) if server or uploaded else _built_in(name)
    if as_json:
        print_json(described[0] if name else described)
    elif name:
        typer.secho(signature(described[0]), bold=True)
        typer.echo(f"{described[0]['doc']}\n\nkind: {described[0]['kind']}")
        typer.echo(f"parallel strategies: {strategies(described[0])}")
    else:
        width = max(len(signature(one)) for one in described)
        for kind in dict.fromkeys(one["kind"] for one in described):
            typer.secho(f"{kind} functions", bold=True)
            for one in (one for one in described if one["kind"] == kind):
                valid = f"  {strategies(one)}" if kind == "transforming" else ""
                typer.echo(f"  {signature(one):<{width}}{valid}".rstrip())


def _built_in(name: str | None) -> list[Mapping[str, Any]]:
    from gsdm_grid.functions import functions as registry

    return [registry.get(known).describe() for known in ([name] if name else registry.names())]


def _of_server(server: str | None, token: str | None, name: str | None) -> list[Mapping[str, Any]]:
    with connect(server, token) as client:
        return [client.function(name)] if name else list(client.functions())


@app.command(rich_help_panel=HERE)
def templates(
    name: Annotated[str | None, typer.Argument(help="Only this one, with all it says about itself.")] = None,
    server: Annotated[
        str | None, typer.Option("--server", help="Ask this coordinator, which also knows uploaded templates.")
    ] = None,
    token: Secret = None,
    as_json: AsJson = False,
) -> None:
    """List the templates: constructors of data flows, that a query's flow may name.

    An uploaded one, BUNDLE.TEMPLATE, is asked for at the coordinator.
    """
    described = _templates(server, token, name)
    if as_json:
        print_json(described[0] if name else described)
        return
    for one in described:
        typer.echo(f"{one['name']}({parameters(one)})")
    if name:
        typer.echo(f"\n{described[0]['doc']}")


def _templates(server: str | None, token: str | None, name: str | None) -> list[Mapping[str, Any]]:
    if server or (name is not None and "." in name):
        with connect(server, token) as client:
            return [client.template(name)] if name else list(client.templates())
    from gsdm_grid.flow import TEMPLATES

    return [TEMPLATES[one].describe() for one in ([name] if name else TEMPLATES.names())]


@app.command(rich_help_panel=HERE)
def graph(
    spec: Annotated[
        str, typer.Argument(help="A query's name, a file, '-' for standard input, or the specification itself.")
    ],
    form: Annotated[Drawing, typer.Option("--format", "-f", help="How to print it.")] = Drawing.text,
    server: ServerUrl = None,
    token: Secret = None,
    as_json: AsJson = False,
) -> None:
    """Print the data flow of a query, or the one that a specification in JSON or YAML describes.

    A name is looked for among the coordinator's queries first, if there is one, and then among the functions.

    For example: gsdm graph '{template: PCC, args: [2, RRpart, fft3, {}, S-Merge]}'
    """
    kept = _kept_graph(spec, "json" if as_json else form.value, server, token)
    if kept is not None:
        print_json(kept) if as_json else typer.echo(kept)
        return
    flow = _flow_of(document_of(spec))
    drawings = {Drawing.text: flow.to_text, Drawing.dot: flow.to_dot, Drawing.mermaid: flow.to_mermaid}
    if as_json:
        print_json(flow.to_json())
    else:
        typer.echo(drawings[form]())


def _kept_graph(name: str, form: str, server: str | None, token: str | None) -> Any:
    """The data flow of the coordinator's query of this name; None if there is no coordinator or no such query."""
    return _asked(name, server, token, lambda client: client.graph(name, form))


def stored_specification(name: str, server: str | None, token: str | None) -> dict[str, Any] | None:
    """The specification of the coordinator's query of this name, with what it names there in full.

    None if there is no coordinator or no such query.
    """
    from gsdm_grid.cli.stored_queries import self_contained

    return _asked(name, server, token, lambda client: self_contained(client.query(name).specification, client))


def _asked(name: str, server: str | None, token: str | None, question: Callable[[Client], T]) -> T | None:
    """What the coordinator answers about a query; None if this is no name, or nobody knows it."""
    from gsdm_grid.client import ApiProblem, NoCoordinator, default_home

    if not re.fullmatch(NAME, name) or Path(name).suffix in SUFFIXES:
        return None
    if server is None and not (default_home() / "server.json").is_file():
        return None
    try:
        with connect(server, token) as client:
            return question(client)
    except NoCoordinator:
        if server is not None:
            raise
    except ApiProblem as problem:
        if problem.status != 404:
            raise
    return None


def _flow_of(spec: Any) -> DataFlow:
    """The data flow in a specification: of a whole query, or of a data flow alone."""
    from gsdm_grid.flow import build
    from gsdm_grid.spec import parse

    if isinstance(spec, Mapping) and "inputs" in spec:
        return parse(spec, _not_here).flow
    return build(spec)


def document_of(spec: str) -> Any:
    """What a file, standard input or the argument itself says, in JSON or YAML."""
    return _parsed(_text_of(spec))


def _not_here(kind: str, name: str) -> Mapping[str, Any]:
    raise QueryError(f"{kind} {name!r} is registered at a coordinator: submit the query and ask for its graph by name")


def _text_of(spec: str) -> str:
    if spec == "-":
        return sys.stdin.read()
    names_file = spec.endswith(SUFFIXES) or ("/" in spec and not {"\n", "{"} & set(spec))
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
