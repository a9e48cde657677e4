"""The client for ``async`` programs: every method is awaited, every list and stream read with ``async for``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
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
from gsdm_grid.client.endpoints import Concurrent
from gsdm_grid.client.result_streams import Cursor
from gsdm_grid.client.retries import RetryPolicy

T = TypeVar("T")


class AsyncClient(CoordinatorInterface, Concurrent):
    """A coordinator, seen from an ``async`` program. As `Client`, with the same methods; bound to its event loop."""

    def __init__(
        self,
        server: str | None = None,
        token: str | None = None,
        *,
        retries: RetryPolicy | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        super().__init__(server, token, retries)
        self._http = httpx.AsyncClient(**self._settings(transport))
        self._sleep = sleep

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _perform(self, exchange: Exchange[T]) -> T:
        try:
            step = next(exchange)
            while True:
                try:
                    answer = await self._do(step)
                except httpx.TransportError as error:
                    step = exchange.throw(error)
                else:
                    step = exchange.send(answer)
        except StopIteration as done:
            outcome: T = done.value
            return outcome

    async def _do(self, step: Request | Pause) -> httpx.Response | None:
        if isinstance(step, Request):
            return await self._http.request(**step.arguments())
        await self._sleep(step.seconds)
        return None

    async def _pages(self, listing: Listing[T]) -> AsyncIterator[T]:
        call = listing.first()
        while call is not None:
            page = await self._perform(self._exchange(call))
            for item in page.items:
                yield item
            call = listing.after(page)

    async def _read(self, cursor: Cursor[T]) -> AsyncIterator[T]:
        while not cursor.over:
            try:
                async with self._http.stream(**cursor.request().arguments()) as response:
                    if not response.is_success:
                        await response.aread()
                    if cursor.opened(response):
                        async for data in response.aiter_bytes():
                            for item in cursor.feed(data):
                                yield item
                            if cursor.over:
                                return
            except httpx.TransportError as error:
                cursor.lost(error)
            await self._sleep(cursor.pause().seconds)
