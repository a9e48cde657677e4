"""Autoscaling: a source doubles its rate twice and halves it twice; how the degree of parallelism follows.

A coordinator runs one query with ``autoscale``, whose function takes 8 ms for each window (waiting for an instrument,
so that the degree does not depend on the machine's cores). The trace is drawn: rate asked for, rate reached, degree.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from reporting import Report, arguments

from api.services import Services
from api.settings import ServiceSettings
from api.wiring import make_services
from gsdm_grid import current_window, sqf
from gsdm_grid.apps.radio import SyntheticRadio
from gsdm_grid.functions import window_distribute
from gsdm_grid.interfaces import InterfaceContext, register_stream_interface
from gsdm_grid.interfaces.pacing import Pacer
from gsdm_grid.model import PhysicalWindow, StreamType

WORK_S = 0.008
RATES = (100.0, 200.0, 400.0, 200.0, 100.0)
NAME = "followed"
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "autoscaling.png"


class VaryingRadio(SyntheticRadio):
    """Synthetic radio whose rate changes every ``every_s`` seconds."""

    known_options = SyntheticRadio.known_options | {"every_s"}  # type: ignore[operator]

    def __init__(self, stream_type: StreamType, options: Mapping[str, Any]) -> None:
        super().__init__(stream_type, options)
        self._every_s = float(options["every_s"])
        self._step = 0
        self._began_s = 0.0

    def open(self, context: InterfaceContext) -> None:
        """See `StreamInterface`."""
        super().open(context)
        self._began_s = self._began_s or time.monotonic()

    def next(self, limit: int) -> PhysicalWindow | None:
        """See `StreamInterface`."""
        step = int((time.monotonic() - self._began_s) / self._every_s) + 1
        if step != self._step:
            self._step = step
            self._pacer = Pacer(self.context.clock, RATES[min(step, len(RATES)) - 1])
        return super().next(limit)


@sqf(strategies=(window_distribute(),))
def measured_elsewhere(s: Any) -> Any:
    """A window, after 8 ms in which nothing is computed here."""
    window = current_window(s)
    time.sleep(WORK_S)
    return window


def main() -> int:
    """Run it."""
    options = arguments(__doc__ or "")
    report = Report("a rate that doubles twice and halves twice", options.json)
    every_s = 12.0 if options.quick else 30.0
    register_stream_interface("varying_radio", VaryingRadio)
    with tempfile.TemporaryDirectory() as home:
        settings = ServiceSettings(home=Path(home), placement="threads")
        services = make_services(settings)
        services.coordinator.start()
        try:
            trace = _follow(services, report, every_s)
            changes = [one for one in services.views.events(NAME, 100) if "busy" in (one["detail"] or "")][::-1]
        finally:
            services.coordinator.close()
            services.store.close()
    report.row("rate asked for", "degrees", "changes")
    wandering = 0
    for number, rate in enumerate(RATES):
        degrees = [one["degree"] for one in trace if number * every_s <= one["at_s"] < (number + 1) * every_s]
        moves = [b - a for a, b in pairwise(degrees) if b != a]
        wandering += sum(1 for a, b in pairwise(moves) if a * b < 0)
        report.row(rate, f"{degrees[0]} … {degrees[-1]}", len(moves))
    if not options.quick:
        _draw(trace, every_s)
    return report.finish({"changes": len(changes), "changes_of_direction_within_a_rate": wandering})


def _follow(services: Services, report: Report, every_s: float) -> list[dict[str, float]]:
    stream = {"type": "Radio", "interface": "varying_radio", "options": {"window": 64, "every_s": every_s}}
    services.desired.submit(
        {
            "name": NAME,
            "inputs": [stream],
            "function": "measured_elsewhere",
            "plan": {"strategy": "window_distribute", "degree": 1},
            "outputs": [{"name": "nowhere", "interface": "null"}],
            "autoscale": {"min": 1, "max": 8},
        },
        "benchmark",
        "admin",
    )
    operation = services.desired.act(NAME, "run")
    while services.operations.view(operation["id"])["finished"] is None:
        time.sleep(0.05)
    trace: list[dict[str, float]] = []
    began_s = time.monotonic()
    windows, then_s = 0, began_s
    while (now_s := time.monotonic()) - began_s < every_s * len(RATES):
        statistics = services.figures.statistics(NAME)
        read = sum(site["streams"]["in0"]["windows"] for site in statistics.values() if "in0" in site["streams"])
        compute = [site for name, site in statistics.items() if name.startswith("compute")]
        trace.append(
            {
                "at_s": now_s - began_s,
                "asked": RATES[min(int((now_s - began_s) / every_s), len(RATES) - 1)],
                "rate": (read - windows) / (now_s - then_s) if trace else 0.0,
                "degree": len(compute),
                "load": max((site["utilization"] for site in compute), default=0.0),
            }
        )
        windows, then_s = read, now_s
        if int(now_s - began_s) % 10 == 0:
            report.progress(f"{trace[-1]['asked']:g} windows/s asked for, degree {trace[-1]['degree']}")
        time.sleep(1.0)
    return trace


def _draw(trace: list[dict[str, float]], every_s: float) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    at = [one["at_s"] for one in trace]
    figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(8, 4.5))
    above.step(
        [number * every_s for number in range(len(RATES) + 1)], [*RATES, RATES[-1]], where="post", label="asked for"
    )
    above.plot(at[1:], [one["rate"] for one in trace[1:]], label="reached")
    above.set_ylabel("windows per second")
    above.legend(loc="upper right")
    below.step(at, [one["degree"] for one in trace], where="post", color="tab:green")
    below.set_ylabel("compute sites")
    below.set_xlabel("seconds")
    below.set_ylim(0, 9)
    for axis in (above, below):
        axis.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=110)


if __name__ == "__main__":
    raise SystemExit(main())
