"""The function registry: finds stream functions by name, wherever they were defined.

A name is looked up among the built-in library and the functions defined in this process, then as a path
``package.module:function``, and finally among the entry points ``gsdm.functions`` of installed packages.
`reference` turns a function into plain JSON that `resolve` turns back in another process: by name or path
where the code is installed there too, else as pickled code (notebooks, scripts), with the digest of the packages that
it needs (``metadata["packages"]``; see `gsdm_grid.functions.packages`).
"""

from __future__ import annotations

import base64
import importlib
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import cloudpickle

from gsdm_grid.errors import QueryError, UnknownName
from gsdm_grid.functions.collecting import Collector, is_inside
from gsdm_grid.functions.packages import packages
from gsdm_grid.functions.sqf import StreamFunction

ENTRY_POINTS = "gsdm.functions"
FUNCTION = "$function"
"""The key of a reference among the values of parameters."""
_inside: ContextVar[tuple[Mapping[str, str], ...]] = ContextVar("_inside", default=())
_pinned: ContextVar[Mapping[str, str] | None] = ContextVar("_pinned", default=None)


class FunctionRegistry:
    """Stream functions by name. One per process.

    Registering a name again replaces it, as notebooks need.
    """

    def __init__(self) -> None:
        self._functions: dict[str, StreamFunction] = {}
        self._collector: Collector[StreamFunction] = Collector("functions")

    def add(self, function: StreamFunction) -> StreamFunction:
        """Register under its own name; the built-in library's names are taken."""
        if self._collector.take(function, _module_of(function)):
            return function
        if not is_library(function):
            _load_library()  # else it would replace this function later, without a word
            known = self._functions.get(function.name)
            if known is not None and is_library(known):
                raise QueryError(f"function {function.name!r} is part of the built-in library: rename yours")
        self._functions[function.name] = function
        return function

    def remove(self, name: str) -> None:
        """Forget a name, if it is known; what was compiled with it keeps its code."""
        self._functions.pop(name, None)

    def collecting(self, package: str) -> AbstractContextManager[list[StreamFunction]]:
        """While it lasts, functions that this thread defines in modules of a package are collected, not registered."""
        return self._collector.collecting(package)

    @contextmanager
    def inside(self, names: Mapping[str, str]) -> Iterator[None]:
        """While it lasts, code of a bundle runs: its functions, and its own names for them, mean those that are
        registered under full names.
        """
        token = _inside.set((names, *_inside.get()))
        try:
            yield
        finally:
            _inside.reset(token)

    @contextmanager
    def pinned(self, names: Mapping[str, str]) -> Iterator[None]:
        """While it lasts, each of these names means the other one: the version that a query was compiled with."""
        token = _pinned.set(names)
        try:
            yield
        finally:
            _pinned.reset(token)

    def get(self, name: str | StreamFunction) -> StreamFunction:
        """The function of this name, or at this path ``package.module:function``."""
        if isinstance(name, StreamFunction):
            return self._registered(name)
        _load_library()
        name = self.full_name(name)
        if (pinned := self.pinned_name(name)) != name and pinned in self._functions:
            return replace(self._functions[pinned], name=name)
        if name in self._functions:
            return self._functions[name]
        if ":" in name:
            return _from_path(name)
        for entry in metadata.entry_points(group=ENTRY_POINTS, name=name):
            return self.add(_from_path(f"{entry.module}:{entry.attr}"))
        raise UnknownName("function", name, self.names())

    def full_name(self, name: str) -> str:
        """What a name means to the code that runs now: its own names are short for full ones."""
        inside = _inside.get()
        return inside[0].get(name, name) if inside else name

    def pinned_name(self, name: str) -> str:
        """The name of the version that a name is pinned to; the name itself if it is not."""
        return (_pinned.get() or {}).get(name, name)

    def _registered(self, function: StreamFunction) -> StreamFunction:
        """The function as it is registered, if code of the bundle that it comes from runs now."""
        for names in _inside.get():
            full = names.get(function.name, "")
            registered = self._functions.get(self.pinned_name(full))
            if registered is not None and registered.code is function.code:
                return replace(registered, name=full)
        return function

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
        return sorted({*self._functions, *metadata.entry_points(group=ENTRY_POINTS).names})


