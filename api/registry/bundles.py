"""Uploaded function code: bundles of Python modules, in versions.

A bundle is stored, then imported here as ``gsdm_bundles.NAME_vVERSION``; its ``@sqf`` functions, templates and stream
interfaces are registered under its name and version (`bundle_contents`). The code of functions travels by value
inside a plan (see `gsdm_grid.functions.registry`): it reaches all hosts, and a compiled query keeps the version it was
compiled with.
What a bundle may hold is checked in `api.registry.archives`; what it requires is installed by `api.registry.packages`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import re
import shutil
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import sqlalchemy as sa

from api.errors import Problem
from api.registry import requirements
from api.registry.archives import PYTHON, Files, unpack
from api.registry.bundle_contents import (
    Collected,
    Contents,
    collecting,
    forget,
    prefixes,
)
from api.registry.packages import Installed, Packages
from api.registry.stream_types import Uses, forget_type, registered_user, types_apart
from api.registry.trial_imports import Package, TryImports, refusal
from api.store import Store, bundles
from gsdm_grid.functions import FunctionRegistry, functions
from gsdm_grid.functions import packages as known_packages

_log = logging.getLogger("gsdm.bundles")
ROOT = "gsdm_bundles"
NAME = r"^[A-Za-z][A-Za-z0-9_]{0,47}$"
_NAME = re.compile(NAME.strip("^$"), re.ASCII)


class Bundles:
    """The bundles of a store, unpacked in a folder. One per process and store. Thread-safe; all methods block."""

    def __init__(
        self,
        store: Store,
        folder: Path,
        uses: Uses,
        packages: Packages,
        registry: FunctionRegistry = functions,
        try_imports: TryImports | None = None,
    ) -> None:
        self._store = store
        self._folder = folder
        self._uses = uses
        self._packages = packages
        self._registry = registry
        self._try_imports = try_imports or _nothing_tried
        self._failed: dict[tuple[str, int], str] = {}
        self._types: dict[str, set[str]] = {}
        self._contents: dict[tuple[str, int], Contents] = {}
        self._lock = threading.Lock()

    def upload(self, name: str, media_type: str, content: bytes, token_id: str) -> tuple[dict[str, Any], bool]:
        """Store code as the next version of a bundle, install what it requires, and register its functions.

        Gives the version, and whether it is new: the content of the latest version is not stored again.
        """
        _check_name(name)
        digest = hashlib.sha256(f"{media_type}\n".encode() + content).hexdigest()
        latest = self._latest(name)
        if latest is not None and self._is(latest, digest):
            return self._shown(latest), False
        files = unpack(media_type, content)
        declared = _declared(media_type, files)
        installed = self._packages.install(declared) if declared else None  # takes its time: others go on meanwhile
        try:
            return self._store_version(name, media_type, content, digest, token_id, files, installed)
        finally:
            if installed is not None and installed.digest is not None:
                self._packages.release(installed.digest)
                self._discard(installed.digest)

    def _store_version(
        self,
        name: str,
        media_type: str,
        content: bytes,
        digest: str,
        token_id: str,
        files: Files,
        installed: Installed | None,
    ) -> tuple[dict[str, Any], bool]:
        with self._lock:
            latest = self._latest(name)
            if latest is not None and self._is(latest, digest):
                return self._shown(latest), False
            version = latest["version"] + 1 if latest is not None else 1
            contents = self._stage(name, version, files, installed)
            row = {
                "name": name,
                "version": version,
                "media_type": media_type,
                "content": content,
                "functions": sorted(contents.functions),
                "digest": digest,
                "token_id": token_id,
                "created_s": time.time(),
                "packages": installed.to_json() if installed is not None else None,
            }
            try:
                with self._store.begin() as connection:
                    connection.execute(bundles.insert().values(**row))
            except BaseException:
                self._unstage(name, version)
                raise
            self._register(name, version, contents, installed)
        _log.info("bundle uploaded", extra={"bundle": name, "version": version, "functions": row["functions"]})
        return self._shown(row), True

    def load_all(self) -> None:
        """Import everything that is stored, at start. What fails now (a package that is gone) is logged and shown."""
        with self._lock:
            written: list[tuple[str, int, Installed | None, Package]] = []
            for row in self._store.rows(sa.select(bundles).order_by(bundles.c.name, bundles.c.version)):
                name, version = row["name"], row["version"]
                installed = Installed.from_json(row["packages"]) if row["packages"] else None
                try:
                    if installed is not None:
                        self._packages.restore(installed)
                    package = self._write(name, version, unpack(row["media_type"], row["content"]), installed)
                    written.append((name, version, installed, package))
                except Problem as problem:
                    self._leave_out(name, version, problem)
            causes = self._try_imports([package for *_, package in written]) if written else {}
            for name, version, installed, package in written:
                try:
                    if package.module in causes:
                        raise refusal(causes[package.module])
                    contents = self._import(name, package)
                except Problem as problem:
                    self._leave_out(name, version, problem)
                else:
                    self._register(name, version, contents, installed)

    def _leave_out(self, name: str, version: int, problem: Problem) -> None:
        """A stored version does not work now."""
        self._unstage(name, version)
        self._failed[name, version] = problem.detail
        _log.error("bundle cannot be loaded", extra={"bundle": name, "version": version, "reason": problem.detail})

    def list(self) -> list[dict[str, Any]]:
        """The latest version of each bundle, by name."""
        return [self._shown(row) for row in self._newest_first().values()]

    def get(self, name: str) -> dict[str, Any]:
        """A bundle: its latest version, and which versions there are."""
        wanted = _columns().where(bundles.c.name == name).order_by(bundles.c.version.desc())
        rows = self._store.rows(wanted)
        if not rows:
            raise Problem("not-found", f"there is no bundle {name!r}")
        return {**self._shown(rows[0]), "versions": [self._shown(row) for row in rows]}

    def remove(self, name: str) -> None:
        """Remove all versions of a bundle. Refused while a query uses one of its functions."""
        with self._lock:
            rows = self._store.rows(_columns().where(bundles.c.name == name))
            if not rows:
                raise Problem("not-found", f"there is no bundle {name!r}")
            names = {full for row in rows for full in self._full_names(row)}
            for full in sorted(names):
                if (query := self._uses("function", full)) is not None:
                    raise Problem("in-use", f"query {query!r} uses {full!r}: remove it first", query=query)
                if (user := registered_user(self._store, full, self._uses, "interface")) is not None:
                    raise Problem("in-use", f"{user} uses its stream interface {full!r}: remove it first")
            for stream_type in self._types.get(name, ()):
                if (user := registered_user(self._store, stream_type, self._uses)) is not None:
                    raise Problem("in-use", f"{user} uses its stream type {stream_type!r}: remove it first")
            forget(names, self._registry)
            for stream_type in self._types.pop(name, ()):
                forget_type(stream_type)
            with self._store.begin() as connection:
                connection.execute(bundles.delete().where(bundles.c.name == name))
            for row in rows:
                self._failed.pop((name, row["version"]), None)
                self._contents.pop((name, row["version"]), None)
                self._unstage(name, row["version"])
        for digest in {row["packages"]["digest"] for row in rows if row["packages"]} - {None}:
            self._discard(digest)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _latest(self, name: str) -> dict[str, Any] | None:
        return self._store.row(_columns().where(bundles.c.name == name).order_by(bundles.c.version.desc()))

    def _is(self, row: Mapping[str, Any], digest: str) -> bool:
        """Whether a version has this content, and works."""
        return row["digest"] == digest and (row["name"], row["version"]) not in self._failed

    def _discard(self, digest: str) -> None:
        """Remove packages, unless a stored version needs them."""
        with self._lock:
            stored = self._store.rows(sa.select(bundles.c.packages))
            if not any(row["packages"] and row["packages"]["digest"] == digest for row in stored):
                self._packages.remove(digest)

    def _newest_first(self) -> dict[str, Mapping[str, Any]]:
        rows = self._store.rows(_columns().order_by(bundles.c.name, bundles.c.version))
        return {row["name"]: row for row in rows}

    def _shown(self, row: Mapping[str, Any]) -> dict[str, Any]:
        name, version = row["name"], row["version"]
        contents = self._contents.get((name, version), Contents({}, {}, {}))
        return {
            "name": name,
            "version": version,
            "functions": [f"{name}.{function}" for function in row["functions"]],
            "templates": [f"{name}.{template}" for template in sorted(contents.templates)],
            "interfaces": [f"{name}.{interface}" for interface in sorted(contents.interfaces)],
            "media_type": row["media_type"],
            "digest": row["digest"],
            "created": row["created_s"],
            "requirements": row["packages"]["requirements"] if row["packages"] else [],
            "packages": row["packages"]["distributions"] if row["packages"] else [],
            "error": self._failed.get((name, version)),
        }

    def _stage(self, name: str, version: int, files: Files, installed: Installed | None) -> Contents:
        """Write a version's files, import them, and give what they bring. Leaves nothing behind if that fails.

        It is imported by another process first: it may end the process, or never return.
        """
        try:
            package = self._write(name, version, files, installed)
            if (cause := self._try_imports([package]).get(package.module)) is not None:
                raise refusal(cause)
            return self._import(name, package)
        except BaseException:
            self._unstage(name, version)
            raise

    def _write(self, name: str, version: int, files: Files, installed: Installed | None) -> Package:
        """Write a version's files."""
        self._unstage(name, version)
        folder = self._folder / _module(name, version)
        for path, source in files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source)
        return Package(f"{ROOT}.{folder.name}", folder, installed.digest if installed is not None else None)

    def _import(self, name: str, package: Package) -> Contents:
        """Import what was written, and give what it brings."""
        with known_packages.importing(package.packages), types_apart(self._types.get(name, set())) as types:
            contents = Contents.of(*import_package(package.module, package.folder))
        self._types[name] = types
        return contents

    def _unstage(self, name: str, version: int) -> None:
        module = f"{ROOT}.{_module(name, version)}"
        for loaded in list(sys.modules):  # a copy: other threads import meanwhile
            if f"{loaded}.".startswith(f"{module}."):
                del sys.modules[loaded]
        shutil.rmtree(self._folder / _module(name, version), ignore_errors=True)

    def _register(self, name: str, version: int, contents: Contents, installed: Installed | None) -> None:
        self._contents[name, version] = contents
        contents.register(name, version, installed.digest if installed is not None else None, self._registry)

    def _full_names(self, row: Mapping[str, Any]) -> set[str]:
        """All names under which something of a version is registered."""
        contents = self._contents.get((row["name"], row["version"]), Contents({}, {}, {}))
        plain = {*row["functions"], *contents.templates, *contents.interfaces}
        return {f"{prefix}.{name}" for prefix in prefixes(row["name"], row["version"]) for name in plain}


