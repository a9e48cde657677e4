"""What ``/metrics`` tells, in the form that Prometheus reads.

Samples are plain: the coordinator makes them when somebody looks, with `samples_of` for each query that `chosen` picks
and `totals_of` for all. Labels are bounded: so many queries, and of each so many sites and streams.
"""

from __future__ import annotations

import collections
import logging
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.applications import Starlette

_log = logging.getLogger("gsdm.metrics")
MAX_QUERIES = 200
MAX_SITES = 100
"""Sites told of each query: the busiest."""
MAX_STREAMS = 100
"""Streams told of each site, and of each query."""
STATES = ("specified", "compiled", "installed", "active", "stopping", "failed")
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_BUSY = {"active": 0, "stopping": 1, "failed": 2, "installed": 3, "compiled": 4}

COUNTERS = {
    "gsdm_site_processing_seconds_total": ("CPU time a site spent in its functions.", ("query", "site")),
    "gsdm_site_communication_seconds_total": ("CPU time a site spent receiving and sending.", ("query", "site")),
    "gsdm_site_system_seconds_total": ("CPU time a site spent on everything else.", ("query", "site")),
    "gsdm_stream_windows_total": ("Windows that passed through a stream.", ("query", "site", "stream")),
    "gsdm_stream_bytes_total": ("Bytes of the windows that passed through a stream.", ("query", "site", "stream")),
    "gsdm_stream_dropped_windows_total": ("Windows lost, by reason.", ("query", "site", "stream", "reason")),
    "gsdm_query_read_windows_total": ("Windows that a query read in all its runs.", ("query", "stream")),
    "gsdm_query_read_bytes_total": ("Bytes of the windows that a query read in all its runs.", ("query", "stream")),
    "gsdm_query_delivered_windows_total": ("Windows that a query delivered in all its runs.", ("query", "stream")),
    "gsdm_query_delivered_bytes_total": ("Bytes of the windows that a query delivered.", ("query", "stream")),
    "gsdm_query_dropped_windows_total": (
        "Windows that a query dropped in all its runs, by reason; without a stream: by its merges.",
        ("query", "stream", "reason"),
    ),
    "gsdm_query_restarts_total": ("Working nodes of a query that died and were started anew.", ("query",)),
}
GAUGES = {
    "gsdm_site_utilization_ratio": ("Share of its time in which a site was not waiting.", ("query", "site")),
    "gsdm_query_state": ("1 for the state that a query is in.", ("query", "state")),
    "gsdm_queries": ("Queries by state.", ("state",)),
    "gsdm_result_readers": ("Open result streams.", ()),
}


@dataclass(frozen=True)
class Sample:
    """One figure. ``name`` is one of `COUNTERS` or `GAUGES`, ``labels`` are the values of its labels in order."""

    name: str
    labels: tuple[str, ...]
    value: float


def samples_of(query: Mapping[str, Any], statistics: Mapping[str, Mapping[str, Any]]) -> Iterator[Sample]:
    """The figures of one query.

    ``query`` has ``name`` and ``state``, and may have ``restarts`` (a number, or numbers by site) and ``totals`` (see
    `ContinuousQuery.totals`); ``statistics`` are the latest of each site, as `ContinuousQuery.statistics` gives them.
    The counters of a site begin anew with it, and when its query is rescaled; those of the query go on.
    """
    name = str(query["name"])
    for state in STATES:
        yield Sample("gsdm_query_state", (name, state), float(state == query["state"]))
    restarts = query.get("restarts") or 0
    total = sum(restarts.values()) if isinstance(restarts, Mapping) else restarts
    yield Sample("gsdm_query_restarts_total", (name,), float(total))
    if query.get("totals"):
        yield from _total_samples(name, query["totals"])
    busiest = sorted(statistics.items(), key=lambda item: -float(item[1].get("utilization", 0.0)))
    for site, figures in busiest[:MAX_SITES]:
        yield from _site_samples(name, site, figures)


def _total_samples(query: str, totals: Mapping[str, Any]) -> Iterator[Sample]:
    for kind in ("read", "delivered"):
        for stream, counted in list(totals[kind].items())[:MAX_STREAMS]:
            at = (query, stream)
            yield Sample(f"gsdm_query_{kind}_windows_total", at, float(counted["windows"]))
            yield Sample(f"gsdm_query_{kind}_bytes_total", at, float(counted["bytes"]))
            for reason, count in counted["dropped"].items():
                yield Sample("gsdm_query_dropped_windows_total", (*at, reason), float(count))
    for reason, count in totals["dropped"].items():
        yield Sample("gsdm_query_dropped_windows_total", (query, "", reason), float(count))


