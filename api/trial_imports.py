"""Importing uploaded code in a process of its own first, which may end in any way, or be ended.

Importing runs the code of whoever wrote the bundle. In the coordinator it would take the service with it if it called
``os._exit``, and a thread for ever if it never returned. What another process could import within the time limit is
imported here after that.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from api.errors import Problem
from gsdm_grid.functions import packages as known_packages

_RUN = "import sys; from api.trial_imports import main; main(*sys.argv[1:])"
_IMPORTED = "imported"


def in_a_process(limit_s: float) -> Callable[[str, Path, str | None], None]:
    """A function that imports a package in another process, for at most so long; raises the problem if that fails."""

    def try_import(module: str, folder: Path, packages: str | None) -> None:
        with tempfile.TemporaryDirectory(prefix="gsdm-import-") as scratch:
            answer = Path(scratch) / "answer"
            required = str(known_packages.get(packages).folder) if packages is not None else ""
            code = _exit_code([sys.executable, "-c", _RUN, module, str(folder), str(answer), required], limit_s)
            text = answer.read_text() if answer.exists() else ""
        if text == _IMPORTED and code == 0:
            return
        if code is None:
            cause = f"it had not ended after {limit_s:g} s"
        elif text and text != _IMPORTED:
            cause = text
        else:
            cause = f"it ended its process, with exit code {code}"
        raise Problem("function-failed", f"the code cannot be imported: {cause}", cause=cause)

    return try_import


def _exit_code(command: list[str], limit_s: float) -> int | None:
    """Run a command in a process group of its own; None if it took too long and was killed with all that it started."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    null = subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=null, stdout=null, stderr=null, env=environment, start_new_session=True)
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def main(module: str, folder: str, answer: str, required: str) -> None:
    """In the other process: import the package, with the folder of what it requires; say what came of it."""
    from api.bundles import import_package

    if required:
        sys.path.append(required)
    try:
        import_package(module, Path(folder))
    except Problem as problem:
        Path(answer).write_text(str(problem.extras["cause"]))
    else:
        Path(answer).write_text(_IMPORTED)
    os._exit(0)  # what it left running does not matter
