"""What the coordinator asks of every kind of host: start working nodes, tell which died, end them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from gsdm_grid.channels import StreamInterface
from gsdm_grid.engine import Bootstrap

Live = Mapping[str, StreamInterface]


class HostGroup(Protocol):
    """The hosts of one query, of one kind."""

    def lost(self) -> dict[str, str]:
        """Nodes whose host died, with the reason; cheap, called often."""

    def restart(self, node: str) -> bool:
        """Start a lost node anew; it registers again by itself. False if this kind of host cannot."""

    def release(self, nodes: Sequence[str], timeout_s: float) -> None:
        """Some nodes have been dropped, the others go on: end by force those that have not ended by themselves."""

    def stop(self, timeout_s: float) -> None:
        """Wait until all nodes have ended, then end by force what has not. Safe to call twice."""


class HostPool(Protocol):
    """Starts working nodes on one kind of host. Thread-safe; lives as long as the coordinator."""

    def start(self, query: str, bootstraps: Sequence[Bootstrap], live: Live) -> HostGroup:
        """Start one node per bootstrap; returns at once, the nodes register with the coordinator themselves."""

    def warm(self) -> None:
        """Start what all its nodes need, so that the first ones start sooner. May take a while; errors come later."""

    def inventory(self) -> dict[str, Any]:
        """What there is and what is used, as plain JSON; ``started`` says whether the pool is up. Never blocks long."""

    def close(self) -> None:
        """Give back everything the pool acquired for itself."""
