"""Collecting what imported code registers, instead of registering it.

Whoever imports code under names of their own (uploaded bundles) collects what it defines, and then registers that under
those names. Registries of functions, templates and stream interfaces all ask a `Collector` first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Generic, TypeVar

T = TypeVar("T")


class Collector(Generic[T]):
    """What this thread registers from modules of one package. One for each registry; thread-safe."""

    def __init__(self, name: str) -> None:
        self._current: ContextVar[tuple[str, list[T]] | None] = ContextVar(name, default=None)

    @contextmanager
    def collecting(self, package: str) -> Iterator[list[T]]:
        """While it lasts, what this thread defines in modules of a package is collected in the list."""
        collected: list[T] = []
        token = self._current.set((package, collected))
        try:
            yield collected
        finally:
            self._current.reset(token)

    def take(self, one: T, module: str | None) -> bool:
        """Whether something that a module defines is collected now; then it must not be registered.

        None: it belongs to the module that registers it.
        """
        current = self._current.get()
        if current is None or (module is not None and not is_inside(module, current[0])):
            return False
        current[1].append(one)
        return True


def is_inside(module: str, package: str) -> bool:
    """Whether a module is a package, or one of its modules."""
    return f"{module}.".startswith(f"{package}.")
