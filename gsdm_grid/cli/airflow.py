"""The command that starts an Airflow of one's own, for the optimizer's DAGs."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gsdm_grid.cli.commands import OF_COORDINATOR, ROOT, AsJson, Secret, ServerUrl, app, console, print_json
from gsdm_grid.cli.service import Home

if TYPE_CHECKING:
    from gsdm_grid.airflow.local_airflow import LocalAirflow

DAG = "gsdm_optimize"


@app.command("airflow", rich_help_panel=OF_COORDINATOR)
def start_airflow(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8080,
    home: Home = None,
    database: Annotated[
        str | None, typer.Option(envvar="GSDM_AIRFLOW_DATABASE", help="URL of PostgreSQL; else SQLite in the home.")
    ] = None,
    dags: Annotated[
        Path, typer.Option(exists=True, file_okay=False, resolve_path=True, help="Folder of DAG files.")
    ] = ROOT / "dags",
    server: ServerUrl = None,
    token: Secret = None,
    as_json: AsJson = False,
) -> None:
    """Start an Airflow on this machine with the optimizer's DAGs, until Ctrl-C.

    It runs trials of the coordinator of the same home, or of --server, two tasks at a time, and keeps its things in the
    folder `airflow` of the home. For an Airflow that you have already, see docs/airflow.md.
    """
    from gsdm_grid.airflow.local_airflow import LocalSettings, free_port, started
    from gsdm_grid.client import default_home

    home = (home or default_home()).resolve()
    settings = LocalSettings(
        home=home / "airflow",
        dags=dags,
        connection=_connection(home, server, token),
        host=host,
        port=port or free_port(host),
        database=database,
    )
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.default_int_handler)
    try:
        with started(settings) as airflow:
            with console(error=True).status("starting Airflow …") as status:
                airflow.wait_until_ready(DAG, lambda step: status.update(f"starting Airflow: {step} …"))
            _show(airflow, as_json)
            airflow.wait()
    except KeyboardInterrupt:
        typer.echo("Airflow is stopped", err=True)


def _connection(home: Path, server: str | None, token: str | None) -> dict[str, Any]:
    """The connection's fields. A coordinator of the home is looked for there when it is needed: it may start later,
    elsewhere, and its token is then stored nowhere else.
    """
    if server is None:
        return {"password": token, "extra": {"home": str(home)}}
    return {"host": server, "password": token, "extra": {"home": str(home)}}


def _show(airflow: LocalAirflow, as_json: bool) -> None:
    from gsdm_grid.airflow.local_airflow import USER

    settings = airflow.settings
    if as_json:
        print_json({"url": settings.url, "user": USER, "password": airflow.password, "home": str(settings.home)})
        return
    typer.echo(f"Airflow is at {settings.url}, user {USER}, password {airflow.password}")
    typer.echo(f"it logs to {settings.logs}; Ctrl-C stops it", err=True)
