"""The ``gsdm`` command. Each command imports what it needs when it runs, so that ``--help`` answers at once.

One file per family of commands; `commands` has what they share, `shown` how things look. Errors of the product are one
red line and exit code 1; ``--debug`` shows where they came from.
"""

import signal

from gsdm_grid.cli import (
    airflow,
    bundles,
    flows,
    health,
    local,
    pages,
    queries,
    results,
    service,
    trials,
)
from gsdm_grid.cli import (
    optimizer as optimizing,
)
from gsdm_grid.cli import (
    splits as splitting,
)
from gsdm_grid.cli.commands import INTERRUPTED, app

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
    try:
        app(prog_name="gsdm")
    except SystemExit as end:
        if end.code == INTERRUPTED:  # all has been ended: one more Ctrl-C is not to kill what is left to do at exit
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise
