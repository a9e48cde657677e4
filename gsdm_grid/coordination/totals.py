"""What a query has read, delivered and dropped so far.

The figures of a site begin anew whenever the query is rescaled, so that those of old and new sites can be compared.
These totals belong to the query, and go on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from gsdm_grid.plan import PlanStream

SiteStatistics = Mapping[str, Any]
"""Statistics of one site."""
DROPPED = "dropped_"
DROPPED_BY_OPERATORS = ("late", "incomplete")


class Totals:
    """What was counted by sites that count anew now, or are gone. Not thread-safe; lives as long as its query."""

    def __init__(self) -> None:
        self._windows: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._dropped: Counter[str] = Counter()
        self._dropped_by_interfaces: dict[str, Counter[str]] = {}

    def add(self, site: SiteStatistics) -> None:
        """The last figures of a site that counts anew, or is gone."""
        for name, stream in site["streams"].items():
            self._windows[name] += stream["windows"]
            self._bytes[name] += stream["bytes"]
        self._dropped += _dropped_by_operators(site)

    def end_interfaces(self, site: SiteStatistics) -> SiteStatistics:
        """The interfaces of a site are gone, and others count from zero: keep what they dropped.

        Gives the figures of the site without that.
        """
        for name, stream in site["streams"].items():
            kept = self._dropped_by_interfaces.setdefault(name, Counter())
            kept.update(_dropped_by_interface(stream))
        streams = {
            name: {key: value for key, value in stream.items() if not key.startswith(DROPPED)}
            for name, stream in site["streams"].items()
        }
        return {**site, "streams": streams}

    def document(self, streams: Iterable[PlanStream], sites: Mapping[str, SiteStatistics]) -> dict[str, Any]:
        """As plain JSON, together with the present ``sites``: ``read`` and ``delivered`` by stream of the query's
        ``streams``, and what operators ``dropped``, by reason."""
        now = {name: stream for site in sites.values() for name, stream in site["streams"].items()}
        dropped = sum((_dropped_by_operators(site) for site in sites.values()), self._dropped)
        ends = {kind: [stream.name for stream in streams if stream.kind == kind] for kind in ("source", "sink")}
        return {
            "read": {name: self._stream(name, now.get(name, {})) for name in ends["source"]},
            "delivered": {name: self._stream(name, now.get(name, {})) for name in ends["sink"]},
            "dropped": dict(dropped),
        }

    def _stream(self, name: str, now: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "windows": self._windows[name] + now.get("windows", 0),
            "bytes": self._bytes[name] + now.get("bytes", 0),
            "dropped": dict(_dropped_by_interface(now) + self._dropped_by_interfaces.get(name, Counter())),
        }


def _dropped_by_interface(stream: Mapping[str, Any]) -> Counter[str]:
    """Dropped windows by reason. An interface stays when its query is rescaled, and counts on."""
    return Counter(
        {
            key.removeprefix(DROPPED): int(count)
            for key, count in stream.items()
            if key.startswith(DROPPED) and not key.endswith("_samples") and count
        }
    )


def _dropped_by_operators(site: SiteStatistics) -> Counter[str]:
    """Dropped windows by reason; reasons without any are left out when such counters are added."""
    operators = site["operators"].values()
    counts = {reason: sum(int(one.get(reason, 0)) for one in operators) for reason in DROPPED_BY_OPERATORS}
    return +Counter(counts)
