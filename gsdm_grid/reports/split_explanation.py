"""Explaining the split in a query: what each plan would do with its stream on this installation, and which to take.

The query's document names the split; a sample of its source tells what becomes of the tuples and what rfn and bfn cost;
the profile of this installation tells the rest. Nothing is started.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gsdm_grid.errors import FlowError, GsdmError, QueryError
from gsdm_grid.flow import TEMPLATES
from gsdm_grid.functions import routing
from gsdm_grid.interfaces import EndOfStream, InterfaceContext
from gsdm_grid.model import PhysicalWindow
from gsdm_grid.spec import RegisteredStream, parse
from gsdm_grid.splitting import (
    DEFAULT_B,
    SplitChoice,
    SplitSample,
    StreamShares,
    choose_split,
    joined,
)
from gsdm_grid.tuning import SplitProfile

SPLITS = ("splitstream", "fsplit", "exptree", "maxtree", "autosplit", "splittree", "parasplit")
DEFAULT_PLACEMENT = "grid"
SAMPLE_S = 2.0
"""How long to wait for a slow source."""


@dataclass(frozen=True)
class SplitCall:
    """A call of a splitting template in a document: its name, width, functions, and everything else it was given."""

    template: str
    w: int
    rfn: Any
    bfn: Any
    options: Mapping[str, Any]

    @property
    def plan(self) -> str:
        """The plan that it asks for."""
        return str(self.options.get("plan", "autosplit")) if self.template == "splitstream" else self.template


@dataclass(frozen=True)
class Assumptions:
    """What the person who asks knows better than a sample. Rates in tuples per second."""

    rate: float | None = None
    b: float | None = None
    o: float | None = None
    p: int | None = None
    sample: int = 100_000


@dataclass(frozen=True)
class Explanation:
    """The split of a query, its stream, and what each plan would do with it. Immutable."""

    query: str
    split: SplitCall
    choice: SplitChoice
    shares: StreamShares
    sample: SplitSample | None
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "query": self.query,
            "split": {
                "template": self.split.template,
                "plan": self.split.plan,
                "w": self.split.w,
                "rfn": str(self.split.rfn),
                "bfn": None if self.split.bfn is None else str(self.split.bfn),
            },
            "shares": {"o": self.shares.o, "r": self.shares.r, "b": self.shares.b, "tuples_per_window": self.shares.n},
            "sample": None if self.sample is None else self.sample.to_json(),
            **self.choice.to_json(),
            "notes": list(self.notes),
        }


def explain_split(document: Any, profile: SplitProfile, block_bytes: int, assumptions: Assumptions) -> Explanation:
    """Predict all plans for the split in a query's document, and choose."""
    query = parse(document, _not_here)
    split = find_split(document.get("flow"))
    stream = query.inputs[0]
    notes: list[str] = []
    sample, tuple_bytes = _sampled(stream, split, assumptions, notes)
    if tuple_bytes is None:
        tuple_bytes = profile.tuple_bytes
        notes.append(f"tuples are taken to have {tuple_bytes:.0f} bytes, as in the profile")
    n = max(block_bytes / tuple_bytes, 1.0)
    shares = _shares(sample, split, assumptions, n, notes)
    coefficients = profile.coefficients_for(tuple_bytes, None if sample is None else sample.deciding_s)
    asked = query.specification.placement or DEFAULT_PLACEMENT
    if profile.placement != asked:
        notes.append(f"costs were measured on {profile.placement!r}, but the query runs on {asked!r}")
    choice = choose_split(
        coefficients,
        shares,
        split.w,
        has_bfn=split.bfn is not None,
        desired_rate=assumptions.rate,
        channel_rate=profile.channel_bytes_s / tuple_bytes or float("inf"),
        p=assumptions.p,
    )
    return Explanation(query.name, split, choice, shares, sample, tuple(notes))


def has_split(flow: Any) -> bool:
    """Whether a stream is split anywhere in the specification of a data flow."""
    return _search(flow) is not None


def find_split(flow: Any) -> SplitCall:
    """The first split in the specification of a data flow, outermost first."""
    found = _search(flow)
    if found is None:
        raise FlowError("flow", f"has no split to explain; splits are made by {', '.join(SPLITS)}")
    return found


