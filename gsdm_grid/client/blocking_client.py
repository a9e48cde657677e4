"""The client for ordinary programs: every method waits for its answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TypeVar

import httpx

from gsdm_grid.client.conversations import (
    Exchange,
    Listing,
    Pause,
    Request,
)
from gsdm_grid.client.coordinator_interface import CoordinatorInterface
from gsdm_grid.client.endpoints import Blocking
from gsdm_grid.client.result_streams import Cursor
from gsdm_grid.client.retries import RetryPolicy

T = TypeVar("T")


class Client(CoordinatorInterface, Blocking):
    """A coordinator, seen from a program. Close it, or use it in a ``with`` statement; may be shared by threads.

    ``server`` and ``token`` are found as described in `gsdm_grid.client.address` if they are not given. Requests that
    do not arrive, and those answered with 429, 502 or 503, are repeated as ``retries`` says. What the coordinator
    refuses is raised as `ApiProblem`. ``transport`` replaces the network, ``sleep`` the waiting.
    """

    def __init__(
        self,
        server: str | None = None,
        token: str | None = None,
        *,
        retries: RetryPolicy | None = None,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(server, token, retries)
        self._http = httpx.Client(**self._settings(transport))
        self._sleep = sleep

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _perform(self, exchange: Exchange[T]) -> T:
        try:
            step = next(exchange)
            while True:
                try:
                    answer = self._do(step)
                except httpx.TransportError as error:
                    step = exchange.throw(error)
                else:
                    step = exchange.send(answer)
        except StopIteration as done:
            outcome: T = done.value
            return outcome

    def _do(self, step: Request | Pause) -> httpx.Response | None:
        if isinstance(step, Request):
            return self._http.request(**step.arguments())
        self._sleep(step.seconds)
        return None

    def _pages(self, listing: Listing[T]) -> Iterator[T]:
        call = listing.first()
        while call is not None:
            page = self._perform(self._exchange(call))
            yield from page.items
            call = listing.after(page)

    def _read(self, cursor: Cursor[T]) -> Iterator[T]:
        while not cursor.over:
            try:
                with self._http.stream(**cursor.request().arguments()) as response:
                    if not response.is_success:
                        response.read()
                    if cursor.opened(response):
                        for data in response.iter_bytes():
                            yield from cursor.feed(data)
                            if cursor.over:
                                return
            except httpx.TransportError as error:
                cursor.lost(error)
            self._sleep(cursor.pause().seconds)
