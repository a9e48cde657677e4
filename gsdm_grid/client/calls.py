"""The coordinator's interface as calls: which request asks for what, and what its answer means. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from gsdm_grid.client.conversations import Call, Listing, Request
from gsdm_grid.client.documents import (
    Bundle,
    Document,
    Operation,
    Optimization,
    Query,
    RecordedSegment,
    Token,
    Trial,
    TrialRequest,
)
from gsdm_grid.client.packing import code_in
from gsdm_grid.errors import QueryError

Specification = Mapping[str, Any] | str | Path
"""A query's specification: as a mapping, or the path of a file in YAML or JSON."""
PAGE = 100
UPLOAD_S = 360.0
"""The coordinator answers an upload when what it requires is installed."""
_PYTHON, _ZIP = "text/x-python", "application/zip"


def path(*parts: str) -> str:
    """An address under ``/v1``; each part is escaped.

    >>> path("queries", "a/b", "run")
    '/v1/queries/a%2Fb/run'
    """
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def _json(response: httpx.Response) -> Any:
    return response.json()


def _query(response: httpx.Response) -> Query:
    return Query.from_json(response.json(), response.headers.get("ETag"))


def _operation(response: httpx.Response) -> Operation:
    return Operation.from_json(response.json())


def _trial(response: httpx.Response) -> Trial:
    return Trial.from_json(response.json())


def _segment(response: httpx.Response) -> RecordedSegment:
    return RecordedSegment.from_json(response.json())


def _optimization(response: httpx.Response) -> Optimization:
    return Optimization.from_json(response.json())


def _items(response: httpx.Response) -> list[Document]:
    return list(response.json()["items"])


def _requests(response: httpx.Response) -> list[TrialRequest]:
    return [TrialRequest.from_json(item) for item in _items(response)]


def _nothing(_response: httpx.Response) -> None:
    return None


def _key(idempotency_key: str | None) -> dict[str, str]:
    """With a key of its own, a request that another process sends again is answered as the first time."""
    return {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}


def same(document: Document) -> Document:
    """A document that stays what it is."""
    return document


def get(*parts: str, **params: Any) -> Call[Any]:
    """A document that stays as it is."""
    return Call(Request("GET", path(*parts), params), _json)


def post(document: Document, *parts: str) -> Call[Any]:
    """Register something that a document describes."""
    return Call(Request("POST", path(*parts), json=dict(document)), _json)


def delete(*parts: str) -> Call[None]:
    """Remove something at once."""
    return Call(Request("DELETE", path(*parts)), _nothing)


def listing(*parts: str, **params: Any) -> Listing[Document]:
    """A list of documents that stay as they are."""
    return Listing(path(*parts), {"limit": PAGE, **params}, same)


# -- queries ----------------------------------------------------------------------------------------------------------


def specification(spec: Specification, name: str | None = None) -> dict[str, Any]:
    """A specification as a mapping, under another name if one is given."""
    if isinstance(spec, str | Path):
        spec = _read(Path(spec))
    return {**spec, "name": name} if name is not None else dict(spec)


