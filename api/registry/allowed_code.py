"""Which code a document may name: registered names, entry points and uploaded bundles; paths only of allowed modules.

A path ``package.module:name`` imports its module, and importing runs code: of any installed program, if any module
could be named. So a document names functions and interfaces by the names that they have here, and a path is refused,
before anything is imported, unless the settings allow its module (`ServiceSettings.allowed_modules`). This holds for
everybody who sends documents. Interfaces that call a function which their options name, with parameters from there,
could be made to run any program: those are for admins, who may upload code anyway. Which files a document may name is
in `api.registry.data_folders`.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from api.errors import Problem
from api.http import Role
from api.registry.data_folders import check_files
from gsdm_grid.errors import FlowError
from gsdm_grid.functions import FUNCTION
from gsdm_grid.interfaces import GeneratorSource, StreamInterface, interfaces

_PATH = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d][\w.]*")


def check_specification(
    document: Mapping[str, Any], role: Role, folders: Sequence[Path] = (), allowed: Sequence[str] = ()
) -> None:
    """Refuse a query specification that names code or files it may not. Says nothing about what else may be wrong."""
    for member in ("inputs", "outputs"):
        listed = document.get(member)
        for number, stream in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(stream, Mapping):
                check_stream(stream, f"{member}[{number}]", role, folders, allowed)
    for member in ("flow", "function", "params"):
        check_paths(document.get(member), member, allowed)


def check_stream(
    document: Mapping[str, Any], place: str, role: Role, folders: Sequence[Path] = (), allowed: Sequence[str] = ()
) -> None:
    """Refuse an input or result stream that names code it may not, or, of others than admins, a file outside of the
    data folders.
    """
    name, given = document.get("interface"), document.get("options")
    if not isinstance(name, str):
        return
    if name not in interfaces.names():
        _check_path(name, f"{place}.interface", allowed)
    interface, options = _interface(name), given if isinstance(given, Mapping) else {}
    if interface is None:
        return
    if issubclass(interface, GeneratorSource):
        if role != "admin":
            raise Problem("forbidden", f"{place}: interface {name!r:.80} calls code by name: that needs an admin")
        if isinstance(function := options.get("function"), str):
            _check_path(function, f"{place}.options.function", allowed)
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


def check_paths(value: Any, place: str, allowed: Sequence[str] = ()) -> None:
    """Refuse paths of modules that are not allowed, and pickled code, anywhere in a document. Imports nothing."""
    waiting = [(value, place)]
    while waiting:
        item, at = waiting.pop()
        if isinstance(item, Mapping):
            if FUNCTION in item:
                raise FlowError(at, f"{FUNCTION!r} is only for plans: name the function, or upload a bundle")
            waiting += ((inner, f"{at}.{key}") for key, inner in item.items())
        elif isinstance(item, list | tuple):
            waiting += ((inner, f"{at}[{number}]") for number, inner in enumerate(item))
        elif isinstance(item, str) and (_PATH.fullmatch(item) or _names_a_module(item)):
            _check_path(item, at, allowed)


def _check_path(text: str, place: str, allowed: Sequence[str]) -> None:
    """Refuse a text that would be taken as a path, unless its module, or a package that it is in, is allowed."""
    module, colon, _ = text.partition(":")
    if colon and not any(f"{module}.".startswith(f"{one}.") for one in allowed):
        shown = ", ".join(allowed) or "none"
        raise FlowError(
            place,
            f"{text!r:.120}: code is named by a registered name, or uploaded as a bundle; module {module!r:.80} is not "
            f"among those that this coordinator allows by path (gsdm serve --allow-module): {shown}",
        )


def _names_a_module(text: str) -> bool:
    """Whether importing what is before the colon would run code, such as in ``json.tool:1``; ``http://…`` is a text."""
    module, colon, _ = text.partition(":")
    top = module.partition(".")[0]
    if not colon or not top or module in sys.modules:
        return False
    try:
        return top in sys.modules or importlib.util.find_spec(top) is not None
    except (ImportError, ValueError):
        return False
