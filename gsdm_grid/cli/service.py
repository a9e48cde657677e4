"""Commands that make a coordinator: serve it, and say who may ask it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

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
    print_documents,
    print_json,
)
from gsdm_grid.errors import GsdmError, QueryError

Home = Annotated[
    Path | None,
    typer.Option("--home", envvar="GSDM_HOME", help="Folder for its database, results and first token; ~/.gsdm."),
]
Database = Annotated[
    str | None, typer.Option("--database", envvar="GSDM_DATABASE", help="URL of PostgreSQL; else SQLite in the home.")
]
tokens = typer.Typer(no_args_is_help=True, help="Make, list and remove the tokens of a coordinator.")
app.add_typer(tokens, name="token", rich_help_panel=OF_COORDINATOR)


class Role(StrEnum):
    """What a token may do: look; also run queries; also upload code and make tokens."""

    viewer = "viewer"
    operator = "operator"
    admin = "admin"


class ServedPlacement(StrEnum):
    """Where queries run unless their specification says otherwise."""

    grid = "grid"
    processes = "processes"
    threads = "threads"
    ray = "ray"
    spark = "spark"


@app.command(rich_help_panel=OF_COORDINATOR)
def serve(
    host: Annotated[str, typer.Option(help="Address to listen on; others than loopback want TLS.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8642,
    home: Home = None,
    database: Database = None,
    placement: Annotated[
        ServedPlacement,
        typer.Option(help="Where queries run unless they say otherwise; processes: without Ray and Spark."),
    ] = ServedPlacement.grid,
    result_bytes: Annotated[
        int, typer.Option(min=1 << 20, help="How much of each result stream is kept for readers, in bytes.")
    ] = 256 << 20,
    data_folders: Annotated[
        list[Path] | None,
        typer.Option(
            "--data-folder",
            metavar="PATH",
            exists=True,
            file_okay=False,
            resolve_path=True,
            help="Folder in which operators' streams may read and write files; may be repeated. None: anywhere.",
        ),
    ] = None,
    allowed_modules: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-module",
            metavar="MODULE",
            help="Module or package whose code may be named as MODULE:NAME over REST; may be repeated. None: only "
            "registered names, entry points and bundles.",
        ),
    ] = None,
    header_s: Annotated[
        float, typer.Option(min=0.1, help="Seconds that the head of a request may take to arrive.")
    ] = 10.0,
    body_s: Annotated[
        float, typer.Option(min=0.1, help="Seconds that the body of a request may take to arrive.")
    ] = 60.0,
    trial_share: Annotated[
        float, typer.Option(min=0.01, max=1.0, help="Share of a pool's hosts that the optimizer's trials may use.")
    ] = 1.0,
    tls_certificate: Annotated[Path | None, typer.Option(help="Certificate chain, a PEM file.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its private key, a PEM file.")] = None,
    ray_address: Annotated[str | None, typer.Option(help="Ray cluster to use; else one is started.")] = None,
    spark_master: Annotated[
        str | None, typer.Option(help="Spark master to use; ray: executors on what Ray gives; else a local one.")
    ] = None,
    address: Annotated[
        str, typer.Option(help="Address of this machine that working nodes on others reach it by.")
    ] = "127.0.0.1",
    ray_most_cpus: Annotated[
        float | None,
        typer.Option(min=0, help="The Ray cluster has an autoscaler, which brings it to at most so many CPUs."),
    ] = None,
    pools: Annotated[
        list[str] | None,
        typer.Option(
            "--pool", metavar="NAME=ADDRESS", help="Another Ray cluster, which queries can name; may be repeated."
        ),
    ] = None,
    spare_hosts: Annotated[
        int, typer.Option(min=0, max=64, help="Ray actors kept ready, so that queries start sooner.")
    ] = 3,
    thread_cores: Annotated[
        int | None,
        typer.Option(min=1, help="Cores that queries placed on threads share; many cheap sites are fastest on one."),
    ] = None,
    log_level: Annotated[str, typer.Option(help="DEBUG, INFO, WARNING or ERROR.")] = "INFO",
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Show the log also at a terminal, where it goes to a file otherwise."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As --verbose: the log is JSON.")] = False,
) -> None:
    """Serve the coordinator until Ctrl-C."""
    from api.serve import serve as serve_until_told
    from api.settings import ServiceLimits, ServiceSettings
    from gsdm_grid.client import default_home
    from gsdm_grid.config import Settings

    settings = ServiceSettings(
        home=home or default_home(),
        database=database,
        host=host,
        port=port,
        tls_certificate=tls_certificate,
        tls_key=tls_key,
        placement=placement.value,
        result_bytes=result_bytes,
        data_folders=tuple(data_folders or ()),
        allowed_modules=tuple(allowed_modules or ()),
        limits=ServiceLimits(header_s=header_s, body_s=body_s),
        trial_share=trial_share,
        grid=Settings(
            address=address,
            ray_address=ray_address,
            spark_master=spark_master,
            ray_most_cpus=ray_most_cpus,
            spare_hosts=spare_hosts,
            thread_cores=thread_cores,
            pools=_named(pools or ()),
        ),
    )
    serve_until_told(settings, log_level.upper(), verbose or as_json)


def _named(pools: Sequence[str]) -> dict[str, str]:
    """Pools by name.

    >>> _named(["antennas=10.0.0.5:6379"])
    {'antennas': '10.0.0.5:6379'}
    """
    made = {}
    for pool in pools:
        name, _, address = pool.partition("=")
        if not name or not address or name in made:
            raise typer.BadParameter(f"expected NAME=ADDRESS, each name once, got {pool!r}", param_hint="--pool")
        made[name] = address
    return made


@tokens.command("create")
def create_token(
    name: Annotated[str, typer.Argument(help="What to call it.")],
    role: Annotated[Role, typer.Option(help="What it may do.")] = Role.viewer,
    home: Home = None,
    database: Database = None,
    server: ServerUrl = None,
    token: Secret = None,
    as_json: AsJson = False,
) -> None:
    """Make a token. It is shown once.

    A coordinator that answers is asked; if none does, the token is written to its database.
    """
    made = _asked(name, role, server, token, home) or _written(name, role, home, database)
    if as_json:
        print_json(made)
    else:
        typer.echo(made["token"])
        typer.echo(f"{role} token {name!r}, shown this once; use it as GSDM_TOKEN or with --token", err=True)


def _asked(name: str, role: Role, server: str | None, token: str | None, home: Path | None) -> dict[str, Any] | None:
    """The token that a coordinator made; None if there is none (and none was named)."""
    from gsdm_grid.client import Client, NoCoordinator, RetryPolicy, resolve

    where = resolve(server, token, home)
    try:
        with Client(where.url, where.token, retries=RetryPolicy(attempts=1)) as client:
            return dict(client.create_token(name, role.value).document)
    except NoCoordinator:
        if server is not None:
            raise
        return None


def _written(name: str, role: Role, home: Path | None, database: str | None) -> dict[str, Any]:
    from api.errors import Problem
    from api.http import Tokens, protect_home
    from api.settings import ServiceSettings
    from api.store import Store
    from gsdm_grid.client import default_home

    settings = ServiceSettings(home=home or default_home(), database=database)
    protect_home(settings)
    store = Store(settings.database_url)
    try:
        made, secret = Tokens(store).create(name, role.value)
    except Problem as problem:
        raise QueryError(str(problem)) from None
    finally:
        store.close()
    return {"id": made.id, "name": made.name, "role": made.role, "token": secret}


@tokens.command("ls")
def list_tokens(server: ServerUrl = None, token: Secret = None, as_json: AsJson = False) -> None:
    """List the tokens; not what they are."""
    with connect(server, token) as client:
        found = list(client.tokens())
    if as_json:
        print_documents(one.document for one in found)
        return
    made = tables.table("id", "name", "role")
    for one in found:
        made.add_row(one.id, one.name, one.role)
    console().print(made)


@tokens.command("rm")
def remove_token(
    which: Annotated[str, typer.Argument(metavar="NAME_OR_ID", help="Name or id of the token.")],
    server: ServerUrl = None,
    token: Secret = None,
    as_json: AsJson = False,
) -> None:
    """Make a token worthless."""
    with connect(server, token) as client:
        found = [one for one in client.tokens() if which in (one.name, one.id)]
        if not found:
            raise GsdmError(f"there is no token {which!r}")
        client.delete_token(found[0].id)
    if as_json:
        print_json(found[0].document)
    else:
        typer.echo(f"token {found[0].name} is worthless now")
