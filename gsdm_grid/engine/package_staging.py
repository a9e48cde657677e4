"""Staging: packages of uploaded functions reach the machine of a working node before the node registers.

A machine keeps each set in a cache, by its digest. The first node that needs one fetches it from the coordinator, over
the same endpoint and with the same key as commands; other nodes on the machine wait for that, and find it. Then the
node's process adopts it (`gsdm_grid.functions.packages`). It is the same on every kind of host, and needs no registry,
no shared folder and no other port.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgpack
import zmq

from gsdm_grid.channels import InstallationKey
from gsdm_grid.config import cache_folder
from gsdm_grid.errors import GsdmError, ResourceError
from gsdm_grid.functions import PackageSet, digest_of, packages, unpack

PIECE_BYTES = 1 << 20
AHEAD = 8
"""Pieces asked for before the first has come."""
ANSWER_S = 60.0
"""How long the coordinator may take for a piece."""
UNUSED_S = 30 * 86400.0
"""Sets that no process has used for this long are removed when another one comes."""

Fetch = Callable[[str, Path], None]


def stage(digests: Sequence[str], control: str, key: InstallationKey) -> None:
    """Fetch what this machine does not have yet, and let this process import it."""
    cache = PackageCache(cache_folder() / "packages")
    for digest in digests:
        if not packages.has(digest):
            packages.add(cache.get(digest, lambda one, target: fetch(one, target, control, key)))
        packages.adopt(digest)


class PackageCache:
    """The sets of packages that a machine keeps, in a folder. Any number of processes may use it at a time.

    Each set has a lock: exclusive while it is being fetched or removed, shared by the processes that use it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, digest: str, fetch: Fetch) -> PackageSet:
        """A set, fetched if it is not there. It stays there as long as this process lives."""
        self._check_folder()
        place = self._folder / digest
        lock = os.open(place.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_SH)
            while not place.is_dir():
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not place.is_dir():
                    self._sweep(time.time() - UNUSED_S)
                    self._fetch(digest, place, fetch)
                fcntl.flock(lock, fcntl.LOCK_SH)
            os.utime(lock)
        except BaseException:
            os.close(lock)
            raise
        return PackageSet(digest, place)  # the lock is never closed: what was imported may import more, at any time

    def _check_folder(self) -> None:
        """Code is imported from here: nobody else may have put it there."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (self._folder, self._folder.parent):
            found = folder.stat()
            if found.st_uid != os.getuid() or found.st_mode & stat.S_IWOTH:
                raise ResourceError(f"others own the cache {folder}, or may write there: set XDG_CACHE_HOME")

    def _fetch(self, digest: str, place: Path, fetch: Fetch) -> None:
        with tempfile.TemporaryDirectory(dir=self._folder, prefix=".fetched-") as folder:
            archive = Path(folder) / "archive.zip"
            fetch(digest, archive)
            if (came := digest_of(archive)) != digest:
                raise ResourceError(f"the packages {digest[:12]} arrived damaged, as {came[:12]}")
            unpack(archive, place)

    def _sweep(self, before_s: float) -> None:
        """Remove what no process uses, and none has used for long."""
        for lock_file in self._folder.glob("*.lock"):
            if lock_file.stat().st_mtime < before_s:
                with contextlib.suppress(OSError), _exclusively(lock_file):
                    shutil.rmtree(lock_file.with_suffix(""), ignore_errors=True)
        for unfinished in self._folder.glob(".*"):  # its process was killed
            if unfinished.stat().st_mtime < before_s:
                shutil.rmtree(unfinished, ignore_errors=True)


@contextmanager
def _exclusively(lock_file: Path) -> Iterator[None]:
    lock = os.open(lock_file, os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(lock)


def fetch(digest: str, target: Path, control: str, key: InstallationKey) -> None:
    """Get a set's archive from the coordinator, piece by piece."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket, target.open("wb") as file:
        key.secure_client(socket)
        socket.linger = 0
        socket.rcvtimeo = int(ANSWER_S * 1000)
        socket.connect(control)
        asked, size = 0, PIECE_BYTES * AHEAD
        while file.tell() < size:
            while asked < min(size, file.tell() + PIECE_BYTES * AHEAD):
                socket.send(msgpack.packb({"event": "fetch", "digest": digest, "offset": asked}))
                asked += PIECE_BYTES
            size = _receive(socket, digest, file)


def _receive(socket: Any, digest: str, file: Any) -> int:
    """Write the next piece; gives the size of the whole. The coordinator answers in the order it was asked."""
    try:
        piece = msgpack.unpackb(socket.recv())
    except zmq.Again:
        raise ResourceError(f"the coordinator did not send the packages {digest[:12]} within {ANSWER_S:g} s") from None
    if "error" in piece:
        raise ResourceError(f"the coordinator cannot send the packages {digest[:12]}: {piece['error']}")
    file.write(piece["data"])
    return int(piece["size"])


def piece(digest: str, offset: int) -> dict[str, Any]:
    """The coordinator's answer: a piece of a set's archive, or why there is none."""
    try:
        archive = packages.get(digest).archive
        if archive is None:
            return {"error": "its archive is not kept here"}
        with archive.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(offset)
            return {"size": size, "data": file.read(PIECE_BYTES)}
    except (GsdmError, OSError) as error:
        return {"error": str(error)}
