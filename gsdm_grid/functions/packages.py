"""Packages that uploaded functions bring along: sets of installed packages, named by what is in them.

A set is a folder, as ``pip install --target`` leaves it, and travels as an archive whose SHA-256 is its name. Sets only
add to the environment that all processes of the grid share, at the end of ``sys.path``: they never replace a package.

A process of a working node's own *adopts* the sets that its functions need. The coordinator knows functions of all
bundles, in all versions, and so needs several versions of one package at once: it imports a set's modules *apart*, and
takes them out of sight again. Who makes sets is `api.registry`; how they travel is `gsdm_grid.engine.package_staging`.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
import threading
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import ModuleType

from gsdm_grid.errors import QueryError

_LONG_AGO = (1980, 1, 1, 0, 0, 0)
_PART = 1 << 20


@dataclass(frozen=True)
class PackageSet:
    """One set of packages on this machine. Immutable; ``archive`` is where others can have it from."""

    digest: str
    folder: Path
    archive: Path | None = None

    def distributions(self) -> dict[str, str]:
        """Versions of its packages by name."""
        found = metadata.distributions(path=[str(self.folder)])
        return dict(sorted((one.name.lower().replace("_", "-"), one.version) for one in found))

    def holds(self, module: ModuleType) -> bool:
        """Whether a loaded module is one of its files, or a namespace of them."""
        known = getattr(module, "__dict__", {})  # modules that load themselves when asked for more are not asked
        places = [known.get("__file__")]
        if places == [None]:
            try:
                places = list(known.get("__path__") or ())
            except KeyError:  # a namespace in a package that somebody has unloaded
                return False
        inside = f"{self.folder}{os.sep}"
        return bool(places) and all(isinstance(place, str) and place.startswith(inside) for place in places)


class PackageSets:
    """The sets that this process knows. One per process; thread-safe."""

    def __init__(self) -> None:
        self._sets: dict[str, PackageSet] = {}
        self._adopted: list[PackageSet] = []
        self._apart: dict[str, dict[str, ModuleType]] = {}
        self._current: PackageSet | None = None
        self._lock = threading.RLock()

    def add(self, one: PackageSet) -> None:
        """Make a set known."""
        with self._lock:
            self._sets[one.digest] = one

    def get(self, digest: str) -> PackageSet:
        """The set of this name."""
        try:
            return self._sets[digest]
        except KeyError:
            raise QueryError(
                f"the packages {digest[:12]} are not here: upload the bundle that needs them again"
            ) from None

    def has(self, digest: str) -> bool:
        """Whether `get` would find it."""
        return digest in self._sets

    def remove(self, digest: str) -> None:
        """Forget a set and the modules that were imported from it; its files are their owner's business."""
        with self._lock:
            self._sets.pop(digest, None)
            self._apart.pop(digest, None)

    def check_together(self, digests: Iterable[str], place: str) -> None:
        """Complain if one process could not have all these sets, because they hold other versions of one package."""
        known: dict[str, str] = {}
        for digest in digests:
            for name, version in self.get(digest).distributions().items():
                if known.setdefault(name, version) != version:
                    raise QueryError(f"{place} would need {name} {known[name]} and {name} {version} in one process")

    def adopt(self, digest: str) -> None:
        """Let everything in this process import the set's modules, from now on. Safe to call twice."""
        with self._lock:
            one = self.get(digest)
            if one in self._adopted:
                return
            self.check_together([*(other.digest for other in self._adopted), digest], "this working node")
            self._adopted.append(one)
            sys.path.append(str(one.folder))
            importlib.invalidate_caches()

    @contextmanager
    def importing(self, digest: str | None) -> Iterator[None]:
        """While it lasts, this process imports and pickles with a set's modules; other threads that ask for it wait."""
        if digest is None or any(one.digest == digest for one in self._adopted):
            yield
            return
        with self._lock:
            before, inner = self._current, self.get(digest)
            self._switch(inner)
            try:
                yield
            finally:
                self._switch(before)

    def _switch(self, to: PackageSet | None) -> None:
        """Put the modules of the current set out of sight, and those of another one in sight."""
        if self._current == to:
            return
        if (current := self._current) is not None:
            loaded = [name for name, module in list(sys.modules.items()) if current.holds(module)]
            sys.path.remove(str(current.folder))
            self._apart.setdefault(current.digest, {}).update({name: sys.modules.pop(name) for name in loaded})
        if to is not None:
            sys.path.append(str(to.folder))
            importlib.invalidate_caches()
            sys.modules.update(self._apart.get(to.digest, {}))
        self._current = to


packages = PackageSets()


def pack(folder: Path, archive: Path) -> str:
    """Write a folder's files as an archive, and give its digest. The same files give the same archive."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
        for file in sorted(file for file in folder.rglob("*") if file.is_file()):
            entry = zipfile.ZipInfo(file.relative_to(folder).as_posix(), _LONG_AGO)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            with file.open("rb") as source, made.open(entry, "w", force_zip64=True) as target:
                while part := source.read(_PART):
                    target.write(part)
    return digest_of(archive)


def digest_of(archive: Path) -> str:
    """The name of the set in an archive."""
    with archive.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def unpack(archive: Path, folder: Path) -> None:
    """Write an archive's files into a folder, which is there as a whole or not at all."""
    unfinished = folder.with_name(f".{folder.name}.{os.getpid()}.{threading.get_ident()}")
    with zipfile.ZipFile(archive) as made:
        made.extractall(unfinished)
    unfinished.rename(folder)