def _site_samples(query: str, site: str, figures: Mapping[str, Any]) -> Iterator[Sample]:
    labels = (query, site)
    yield Sample("gsdm_site_utilization_ratio", labels, float(figures.get("utilization", 0.0)))
    for kind in ("processing", "communication", "system"):
        yield Sample(f"gsdm_site_{kind}_seconds_total", labels, float(figures.get(f"{kind}_s", 0.0)))
    for stream, counted in list(figures.get("streams", {}).items())[:MAX_STREAMS]:
        at = (*labels, stream)
        yield Sample("gsdm_stream_windows_total", at, float(counted.get("windows", 0)))
        yield Sample("gsdm_stream_bytes_total", at, float(counted.get("bytes", 0)))
        for key, value in counted.items():
            if key.startswith("dropped_") and not key.endswith("_samples"):
                yield Sample("gsdm_stream_dropped_windows_total", (*at, key.removeprefix("dropped_")), float(value))


def totals_of(states: Iterable[str]) -> Iterator[Sample]:
    """How many queries are in which state, from the states of all queries."""
    counts = collections.Counter(states)
    for state in STATES:
        yield Sample("gsdm_queries", (state,), float(counts[state]))


def chosen(queries: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The queries worth telling of where there are too many: those at work first, then what changed last."""
    ranked = sorted(queries, key=lambda q: (_BUSY.get(q["state"], 9), -float(q.get("since_s") or 0.0), q["name"]))
    return ranked[:MAX_QUERIES]


class Metrics:
    """The figures of one application. Thread-safe."""

    def __init__(self, app: Starlette) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "gsdm_http_requests",
            "HTTP requests answered.",
            ("method", "route", "status"),
            registry=self._registry,
        )
        self._durations = Histogram(
            "gsdm_http_request_duration_seconds",
            "How long requests took.",
            ("method", "route"),
            registry=self._registry,
            buckets=(0.001, 0.005, 0.025, 0.1, 0.5, 1, 5, 30, 120),
        )
        self._open = Gauge("gsdm_http_requests_open", "HTTP requests being served.", registry=self._registry)
        build = Gauge("gsdm_build_info", "The version that runs.", ("version", "python"), registry=self._registry)
        build.labels(_version(), platform.python_version()).set(1)
        ProcessCollector(registry=self._registry)
        self._registry.register(_QueryCollector(app))

    def begun(self) -> None:
        """A request has come."""
        self._open.inc()

    def done(self, method: str, route: str | None, status: int, spent_s: float) -> None:
        """A request was answered; ``route`` is its template, None where there is none."""
        labels = (method if method in _METHODS else "other", route or "unmatched")
        self._open.dec()
        self._requests.labels(*labels, str(status)).inc()
        self._durations.labels(*labels).observe(spent_s)

    def text(self) -> bytes:
        """Everything, as Prometheus reads it. May block."""
        return generate_latest(self._registry)


def metrics_of(app: Starlette) -> Metrics:
    """The figures of an application, made when first asked for."""
    if not hasattr(app.state, "metrics"):
        app.state.metrics = Metrics(app)
    metrics: Metrics = app.state.metrics
    return metrics


def families(samples: Iterable[Sample]) -> list[Metric]:
    """Samples by name, as Prometheus' library wants them; what is beyond the bound of queries is left out."""
    metrics: dict[str, Any] = {}
    for name, (text, labels) in COUNTERS.items():
        metrics[name] = CounterMetricFamily(name.removesuffix("_total"), text, labels=labels)
    for name, (text, labels) in GAUGES.items():
        metrics[name] = GaugeMetricFamily(name, text, labels=labels)
    queries: set[str] = set()
    for sample in samples:
        if sample.name not in ("gsdm_queries", "gsdm_result_readers"):
            queries.add(sample.labels[0])
            if len(queries) > MAX_QUERIES:
                queries.discard(sample.labels[0])
                continue
        metrics[sample.name].add_metric(sample.labels, sample.value)
    return list(metrics.values())


class _QueryCollector(Collector):
    """Asks the coordinator when somebody looks."""

    def __init__(self, app: Starlette) -> None:
        self._app = app

    def collect(self) -> Iterator[Metric]:
        services = getattr(self._app.state, "services", None)
        try:
            samples = list(services.figures.metrics()) if services is not None else []
        except Exception:  # the other figures are wanted most when something is wrong
            _log.exception("the coordinator's figures cannot be read")
            samples = []
        readers = getattr(getattr(self._app.state, "result_streams", None), "open", 0)
        yield from families([Sample("gsdm_result_readers", (), float(readers)), *samples])

    def describe(self) -> Iterator[Metric]:
        yield from families(())


def _version() -> str:
    try:
        return metadata.version("gsdm-grid")
    except metadata.PackageNotFoundError:
        return "unknown"
