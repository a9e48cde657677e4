"""What follows from a request to optimize: the work, the inputs of its trials, limits and options, worked out once.

It is stored with the search, so that it stays what it was although the pool or a registered source changes meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from api.optimization.segments import Resolved, Segments
from api.registry import calls_code
from gsdm_grid import Grid
from gsdm_grid.errors import FlowError, GsdmError
from gsdm_grid.interfaces import interfaces
from gsdm_grid.optimizer import (
    Candidate,
    Criteria,
    Limits,
    PlanSpace,
    SearchOptions,
    work_fingerprint,
)
from gsdm_grid.plan import placement_policy
from gsdm_grid.spec import (
    RegisteredStream,
    ResolvedQuery,
    parse_criteria,
    without_plan,
    work_of,
)
from gsdm_grid.trials import hosts_counter, pool_limits

DEFAULT_MOST = 8
FASTER_BLOCKS = 4
"""Physical windows are also tried this many times smaller than the installation's."""
RUNS_IN_SHORT_TRIAL = 8
PACE = ("rate", "realtime", "repeat", "limit", "stamp")
"""Options of sources that say how fast or how long, not what: a plan does not depend on them."""


@dataclass(frozen=True)
class OptimizationContext:
    """What requests are checked against, and trials will run on. Immutable.

    ``checked`` gives a specification, checked for a role; ``grid`` is there once the coordinator has started;
    ``trial_share`` is the share of a pool's hosts that trials may use.
    """

    checked: Callable[[Any, str], ResolvedQuery]
    source: Resolved
    grid: Callable[[], Grid]
    trial_share: float


@dataclass(frozen=True)
class OptimizationSetup:
    """What follows from a request. Immutable. ``inputs`` are those of the trials; ``to_record`` is recorded first."""

    document: Mapping[str, Any]
    inputs: tuple[Mapping[str, Any], ...]
    work: str
    limits: Limits
    options: SearchOptions
    criteria: Criteria
    driver: str = "coordinator"
    placement: str = "processes"
    to_record: tuple[int, ...] = ()
    window_bytes: float | None = None
    segments: tuple[str, ...] = field(default=())

    def specification(self, plan: Candidate) -> dict[str, Any]:
        """The specification of a trial of a plan."""
        made = {**self.document, "inputs": [dict(one) for one in self.inputs], "plan": plan.to_json()}
        if plan.block_bytes is not None:
            made["block_bytes"] = plan.block_bytes
        return {**made, "placement": self.placement}

    def with_segment(self, number: int, segment: str) -> OptimizationSetup:
        """The same with an input that has been recorded."""
        inputs = list(self.inputs)
        inputs[number] = _played(inputs[number], number, segment)
        left = tuple(one for one in self.to_record if one != number)
        return replace(self, inputs=tuple(inputs), to_record=left)

    def space(self, context: OptimizationContext) -> PlanSpace:
        """The plans to choose from."""
        work = work_of(self.document)
        assert work is not None
        query = context.checked({**self.document, "plan": "central"}, "admin")
        counter = hosts_counter([one.spec() for one in query.inputs], placement_policy(self.placement))
        return PlanSpace(work, self.limits, len(self.inputs), counter)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            **vars(self),
            "limits": asdict(self.limits),
            "options": asdict(self.options),
            "criteria": vars(self.criteria),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> OptimizationSetup:
        """Inverse of `to_json`."""
        told: dict[str, Any] = data["limits"]
        limits: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in told.items()}
        made = {
            "limits": Limits(**limits),
            "options": SearchOptions(**data["options"]),
            "criteria": Criteria(**data["criteria"]),
            "inputs": tuple(data["inputs"]),
            "to_record": tuple(data["to_record"]),
            "segments": tuple(data["segments"]),
        }
        return OptimizationSetup(**{**data, **made})


def read_request(
    given: Mapping[str, Any], role: str, context: OptimizationContext, segments: Segments
) -> OptimizationSetup:
    """Check a request, or say at which place it is wrong."""
    document = without_plan(_document(given))
    query = context.checked({**document, "plan": "central"}, role)
    criteria = parse_criteria(given.get("criteria"))
    search = dict(given.get("search") or {})
    options = SearchOptions(
        count=given.get("count", SearchOptions.count),
        **{name: search[name] for name in ("method", "threshold", "short", "finalists", "repeats") if name in search},
    )
    grid = context.grid()
    placement = given.get("pool") or document.get("placement") or grid.placement.name
    placement_policy(placement)
    inputs, to_record, window_bytes = _inputs(given, document, query.inputs, options.count, segments)
    driver = given.get("driver", "coordinator")
    if to_record and driver == "client":
        raise FlowError("inputs", f"input {to_record[0]} cannot be read more than once: record a segment of it first")
    pool = {kind: max(1, int(n * context.trial_share)) for kind, n in pool_limits(grid, placement).items()}
    limits = _limits(search, criteria, pool, grid.block_bytes, placement)
    if window_bytes and "runs" not in search:
        limits = replace(limits, runs=_runs(grid.block_bytes, window_bytes, options.short_count))
    return OptimizationSetup(
        document=document,
        inputs=inputs,
        work=fingerprint(document, placement, context.source, segments),
        limits=limits,
        options=options,
        criteria=criteria,
        driver=driver,
        placement=placement,
        to_record=to_record,
        window_bytes=window_bytes,
        segments=tuple(_segment_ids(given)),
    )


