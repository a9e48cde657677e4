"""Methods that are written once and belong to both clients.

A method that says *what* to exchange with the coordinator becomes one that does it: at once in a `Blocking` client, to
be awaited in a `Concurrent` one. Type checkers see the right signature in each.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from gsdm_grid.client.conversations import Exchange, Listing
from gsdm_grid.client.result_streams import Cursor

P = ParamSpec("P")
T = TypeVar("T")


class Blocking(ABC):
    """A client whose methods return when they are done."""

    @abstractmethod
    def _perform(self, exchange: Exchange[T]) -> T:
        """Do what an exchange asks for, to its end."""

    @abstractmethod
    def _pages(self, listing: Listing[T]) -> Iterator[T]:
        """All items of a list."""

    @abstractmethod
    def _read(self, cursor: Cursor[T]) -> Iterator[T]:
        """All that a result stream gives."""


class Concurrent(ABC):
    """A client whose methods are awaited."""

    @abstractmethod
    async def _perform(self, exchange: Exchange[T]) -> T:
        """Do what an exchange asks for, to its end."""

    @abstractmethod
    def _pages(self, listing: Listing[T]) -> AsyncIterator[T]:
        """All items of a list."""

    @abstractmethod
    def _read(self, cursor: Cursor[T]) -> AsyncIterator[T]:
        """All that a result stream gives."""


class _Method:
    """A descriptor around what the method is written as; ``_how`` names what a client does with the outcome."""

    _how: str

    def __init__(self, written: Callable[..., Any]) -> None:
        self._written = written
        self.__doc__ = written.__doc__

    def _bound(self, client: Any) -> Any:
        if client is None:
            return self

        @functools.wraps(self._written)
        def method(*args: Any, **kwargs: Any) -> Any:
            return getattr(client, self._how)(self._written(client, *args, **kwargs))

        return method


class exchanged(_Method, Generic[P, T]):
    """For methods that have one outcome."""

    _how = "_perform"

    def __init__(self, written: Callable[Concatenate[Any, P], Exchange[T]]) -> None:
        super().__init__(written)

    @overload
    def __get__(self, client: Blocking, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: Concurrent, owner: type) -> Callable[P, Awaitable[T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        return self._bound(client)


class _Iterated(_Method, Generic[P, T]):
    @overload
    def __get__(self, client: Blocking, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: Concurrent, owner: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        return self._bound(client)


class paged(_Iterated[P, T]):
    """For methods that list things."""

    _how = "_pages"

    def __init__(self, written: Callable[Concatenate[Any, P], Listing[T]]) -> None:
        super().__init__(written)


class streamed(_Iterated[P, T]):
    """For methods that read a result stream."""

    _how = "_read"

    def __init__(self, written: Callable[Concatenate[Any, P], Cursor[T]]) -> None:
        super().__init__(written)