def _from_path(path: str) -> StreamFunction:
    module_name, _, attribute = path.partition(":")
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except (Exception, SystemExit) as error:  # importing runs the author's code, which may raise anything
        raise QueryError(f"function path {path!r} cannot be loaded: {error}") from error
    if not isinstance(found, StreamFunction):
        raise QueryError(f"{path!r} is a {type(found).__name__}, not an @sqf function")
    return found


functions = FunctionRegistry()
_pickling = threading.Lock()  # what is pickled by value is a setting of the process


def reference(function: StreamFunction) -> dict[str, str]:
    """Plain JSON from which `resolve` finds the function again in any process of the grid."""
    if is_library(function):
        return {"name": function.name}
    module_name = getattr(function.code, "__module__", "")
    variable = getattr(function.code, "__qualname__", "")
    module = sys.modules.get(module_name)
    installed = _installed(module)
    if installed and getattr(module, variable, None) is function:
        return {"name": function.name, "path": f"{module_name}:{variable}"}
    by_reference = module is None or installed or module_name == "__main__"
    needed = function.metadata.get("packages")
    try:
        with packages.importing(needed):
            code = cloudpickle.dumps(function) if by_reference else _with_module(function, module)
    except Exception as error:
        raise QueryError(f"function {function.name!r} cannot be sent to other processes: {error}") from error
    made = {"name": function.name, "code": base64.b64encode(code).decode()}
    more = {"packages": needed, "pinned": function.metadata.get("pinned")}
    return made | {key: value for key, value in more.items() if value is not None}


def _with_module(function: StreamFunction, module: Any) -> bytes:
    """Pickle the function with what it uses of its package, which is not installed elsewhere."""
    module = sys.modules.get(module.__name__.partition(".")[0], module)
    with _pickling:
        if module.__name__ in cloudpickle.list_registry_pickle_by_value():
            return bytes(cloudpickle.dumps(function))
        cloudpickle.register_pickle_by_value(module)
        try:
            return bytes(cloudpickle.dumps(function))
        finally:
            cloudpickle.unregister_pickle_by_value(module)


def resolve(given: Mapping[str, str]) -> StreamFunction:
    """The function behind a `reference`. Pickled code is run: it must come from somebody trusted."""
    if "code" not in given:
        return functions.get(given["path"] if "path" in given else given["name"])
    try:
        with packages.importing(given.get("packages")):
            loaded = cloudpickle.loads(base64.b64decode(given["code"]))
    except Exception as error:  # unpickling runs code, which may raise anything
        raise QueryError(f"function {given.get('name')!r} cannot be loaded from its code: {error}") from error
    if not isinstance(loaded, StreamFunction):
        raise QueryError(f"the code of function {given.get('name')!r} is a {type(loaded).__name__}")
    return loaded


def function_reference(given: str | StreamFunction | Mapping[str, str]) -> dict[str, str]:
    """Reference to a function given by name, as an object, or by another reference; unknown names are refused here."""
    if isinstance(given, Mapping):
        return dict(given) if "code" in given else reference(resolve(given))
    return reference(functions.get(given))


def function_value(given: Any) -> StreamFunction:
    """The function behind a parameter's value: a function, its name, or a reference in a plan."""
    return resolve(given[FUNCTION]) if isinstance(given, Mapping) else functions.get(given)


def _load_library() -> None:
    import gsdm_grid.functions.library  # noqa: F401


def is_library(function: StreamFunction) -> bool:
    """Whether a function is built in."""
    return is_inside(_module_of(function), "gsdm_grid.functions")


def _module_of(function: StreamFunction) -> str:
    return getattr(function.code, "__module__", None) or ""


def _installed(module: Any) -> bool:
    """Whether workers can import the module themselves: it is Python's, ours, or an installed package's."""
    if module is None:
        return False
    root = module.__name__.partition(".")[0]
    if root == "gsdm_grid" or root in sys.stdlib_module_names:
        return True
    if not getattr(module, "__file__", None):
        return False
    location = Path(module.__file__).resolve()
    packages = (Path(entry).resolve() for entry in sys.path if entry.endswith("-packages"))
    return any(location.is_relative_to(folder) for folder in packages)
