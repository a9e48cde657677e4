"""What the demo runs: an expensive and a cheap piece of work, each as several plans of the optimizer's plan space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gsdm_grid.apps.demo.bare_kernel import BLOCK_BYTES, BYTES_PER_SAMPLE, Chain
from gsdm_grid.errors import QueryError
from gsdm_grid.flow import DataFlow, central
from gsdm_grid.functions import WINDOW_DISTRIBUTE, WINDOW_SPLIT, functions, reference
from gsdm_grid.functions.library.radio import Polar, Radio
from gsdm_grid.model import StreamType
from gsdm_grid.optimizer import (
    Candidate,
    Parallel,
    Stage,
    Work,
    planned_flow,
)
from gsdm_grid.spec import RegisteredStream, register_input_stream, register_result_stream

SOURCE = "gsdm_grid.apps.radio:SyntheticRadio"
SINK = "gsdm_grid.apps.demo.sink:CheckedResults"
CYCLE = 128  # windows after which the synthetic carriers have gone through all their movements
SAMPLE_RATE = 1_000_000
PLACEMENTS = ("grid", "threads")


@dataclass(frozen=True)
class DemoOptions:
    """What a person may choose. Immutable."""

    seconds: float = 0.6
    """How long each measured run of a plan reads its source; there are three of them."""
    window: int = 4096
    """Samples per window."""
    placement: str = "grid"
    out: Path = Path("gsdm-out")
    seed: int = 0

    def checked(self) -> DemoOptions:
        """The options themselves, if the demo can run with them."""
        if not 0 < self.seconds <= 3600:
            raise QueryError(f"demo: seconds must be greater than zero and at most 3600, got {self.seconds:g}")
        if self.window < 16 or self.window % 2:
            raise QueryError(f"demo: window must be an even number of samples from 16 on, got {self.window}")
        if self.placement not in PLACEMENTS:
            raise QueryError(f"demo: placement is one of {', '.join(PLACEMENTS)}; got {self.placement!r}")
        return self

    @property
    def turn(self) -> int:
        """Windows that go to one site in turn: as many as one physical window holds."""
        return max(1, BLOCK_BYTES // (self.window * BYTES_PER_SAMPLE))


@dataclass(frozen=True)
class Workload:
    """Functions in a row, and how costly they are. Immutable."""

    name: str
    functions: tuple[str, ...]
    results: StreamType

    @property
    def described(self) -> str:
        """The functions in words."""
        return " and ".join(self.functions)

    @property
    def work(self) -> Work:
        """As the optimizer takes it."""
        return tuple(Stage.of(name) for name in self.functions)

    @property
    def chain(self) -> Chain:
        """As the bare kernel takes it."""
        return [reference(functions.get(name)) for name in self.functions]


EXPENSIVE = Workload("expensive", ("fft3", "polarize"), Polar)
CHEAP = Workload("cheap", ("fft3",), Radio)
WORKLOADS = (EXPENSIVE, CHEAP)


@dataclass(frozen=True)
class DemoPlan:
    """One plan of some work. Immutable. ``fused``: all functions together on each site."""

    workload: Workload
    name: str
    what: str
    stages: tuple[Parallel | None, ...]
    fused: bool = False

    @property
    def id(self) -> str:
        """The label as the name of its query."""
        return self.label.replace(":", "").replace(" ", "-")

    @property
    def label(self) -> str:
        """For people; unique in the demo."""
        return f"{self.workload.described}: {self.words}"

    @property
    def words(self) -> str:
        """Its name in words, for where the workload is known."""
        return self.name.replace("_", " ")

    @property
    def degree(self) -> int:
        """How many sites compute the same."""
        return self.candidate(1).degree

    def candidate(self, turn: int) -> Candidate:
        """As a plan of the optimizer; ``turn``: windows that round robin sends to one site in turn."""
        return Candidate(tuple(_in_turns(how, turn) for how in self.stages), self.fused)

    def flow(self, turn: int, degree: int | None = None) -> DataFlow:
        """Its data flow; of another degree, if one is given."""
        plan = self.candidate(turn)
        if degree is not None:
            stages = tuple(how and Parallel(how.strategy, degree, how.tree, how.run) for how in plan.stages)
            plan = Candidate(stages, plan.fused)
        return planned_flow(self.workload.work, plan)


def _in_turns(how: Parallel | None, turn: int) -> Parallel | None:
    distributes = how is not None and how.strategy == WINDOW_DISTRIBUTE
    return Parallel(how.strategy, how.degree, how.tree, turn) if how is not None and distributes else how


DISTRIBUTE, SPLIT = Parallel(WINDOW_DISTRIBUTE, 2), Parallel(WINDOW_SPLIT, 2)
PLANS = (
    DemoPlan(EXPENSIVE, "central", "both functions on one site", (None,), fused=True),
    DemoPlan(EXPENSIVE, "window_distribute", "whole windows to 2 sites in turn", (DISTRIBUTE,), fused=True),
    DemoPlan(EXPENSIVE, "window_split", "fft3 on halves of each window on 2 sites, then polarize", (SPLIT, None)),
    DemoPlan(EXPENSIVE, "pipe", "fft3 on one site, polarize on the next", (None, None)),
    DemoPlan(CHEAP, "central", "on one site", (None,)),
    DemoPlan(CHEAP, "window_distribute", "whole windows to 2 sites in turn", (DISTRIBUTE,)),
)
GROWING = next(plan for plan in PLANS if plan.workload is EXPENSIVE and plan.name == "window_distribute")
TRANSPORT = "transport"
"""Name of the query that computes nothing: what source, channels and sink can do by themselves."""


def transport_flow() -> DataFlow:
    """Windows go the way of a central plan and come out as they went in."""
    return central("identity")


def source(options: DemoOptions) -> RegisteredStream:
    """A synthetic antenna that gives prepared windows as fast as they are taken."""
    named: Mapping[str, Any] = {"window": options.window, "seed": options.seed}
    return register_input_stream(Radio, None, SOURCE, sample_rate=SAMPLE_RATE, pool=CYCLE, **named)


def sink(path: Path) -> RegisteredStream:
    """A sink that checks all results and keeps those of one cycle of the carriers."""
    return register_result_stream(str(path), SINK, keep=CYCLE)
