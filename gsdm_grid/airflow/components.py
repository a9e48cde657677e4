"""Airflow's components as one family of processes: imported once, then forked. `gsdm_grid.cli.airflow` starts it.

``airflow standalone`` starts four programs that each import Airflow anew, and leaves their children behind when it is
stopped. Here Airflow's own commands are run in forks of one process that has imported it; a second core imports the API
server while the database is made ready. Whatever the components start stays below this process (it adopts orphans), so
that it can end all of them.

Stdin carries one line, a `ComponentsRequest` document, and then stays open for as long as Airflow is wanted; stdout
tells in lines of JSON how far it is. Each component logs into a file of its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

API_SERVER = "api-server"
DAG_PROCESSOR, SCHEDULER, TRIGGERER = "dag-processor", "scheduler", "triggerer"
GRACE_S = 8.0
"""How long components may take to end by themselves; tasks that still run are then killed, and taken up again later."""
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class ComponentsRequest(TypedDict):
    """What to start: where the API server listens, where logs go, and what the database must hold."""

    host: str
    port: int
    logs: str
    connection_id: str
    connection: str
    pool: str


def main() -> None:
    """Start what stdin asks for; returns when it has ended, with an error if that was not asked for."""
    request: ComponentsRequest = json.loads(_line_from_stdin())
    family = Family(Path(request["logs"]))
    for number in _ENDING_SIGNALS:
        signal.signal(number, _raise_ending)
    code = 1
    try:
        _start(family, request)
        code = family.watch()
    except Ending:
        code = 0
    finally:
        for number in _ENDING_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        family.end_all()
    sys.exit(code)


class Ending(BaseException):
    """Somebody wants this process to end. Airflow's commands, which may be under way, do not catch it."""


def _raise_ending(*_: object) -> None:
    raise Ending


def _start(family: Family, request: ComponentsRequest) -> None:
    tell("importing Airflow")
    airflow("version")
    prepared, ready = os.pipe()
    address = ("--host", request["host"], "--port", str(request["port"]))

    def serve() -> None:
        import airflow.api_fastapi.main  # noqa: F401  # the larger part of its start; needs no database yet

        os.close(ready)
        os.read(prepared, 1)
        airflow_main(API_SERVER, *address)

    family.fork(API_SERVER, serve)
    os.close(prepared)
    tell("preparing the database")
    airflow("db", "migrate")
    airflow("connections", "delete", request["connection_id"], may_fail=True)
    airflow("connections", "add", request["connection_id"], "--conn-json", request["connection"])
    airflow("pools", "set", request["pool"], "1", "Trials run one at a time.", "--include-deferred")
    os.close(ready)
    tell("starting the components")
    for command in ((SCHEDULER, "--skip-serve-logs"), (DAG_PROCESSOR,), (TRIGGERER, "--skip-serve-logs")):
        family.fork(command[0], partial(airflow_main, *command))
    tell("started")


def airflow_main(*command: str) -> None:
    """Airflow's own entry point, as if it had been typed."""
    from airflow.__main__ import main as run

    sys.argv = ["airflow", *command]
    run()


def airflow(*command: str, may_fail: bool = False) -> None:
    """Run a command of Airflow to its end, in this process. What it prints goes to stderr."""
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        airflow_main(*command)
    except SystemExit as end:
        if end.code and not may_fail:
            raise RuntimeError(f"airflow {' '.join(command[:2])}: {end.code}") from None
    finally:
        sys.stdout.flush()
        os.dup2(stdout, 1)
        os.close(stdout)


class Family:
    """The components: this process's children, by name; their orphans become its children too. Thread-bound."""

    def __init__(self, logs: Path, grace_s: float = GRACE_S) -> None:
        self._logs = logs
        self._grace_s = grace_s
        self._names: dict[int, str] = {}
        _control(_PR_SET_CHILD_SUBREAPER, 1)

    def fork(self, name: str, run: Callable[[], None]) -> None:
        """Start a component as a copy of this process; its output goes to a log file of its name."""
        sys.stdout.flush()
        pid = os.fork()
        if pid:
            self._names[pid] = name
            return
        code = 1
        try:
            for number in _ENDING_SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            _control(_PR_SET_PDEATHSIG, signal.SIGTERM)
            _redirect(self._logs / f"{name}.log")
            run()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def watch(self) -> int:
        """Wait until stdin is closed (0), or a component has ended by itself (1; stdout says which)."""
        while True:
            readable, _, _ = select.select([sys.stdin.fileno()], [], [], 0.2)
            if readable and not os.read(sys.stdin.fileno(), 4096):
                return 0
            if ended := self._reap():
                tell("ended", component=ended)
                return 1

    def _reap(self) -> str | None:
        """Take leave of processes that ended; the name of a component if there was one among them."""
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return None
            if not pid:
                return None
            if name := self._names.pop(pid, None):
                return name

    def end_all(self) -> None:
        """End the components, then whatever they left."""
        tell("ending")
        _signal(list(self._names), signal.SIGTERM)
        deadline_s = time.monotonic() + self._grace_s
        while self._names and time.monotonic() < deadline_s:
            self._reap()
            time.sleep(0.05)
        with contextlib.suppress(ChildProcessError):  # raised when the last one has been taken leave of
            while True:
                _signal(_descendants(), signal.SIGKILL)
                os.waitpid(-1, 0)  # a process whose threads are still ending looks dead before it is


def tell(step: str, **more: Any) -> None:
    """A line for whoever started this."""
    print(json.dumps({"step": step, **more}), flush=True)


def _line_from_stdin() -> bytes:
    """One line, and not a byte more: what comes behind it is watched for."""
    line = bytearray()
    while (byte := os.read(sys.stdin.fileno(), 1)) not in (b"", b"\n"):
        line += byte
    return bytes(line)


def _descendants() -> list[int]:
    import psutil

    found = []
    for one in psutil.Process().children(recursive=True):
        try:
            if one.status() != psutil.STATUS_ZOMBIE:
                found.append(one.pid)
        except psutil.NoSuchProcess:
            continue
    return found


def _signal(pids: Sequence[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _control(option: int, value: int) -> None:
    """Ask the system to hand orphans of this process's family to it, or to end it with its parent. Linux can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _redirect(log: Path) -> None:
    written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(written, 1)
    os.dup2(written, 2)
    os.close(nothing)
    os.close(written)


if __name__ == "__main__":
    main()
