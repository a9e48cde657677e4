"""Queries whose specification says ``autoscale`` change their degree of parallelism by themselves."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from api.errors import Problem
from api.operations import Operations
from api.queries.service_grid import ServiceGrid
from api.queries.specifications import Specifications
from gsdm_grid.errors import GsdmError
from gsdm_grid.splitting import scaled_sites
from resource_manager.policy import AutoscalePolicy, Load, LoadMeter, decide

_log = logging.getLogger("gsdm.autoscaling")
INTERVAL_S = 1.0


@dataclass(frozen=True)
class ScalingQuery:
    """A running query that scales by itself."""

    name: str
    policy: AutoscalePolicy
    compute: frozenset[str]
    statistics: Mapping[str, Mapping[str, Any]]


@dataclass
class _History:
    meter: LoadMeter = field(default_factory=LoadMeter)
    loads: deque[Load] = field(default_factory=lambda: deque(maxlen=16))
    changed_s: float = 0.0


def running_and_scaling(
    grid: ServiceGrid, specifications: Specifications, operations: Operations
) -> Iterator[ScalingQuery]:
    """Running queries that scale by themselves, and have nothing else to do."""
    for name, query in list(grid.current().queries.items()):
        resolved = specifications.parsed(name)
        bounds = None if resolved is None else resolved.specification.autoscale
        if query.state != "active" or query.plan is None or bounds is None:
            continue
        if operations.unfinished(name):
            continue
        yield ScalingQuery(name, AutoscalePolicy(bounds.min, bounds.max), scaled_sites(query.plan), query.statistics())


class Autoscaler:
    """Looks at running queries once a second, in a thread of its own. ``scale`` is told name, degree and reason."""

    def __init__(self, scaling: Callable[[], Iterable[ScalingQuery]], scale: Callable[[str, int, str], None]) -> None:
        self._scaling = scaling
        self._scale = scale
        self._histories: dict[str, _History] = {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="gsdm-autoscale", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(10)

    def _watch(self) -> None:
        while not self._closing.wait(INTERVAL_S):
            try:
                self._look(time.monotonic())
            except (Problem, GsdmError) as error:  # it changed its state in between: look again later
                _log.info("not scaled", extra={"reason": str(error)})
            except Exception:
                _log.exception("autoscaling failed")

    def _look(self, now_s: float) -> None:
        seen = list(self._scaling())
        for name in set(self._histories) - {query.name for query in seen}:
            del self._histories[name]
        for query in seen:
            history = self._histories.setdefault(query.name, _History(changed_s=now_s))
            load = history.meter.read(now_s, set(query.compute), query.statistics)
            if load is None:
                continue
            history.loads.append(load)
            decision = decide(query.policy, list(history.loads), history.changed_s)
            if decision is not None:
                history.changed_s = now_s
                history.loads.clear()
                _log.info("scaling", extra={"query": query.name, "degree": decision.degree, "reason": decision.reason})
                self._scale(query.name, decision.degree, decision.reason)