def _search(spec: Any) -> SplitCall | None:
    if isinstance(spec, Mapping):
        if spec.get("template") in SPLITS:
            return _bound(spec)
        inside = [*spec.get("args", []), *(value for key, value in spec.items() if key != "args")]
    elif isinstance(spec, list | tuple):
        inside = list(spec)
    else:
        return None
    return next((found for one in inside if (found := _search(one)) is not None), None)


def _bound(spec: Mapping[str, Any]) -> SplitCall:
    name = str(spec["template"])
    named = {key: value for key, value in spec.items() if key not in ("template", "args")}
    try:
        bound = TEMPLATES[name].signature.bind(*spec.get("args", []), **named)
    except TypeError as error:
        raise FlowError(f"template {name!r}", str(error)) from None
    bound.apply_defaults()
    arguments = dict(bound.arguments)
    arguments |= arguments.pop("options", None) or {}
    w = arguments.pop("q") if name == "parasplit" else arguments.pop("w")
    return SplitCall(name, w, arguments.pop("rfn"), arguments.pop("bfn", None), arguments)


def _sampled(
    stream: RegisteredStream, split: SplitCall, assumptions: Assumptions, notes: list[str]
) -> tuple[SplitSample | None, float | None]:
    """What becomes of the first tuples of a source, and their size; nothing where it cannot be read here."""
    if not assumptions.sample:
        return None, None
    try:
        blocks = read_some(stream, assumptions.sample)
    except GsdmError as error:
        notes.append(f"the source could not be sampled here: {error}")
        return None, None
    tuples = sum(len(block) for block in blocks)
    if not tuples:
        notes.append(f"the source gave no tuple within {SAMPLE_S:g} s: nothing was sampled")
        return None, None
    decided = [sample_block(split, block) for block in blocks if len(block)]
    return joined(decided), sum(block.nbytes for block in blocks) / tuples


def read_some(stream: RegisteredStream, count: int) -> list[PhysicalWindow]:
    """The first windows that a source gives, about ``count`` of them, for as long as it is worth waiting."""
    assert stream.type is not None
    interface = stream.make(stream.type)
    blocks: list[PhysicalWindow] = []
    until_s = time.monotonic() + SAMPLE_S
    interface.open(InterfaceContext())
    try:
        while count > 0 and time.monotonic() < until_s:
            block = interface.next(count)
            if block is None:
                time.sleep(0.005)  # it has nothing just now
                continue
            start = sum(len(one) for one in blocks)
            blocks.append(block.stamped(ordinals=range(start, start + len(block))))
            count -= len(block)
    except EndOfStream:
        pass
    except GsdmError:
        raise
    except Exception as error:
        raise QueryError(f"input stream {stream.name!r}: {type(error).__name__}: {error}") from error
    finally:
        interface.close()
    return blocks


def sample_block(split: SplitCall, block: PhysicalWindow) -> SplitSample:
    """What rfn and bfn make of the tuples of a block, and what that costs."""
    decide = routing(split.rfn, split.bfn, block.type, split.w)
    began_s = time.thread_time()
    decision = decide(block)
    spent_s = time.thread_time() - began_s
    to_all = np.zeros(len(block), bool) if decision.broadcast is None else decision.broadcast
    routed = decision.outputs[~to_all]
    routed = routed[routed >= 0]
    counts = np.bincount(routed.astype(np.int64), minlength=split.w)
    broadcast = int(np.count_nonzero(to_all))
    omitted = len(block) - broadcast - len(routed)
    return SplitSample(len(block), omitted, broadcast, tuple(counts.tolist()), spent_s / len(block))


def _shares(
    sample: SplitSample | None, split: SplitCall, assumptions: Assumptions, n: float, notes: list[str]
) -> StreamShares:
    if sample is None:
        shares = StreamShares(b=DEFAULT_B if split.bfn is not None else 0.0, n=n)
        if assumptions.b is None and split.bfn is not None:
            notes.append(f"the broadcast share is not known: taken as {DEFAULT_B:.0%}")
    else:
        shares = sample.shares(n)
    b = shares.b if assumptions.b is None else assumptions.b
    o = shares.o if assumptions.o is None else assumptions.o
    return replace(shares, b=b, o=o if assumptions.o is not None else min(o, 1.0 - b))


def _not_here(kind: str, name: str) -> Mapping[str, Any]:
    raise QueryError(f"{kind} {name!r} is registered at a coordinator: submit the query there and explain it by name")
