"""What a trial run says about a plan: its cost, and what each site spent (thesis 5.6).

The cost of a plan is the largest utilization time among its working nodes over the same stream segment: processing,
communication and system time, in CPU seconds. With one core per site the busiest site sets the pace, so the rate that
the plan would reach there is derived from it; on a machine with fewer cores it is not what the trial itself reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from gsdm_grid.planning.plan import Plan


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

    @property
    def cost_s(self) -> float:
        """The largest utilization time among the sites."""
        return max((site.utilization_s for site in self.sites), default=0.0)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON, with everything that is derived."""
        busiest = max(self.sites, key=lambda site: site.utilization_s, default=None)
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
            "busiest": busiest.site if busiest else None,
            "sites": [{**asdict(site), "utilization_s": site.utilization_s} for site in self.sites],
        }


def measured(plan: Plan, statistics: Mapping[str, Mapping[str, Any]], seconds: float) -> TrialResult:
    """The result of a run of a plan, from the statistics of its sites."""
    sites = tuple(
        SiteCost(
            site.id,
            site.role,
            site.host,
            tuple(operator.function["name"] for operator in site.operators),
            float(told["processing_s"]),
            float(told["communication_s"]),
            float(told["system_s"]),
        )
        for site in plan.sites
        if (told := statistics.get(site.id)) is not None
    )
    sources = {stream.name for stream in plan.streams if stream.kind == "source"}
    read = [figures for told in statistics.values() for name, figures in told["streams"].items() if name in sources]
    windows, size = sum(figures["windows"] for figures in read), sum(figures["bytes"] for figures in read)
    return TrialResult(windows, size, seconds, sites)
