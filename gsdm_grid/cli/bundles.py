"""Commands about uploaded function code."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from gsdm_grid.cli import tables
from gsdm_grid.cli.commands import (
    OF_COORDINATOR,
    AsJson,
    Secret,
    ServerUrl,
    app,
    connect,
    print_json,
    print_list,
)

bundles = typer.Typer(no_args_is_help=True, help="Upload, list and remove function code.")
app.add_typer(bundles, name="bundle", rich_help_panel=OF_COORDINATOR)


@bundles.command("upload")
def upload_bundle(
    name: Annotated[str, typer.Argument(help="What to call it; what it brings is then NAME.function.")],
    path: Annotated[Path, typer.Argument(help="A Python file, a zip archive, or a package's folder.")],
    server: ServerUrl = None,
    token: Secret = None,
    as_json: AsJson = False,
) -> None:
    """Upload function code, pure Python, as the next version of a bundle. Needs an admin's token.

    Every @sqf function, @template and stream interface in it can then be named in specifications. A folder is packed in
    memory. Code that is the latest version already stays that version. Packages that it requires (requirements.txt
    beside its __init__.py, or inline script metadata in a single file) are installed by the coordinator and reach all
    hosts.
    """
    with connect(server, token) as client:
        bundle = client.upload_bundle(name, path)
    if as_json:
        print_json(bundle.document)
        return
    brought = {"function": bundle.functions, "template": bundle.templates, "stream interface": bundle.interfaces}
    counts = [f"{len(names)} {kind}{'' if len(names) == 1 else 's'}" for kind, names in brought.items() if names]
    typer.echo(f"bundle {bundle.name}, version {bundle.version}, has {', '.join(counts)}:")
    for full_name in (*bundle.functions, *bundle.templates, *bundle.interfaces):
        typer.echo(f"  {full_name}")
    if bundle.packages:
        typer.echo(f"installed for it: {', '.join(bundle.packages)}")


@bundles.command("ls")
def list_bundles(server: ServerUrl = None, token: Secret = None, as_json: AsJson = False) -> None:
    """List the bundles with what their latest versions bring."""
    with connect(server, token) as client:
        listed = list(client.bundles())
    nothing = "there are no bundles: gsdm bundle upload NAME PATH makes one"
    print_list(listed, as_json, partial(tables.bundles_table, now=datetime.now(UTC)), nothing)


@bundles.command("rm")
def remove_bundle(
    name: Annotated[str, typer.Argument(help="Name of the bundle.")],
    server: ServerUrl = None,
    token: Secret = None,
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
