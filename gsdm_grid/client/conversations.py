"""Conversations with a coordinator, without the I/O: generators that yield what to do next and get what came of it.

A client sends each `Request` that an exchange yields and hands the response back (or throws the transport's error in),
sleeps for each `Pause`, and gets the result at the end. So retries and waiting are written once, for both clients.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import httpx

from gsdm_grid.client.documents import Operation, Optimization, RecordedSegment, Trial
from gsdm_grid.client.problems import ApiProblem, NoCoordinator
from gsdm_grid.client.retries import BUSY, RetryPolicy, repeatable
from gsdm_grid.errors import GsdmError, QueryError

T = TypeVar("T")
R = TypeVar("R", Operation, Trial, RecordedSegment, Optimization)
Monotonic = Callable[[], float]
_KEY = "Idempotency-Key"
_POLL_S = (0.05, 1.0)


@dataclass(frozen=True)
class Request:
    """A request, relative to the coordinator's address. Immutable."""

    method: str
    path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    json: Any = None
    content: bytes | None = None
    timeout_s: float | None = None
    """How long the answer may take, where that is longer than usual."""

    def arguments(self) -> dict[str, Any]:
        """As arguments of httpx's ``build_request``; parameters that are None are left out."""
        params = {name: value for name, value in self.params.items() if value is not None}
        made: dict[str, Any] = {"method": self.method, "url": self.path, "params": params, "headers": self.headers}
        if self.json is not None:
            made["json"] = self.json
        if self.content is not None:
            made["content"] = self.content
        if self.timeout_s is not None:
            made["timeout"] = self.timeout_s
        return made


@dataclass(frozen=True)
class Pause:
    """Wait so long before the next step."""

    seconds: float


Exchange = Generator[Request | Pause, Any, T]


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request together with what its answer means. Immutable."""

    request: Request
    read: Callable[[httpx.Response], T]


@dataclass(frozen=True)
class Page(Generic[T]):
    """One page of a list, and the cursor of the next."""

    items: tuple[T, ...]
    next: str | None


@dataclass(frozen=True)
class Listing(Generic[T]):
    """A list that comes in pages. Immutable."""

    path: str
    params: Mapping[str, Any]
    read: Callable[[Mapping[str, Any]], T]

    def first(self) -> Call[Page[T]] | None:
        """The first page."""
        return self._page(None)

    def after(self, page: Page[T]) -> Call[Page[T]] | None:
        """The page after one; None after the last."""
        return None if page.next is None else self._page(page.next)

    def _page(self, cursor: str | None) -> Call[Page[T]]:

        def read(response: httpx.Response) -> Page[T]:
            told = response.json()
            return Page(tuple(self.read(item) for item in told["items"]), told.get("next"))

        return Call(Request("GET", self.path, {**self.params, "cursor": cursor}), read)


def exchange(call: Call[T], url: str, retries: RetryPolicy, new_key: Callable[[], str] | None = None) -> Exchange[T]:
    """Send a request until it is answered for good; raises what its answer tells of."""
    request = call.request
    if request.method == "POST" and _KEY not in request.headers:
        key = new_key() if new_key else uuid.uuid4().hex
        request = replace(request, headers={**request.headers, _KEY: key})
    for attempt in itertools.count():
        retry_after = None
        try:
            response: httpx.Response = yield request
        except httpx.TransportError as error:
            if retries.exhausted(attempt) or not repeatable(request.method, _KEY in request.headers, error):
                raise unreachable(url, error) from error
        else:
            if response.status_code not in BUSY or retries.exhausted(attempt):
                return call.read(successful(response))
            retry_after = response.headers.get("Retry-After")
        yield Pause(retries.pause_s(attempt, retry_after))
    raise AssertionError


def until_over(
    ask: Callable[[str], Exchange[R]],
    begun: R,
    timeout_s: float | None,
    now: Monotonic = time.monotonic,
) -> Exchange[R]:
    """Ask for an operation or a trial until it is over; raises the problem that it failed with."""
    deadline_s = None if timeout_s is None else now() + timeout_s
    poll_s, longest_s = _POLL_S
    while not begun.over:
        if deadline_s is not None and now() >= deadline_s:
            kind = "operation " if isinstance(begun, Operation) else ""
            raise QueryError(
                f"query {begun.query!r}: {begun.action} is still {begun.status} after {timeout_s:g} s "
                f"({kind}{begun.id})"
            )
        yield Pause(poll_s)
        poll_s = min(poll_s * 1.5, longest_s)
        begun = yield from ask(begun.id)
    if begun.status == "failed":
        raise begun.error or ApiProblem("internal", 500, f"{begun.action} {begun.id} failed without a reason")
    return begun


def successful(response: httpx.Response) -> httpx.Response:
    """The response itself if it is one of success; raises the problem that it tells of."""
    if not response.is_success:
        raise ApiProblem.of(response)
    return response


def unreachable(url: str, error: httpx.TransportError) -> GsdmError:
    """What a broken connection is called."""
    refused = any(text in str(error) for text in ("Connection refused", "All connection attempts failed"))
    return NoCoordinator(url, "" if refused else f"{type(error).__name__}: {error}".rstrip(": "))
