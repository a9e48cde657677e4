"""The function registry: finds stream functions by name, wherever they were defined.

A name is looked up among the functions defined in this process, then the built-in library, then the entry points
``gsdm.functions`` of installed packages, and finally as a path ``package.module:function``. `reference` turns a
function into plain JSON that `resolve` turns back in another process: by name or path where the code is installed
there too, else as pickled code (notebooks, scripts).
"""

from __future__ import annotations

import base64
import importlib
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import cloudpickle

from gsdm_grid.errors import QueryError, UnknownName
from gsdm_grid.functions.sqf import StreamFunction

ENTRY_POINTS = "gsdm.functions"


class FunctionRegistry:
    """Stream functions by name. One per process; registering a name again replaces it, as notebooks need."""

    def __init__(self) -> None:
        self._functions: dict[str, StreamFunction] = {}

    def add(self, function: StreamFunction) -> StreamFunction:
        """Register under its own name; the built-in library's names are taken."""
        known = self._functions.get(function.name)
        if known is not None and _is_library(known) and not _is_library(function):
            raise QueryError(f"function {function.name!r} is part of the built-in library: choose another name")
        self._functions[function.name] = function
        return function

    def get(self, name: str | StreamFunction) -> StreamFunction:
        """The function of this name, or at this path ``package.module:function``."""
        if isinstance(name, StreamFunction):
            return name
        _load_library()
        if name in self._functions:
            return self._functions[name]
        if ":" in name:
            return self._from_path(name)
        for entry in metadata.entry_points(group=ENTRY_POINTS):
            if entry.name == name:
                loaded = entry.load()
                if not isinstance(loaded, StreamFunction):
                    raise QueryError(f"entry point {name!r} of {ENTRY_POINTS!r} is no @sqf function: {loaded!r}")
                return self.add(loaded)
        raise UnknownName("function", name, self.names())

    def has(self, name: str) -> bool:
        """Whether `get` would find it."""
        try:
            self.get(name)
        except QueryError:
            return False
        return True

    def names(self) -> list[str]:
        """All names that `get` finds without a path, sorted."""
        _load_library()
        return sorted({*self._functions, *(entry.name for entry in metadata.entry_points(group=ENTRY_POINTS))})

    def _from_path(self, path: str) -> StreamFunction:
        module_name, _, attribute = path.partition(":")
        try:
            found = getattr(importlib.import_module(module_name), attribute)
        except (ImportError, AttributeError) as error:
            raise QueryError(f"function path {path!r} cannot be loaded: {error}") from error
        if not isinstance(found, StreamFunction):
            raise QueryError(f"{path!r} is a {type(found).__name__}, not an @sqf function")
        return found


functions = FunctionRegistry()


def reference(function: StreamFunction) -> dict[str, str]:
    """Plain JSON from which `resolve` finds the function again in any process of the grid."""
    module_name = function.code.__module__
    if _is_library(function):
        return {"name": function.name}
    module = sys.modules.get(module_name)
    path = f"{module_name}:{function.code.__qualname__}"
    if _installed(module) and getattr(module, function.code.__qualname__, None) is function:
        return {"name": function.name, "path": path}
    by_value = module is not None and module_name != "__main__"
    if by_value:
        cloudpickle.register_pickle_by_value(module)
    try:
        code = base64.b64encode(cloudpickle.dumps(function)).decode()
    except Exception as error:
        raise QueryError(f"function {function.name!r} cannot be sent to other processes: {error}") from error
    finally:
        if by_value:
            cloudpickle.unregister_pickle_by_value(module)
    return {"name": function.name, "code": code}


def resolve(given: Mapping[str, str]) -> StreamFunction:
    """The function behind a `reference`."""
    if "code" in given:
        loaded: StreamFunction = cloudpickle.loads(base64.b64decode(given["code"]))
        return loaded
    return functions.get(given.get("path", given["name"]))


def _load_library() -> None:
    import gsdm_grid.functions.library  # noqa: F401


def _is_library(function: StreamFunction) -> bool:
    return str(function.code.__module__).startswith("gsdm_grid.functions.")


def _installed(module: Any) -> bool:
    """Whether workers can import the module by themselves: it lies in the installed packages or is ours."""
    if module is None or not getattr(module, "__file__", None):
        return False
    if module.__name__.partition(".")[0] == "gsdm_grid":
        return True
    location = Path(module.__file__).resolve()
    return any(location.is_relative_to(Path(entry).resolve()) for entry in sys.path if entry.endswith("-packages"))
