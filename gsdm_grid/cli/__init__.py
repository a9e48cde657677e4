"""The ``gsdm`` command. Each command imports what it needs when it runs, so that ``--help`` answers at once.

One file per family of commands; `commands` has what they share, `shown` how things look. Errors of the product are one
red line and exit code 1; ``--debug`` shows where they came from.
"""

from gsdm_grid.cli import (
    airflow,
    bundles,
    flows,
    health,
    local,
    optimizing,
    pages,
    queries,
    results,
    service,
    splitting,
    trials,
)
from gsdm_grid.cli.commands import app

__all__ = [
    "airflow",
    "app",
    "bundles",
    "flows",
    "health",
    "local",
    "main",
    "optimizing",
    "pages",
    "queries",
    "results",
    "service",
    "splitting",
    "trials",
]


def main() -> None:
    """Entry point of the console script."""
    app(prog_name="gsdm")
