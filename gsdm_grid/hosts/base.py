"""What the coordinator asks of every kind of host: start working nodes, tell which died, end them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from gsdm_grid.config import Settings
from gsdm_grid.engine import Bootstrap
from gsdm_grid.interfaces import StreamInterface
from gsdm_grid.plan import Needs, SiteGroup

Live = Mapping[str, StreamInterface]


def patiently(_reason: str) -> None:
    """Wait on, whatever the reason."""


@dataclass(frozen=True)
class HostRequest:
    """Working nodes that a query needs, and what their hosts must have. Made by the coordinator for one `start`."""

    query: str
    bootstraps: Sequence[Bootstrap]
    live: Live = field(default_factory=dict)
    needs: Mapping[str, Needs] = field(default_factory=dict)
    """By node; one logical CPU where nothing is said."""
    groups: Sequence[SiteGroup] = ()
    """Nodes that belong together; those in none stand alone."""
    deadline_s: float = Settings.acquire_timeout_s
    """How long to wait for hosts that others have."""
    waiting: Callable[[str], None] = patiently
    """Told now and then why the request still waits; raises when it is to be given up."""


class HostGroup(Protocol):
    """The hosts of one request."""

    def lost(self) -> dict[str, str]:
        """Nodes whose host died, with the reason; cheap, called often."""

    def restart(self, node: str) -> bool:
        """Start a lost node anew; it registers again by itself. False if this kind of host cannot."""

    def release(self, nodes: Sequence[str], timeout_s: float) -> Sequence[str]:
        """Some nodes have been dropped, the others go on: end by force those that have not ended in time.

        Gives those that run on because this kind of host cannot end them.
        """

    def stop(self, timeout_s: float) -> Sequence[str]:
        """Wait until all nodes have ended, then end by force what has not; gives what `release` does.

        Safe to call twice.
        """


class HostPool(Protocol):
    """Starts working nodes on one kind of host. Thread-safe; lives as long as the coordinator."""

    def start(self, request: HostRequest) -> HostGroup:
        """Start one node per bootstrap, on hosts that are waited for until the deadline.

        Returns when the hosts are acquired; the nodes register with the coordinator themselves. What the pool will
        never have is refused at once, with what was asked and what there is.
        """

    def warm(self) -> None:
        """Start what all its nodes need, so that the first ones start sooner. May take a while; errors come later."""

    def inventory(self) -> dict[str, Any]:
        """What there is and what is used, as plain JSON; ``started`` says whether the pool is up. Never blocks long."""

    def close(self) -> None:
        """Give back everything the pool acquired for itself."""
