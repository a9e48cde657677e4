"""What the code of a bundle brings: functions, templates and stream interfaces, under the bundle's name and version.

Each is registered twice: as ``NAME.it`` (the latest version) and as ``NAME@VERSION.it``. Templates run in the
coordinator, where the names that their code has for functions and templates of the bundle mean those of the same
version. Stream interfaces stay in the coordinator's process. Storing and importing code is up to `bundles`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, TypeVar

from api.errors import Problem
from gsdm_grid.errors import GsdmError
from gsdm_grid.flow import TEMPLATES, Template
from gsdm_grid.functions import FunctionRegistry, StreamFunction, functions, is_inside, reference
from gsdm_grid.interfaces import StreamInterface, interfaces

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}", re.ASCII)
Named = TypeVar("Named")


@dataclass(frozen=True)
class Collected:
    """What imported code registered, in order."""

    functions: list[StreamFunction]
    templates: list[Template]
    interfaces: list[tuple[str, type[StreamInterface]]]


@contextmanager
def collecting(module: str) -> Iterator[Collected]:
    """While it lasts, what this thread defines in a module, or in what is inside it, is collected, not registered."""
    with (
        functions.collecting(module) as own_functions,
        TEMPLATES.collecting(module) as own_templates,
        interfaces.collecting(module) as own_interfaces,
    ):
        yield Collected(own_functions, own_templates, own_interfaces)


@dataclass(frozen=True)
class Contents:
    """What one version of a bundle brings, by plain names. Immutable."""

    functions: Mapping[str, StreamFunction]
    templates: Mapping[str, Template]
    interfaces: Mapping[str, type[StreamInterface]]

    @staticmethod
    def of(module: ModuleType, collected: Collected) -> Contents:
        """What code registered, and what its package names; refuses what could not be used."""
        named = vars(module).values()
        contents = Contents(
            _by_name("function", [*collected.functions, *_own(StreamFunction, named, module)]),
            _by_name("template", [*collected.templates, *_own(Template, named, module)]),
            _unique("stream interface", collected.interfaces),
        )
        for name, function in contents.functions.items():
            if name in contents.templates:
                raise Problem("invalid-request", f"the bundle has a function and a template named {name!r}")
            try:
                reference(function)
            except GsdmError as error:
                raise Problem("function-failed", str(error), function=name) from None
        if not (contents.functions or contents.templates or contents.interfaces):
            raise Problem("invalid-request", "the bundle has no @sqf functions, templates or stream interfaces")
        return contents

    def register(self, bundle: str, version: int, packages: str | None, registry: FunctionRegistry) -> None:
        """Make everything known; ``packages`` is the digest of what its functions need."""
        for prefix in prefixes(bundle, version):
            siblings = {name: f"{prefix}.{name}" for name in (*self.functions, *self.templates)}
            for name, function in self.functions.items():
                strategies = tuple(strategy.renamed(siblings) for strategy in function.strategies)
                origin = _origin(bundle, version, name) | ({"packages": packages} if packages is not None else {})
                metadata = {**function.metadata, **origin}
                registry.add(replace(function, name=siblings[name], strategies=strategies, metadata=metadata))
            for name, template in self.templates.items():
                origin = _origin(bundle, version, name)
                TEMPLATES.add(replace(template, name=siblings[name], functions=siblings, metadata=origin))
            for name, interface in self.interfaces.items():
                interfaces.add(f"{prefix}.{name}", interface)


def forget(names: Iterable[str], registry: FunctionRegistry) -> None:
    """Take full names out of all registries; what was compiled with them goes on."""
    for name in names:
        registry.remove(name)
        TEMPLATES.remove(name)
        interfaces.remove(name)


def prefixes(bundle: str, version: int) -> tuple[str, str]:
    """What stands before the dot: for the latest version, and for this one."""
    return bundle, f"{bundle}@{version}"


def _origin(bundle: str, version: int, name: str) -> dict[str, Any]:
    return {"bundle": bundle, "version": version, "pinned": f"{prefixes(bundle, version)[1]}.{name}"}


def _own(kind: type[Named], values: Iterable[Any], module: ModuleType) -> list[Named]:
    """Values of a kind whose code is in the module, or in what is inside it."""
    of_kind = [value for value in values if isinstance(value, kind)]
    return [one for one in of_kind if is_inside(getattr(getattr(one, "code", None), "__module__", ""), module.__name__)]


def _by_name(kind: str, listed: Iterable[Any]) -> dict[str, Any]:
    return _unique(kind, [(one.name, one) for one in listed])


def _unique(kind: str, listed: Iterable[tuple[str, Named]]) -> dict[str, Named]:
    """By name; the same may come twice."""
    by_name: dict[str, Named] = {}
    for name, one in listed:
        if not _PLAIN.fullmatch(name):
            raise Problem("invalid-request", f"{kind} {name[:80]!r} needs a plain name")
        if by_name.setdefault(name, one) is not one:
            raise Problem("invalid-request", f"the bundle has two {kind}s named {name!r}")
    return by_name
