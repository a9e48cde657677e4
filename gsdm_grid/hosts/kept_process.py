"""A process of another program that lives no longer than whoever started it, and leaves nothing behind.

Between owner and process stands a keeper: a small Python process, started by running this file. It holds one end of a
pipe whose other end is the owner's. When the owner closes it, or dies in whatever way, the keeper ends the process and
all that descends from it, and removes their folder. Should the keeper itself be killed, the kernel ends the process.

The keeper is no child of its owner: Ray ends the children of its actors by force, and then nobody would clean up.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

GRACE_S = 5.0
LOG = "log"
_DIE_WITH_PARENT, _ADOPT_ORPHANS = 1, 36  # prctl's PR_SET_PDEATHSIG and PR_SET_CHILD_SUBREAPER


class KeptProcess:
    """The owner's end. The process writes to the file ``log`` in its folder; both end with `close`. Thread-safe.

    Without a command only the folder is kept.
    """

    def __init__(self, command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        life, self._life = os.pipe()
        self._told, told = os.pipe()
        try:
            starter = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__, str(life), str(told), str(folder), *command],
                pass_fds=(life, told),
                env=dict(os.environ if environment is None else environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        finally:
            os.close(life)
            os.close(told)
        starter.wait()
        self._messages = os.fdopen(self._told)
        self.pid = int(json.loads(self._messages.readline() or '{"pid": 0}')["pid"])
        """Of the process; 0 if it could not be started."""
        self._open = True

    def wait(self) -> str:
        """Wait until the process has ended, everything of it is gone, and say why it ended. Once, in one thread."""
        told = self._messages.read()
        self._messages.close()
        shutil.rmtree(self.folder, ignore_errors=True)  # if the keeper was killed
        if not told:
            return "its keeper was killed"
        ended = json.loads(told)
        return f"it ended with {ended['code']}: {ended['log'] or 'it wrote no log'}"

    def close(self) -> None:
        """Have the keeper end the process; `wait` waits until it has. Safe to call twice."""
        if self._open:
            self._open = False
            os.close(self._life)


def keep(life: int, told: int, folder: str, command: Sequence[str]) -> None:
    """The keeper: run the command until it ends or the pipe ``life`` is closed; report to ``told``."""
    libc = ctypes.CDLL(None)
    libc.prctl(_ADOPT_ORPHANS, 1)
    for signum in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(signum, signal.SIG_IGN)  # it ends when its owner does

    def begin() -> None:
        libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        for signum in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            signal.signal(signum, signal.SIG_DFL)

    code: int | None = None
    log = Path(folder, LOG)
    if command:
        try:
            with log.open("ab") as output:
                process = subprocess.Popen(
                    command,
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    preexec_fn=begin,  # noqa: PLW1509 (this process has one thread)
                )
        except OSError as error:
            _tell(told, pid=0)
            _tell(told, code=error.errno, log=str(error))
            return
        _tell(told, pid=process.pid)
        ended = os.pidfd_open(process.pid)
        select.select([life, ended], [], [])
        if not select.select([ended], [], [], 0)[0]:
            process.terminate()
            select.select([ended], [], [], GRACE_S)
        process.kill()
        code = process.wait()
        _end_descendants()
    else:
        _tell(told, pid=0)
        select.select([life], [], [])
    last = "\n".join(log.read_text(errors="replace").splitlines()[-10:]) if log.exists() else ""
    shutil.rmtree(folder, ignore_errors=True)
    _tell(told, code=code, log=last)


def _end_descendants() -> None:
    """Orphans of the process have become children of this one; their own orphans do when they end."""
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    while True:
        for child in children.read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.01)
        except ChildProcessError:
            return


def _tell(told: int, **message: object) -> None:
    with contextlib.suppress(OSError):  # the owner may be gone
        os.write(told, json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    if os.fork() == 0:
        keep(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:])
