"""What a trial run says about a plan: its cost, and what each site spent (thesis 5.6).

The cost of a plan is the largest utilization time among its working nodes over the same stream segment: processing,
communication and system time, in CPU seconds. With one core per site the busiest site sets the pace, so the rate that
the plan would reach there is derived from it; on a machine with fewer cores it is not what the trial itself reached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from gsdm_grid.plan import Plan

PARTS = 3
"""A trial is measured in so many equal parts. The cheapest one stands for all: what else a machine does adds CPU time
to some of them (caches are shared), and takes it from none."""


@dataclass(frozen=True)
class SiteCost:
    """CPU seconds of one site. Immutable."""

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


@dataclass(frozen=True)
class TrialResult:
    """Outcome of a trial run over ``windows`` windows and ``bytes`` bytes of input. Immutable."""

    windows: int
    bytes: int
    seconds: float
    sites: tuple[SiteCost, ...]
    p99_ms: float | None = None
    """99th percentile of the time from source to sink at half of the rate that it reached, if it was measured."""

    @property
    def cost_s(self) -> float:
        """The largest utilization time among the sites."""
        return max((site.utilization_s for site in self.sites), default=0.0)

    @property
    def busiest(self) -> SiteCost | None:
        """The site that limits the rate."""
        return max(self.sites, key=lambda site: site.utilization_s, default=None)

    def per_window_s(self, seconds: float) -> float:
        """CPU seconds per window of input."""
        return seconds / max(self.windows, 1)

    def figures(self) -> dict[str, float]:
        """What plans are judged by (see `criteria`), whatever the length of the trial."""
        made = {
            "cost_s": self.per_window_s(self.cost_s),
            "throughput": self.windows / self.cost_s if self.cost_s else 0.0,
            "measured_throughput": self.windows / self.seconds if self.seconds else 0.0,
            "cpu_s_per_window": self.per_window_s(sum(site.utilization_s for site in self.sites)),
            "hosts": float(len(self.sites)),
        }
        return made if self.p99_ms is None else {**made, "p99_ms": self.p99_ms}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> TrialResult:
        """Inverse of `to_json`."""
        names = SiteCost.__dataclass_fields__
        sites = ({**site, "functions": tuple(site["functions"])} for site in data["sites"])
        return TrialResult(
            int(data["windows"]),
            int(data["bytes"]),
            float(data["seconds"]),
            tuple(SiteCost(**{name: site[name] for name in names}) for site in sites),
            data.get("p99_ms"),
        )

    def to_json(self) -> dict[str, Any]:
        """As plain JSON, with everything that is derived."""
        busiest = self.busiest
        return {
            "windows": self.windows,
            "bytes": self.bytes,
            "seconds": self.seconds,
            "mb_s": self.bytes / self.seconds / 1e6 if self.seconds else 0.0,
            "windows_s": self.windows / self.seconds if self.seconds else 0.0,
            "cost_s": self.cost_s,
            "derived_windows_s": self.windows / self.cost_s if self.cost_s else 0.0,
            "cpu_s_per_window": sum(site.utilization_s for site in self.sites) / max(self.windows, 1),
            "hosts": len(self.sites),
            "p99_ms": self.p99_ms,
            "busiest": busiest.site if busiest else None,
            "sites": [{**asdict(site), "utilization_s": site.utilization_s} for site in self.sites],
        }


def quietest(parts: Sequence[TrialResult]) -> TrialResult:
    """One result for all parts of a trial: what each site would have spent had all been as the cheapest part."""
    best = min(parts, key=lambda part: part.figures()["cost_s"])
    windows, size = sum(part.windows for part in parts), sum(part.bytes for part in parts)
    scale = windows / max(best.windows, 1)
    sites = tuple(
        replace(
            site,
            processing_s=site.processing_s * scale,
            communication_s=site.communication_s * scale,
            system_s=site.system_s * scale,
        )
        for site in best.sites
    )
    return TrialResult(windows, size, sum(part.seconds for part in parts), sites)


def measured(
    plan: Plan,
    statistics: Mapping[str, Mapping[str, Any]],
    seconds: float,
    before: Mapping[str, Mapping[str, Any]] | None = None,
) -> TrialResult:
    """The result of a run of a plan, from the statistics of its sites; ``before`` is what they were when it began."""
    earlier = before or {}

    def spent(site: str, kind: str) -> float:
        return float(statistics[site][kind]) - float(earlier.get(site, {}).get(kind, 0.0))

    def came(site: str, stream: str, kind: str) -> int:
        had = earlier.get(site, {}).get("streams", {}).get(stream, {}).get(kind, 0)
        return int(statistics[site]["streams"][stream][kind]) - int(had)

    sites = tuple(
        SiteCost(
            site.id,
            site.role,
            site.host,
            tuple(operator.function["name"] for operator in site.operators),
            spent(site.id, "processing_s"),
            spent(site.id, "communication_s"),
            spent(site.id, "system_s"),
        )
        for site in plan.sites
        if site.id in statistics
    )
    sources = {stream.name for stream in plan.streams if stream.kind == "source"}
    read = [(site, name) for site, told in statistics.items() for name in told["streams"] if name in sources]
    windows, size = (sum(came(site, name, kind) for site, name in read) for kind in ("windows", "bytes"))
    return TrialResult(windows, size, seconds, sites)
