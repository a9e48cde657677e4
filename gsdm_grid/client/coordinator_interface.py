"""What a coordinator can be asked, written once for both clients; see `gsdm_grid.client.endpoints`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

import httpx

from gsdm_grid.client import calls
from gsdm_grid.client.address import resolve
from gsdm_grid.client.calls import Specification
from gsdm_grid.client.conversations import (
    Call,
    Exchange,
    Listing,
    exchange,
    until_over,
)
from gsdm_grid.client.documents import (
    Bundle,
    Document,
    Operation,
    Query,
    ResultEvent,
    Token,
    Trial,
)
from gsdm_grid.client.endpoints import exchanged, paged, streamed
from gsdm_grid.client.optimizer_interface import OptimizerInterface
from gsdm_grid.client.problems import ApiProblem, NoCoordinator
from gsdm_grid.client.result_streams import (
    BlockCursor,
    Cursor,
    EventCursor,
    NumberedBlock,
    ResultSelection,
    Start,
)
from gsdm_grid.client.retries import RetryPolicy
from gsdm_grid.model import PhysicalWindow

T = TypeVar("T")


class CoordinatorInterface(OptimizerInterface):
    """Base of `Client` and `AsyncClient`: knows the address and all requests; leaves the I/O to them."""

    timeout = httpx.Timeout(60.0, connect=10.0)
    """Result streams send something at least every 10 seconds, windows or not."""

    def __init__(self, server: str | None, token: str | None, retries: RetryPolicy | None) -> None:
        self.address = resolve(server, token)
        self.retries = retries or RetryPolicy()

    # -- queries --------------------------------------------------------------------------------------------------

    @exchanged
    def submit(self, spec: Specification, name: str | None = None) -> Exchange[Query]:
        """Check and store a query: a mapping, or the path of a file in YAML or JSON; under ``name`` if given."""
        return self._exchange(calls.submit(spec, name))

    @exchanged
    def replace(self, name: str, spec: Specification, etag: str | None = None) -> Exchange[Query]:
        """Give a query that is not installed another specification; with ``etag`` only if it is still that one."""
        return self._exchange(calls.replace(name, spec, etag))

    @exchanged
    def query(self, name: str) -> Exchange[Query]:
        """One query."""
        return self._exchange(calls.query(name))

    @paged
    def queries(self, state: str | None = None, name: str | None = None) -> Listing[Query]:
        """All queries, or those in a state, or those whose name begins so."""
        return calls.queries(state, name)

    @exchanged
    def compile(self, name: str, *, wait: bool = True, timeout_s: float | None = None) -> Exchange[Operation]:
        """Make the query's plan."""
        return self._act(calls.act(name, "compile"), wait, timeout_s)

    @exchanged
    def install(self, name: str, *, wait: bool = True, timeout_s: float | None = None) -> Exchange[Operation]:
        """Start working nodes and install the plan on them."""
        return self._act(calls.act(name, "install"), wait, timeout_s)

    @exchanged
    def activate(
        self,
        name: str,
        count: int | None = None,
        time_s: float | None = None,
        *,
        wait: bool = True,
        timeout_s: float | None = None,
    ) -> Exchange[Operation]:
        """Start, or go on: until stopped, for ``count`` windows, or for ``time_s`` seconds."""
        return self._act(calls.act(name, "activate", calls.stop_condition(count, time_s)), wait, timeout_s)

    @exchanged
    def run(
        self,
        name: str,
        count: int | None = None,
        time_s: float | None = None,
        *,
        wait: bool = True,
        timeout_s: float | None = None,
    ) -> Exchange[Operation]:
        """Compile, install and activate, as far as that has not been done. It is over when the query is active."""
        return self._act(calls.act(name, "run", calls.stop_condition(count, time_s)), wait, timeout_s)

    @exchanged
    def deactivate(
        self, name: str, *, immediate: bool = False, wait: bool = True, timeout_s: float | None = None
    ) -> Exchange[Operation]:
        """Stop reading the inputs; what was read flows out, unless ``immediate``."""
        mode = "immediate" if immediate else "drain"
        return self._act(calls.act(name, "deactivate", mode=mode), wait, timeout_s)

    @exchanged
    def scale(
        self, name: str, degree: int, *, wait: bool = True, timeout_s: float | None = None
    ) -> Exchange[Operation]:
        """Change the degree of parallelism, also while the query runs; the operation says how long it stood still."""
        return self._act(calls.scale(name, degree), wait, timeout_s)

    @exchanged
    def drop(self, name: str, *, wait: bool = True, timeout_s: float | None = None) -> Exchange[Operation]:
        """Remove the query and everything it runs on."""
        return self._act(calls.drop(name), wait, timeout_s)

    @exchanged
    def operation(self, operation_id: str) -> Exchange[Operation]:
        """One operation."""
        return self._exchange(calls.operation(operation_id))

    @paged
    def operations(self, query: str | None = None, status: str | None = None) -> Listing[Operation]:
        """All operations, or those of a query, or with a status."""
        return calls.operations(query, status)

    @exchanged
    def wait(self, operation: Operation, timeout_s: float | None = None) -> Exchange[Operation]:
        """Wait until an operation is over; raises the problem that it failed with."""
        return self._until_over(operation, timeout_s)

    # -- what there is to know ------------------------------------------------------------------------------------

    @exchanged
    def statistics(self, name: str) -> Exchange[Document]:
        """Figures of a query's sites and streams."""
        return self._exchange(calls.get("queries", name, "statistics"))

    @exchanged
    def graph(self, name: str, form: str = "json") -> Exchange[Any]:
        """A query's data flow: a document, or a text if ``form`` is ``dot``, ``mermaid``, ``svg`` or ``text``."""
        return self._exchange(calls.graph(name, form))

    @exchanged
    def plan(self, name: str) -> Exchange[Document]:
        """A query's plan: which vertex runs where."""
        return self._exchange(calls.get("queries", name, "plan"))

    @paged
    def events(self, name: str) -> Listing[Document]:
        """State changes of a query, newest first."""
        return calls.listing("queries", name, "events")

    @paged
    def sites(self, query: str | None = None, sort: str | None = None) -> Listing[Document]:
        """Which queries run where; ``sort="utilization"``: busiest first."""
        return calls.listing("sites", query=query, sort=sort)

    @exchanged
    def resources(self) -> Exchange[Document]:
        """What the grid has."""
        return self._exchange(calls.get("resources"))

    @paged
    def functions(self, kind: str | None = None) -> Listing[Document]:
        """The stream query functions that the coordinator knows, built-in and uploaded."""
        return calls.listing("functions", kind=kind)

    @exchanged
    def function(self, name: str) -> Exchange[Document]:
        """One stream query function."""
        return self._exchange(calls.get("functions", name))

    @paged
    def templates(self) -> Listing[Document]:
        """The templates that the coordinator knows, built-in and uploaded."""
        return calls.listing("templates")

    @exchanged
    def template(self, name: str) -> Exchange[Document]:
        """One template."""
        return self._exchange(calls.get("templates", name))

    @paged
    def interfaces(self) -> Listing[Document]:
        """Stream interfaces with their options."""
        return calls.listing("interfaces")

    @exchanged
    def is_ready(self) -> Exchange[bool]:
        """Whether a coordinator answers and is ready for work. Asks once."""
        try:
            yield from exchange(calls.ready(), self.address.url, RetryPolicy(attempts=1))
        except (ApiProblem, NoCoordinator):
            return False
        return True

    # -- what is registered ---------------------------------------------------------------------------------------

    @paged
    def types(self) -> Listing[Document]:
        """Stream types."""
        return calls.listing("types")

    @exchanged
    def create_type(self, document: Document) -> Exchange[Document]:
        """Register a stream type: ``name``, ``under`` and ``attributes``."""
        return self._exchange(calls.post(document, "types"))

    @paged
    def sources(self) -> Listing[Document]:
        """Registered input streams."""
        return calls.listing("sources")

    @exchanged
    def create_source(self, document: Document) -> Exchange[Document]:
        """Register an input stream: ``name``, ``type``, ``interface`` and ``options``."""
        return self._exchange(calls.post(document, "sources"))

    @paged
    def sinks(self) -> Listing[Document]:
        """Registered result streams."""
        return calls.listing("sinks")

    @exchanged
    def create_sink(self, document: Document) -> Exchange[Document]:
        """Register a result stream: ``name``, ``interface`` and ``options``."""
        return self._exchange(calls.post(document, "sinks"))

    @exchanged
    def delete(self, kind: str, name: str) -> Exchange[None]:
        """Remove what is registered: ``kind`` is ``types``, ``sources``, ``sinks`` or ``bundles``."""
        return self._exchange(calls.delete(kind, name))

    @paged
    def bundles(self) -> Listing[Bundle]:
        """Uploaded function code: the latest version of each bundle."""
        return calls.bundles()

    @exchanged
    def bundle(self, name: str) -> Exchange[Bundle]:
        """The latest version of a bundle."""
        return self._exchange(calls.bundle(name))

    @exchanged
    def upload_bundle(self, name: str, code: Path | str | bytes) -> Exchange[Bundle]:
        """Upload function code as the next version of a bundle. Needs an admin's token.

        ``code`` is the path of a Python file, of a zip file, or of a package's folder; or the content of a file.
        """
        return self._exchange(calls.upload_bundle(name, code))

    @exchanged
    def remove_bundle(self, name: str) -> Exchange[None]:
        """Remove a bundle, all its versions, that no query uses. Needs an admin's token."""
        return self._exchange(calls.delete("bundles", name))

    @paged
    def tokens(self) -> Listing[Token]:
        """All tokens, without the secrets."""
        return calls.tokens()

    @exchanged
    def own_token(self) -> Exchange[Token]:
        """The token that this client shows: what it is called, and what it may do."""
        return self._exchange(calls.own_token())

    @exchanged
    def create_token(self, name: str, role: str) -> Exchange[Token]:
        """Make a token; the secret is in this answer and nowhere else."""
        return self._exchange(calls.create_token(name, role))

    @exchanged
    def delete_token(self, token_id: str) -> Exchange[None]:
        """Make a token worthless."""
        return self._exchange(calls.delete("tokens", token_id))

    # -- trials ---------------------------------------------------------------------------------------------------

    @exchanged
    def submit_trial(
        self,
        spec: Specification,
        count: int = 1000,
        name: str | None = None,
        *,
        optimization: str | None = None,
        key: str | None = None,
        latency: bool = False,
        wait: bool = True,
        timeout_s: float | None = None,
    ) -> Exchange[Trial]:
        """Run a specification over ``count`` windows of each input, write its results nowhere, and measure its sites.

        The trial stays with the coordinator until it is removed. Trials are run one at a time in each pool. One that a
        search asks for (``optimization`` and ``key``) is run once: submitting it again gives the same trial.
        """
        begun = yield from self._exchange(calls.submit_trial(spec, count, name, optimization, key, latency))
        if not wait:
            return begun
        return (yield from self._trial_until_over(begun, timeout_s))

    @exchanged
    def trial(self, trial_id: str) -> Exchange[Trial]:
        """One trial."""
        return self._exchange(calls.trial(trial_id))

    @paged
    def trials(self, query: str | None = None, optimization: str | None = None) -> Listing[Trial]:
        """All trials, or those of specifications with this name, or those of a search; the newest first."""
        return calls.trials(query, optimization)

    @exchanged
    def wait_for_trial(self, trial: Trial, timeout_s: float | None = None) -> Exchange[Trial]:
        """Wait until a trial is over; raises the problem that it failed with."""
        return self._trial_until_over(trial, timeout_s)

    @exchanged
    def remove_trial(self, trial_id: str) -> Exchange[None]:
        """Cancel a trial if it runs, and forget it."""
        return self._exchange(calls.delete("trials", trial_id))

    # -- results --------------------------------------------------------------------------------------------------

    @exchanged
    def latest(
        self,
        name: str,
        last: int = 100,
        points: int = 500,
        *,
        stream: str | None = None,
        attributes: Sequence[str] | None = None,
        complex_parts: bool = False,
        start: int | None = None,
    ) -> Exchange[Document]:
        """The last windows of a result, none before ``start``, each vector reduced to at most ``points`` numbers.

        Complex vectors are reduced to magnitudes; with ``complex_parts``, to samples with real and imaginary parts.
        """
        return self._exchange(calls.latest(name, last, points, stream, attributes, complex_parts, start))

    @exchanged
    def window_count(self, name: str, *, stream: str | None = None) -> Exchange[int]:
        """How many windows a result has had so far: the number of the next one, as they are counted from 0."""
        return self._exchange(calls.window_count(name, stream))

    @streamed
    def results(
        self,
        name: str,
        *,
        start: Start = "earliest",
        until: int | None = None,
        follow: bool = False,
        stream: str | None = None,
        attributes: Sequence[str] | None = None,
        points: int | None = None,
        complex_parts: bool = False,
    ) -> Cursor[ResultEvent]:
        """Windows as JSON, as they come, until the run is over; with ``follow`` also those of the runs to come.

        Begins at ``start``: the ``earliest`` window that is kept, the ``latest``, or a number; ends before ``until``.
        Vectors longer than ``points`` are reduced to so many; complex ones to magnitudes or, with ``complex_parts``, to
        samples with real and imaginary parts. A stream that breaks off is taken up again.
        """
        selection = ResultSelection(name, start, until, follow, stream, attributes, points, complex_parts)
        return EventCursor(self.address.url, self.retries, selection)

    @streamed
    def result_blocks(
        self,
        name: str,
        *,
        start: Start = "earliest",
        until: int | None = None,
        follow: bool = False,
        stream: str | None = None,
        attributes: Sequence[str] | None = None,
    ) -> Cursor[PhysicalWindow]:
        """Physical windows with all their values; otherwise as `results`."""
        selection = ResultSelection(name, start, until, follow, stream, attributes)
        return BlockCursor(self.address.url, self.retries, selection, _windows)

    @streamed
    def numbered_blocks(
        self,
        name: str,
        *,
        start: Start = "earliest",
        until: int | None = None,
        follow: bool = False,
        stream: str | None = None,
        attributes: Sequence[str] | None = None,
    ) -> Cursor[NumberedBlock]:
        """As `result_blocks`, with the number of each block's first window: a gap in them is what was missed.

        Behind a gap comes a block without windows, with the number of the window that is next: so a gap at the very end
        is told as well.
        """
        selection = ResultSelection(name, start, until, follow, stream, attributes)
        return BlockCursor(self.address.url, self.retries, selection, lambda numbered: numbered)

    # -- for the clients ------------------------------------------------------------------------------------------

    def _settings(self, transport: Any) -> dict[str, Any]:
        """Arguments of httpx's clients. A coordinator on this machine is never asked through a proxy."""
        headers = {"User-Agent": f"gsdm-grid/{metadata.version('gsdm-grid')}", "Accept": "application/json"}
        if self.address.token:
            headers["Authorization"] = f"Bearer {self.address.token}"
        made = {"base_url": self.address.url, "headers": headers, "timeout": self.timeout, "transport": transport}
        if self.address.is_loopback:
            host = f"[{self.address.host}]" if ":" in self.address.host else self.address.host
            made["mounts"] = {f"all://{host}": transport}
        return made

    def _exchange(self, call: Call[T]) -> Exchange[T]:
        return exchange(call, self.address.url, self.retries)

    def _act(self, call: Call[Operation], wait: bool, timeout_s: float | None) -> Exchange[Operation]:
        begun = yield from self._exchange(call)
        if not wait:
            return begun
        return (yield from self._until_over(begun, timeout_s))

    def _until_over(self, operation: Operation, timeout_s: float | None) -> Exchange[Operation]:
        return until_over(lambda one: self._exchange(calls.operation(one)), operation, timeout_s)

    def _trial_until_over(self, trial: Trial, timeout_s: float | None) -> Exchange[Trial]:
        return until_over(lambda one: self._exchange(calls.trial(one)), trial, timeout_s)


def _windows(numbered: NumberedBlock) -> PhysicalWindow | None:
    """The windows of a block; None if it has none, but tells of a gap."""
    return numbered.block if len(numbered.block) else None
