"""Commands about uploaded function code."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from gsdm_grid.cli import tables
from gsdm_grid.cli.commands import (
    OF_COORDINATOR,
    AsJson,
    Server,
    Token,
    app,
    connect,
    console,
    print_documents,
    print_json,
)

bundles = typer.Typer(no_args_is_help=True, help="Upload, list and remove function code.")
app.add_typer(bundles, name="bundle", rich_help_panel=OF_COORDINATOR)


@bundles.command("upload")
def upload_bundle(
    name: Annotated[str, typer.Argument(help="What to call it; what it brings is then NAME.function.")],
    path: Annotated[Path, typer.Argument(help="A Python file, a zip archive, or a package's folder.")],
    server: Server = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Upload function code, pure Python, as the next version of a bundle. Needs an admin's token.

    Every @sqf function, @template and stream interface in it can then be named in specifications. A folder is packed in
    memory. Code that is the latest version already stays that version. Packages that it requires (requirements.txt
    beside its __init__.py, or inline script metadata in a single file) are installed by the coordinator and reach all
    hosts.
    """
    with connect(server, token) as client:
        made = client.upload_bundle(name, path)
    if as_json:
        print_json(made.document)
        return
    brought = {"function": made.functions, "template": made.templates, "stream interface": made.interfaces}
    counts = [f"{len(names)} {kind}{'' if len(names) == 1 else 's'}" for kind, names in brought.items() if names]
    typer.echo(f"bundle {made.name}, version {made.version}, has {', '.join(counts)}:")
    for full_name in (*made.functions, *made.templates, *made.interfaces):
        typer.echo(f"  {full_name}")
    if made.packages:
        typer.echo(f"installed for it: {', '.join(made.packages)}")


@bundles.command("ls")
def list_bundles(server: Server = None, token: Token = None, as_json: AsJson = False) -> None:
    """List the bundles with what their latest versions bring."""
    with connect(server, token) as client:
        found = list(client.bundles())
    if as_json:
        print_documents(one.document for one in found)
    elif found:
        console().print(tables.bundles_table(found, datetime.now(UTC)))
    else:
        typer.echo("there are no bundles: gsdm bundle upload NAME PATH makes one")


@bundles.command("rm")
def remove_bundle(
    name: Annotated[str, typer.Argument(help="Name of the bundle.")],
    server: Server = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Remove a bundle, all its versions, that no query uses. Needs an admin's token."""
    with connect(server, token) as client:
        gone = client.bundle(name)
        client.remove_bundle(name)
    if as_json:
        print_json(gone.document)
    else:
        typer.echo(f"bundle {name} is gone")