def _nothing_tried(_packages: Sequence[Package]) -> dict[str, str]:
    return {}


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise Problem("invalid-request", "a bundle's name is a letter and up to 47 letters, digits or '_'")


def _declared(media_type: str, files: Files) -> list[str]:
    """What an upload requires."""
    if media_type == PYTHON:
        return requirements.in_module(files["__init__.py"])
    return requirements.in_file(files[requirements.FILE]) if requirements.FILE in files else []


def _columns() -> sa.Select[Any]:
    """Everything but the content."""
    return sa.select(*(column for column in bundles.c if column.name != "content"))


def _module(name: str, version: int) -> str:
    return f"{name}_v{version}"


def root_package() -> ModuleType:
    """The package that all bundles are imported into. It is found nowhere: what is in it was put there."""
    if ROOT not in sys.modules:
        root = ModuleType(ROOT, "Uploaded function code; see `api.registry.bundles`.")
        root.__path__ = []
        sys.modules[ROOT] = root
    return sys.modules[ROOT]


def import_package(module_name: str, folder: Path) -> tuple[ModuleType, Collected]:
    """Import a version's package and collect what it registers.

    What its author's code raises becomes the problem's cause.
    """
    root_package()
    location = folder / "__init__.py"
    spec = importlib.util.spec_from_file_location(module_name, location, submodule_search_locations=[str(folder)])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    importlib.invalidate_caches()
    sys.modules[module_name] = module
    try:
        with collecting(module_name) as collected:
            spec.loader.exec_module(module)
    except BaseException as error:  # SystemExit, KeyboardInterrupt, whatever its author likes
        cause = _cause(error, folder)
        raise refusal(cause) from error
    return module, collected


def _cause(error: BaseException, folder: Path) -> str:
    """What was raised, and where in the bundle; no trace of ours."""
    line = None
    trace = error.__traceback__
    while trace is not None:
        path = Path(trace.tb_frame.f_code.co_filename)
        if path.is_relative_to(folder):
            line = f"{path.relative_to(folder)}, line {trace.tb_lineno}"
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).is_relative_to(folder):
        return f"SyntaxError: {error.msg} ({Path(error.filename).relative_to(folder)}, line {error.lineno})"
    text = f"{type(error).__name__}: {error}"[:500].replace(str(folder), "")
    return f"{text} ({line})" if line else text
