"""Parallel strategies: how a function may run in several places at once and how its results are combined.

A strategy names a partitioning and a combining function with their parameters. A parameter value ``"$size"``
stands for the value that the parallelized function's own parameter ``size`` has in the query.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gsdm_grid.errors import FlowError, QueryError, UnknownName
from gsdm_grid.functions.traits import Traits

if TYPE_CHECKING:
    from gsdm_grid.functions.sqf import StreamFunction

ROUND_ROBIN = "RRpart"
WINDOW_DISTRIBUTE = "window_distribute"
WINDOW_SPLIT = "window_split"


@dataclass(frozen=True)
class Strategy:
    """One valid way to parallelize a function. Immutable. ``degrees`` None means any degree."""

    name: str
    partition: str
    partition_params: Mapping[str, Any] = field(default_factory=dict, hash=False)
    combine: str = "S-Merge"
    combine_params: Mapping[str, Any] = field(default_factory=dict, hash=False)
    degrees: tuple[int, ...] | None = None

    @property
    def partition_traits(self) -> Traits:
        """What its partitioning function says of itself."""
        return _traits_of(self.partition)

    @property
    def combine_traits(self) -> Traits:
        """What its combining function says of itself."""
        return _traits_of(self.combine)

    def describe(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "name": self.name,
            "partition": self.partition,
            "partition_params": dict(self.partition_params),
            "combine": self.combine,
            "combine_params": dict(self.combine_params),
            "degrees": list(self.degrees) if self.degrees else "any",
        }

    def renamed(self, names: Mapping[str, str]) -> Strategy:
        """The same strategy after functions that it names got other names, as those of uploaded bundles do."""
        combine_params = {
            key: names.get(value, value) if isinstance(value, str) else value
            for key, value in self.combine_params.items()
        }
        partition, combine = names.get(self.partition, self.partition), names.get(self.combine, self.combine)
        return replace(self, partition=partition, combine=combine, combine_params=combine_params)

    def resolve(self, params: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Partition and combine parameters with ``$name`` replaced by the function's own parameter values."""

        def value(given: Any) -> Any:
            if not isinstance(given, str) or not given.startswith("$"):
                return given
            if given[1:] not in params:
                raise UnknownName(f"parameter in strategy {self.name!r}", given, params)
            return params[given[1:]]

        partition = {name: value(given) for name, given in self.partition_params.items()}
        return partition, {name: value(given) for name, given in self.combine_params.items()}


def window_distribute(partition: str = ROUND_ROBIN, **partition_params: Any) -> Strategy:
    """Whole windows to different sites (thesis 4.2.2); valid for any function over single windows."""
    return Strategy(WINDOW_DISTRIBUTE, partition, partition_params)


def window_split(partition: str, combine: str, degrees: tuple[int, ...] | None = None) -> Strategy:
    """Parts of each window to different sites (thesis 4.2.1); needs the function's own split and combine."""
    return Strategy(WINDOW_SPLIT, partition, {}, "OS-Join", {"combine": combine}, degrees)


def undeclared(function: StreamFunction, name: str) -> QueryError:
    """The error for who asks for a strategy that a function does not declare: it says what to write instead."""
    from gsdm_grid.functions.registry import is_library

    declared = [strategy.name for strategy in function.strategies]
    if name not in (WINDOW_DISTRIBUTE, WINDOW_SPLIT):
        return UnknownName(f"parallel strategy of {function.name!r}", name, declared)
    others = f" (it declares {' and '.join(declared)})" if declared else ""
    reason = f"the function does not declare {name.replace('_', ' ')}{others}"
    if not is_library(function):
        reason = f"{reason}; if it can run so: @sqf(…, strategies=({_declaration(function, name)},))"
    return FlowError(f"{name} of {function.name!r}", reason)


def _declaration(function: StreamFunction, name: str) -> str:
    if name == WINDOW_SPLIT:
        return "window_split('PARTITIONING FUNCTION', 'COMBINE FUNCTION')"
    if function.uses_neighbours:
        return "window_distribute('overlap_part', size='$size')"
    if function.init is not None:  # it has state: round robin would spread it
        return "window_distribute('hashpart', key='ATTRIBUTE THAT EACH STATE BELONGS TO')"
    return "window_distribute()"


def _traits_of(function: str) -> Traits:
    from gsdm_grid.functions.registry import functions

    return functions.get(function).traits
