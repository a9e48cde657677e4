"""What a coordinator can be asked about segments and searches for plans; a part of `CoordinatorInterface`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from gsdm_grid.client import calls
from gsdm_grid.client.calls import Specification
from gsdm_grid.client.conversations import (
    Call,
    Exchange,
    Listing,
    until_over,
)
from gsdm_grid.client.documents import Document, Optimization, RecordedSegment, TrialRequest
from gsdm_grid.client.endpoints import exchanged, paged

T = TypeVar("T")


class OptimizerInterface:
    """Base of `CoordinatorInterface`, which knows how requests are sent."""

    def _exchange(self, call: Call[T]) -> Exchange[T]:
        raise NotImplementedError

    @exchanged
    def record_segment(
        self,
        source: str | Document,
        windows: int,
        name: str | None = None,
        *,
        idempotency_key: str | None = None,
        wait: bool = True,
        timeout_s: float | None = None,
    ) -> Exchange[RecordedSegment]:
        """Record so many windows of a source: a registered one's name, or a document with type and interface."""
        begun = yield from self._exchange(calls.record_segment(source, windows, name, idempotency_key))
        if not wait:
            return begun
        return (yield from self._segment_until_over(begun, timeout_s))

    @exchanged
    def segment(self, segment_id: str) -> Exchange[RecordedSegment]:
        """One segment."""
        return self._exchange(calls.segment(segment_id))

    @paged
    def segments(self) -> Listing[RecordedSegment]:
        """Recorded segments, the newest first."""
        return calls.segments()

    @exchanged
    def wait_for_segment(self, segment: RecordedSegment, timeout_s: float | None = None) -> Exchange[RecordedSegment]:
        """Wait until a segment is recorded; raises the problem that it failed with."""
        return self._segment_until_over(segment, timeout_s)

    @exchanged
    def remove_segment(self, segment_id: str) -> Exchange[None]:
        """Forget a segment and its recording."""
        return self._exchange(calls.delete("segments", segment_id))

    @exchanged
    def optimize(
        self,
        spec: Specification | None = None,
        *,
        function: str | None = None,
        params: Any = None,
        inputs: Sequence[str | Document] | None = None,
        segment: str | Sequence[str] | None = None,
        count: int = 1000,
        pool: str | None = None,
        search: Document | None = None,
        criteria: Document | None = None,
        driver: str = "coordinator",
        publish_to: Sequence[str] | None = None,
        idempotency_key: str | None = None,
        wait: bool = False,
        timeout_s: float | None = None,
    ) -> Exchange[Optimization]:
        """Search for the best plan of a specification, or of a function over inputs or a recorded segment.

        With the driver ``coordinator`` it is carried out there to the end; with ``client`` whoever asks runs it step by
        step: rounds, their trials, choice, verification, publication. Asked again with the same ``idempotency_key``, it
        is the same search.
        """
        body = {
            "specification": None if spec is None else calls.specification(spec),
            "function": function,
            "params": params,
            "inputs": None if inputs is None else list(inputs),
            "segment": segment if segment is None or isinstance(segment, str) else list(segment),
            "count": count,
            "pool": pool,
            "search": search,
            "criteria": criteria,
            "driver": driver,
            "publish_to": None if publish_to is None else list(publish_to),
        }
        begun = yield from self._exchange(calls.optimize(body, idempotency_key))
        if not wait:
            return begun
        return (yield from self._optimization_until_over(begun, timeout_s))

    @exchanged
    def check_optimization(self, request: Document) -> Exchange[Document]:
        """Whether a search can begin: a problem says why not. ``request`` is the body of ``POST /v1/optimizations``."""
        return self._exchange(calls.check_optimization(request))

    @exchanged
    def optimization(self, optimization_id: str) -> Exchange[Optimization]:
        """One search: how far it is, what was tried, what was chosen."""
        return self._exchange(calls.optimization(optimization_id))

    @paged
    def optimizations(self, query: str | None = None) -> Listing[Optimization]:
        """Searches, or those for a query; the newest first, without their trials."""
        return calls.optimizations(query)

    @exchanged
    def wait_for_optimization(
        self, optimization: Optimization, timeout_s: float | None = None
    ) -> Exchange[Optimization]:
        """Wait until a search that the coordinator carries out is over; raises the problem that it failed with."""
        return self._optimization_until_over(optimization, timeout_s)

    @exchanged
    def optimization_round(self, optimization_id: str, number: int) -> Exchange[list[TrialRequest]]:
        """The trials of a round; none when the search is over. The same ones when asked again."""
        return self._exchange(calls.optimization_round(optimization_id, number))

    @exchanged
    def optimization_choice(self, optimization_id: str) -> Exchange[Document]:
        """The best plan of those tried: ``winner``, ``runner_up``, ``margin``, ``skipped`` and ``table``."""
        return self._exchange(calls.optimization_choice(optimization_id))

    @exchanged
    def optimization_verification(self, optimization_id: str) -> Exchange[list[TrialRequest]]:
        """Trials that run winner and runner-up again, in turn."""
        return self._exchange(calls.optimization_verification(optimization_id))

    @exchanged
    def optimization_publication(self, optimization_id: str) -> Exchange[list[Document]]:
        """Give the chosen plan to the queries that asked for it; tells which, and by which operation."""
        return self._exchange(calls.optimization_publication(optimization_id))

    @exchanged
    def optimization_report(self, optimization_id: str) -> Exchange[str]:
        """The report as a page in HTML that needs nothing else."""
        return self._exchange(calls.optimization_report(optimization_id))

    @exchanged
    def optimization_picture(self, optimization_id: str) -> Exchange[bytes]:
        """The report's picture, as PNG."""
        return self._exchange(calls.optimization_picture(optimization_id))

    @exchanged
    def remove_optimization(self, optimization_id: str) -> Exchange[None]:
        """Cancel a search if it is under way, and forget it with its trials."""
        return self._exchange(calls.delete("optimizations", optimization_id))

    @exchanged
    def drift(self, threshold: float = 0.25) -> Exchange[list[Document]]:
        """Running queries whose cost differs by this share from the trial that their plan was chosen by."""
        return self._exchange(calls.drift(threshold))

    def _segment_until_over(self, segment: RecordedSegment, timeout_s: float | None) -> Exchange[RecordedSegment]:
        return until_over(lambda one: self._exchange(calls.segment(one)), segment, timeout_s)

    def _optimization_until_over(self, begun: Optimization, timeout_s: float | None) -> Exchange[Optimization]:
        return until_over(lambda one: self._exchange(calls.optimization(one)), begun, timeout_s)
