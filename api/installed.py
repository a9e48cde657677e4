"""Which code a document may name: that of installed packages and of uploaded bundles, and no other.

A path ``package.module:name`` imports its module. So its package must be an installed one, wherever the coordinator
was started. Interfaces that call a function which their options name, with parameters from there, could be made to run
any program: those are for admins, who may upload code anyway. Which files a document may name is in
`api.data_folders`.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from api.auth import Role
from api.data_folders import check_files
from api.errors import Problem
from gsdm_grid.channels import StreamInterface, interfaces
from gsdm_grid.channels.generator import GeneratorSource
from gsdm_grid.errors import FlowError

OWN_PACKAGE = "gsdm_grid"
_PATH = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_.]*", re.ASCII)


def check_specification(document: Mapping[str, Any], role: Role, folders: Sequence[Path] = ()) -> None:
    """Refuse a query specification that names code or files it may not. Says nothing about what else may be wrong."""
    for member in ("inputs", "outputs"):
        listed = document.get(member)
        for number, stream in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(stream, Mapping):
                check_stream(stream, f"{member}[{number}]", role, folders)
    for member in ("flow", "function", "params"):
        check_paths(document.get(member), member)


def check_stream(document: Mapping[str, Any], place: str, role: Role, folders: Sequence[Path] = ()) -> None:
    """Refuse an input or result stream that names code it may not, or, of others than admins, a file outside of the
    data folders.
    """
    name, given = document.get("interface"), document.get("options")
    if not isinstance(name, str):
        return
    check_paths(name, f"{place}.interface")
    interface, options = _interface(name), given if isinstance(given, Mapping) else {}
    if interface is None:
        return
    if issubclass(interface, GeneratorSource):
        if role != "admin":
            raise Problem("forbidden", f"{place}: interface {name!r:.80} calls code by name: that needs an admin")
        check_paths(options.get("function"), f"{place}.options.function")
    if role != "admin":
        check_files(interface, options, f"{place}.options", folders)


def calls_code(name: str) -> bool:
    """Whether an interface, known by name or path, calls a function that its options name."""
    interface = _interface(name)
    return interface is not None and issubclass(interface, GeneratorSource)


def _interface(name: str) -> type[StreamInterface] | None:
    try:
        return interfaces.get(name)
    except Exception:  # what is wrong with it will be said by those who check the stream
        return None


def check_paths(value: Any, place: str) -> None:
    """Refuse paths of packages that are not installed, anywhere in a document."""
    waiting = [(value, place)]
    while waiting:
        item, at = waiting.pop()
        if isinstance(item, Mapping):
            waiting += ((inner, f"{at}.{key}") for key, inner in item.items())
        elif isinstance(item, list | tuple):
            waiting += ((inner, f"{at}[{number}]") for number, inner in enumerate(item))
        elif isinstance(item, str) and ":" in item and (path := _PATH.fullmatch(item)) and not is_installed(path[1]):
            raise FlowError(at, f"{item!r:.120} does not lie in an installed package: install it, or upload a bundle")


def is_installed(package: str) -> bool:
    """Whether a top-level package is ours, or lies where packages are installed. Imports nothing."""
    if package == OWN_PACKAGE:
        return True
    if package in sys.stdlib_module_names or package == "__main__":
        return False
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return False
    locations = [spec.origin] if spec and spec.origin else list(spec.submodule_search_locations or ()) if spec else []
    folders = [Path(entry).resolve() for entry in sys.path if entry.endswith("-packages")]
    return bool(locations) and all(
        any(Path(location).resolve().is_relative_to(folder) for folder in folders) for location in locations
    )
