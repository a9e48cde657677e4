"""Candidate plans of the optimizer: how each stage of a query is parallelized, as plain data and as a data flow.

The work is a pipe of one or more functions. Each stage may be central or parallel by a strategy that its function
registered; or all stages are fused into one site's work, which is parallelized as a whole. A tree spreads partition and
combine over two levels of sites.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gsdm_grid.errors import FlowError, UnknownName
from gsdm_grid.flow import PCC, DataFlow, central, lpipe, pipe
from gsdm_grid.functions import Strategy, StreamFunction, functions, undeclared

CENTRAL = "central"


@dataclass(frozen=True)
class Stage:
    """A function with its parameters. Immutable."""

    function: StreamFunction
    params: Any = None

    @staticmethod
    def of(function: str | StreamFunction, params: Any = None) -> Stage:
        """The stage of a function that is registered under a name, or given itself."""
        return Stage(functions.get(function), params)


Work = tuple[Stage, ...]


@dataclass(frozen=True)
class Parallel:
    """How one stage is parallelized. Immutable. ``run``: windows that round robin sends to one site in turn."""

    strategy: str
    degree: int
    tree: bool = False
    run: int = 1

    @property
    def fan_outs(self) -> tuple[int, ...]:
        """How many ways each level splits: one level if flat, else two that are as equal as they can be.

        >>> Parallel("window_split", 8, tree=True).fan_outs
        (2, 4)
        """
        if not self.tree:
            return (self.degree,)
        outer = max(n for n in range(1, int(self.degree**0.5) + 1) if self.degree % n == 0)
        return (outer, self.degree // outer)

    @property
    def key(self) -> str:
        """Short and unique among the plans of one stage."""
        return f"{self.strategy}-{self.degree}{'-tree' if self.tree else ''}{f'-run{self.run}' if self.run > 1 else ''}"

    @property
    def described(self) -> str:
        """In words."""
        turns = f", {self.run} windows in turn" if self.run > 1 else ""
        return f"{self.strategy.replace('_', ' ')} in {self.degree}{' as a tree' if self.tree else ''}{turns}"

    def to_json(self) -> dict[str, Any]:
        """As plain JSON: the member ``plan`` of a specification."""
        made: dict[str, Any] = {"strategy": self.strategy, "degree": self.degree}
        if self.tree:
            made["shape"] = "tree"
        if self.run > 1:
            made["run"] = self.run
        return made


@dataclass(frozen=True)
class Candidate:
    """One plan: for each stage how it is parallelized (None: central), or for all of them together if ``fused``.

    Immutable. ``block_bytes`` is the size of its physical windows; None is what the installation has.
    """

    stages: tuple[Parallel | None, ...]
    fused: bool = False
    block_bytes: int | None = None

    @property
    def key(self) -> str:
        """Short, unique in a plan space, and fit for addresses and file names."""
        made = "+".join(stage.key if stage else CENTRAL for stage in self.stages)
        size = f"-{self.block_bytes >> 10}KiB" if self.block_bytes is not None else ""
        return f"{'fused-' if self.fused else ''}{made}{size}"

    @property
    def is_central(self) -> bool:
        """Whether no stage is parallel."""
        return all(stage is None for stage in self.stages)

    def described(self, functions: Sequence[str] = ()) -> str:
        """In words, with the names of the functions of its stages if they are given.

        >>> Candidate((Parallel("window_split", 4, tree=True),)).described(["fft3"])
        'fft3 by window split in 4 as a tree'
        """
        size = f" with physical windows of {self.block_bytes >> 10} KiB" if self.block_bytes is not None else ""
        hows = [stage.described if stage else CENTRAL for stage in self.stages]
        if self.fused:
            return f"{' and '.join(functions) or 'all stages'} together by {hows[0]}{size}"
        if len(functions) != len(hows):
            return f"{', then '.join(hows)}{size}"
        stages = zip(functions, hows, strict=True)
        named = [f"{function} {'on one site' if how == CENTRAL else f'by {how}'}" for function, how in stages]
        return f"{', then '.join(named)}{size}"

    @property
    def degree(self) -> int:
        """The largest number of sites that compute the same stage."""
        return max(stage.degree if stage else 1 for stage in self.stages)

    def to_json(self) -> Any:
        """As plain JSON: the member ``plan`` of a specification (``block_bytes`` is another member)."""
        parts = [stage.to_json() if stage else CENTRAL for stage in self.stages]
        if self.fused:
            return {"fused": parts[0]}
        return parts[0] if len(parts) == 1 else {"stages": parts}


# -- data flows -------------------------------------------------------------------------------------------------------


def planned_flow(work: Work, plan: Candidate, inputs: int = 1) -> DataFlow:
    """The data flow of a plan; says which strategy or degree is not valid for a function."""
    if plan.fused:
        return _stage_flow(work, plan.stages[0], inputs)
    if len(work) == 1:
        return _stage_flow(work, plan.stages[0], inputs)
    stages = [_stage_flow((stage,), how, inputs if k == 0 else 1) for k, (stage, how) in enumerate(_paired(work, plan))]
    return pipe(*stages)


def sites_of_stages(work: Work, plan: Candidate) -> list[frozenset[str]]:
    """Ids of the sites of each stage in the data flow of a plan."""
    flow = planned_flow(work, plan)
    if plan.fused or len(work) == 1:
        return [frozenset(site.id for site in flow.sites)]
    made, at = [], 0
    for stage, how in _paired(work, plan):
        count = len(_stage_flow((stage,), how, 1).sites)
        made.append(frozenset(site.id for site in flow.sites[at : at + count]))
        at += count
    return made


def _paired(work: Work, plan: Candidate) -> list[tuple[Stage, Parallel | None]]:
    return list(zip(work, plan.stages, strict=True))


def _stage_flow(work: Work, how: Parallel | None, inputs: int) -> DataFlow:
    """One stage, or several fused into one, central or parallel."""
    if how is None:
        return _single(work, inputs)
    strategy = strategy_of(work, how.strategy)
    made: Any = _single(work, 1)
    for ways in reversed(how.fan_outs):
        if strategy.degrees is not None and ways not in strategy.degrees:
            place = f"{how.strategy} of {work[0].function.name!r}"
            raise FlowError(place, f"degree {ways} is not valid; valid: {list(strategy.degrees)}")
        part_params, comb_params = strategy.resolve(work[0].function.bind(work[0].params))
        if how.run > 1:
            if not strategy.partition_traits.deals_in_turn:
                raise FlowError("plan.run", f"is for round robin, but {how.strategy!r} partitions by another function")
            part_params = {**part_params, "run": how.run}
        made = PCC(ways, (strategy.partition, part_params), made, None, strategy.combine, comb_params)
    flow: DataFlow = made
    return flow


def _single(work: Work, inputs: int) -> DataFlow:
    if len(work) == 1:
        return central(work[0].function, work[0].params, inputs)
    return lpipe(*(part for stage in work for part in (stage.function, stage.params or {})))


def strategy_of(work: Work, name: str) -> Strategy:
    """The strategy of this name that is valid for a function, or for several fused ones."""
    valid = strategies_of(work)
    found = next((strategy for strategy in valid if strategy.name == name), None)
    if found is None and len(work) == 1:
        raise undeclared(work[0].function, name)
    if found is None:
        who = " and ".join(repr(stage.function.name) for stage in work)
        raise UnknownName(f"parallel strategy of {who}", name, [strategy.name for strategy in valid])
    return found


def strategies_of(work: Work) -> Sequence[Strategy]:
    """Strategies that are valid for a function, or for several that are fused.

    Fused functions share a strategy if it partitions whole windows in the same way for each of them: then every site
    does all the work for its windows. A window that was split would have to be combined in between.
    """
    first, *others = (stage.function.strategies for stage in work)
    if not others:
        return first
    return [one for one in first if not one.combine_traits.joins_parts and all(one in valid for valid in others)]


def tree_obstacle(strategy: Strategy, degree: int) -> str | None:
    """Why a strategy cannot be run as a tree of this degree; None if it can."""
    if not (strategy.combine_traits.joins_parts or strategy.partition_traits.deals_in_turn):
        return f"{strategy.partition!r} counts windows of the whole stream"
    outer, inner = Parallel(strategy.name, degree, tree=True).fan_outs
    if outer == 1:
        return f"{degree} is not a product of two numbers"
    if strategy.degrees is not None and not {outer, inner} <= set(strategy.degrees):
        return f"its levels would split {outer} and {inner} ways; valid: {list(strategy.degrees)}"
    return None