def _read(file: Path) -> Mapping[str, Any]:
    import yaml

    try:
        found = yaml.safe_load(file.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise QueryError(f"specification {str(file)!r} cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise QueryError(f"specification {str(file)!r} is neither JSON nor YAML: {error}") from error
    if not isinstance(found, Mapping):
        raise QueryError(f"specification {str(file)!r}: expected a mapping, got {type(found).__name__}")
    return found


def submit(spec: Specification, name: str | None = None) -> Call[Query]:
    """Check and store a query."""
    return Call(Request("POST", path("queries"), json=specification(spec, name)), _query)


def replace(name: str, spec: Specification, etag: str | None) -> Call[Query]:
    """Store another specification under the name of a query that is not installed."""
    headers = {"If-Match": etag} if etag else {}
    return Call(Request("PUT", path("queries", name), headers=headers, json=specification(spec)), _query)


def query(name: str) -> Call[Query]:
    """One query."""
    return Call(Request("GET", path("queries", name)), _query)


def queries(state: str | None, name: str | None) -> Listing[Query]:
    """Queries, filtered."""
    return Listing(path("queries"), {"limit": PAGE, "state": state, "name": name}, Query.from_json)


def act(name: str, action: str, stop: Document | None = None, **params: Any) -> Call[Operation]:
    """A step of a query's life cycle."""
    return Call(Request("POST", path("queries", name, action), params, json=dict(stop) if stop else None), _operation)


def stop_condition(count: int | None, time_s: float | None) -> Document | None:
    """When a run ends by itself, as the coordinator wants to be told."""
    if count is not None and time_s is not None:
        raise QueryError("a run stops after a count of windows or after a time, not both")
    return {"count": count} if count is not None else {"time_s": time_s} if time_s is not None else None


def scale(name: str, degree: int) -> Call[Operation]:
    """Another degree of parallelism."""
    return Call(Request("PATCH", path("queries", name, "parallelism"), json={"degree": degree}), _operation)


def drop(name: str) -> Call[Operation]:
    """Remove a query and all that it runs on."""
    return Call(Request("DELETE", path("queries", name)), _operation)


def graph(name: str, form: str) -> Call[Any]:
    """A query's data flow: a document for ``json``, else a text."""
    request = Request("GET", path("queries", name, "graph"), {"format": form})
    return Call(request, _json if form == "json" else lambda response: response.text)


def operation(operation_id: str) -> Call[Operation]:
    """One operation."""
    return Call(Request("GET", path("operations", operation_id)), _operation)


def operations(query_name: str | None, status: str | None) -> Listing[Operation]:
    """Operations, filtered."""
    params = {"limit": PAGE, "query": query_name, "status": status}
    return Listing(path("operations"), params, Operation.from_json)


def latest(
    name: str,
    last: int,
    points: int,
    stream: str | None,
    attributes: Sequence[str] | None,
    complex_parts: bool = False,
    start: int | None = None,
) -> Call[Any]:
    """The last windows of a result, none before ``start``, reduced for plots."""
    chosen = None if attributes is None else ",".join(attributes)
    params = {"last": last, "points": points, "stream": stream, "attributes": chosen, "from": start}
    return get("queries", name, "results", **params, complex="parts" if complex_parts else None)


def window_count(name: str, stream: str | None) -> Call[int]:
    """How many windows a result has had so far: the number of the next."""
    return Call(latest(name, 1, 0, stream, None).request, lambda response: int(response.json()["next"]))


# -- trials -----------------------------------------------------------------------------------------------------------


def submit_trial(
    spec: Specification,
    count: int,
    name: str | None = None,
    optimization: str | None = None,
    key: str | None = None,
    latency: bool = False,
) -> Call[Trial]:
    """Run a specification over some windows, and keep what it cost."""
    asked = {"optimization": optimization, "key": key, "latency": "true" if latency else None}
    return Call(Request("POST", path("trials"), {"count": count, **asked}, json=specification(spec, name)), _trial)


def trial(trial_id: str) -> Call[Trial]:
    """One trial."""
    return Call(Request("GET", path("trials", trial_id)), _trial)


def trials(query_name: str | None, optimization: str | None = None) -> Listing[Trial]:
    """Trials, the newest first."""
    return Listing(path("trials"), {"limit": PAGE, "query": query_name, "optimization": optimization}, Trial.from_json)


# -- segments and optimizations ---------------------------------------------------------------------------------------


def record_segment(
    source: str | Document, windows: int, name: str | None, idempotency_key: str | None = None
) -> Call[RecordedSegment]:
    """Record a part of a stream."""
    given = {"source": source if isinstance(source, str) else dict(source), "windows": windows}
    body = given if name is None else {**given, "name": name}
    return Call(Request("POST", path("segments"), headers=_key(idempotency_key), json=body), _segment)


def segment(segment_id: str) -> Call[RecordedSegment]:
    """One segment."""
    return Call(Request("GET", path("segments", segment_id)), _segment)


def segments() -> Listing[RecordedSegment]:
    """Segments, the newest first."""
    return Listing(path("segments"), {"limit": PAGE}, RecordedSegment.from_json)


def optimize(body: Document, idempotency_key: str | None = None) -> Call[Optimization]:
    """Search for the best plan; members that are None are left out."""
    given = {name: value for name, value in body.items() if value is not None}
    return Call(Request("POST", path("optimizations"), headers=_key(idempotency_key), json=given), _optimization)


def check_optimization(body: Document) -> Call[Document]:
    """Whether a search can begin; members that are None are left out."""
    given = {name: value for name, value in body.items() if value is not None}
    return Call(Request("POST", path("optimization-checks"), json=given), _json)


def optimization(optimization_id: str) -> Call[Optimization]:
    """One search."""
    return Call(Request("GET", path("optimizations", optimization_id)), _optimization)


def optimizations(query_name: str | None) -> Listing[Optimization]:
    """Searches, the newest first."""
    return Listing(path("optimizations"), {"limit": PAGE, "query": query_name}, Optimization.from_json)


def optimization_round(optimization_id: str, number: int) -> Call[list[TrialRequest]]:
    """The trials of a round."""
    return Call(Request("POST", path("optimizations", optimization_id, "rounds"), json={"round": number}), _requests)


def optimization_verification(optimization_id: str) -> Call[list[TrialRequest]]:
    """The trials of the verification."""
    return Call(Request("POST", path("optimizations", optimization_id, "verification")), _requests)


def optimization_choice(optimization_id: str) -> Call[Document]:
    """The best plan."""
    return Call(Request("POST", path("optimizations", optimization_id, "choice")), _json)


def optimization_publication(optimization_id: str) -> Call[list[Document]]:
    """Give the plan to the queries that asked for it."""
    return Call(Request("POST", path("optimizations", optimization_id, "publication")), _items)


def optimization_report(optimization_id: str) -> Call[str]:
    """The report as a page."""
    return Call(Request("GET", path("optimizations", optimization_id, "report")), lambda response: response.text)


def optimization_picture(optimization_id: str) -> Call[bytes]:
    """The report's picture."""
    request = Request("GET", path("optimizations", optimization_id, "report.png"))
    return Call(request, lambda response: response.content)


def drift(threshold: float) -> Call[list[Document]]:
    """Queries that have drifted from their trials."""
    return Call(Request("GET", path("drift"), {"threshold": threshold}), _items)


# -- function code and tokens -----------------------------------------------------------------------------------------


def upload_bundle(name: str, code: Path | str | bytes) -> Call[Bundle]:
    """Upload function code: a Python file, a zip file, a package's folder, or the content of either file."""
    content = code if isinstance(code, bytes) else code_in(Path(code))
    media_type = _ZIP if content.startswith(b"PK\x03\x04") else _PYTHON
    headers = {"Content-Type": media_type}
    request = Request("PUT", path("bundles", name), headers=headers, content=content, timeout_s=UPLOAD_S)
    return Call(request, lambda response: Bundle.from_json(response.json()))


def bundle(name: str) -> Call[Bundle]:
    """The latest version of a bundle."""
    return Call(Request("GET", path("bundles", name)), lambda response: Bundle.from_json(response.json()))


def bundles() -> Listing[Bundle]:
    """The latest version of each bundle."""
    return Listing(path("bundles"), {"limit": PAGE}, Bundle.from_json)


def tokens() -> Listing[Token]:
    """All tokens, without the secrets."""
    return Listing(path("tokens"), {"limit": PAGE}, Token.from_json)


def own_token() -> Call[Token]:
    """The token of the request."""
    return Call(Request("GET", path("own-token")), lambda response: Token.from_json(response.json()))


def create_token(name: str, role: str) -> Call[Token]:
    """Make a token."""
    request = Request("POST", path("tokens"), json={"name": name, "role": role})
    return Call(request, lambda response: Token.from_json(response.json()))


def ready() -> Call[Any]:
    """Whether the coordinator is ready for work."""
    return Call(Request("GET", "/readyz"), _json)