def fingerprint(document: Mapping[str, Any], placement: str, source: Resolved, segments: Segments) -> str:
    """A short name of what a document computes from what: equal for documents that one choice is good for."""
    streams = []
    for one in document["inputs"]:
        found = _source_of(one, source, segments)
        options = {name: value for name, value in (found.get("options") or {}).items() if name not in PACE}
        order = {"order": found["order"]} if found.get("order") is not None else {}
        streams.append({"type": found.get("type"), "interface": found.get("interface"), "options": options, **order})
    with suppress(GsdmError):  # a flow that cannot be optimized stands for itself
        document = without_plan(document)
    work = {name: document.get(name) for name in ("function", "params", "flow")}
    return work_fingerprint({**work, "params": work["params"] or None, "inputs": streams, "placement": placement})


def _source_of(one: Any, source: Resolved, segments: Segments) -> Mapping[str, Any]:
    """The document of an input, wherever it is; of a segment, that of what it was recorded from."""
    if isinstance(one, Mapping) and "segment" in one:
        found: Mapping[str, Any] = segments.recorded(one["segment"])["source"]
        return found
    name = one if isinstance(one, str) else one.get("source")
    return source(name, "admin") if name is not None else one


def _document(given: Mapping[str, Any]) -> dict[str, Any]:
    """The specification to optimize, without a plan; from its function and inputs if those are given instead."""
    whole = given.get("specification")
    if (whole is None) == (given.get("function") is None):
        raise FlowError("body", "needs either a specification, or a function with its params and inputs")
    if whole is None:
        inputs = given.get("inputs") or [{"segment": one} for one in _segment_ids(given)]
        whole = {"name": "optimized", "function": given["function"], "params": given.get("params"), "inputs": inputs}
    dropped = ("plan", "stop", "labels", "autoscale", "block_bytes", "outputs", "overload", "schedule")
    made = {name: value for name, value in whole.items() if name not in dropped and value is not None}
    if not isinstance(made.get("inputs"), list) or not made["inputs"]:
        raise FlowError("inputs", "a query needs at least one input stream")
    return made


def _segment_ids(given: Mapping[str, Any]) -> list[str]:
    named = given.get("segment")
    return [] if named is None else [named] if isinstance(named, str) else list(named)


def _inputs(
    given: Mapping[str, Any],
    document: Mapping[str, Any],
    streams: tuple[RegisteredStream, ...],
    count: int,
    segments: Segments,
) -> tuple[tuple[Mapping[str, Any], ...], tuple[int, ...], float | None]:
    """Inputs of the trials, numbers of those that must be recorded first, and bytes per window if known."""
    named = _segment_ids(given)
    listed = [one if isinstance(one, Mapping) else {"source": one} for one in document["inputs"]]
    if named and len(named) != len(listed):
        raise FlowError("segment", f"there are {len(listed)} inputs, but {len(named)} segments")
    played: list[str | None] = list(named) or [one.get("segment") for one in listed]
    sizes: list[float | None] = []
    inputs: list[Mapping[str, Any]] = []
    to_record: list[int] = []
    for number, (one, segment, stream) in enumerate(zip(listed, played, streams, strict=True)):
        if segment is None:
            inputs.append(one)
            size = _first_window_bytes(stream)
            if size is None:
                to_record.append(number)
            sizes.append(size)
            continue
        recorded = segments.recorded(segment)["recorded"]
        if recorded["windows"] < count:
            reason = f"{segment!r} has {recorded['windows']} windows, but the longest trials read {count}"
            raise FlowError("segment", f"{reason}: record a longer one, or ask for a smaller count")
        inputs.append(_played(one, number, segment))
        sizes.append(recorded["bytes"] / max(recorded["windows"], 1))
    known = [size for size in sizes if size is not None]
    return tuple(inputs), tuple(to_record), max(known) if len(known) == len(sizes) else None


def _played(one: Mapping[str, Any], number: int, segment: str) -> dict[str, Any]:
    """An input that plays a segment over and over: a trial stops by its count."""
    return {"name": one.get("name") or one.get("source") or f"in{number}", "segment": segment, "repeat": "forever"}


def _first_window_bytes(stream: RegisteredStream) -> float | None:
    """Size of a stream's first window; None if it cannot be read more than once."""
    assert stream.type is not None
    source = interfaces.get(stream.interface)(stream.type, stream.options)
    if not source.replayable:
        return None
    if calls_code(stream.interface):
        return 0.0  # not known: its code runs on hosts, not here
    try:
        source.open(source.context)
        block = source.next(1)
        return float(block.nbytes) / max(len(block), 1) if block is not None and len(block) else 0.0
    except GsdmError:
        raise
    except Exception as error:
        raise FlowError("inputs", f"{stream.name!r} cannot be read: {type(error).__name__}: {error}") from error
    finally:
        source.close()


def _limits(
    search: Mapping[str, Any], criteria: Criteria, pool: Mapping[str, int], block_bytes: int, placement: str
) -> Limits:
    compute = pool.get(placement_policy(placement).host("compute"))
    most = search.get("most") or min(DEFAULT_MOST, compute or DEFAULT_MOST)
    lists = {
        name: tuple(search[name])
        for name in ("degrees", "strategies", "shapes", "runs", "block_bytes")
        if search.get(name)
    }
    lists.setdefault("block_bytes", (None, block_bytes // FASTER_BLOCKS))
    return Limits(most=most, hosts=criteria.hosts, pool=dict(pool), **lists)


def _runs(block_bytes: int, window_bytes: float, short_count: int) -> tuple[int, ...]:
    """Windows in turn: one, and as many as fill a physical window, if a short trial has enough of such turns."""
    filling = min(int(block_bytes // max(window_bytes, 1.0)), short_count // RUNS_IN_SHORT_TRIAL)
    return (1, filling) if filling > 1 else (1,)
