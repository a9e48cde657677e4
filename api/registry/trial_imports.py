"""Importing uploaded code in a process of its own first, which may end in any way, or be ended.

Importing runs the code of whoever wrote the bundle. In the coordinator it would take the service with it if it called
``os._exit``, and a thread for ever if it never returned. What another process could import within the time limit is
imported here after that. Several packages, as at a start, cost little more than one: a process that has imported what
they all need forks one for each of them.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from api.errors import Problem
from gsdm_grid.functions import packages as known_packages

_RUN = "import sys; from api.registry.trial_imports import serve; serve(sys.argv[1], float(sys.argv[2]))"
_IMPORTED = "imported"
_START_S = 60.0
"""How long the process may take that forks the others, besides the time limits of those."""
_DIE_WITH_PARENT = 1  # prctl's PR_SET_PDEATHSIG
_ASKED, _ANSWERS = "asked", "answers"


class Package(NamedTuple):
    """What to import: a module's name, the folder of its package, and the digest of the packages that it requires."""

    module: str
    folder: Path
    packages: str | None = None


TryImports = Callable[[Sequence[Package]], dict[str, str]]
"""Import packages where they can do no harm; gives why those that cannot be imported cannot, by the module's name."""


def in_processes(limit_s: float) -> TryImports:
    """Import packages in a process each, for at most so long."""

    def try_imports(packages: Sequence[Package]) -> dict[str, str]:
        with tempfile.TemporaryDirectory(prefix="gsdm-import-") as scratch:
            asked = [[one.module, str(one.folder), _required(one)] for one in packages]
            Path(scratch, _ASKED).write_text(json.dumps(asked))
            code = _exit_code([sys.executable, "-c", _RUN, scratch, str(limit_s)], _START_S + limit_s * len(asked))
            file = Path(scratch, _ANSWERS)
            causes: dict[str, str] = json.loads(file.read_text()) if code == 0 and file.exists() else {}
        lost = f"the process that tries imports ended with exit code {code}"
        answers = {one.module: causes.get(one.module, lost) for one in packages}
        return {module: cause for module, cause in answers.items() if cause != _IMPORTED}

    return try_imports


def refusal(cause: str) -> Problem:
    """The problem with a package that cannot be imported."""
    return Problem("function-failed", f"the code cannot be imported: {cause}", cause=cause)


def _required(package: Package) -> str:
    return str(known_packages.get(package.packages).folder) if package.packages is not None else ""


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


def serve(scratch: str, limit_s: float) -> None:
    """In the other process: import each package that was asked for in a fork; say what came of it."""
    import api.registry.bundles  # noqa: F401  (forks have it then)

    answers = {
        module: _tried(module, folder, required, Path(scratch, module), limit_s)
        for module, folder, required in json.loads(Path(scratch, _ASKED).read_text())
    }
    Path(scratch, _ANSWERS).write_text(json.dumps(answers))


def _tried(module: str, folder: str, required: str, answer: Path, limit_s: float) -> str:
    """What came of importing a package in a fork."""
    parent = os.getpid()
    if (pid := os.fork()) == 0:
        os.setsid()  # so that what it starts can be ended with it
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        if os.getppid() == parent:
            _import(module, folder, required, answer)
        os._exit(0)  # what it left running does not matter
    ended = os.pidfd_open(pid)
    in_time = bool(select.select([ended], [], [], limit_s)[0])
    os.close(ended)
    with suppress(ProcessLookupError):  # it may not have got so far as to have a session
        os.kill(pid, signal.SIGKILL)
        os.killpg(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if not in_time:
        return f"it had not ended after {limit_s:g} s"
    text = answer.read_text() if answer.exists() else ""
    return text if text and (code == 0 or text != _IMPORTED) else f"it ended its process, with exit code {code}"


def _import(module: str, folder: str, required: str, answer: Path) -> None:
    """In the fork: import the package, with the folder of what it requires; say what came of it."""
    from api.registry.bundles import import_package

    if required:
        sys.path.append(required)
    try:
        import_package(module, Path(folder))
    except Problem as problem:
        answer.write_text(str(problem.extras["cause"]))
    except BaseException as error:
        answer.write_text(f"{type(error).__name__}: {error}")
    else:
        answer.write_text(_IMPORTED)
