"""The command that opens a coordinator's pages in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from gsdm_grid.cli.commands import OF_COORDINATOR, AsJson, Secret, ServerUrl, app, connect, known_queries, print_json

if TYPE_CHECKING:
    from gsdm_grid.client import Address

AT_THE_TERMINAL = ("www-browser", "links", "elinks", "lynx", "w3m")
"""Browsers that would take the terminal over, and cannot run the page's script."""


@app.command(name="open", rich_help_panel=OF_COORDINATOR)
def open_page(
    name: Annotated[
        str | None, typer.Argument(help="Name of a query; else the page of all.", autocompletion=known_queries)
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Whether to open it.")] = True,
    server: ServerUrl = None,
    token: Secret = None,
    as_json: AsJson = False,
) -> None:
    """Open the page of a query, or of all queries, in the browser, and print its address.

    The address ends with the token, behind a `#`: browsers do not send that part, and the page takes it out.
    """
    with connect(server, token) as client:
        if name is not None:
            client.query(name)  # better said here than in a page that waits for it
        else:
            next(iter(client.queries()), None)
        address = page_address(client.address, name)
    opened = browser and _open(address)
    if as_json:
        print_json({"url": address, "opened": opened})
    else:
        typer.echo(address)
        if browser and not opened:
            typer.echo("there is no browser here: open it in one of yours", err=True)


def page_address(where: Address, name: str | None) -> str:
    """The address of a page, with the token that opens it.

    >>> from gsdm_grid.client import Address
    >>> page_address(Address("http://127.0.0.1:8642", "gsdm_x"), "fft3")
    'http://127.0.0.1:8642/queries/fft3#token=gsdm_x'
    """
    page = "/" if name is None else f"/queries/{quote(name, safe='')}"
    return where.url + page + (f"#token={quote(where.token, safe='')}" if where.token else "")


def _open(address: str) -> bool:
    """Open an address in the browser of whoever sits here; gives whether there is one."""
    import webbrowser

    try:
        found = webbrowser.get()
    except webbrowser.Error:
        return False
    return getattr(found, "name", "") not in AT_THE_TERMINAL and found.open(address)
