"""What the coordinator's documents are in Python. All are immutable; ``document`` is the JSON they were read from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar

from gsdm_grid.client.problems import ApiProblem

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Query:
    """A continuous query as the coordinator knows it."""

    name: str
    state: str
    desired: str
    since: datetime
    created: datetime
    version: int
    specification: Document
    allowed: tuple[str, ...] = ()
    """Actions that the state allows."""
    error: ApiProblem | None = None
    """Why it failed, or why what was last asked of it failed."""
    failure: Document | None = None
    """What failed: ``action``, ``operation`` and ``at``; None if nothing did."""
    waiting: str | None = None
    """Why it waits for hosts; None when it does not."""
    warnings: tuple[str, ...] = ()
    totals: Document | None = None
    """What it has ``read``, ``delivered`` and ``dropped``; None if the coordinator has not run it since it started."""
    etag: str | None = None
    """For `Client.replace`: refuse if somebody else changed it meanwhile."""
    document: Document = field(default_factory=dict, repr=False, compare=False)

    @staticmethod
    def from_json(document: Document, etag: str | None = None) -> Query:
        """Read a query's document."""
        return Query(
            name=document["name"],
            state=document["state"],
            desired=document["desired"],
            since=_time(document["since"]),
            created=_time(document["created"]),
            version=document["version"],
            specification=document["specification"],
            allowed=tuple(document.get("allowed", ())),
            error=_problem(document.get("error")),
            failure=document.get("failure"),
            waiting=document.get("waiting"),
            warnings=tuple(document.get("warnings", ())),
            totals=document.get("totals"),
            etag=etag,
            document=document,
        )


@dataclass(frozen=True)
class Operation:
    """An action on a query that takes time."""

    id: str
    query: str
    action: str
    status: str
    created: datetime
    finished: datetime | None = None
    error: ApiProblem | None = None
    document: Document = field(default_factory=dict, repr=False, compare=False)

    @property
    def over(self) -> bool:
        """Whether it has ended, well or not."""
        return self.status in ("succeeded", "failed")

    @staticmethod
    def from_json(document: Document) -> Operation:
        """Read an operation's document."""
        return Operation(
            id=document["id"],
            query=document["query"],
            action=document["action"],
            status=document["status"],
            created=_time(document["created"]),
            finished=None if document.get("finished") is None else _time(document["finished"]),
            error=_problem(document.get("error")),
            document=document,
        )


@dataclass(frozen=True)
class Token:
    """A token: what it is called, and what it may do. ``token`` itself is only known when it has just been made."""

    id: str
    name: str
    role: str
    token: str | None = field(default=None, repr=False)
    document: Document = field(default_factory=dict, repr=False, compare=False)

    @staticmethod
    def from_json(document: Document) -> Token:
        """Read a token's document."""
        return Token(document["id"], document["name"], document["role"], document.get("token"), document)


@dataclass(frozen=True)
class Bundle:
    """Uploaded function code, in one version, with the packages that were installed for it.

    ``error`` says why the coordinator could not load it when it started.
    """

    name: str
    version: int
    functions: tuple[str, ...]
    created: datetime | None = None
    error: str | None = None
    packages: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()
    interfaces: tuple[str, ...] = ()
    document: Document = field(default_factory=dict, repr=False, compare=False)

    @staticmethod
    def from_json(document: Document) -> Bundle:
        """Read a bundle's document."""
        return Bundle(
            name=document["name"],
            version=document["version"],
            functions=tuple(document["functions"]),
            created=None if document.get("created") is None else _time(document["created"]),
            error=document.get("error"),
            packages=tuple(document.get("packages") or ()),
            templates=tuple(document.get("templates") or ()),
            interfaces=tuple(document.get("interfaces") or ()),
            document=document,
        )


@dataclass(frozen=True)
class SiteCost:
    """CPU seconds that one site of a trial spent."""

    site: str
    role: str
    host: str
    functions: tuple[str, ...]
    processing_s: float
    communication_s: float
    system_s: float

    @property
    def utilization_s(self) -> float:
        """All of it."""
        return self.processing_s + self.communication_s + self.system_s

    @staticmethod
    def from_json(document: Document) -> SiteCost:
        """Read a site in a trial's result."""
        return SiteCost(
            site=document["site"],
            role=document["role"],
            host=document["host"],
            functions=tuple(document["functions"]),
            processing_s=document["processing_s"],
            communication_s=document["communication_s"],
            system_s=document["system_s"],
        )


@dataclass(frozen=True)
class TrialResult:
    """What a trial run measured. ``cost_s`` is the utilization time of the busiest site.

    ``mb_s`` and ``windows_s`` are what the trial reached; ``derived_windows_s`` is what the plan would reach if each
    site had a core of its own. ``short`` says so if the stream ended before the trial did.
    """

    windows: int
    seconds: float
    mb_s: float
    windows_s: float
    cost_s: float
    derived_windows_s: float
    busiest: str | None
    sites: tuple[SiteCost, ...]
    p99_ms: float | None = None
    short: str | None = None

    @staticmethod
    def from_json(document: Document) -> TrialResult:
        """Read the result in a trial's document."""
        return TrialResult(
            windows=document["windows"],
            seconds=document["seconds"],
            mb_s=document["mb_s"],
            windows_s=document["windows_s"],
            cost_s=document["cost_s"],
            derived_windows_s=document["derived_windows_s"],
            busiest=document["busiest"],
            sites=tuple(map(SiteCost.from_json, document["sites"])),
            p99_ms=document.get("p99_ms"),
            short=document.get("short"),
        )


@dataclass(frozen=True)
class Trial:
    """A trial run: a specification over ``count`` windows; ``result`` is there when it has succeeded."""

    id: str
    query: str
    specification: Document
    count: int
    status: str
    created: datetime
    result: TrialResult | None = None
    error: ApiProblem | None = None
    optimization: str | None = None
    key: str | None = None
    """The search that asked for it, and as what."""
    document: Document = field(default_factory=dict, repr=False, compare=False)
    action: ClassVar[str] = "trial"

    @property
    def over(self) -> bool:
        """Whether it has ended, well or not."""
        return self.status in ("succeeded", "failed")

    @staticmethod
    def from_json(document: Document) -> Trial:
        """Read a trial's document."""
        return Trial(
            id=document["id"],
            query=document["query"],
            specification=document["specification"],
            count=document["count"],
            status=document["status"],
            created=_time(document["created"]),
            result=TrialResult.from_json(document["result"]) if document.get("result") else None,
            error=_problem(document.get("error")),
            optimization=document.get("optimization"),
            key=document.get("key"),
            document=document,
        )


@dataclass(frozen=True)
class RecordedSegment:
    """A recorded part of a stream; ``bytes`` is known when it has been recorded."""

    id: str
    windows: int
    status: str
    created: datetime
    bytes: int | None = None
    error: ApiProblem | None = None
    document: Document = field(default_factory=dict, repr=False, compare=False)
    action: ClassVar[str] = "record"

    @property
    def query(self) -> str:
        """What waiting for it is called after."""
        return self.id

    @property
    def over(self) -> bool:
        """Whether recording has ended, well or not."""
        return self.status in ("succeeded", "failed")

    @staticmethod
    def from_json(document: Document) -> RecordedSegment:
        """Read a segment's document."""
        return RecordedSegment(
            id=document["id"],
            windows=document["windows"],
            status=document["status"],
            created=_time(document["created"]),
            bytes=document.get("bytes"),
            error=_problem(document.get("error")),
            document=document,
        )


@dataclass(frozen=True)
class TrialRequest:
    """A trial that a search asks for: submit its specification with the search's id and this key."""

    key: str
    label: str
    specification: Document
    count: int
    round: int
    predicted: float | None = None
    latency: bool = False
    document: Document = field(default_factory=dict, repr=False, compare=False)

    @staticmethod
    def from_json(document: Document) -> TrialRequest:
        """Read a trial request."""
        names = ("key", "label", "specification", "count", "round", "predicted", "latency")
        return TrialRequest(**{name: document[name] for name in names}, document=document)


@dataclass(frozen=True)
class Optimization:
    """A search for the best plan of a query. ``choice`` has the winner once there is one, and all plans tried."""

    id: str
    query: str
    status: str
    rounds: int
    created: datetime
    trials: tuple[TrialRequest, ...] = ()
    choice: Document | None = None
    verified: bool | None = None
    published: tuple[Document, ...] | None = None
    stale: tuple[str, ...] = ()
    error: ApiProblem | None = None
    document: Document = field(default_factory=dict, repr=False, compare=False)
    action: ClassVar[str] = "optimize"

    @property
    def over(self) -> bool:
        """Whether it has ended, well or not."""
        return self.status in ("published", "failed")

    @staticmethod
    def from_json(document: Document) -> Optimization:
        """Read an optimization's document."""
        published = document.get("published")
        return Optimization(
            id=document["id"],
            query=document["query"],
            status=document["status"],
            rounds=document["rounds"],
            created=_time(document["created"]),
            trials=tuple(map(TrialRequest.from_json, document.get("trials", ()))),
            choice=document.get("choice"),
            verified=document.get("verified"),
            published=None if published is None else tuple(published),
            stale=tuple(document.get("stale", ())),
            error=_problem(document.get("error")),
            document=document,
        )


@dataclass(frozen=True)
class ResultEvent:
    """What a result stream tells: some windows; that windows were missed; that the query failed; or that it is over.

    ``seq`` is the number of the window that comes next. ``windows`` have their ``seq``, ``ordinal`` and ``values`` by
    attribute, as JSON. ``missed`` counts windows that were dropped before they could be read. ``error`` tells why a
    query failed that is followed none the less. ``end`` says why the stream ends: ``finished``, ``stopped``,
    ``dropped``, ``revoked`` (the token was), or ``closing`` if the coordinator ends and will be asked again.
    """

    seq: int
    windows: tuple[Document, ...] = ()
    missed: int = 0
    error: ApiProblem | None = None
    end: str | None = None


def _time(since_1970_s: float) -> datetime:
    return datetime.fromtimestamp(since_1970_s, UTC)


def _problem(document: Document | None) -> ApiProblem | None:
    return ApiProblem.from_json(document) if document else None
