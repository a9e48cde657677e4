"""How the demo looks: live on a terminal with a spectrum, or as plain lines for logs; and its final table."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from types import TracebackType

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text
from typing_extensions import override

from gsdm_grid.apps.demo.measuring import ROUNDS
from gsdm_grid.apps.demo.plans import (
    EXPENSIVE,
    PLANS,
    SAMPLE_RATE,
    DemoOptions,
)
from gsdm_grid.apps.demo.report import BARE_PROCESSES, DemoReport, PlanReport, WorkReport
from gsdm_grid.apps.demo.steps import DemoView
from gsdm_grid.apps.demo.verdict import (
    choice_sentences,
    disturbance_sentence,
    growth_sentence,
    of_limit,
    transport_sentence,
    verdict,
)
from gsdm_grid.apps.radio import spectral_power, spectrum_text
from gsdm_grid.model import PhysicalWindow

LEGEND = (
    f"MB/s: input per second, the median of {ROUNDS} rounds; of limit: share of what the bare functions reach, "
    f"in plain loops on {max(BARE_PROCESSES)} cores with nothing moved between them; "
    "cores busy: CPU time of all sites of a plan."
)
"""What the columns of the tables mean."""
_SPECTRUM_S = 0.15
_LINE_S = 2.0


@dataclass
class _Step:
    text: str
    began_s: float = field(default_factory=time.monotonic)
    took_s: float | None = None
    reached: int = 0
    total: int = 0


class PlainView(DemoView):
    """One line when a step begins and one when it ends, and now and then one in between."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._steps: dict[str, _Step] = {}
        self._said_s = 0.0

    def __enter__(self) -> PlainView:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    @override
    def began(self, step: str, text: str) -> None:
        self._steps[step] = _Step(text)
        self._say(f"{step}: {text} …")

    @override
    def progressed(
        self, step: str, reached: int, total: int, text: str = "", latest: PhysicalWindow | None = None
    ) -> None:
        """Plain lines show no windows."""
        if time.monotonic() - self._said_s > _LINE_S:
            self._say(f"{step}: {reached:,} of {total:,}, {text}")

    @override
    def ended(self, step: str, text: str) -> None:
        took_s = time.monotonic() - self._steps[step].began_s
        self._say(f"{step}: {text} ({took_s:.1f} s)")

    def _say(self, text: str) -> None:
        self._said_s = time.monotonic()
        self._console.print(text, highlight=False, markup=False)


class LiveView(DemoView):
    """Steps with progress bars, and under them the spectrum of the windows that came last."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._steps: dict[str, _Step] = {}
        self._spinner = Spinner("dots", style="cyan")
        self._spectrum: tuple[str, str, int] | None = None
        self._drawn_s = 0.0
        self._live = Live(console=console, get_renderable=self._render, refresh_per_second=8, transient=True)

    def __enter__(self) -> LiveView:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()
        self._console.print(self._table())

    @override
    def began(self, step: str, text: str) -> None:
        self._steps[step] = _Step(text)

    @override
    def progressed(
        self, step: str, reached: int, total: int, text: str = "", latest: PhysicalWindow | None = None
    ) -> None:
        current = self._steps[step]
        current.text, current.reached, current.total = text, reached, total
        now_s = time.monotonic()
        if latest is not None and len(latest) and now_s - self._drawn_s > _SPECTRUM_S:
            self._drawn_s = now_s
            width = min(self._console.width - 4, 120)
            height = max(min(self._console.height - len(self._steps) - 8, 16), 6)
            text = spectrum_text(spectral_power(latest).mean(axis=0), SAMPLE_RATE, width, height)
            self._spectrum = (step, text, int(latest.ordinals[-1]))

    @override
    def ended(self, step: str, text: str) -> None:
        self._steps[step].text = text
        self._steps[step].took_s = time.monotonic() - self._steps[step].began_s
        if step == "measuring":
            self._spectrum = None

    def _render(self) -> RenderableType:
        if self._spectrum is None:
            return self._table()
        step, text, ordinal = self._spectrum
        panel = Panel(
            Text(text, style="bright_cyan", no_wrap=True),
            title=f"[bold]power of x, y and z[/bold] · {step} · window {ordinal:,}",
            title_align="left",
            border_style="bright_black",
            width=min(self._console.width, 124),
        )
        return Group(self._table(), panel)

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 1))
        table.add_column(min_width=1)
        table.add_column(no_wrap=True, min_width=len("measuring"))
        table.add_column(no_wrap=True, overflow="ellipsis")
        table.add_column(justify="right", no_wrap=True, min_width=7)
        for name, step in list(self._steps.items()):
            over = step.took_s is not None
            mark: RenderableType = Text("✓", style="green") if over else self._spinner
            seconds = step.took_s if step.took_s is not None else time.monotonic() - step.began_s
            table.add_row(
                mark,
                Text(name, style="" if over else "bold"),
                self._middle(step, over),
                Text(f"{seconds:.1f} s", style="bright_black"),
            )
        return table

    def _middle(self, step: _Step, over: bool) -> RenderableType:
        if over or not step.total:
            return Text(step.text)
        bar = Table.grid(padding=(0, 1))
        bar.add_row(ProgressBar(step.total, step.reached, width=24), f"{step.reached}/{step.total}", step.text)
        return bar


def headline(options: DemoOptions) -> Text:
    """What is going to happen, in a line."""
    where = "on Ray and Spark" if options.placement == "grid" else "on threads"
    text = Text("GSDM-grid demo", style="bold")
    text.append(f" · {len(PLANS)} plans over three-channel radio, {where}", style="not bold")
    return text


def show_report(report: DemoReport, console: Console) -> None:
    """The final tables with a sentence on each, what the optimizer makes of it, and where the pictures are."""
    console.print()
    if (disturbance := disturbance_sentence(report)) is not None:
        console.print(Text(disturbance, style="yellow"))
    console.print(Text(LEGEND, style="bright_black"))
    for work in report.works:
        if not work.plans:
            continue
        console.print()
        cost = "expensive" if work.workload is EXPENSIVE else "cheap"
        console.print(Text(f"{work.workload.described}, {cost}", style="bold"))
        console.print(_work_table(work))
        console.print(Text(verdict(work, report.disturbed)))
        for sentence in choice_sentences(work):
            console.print(Text(sentence, style="cyan"))
    console.print()
    console.print(Text(transport_sentence(report)))
    if report.growth is not None:
        console.print(Text(growth_sentence(report.growth)))
    for problem in report.problems:
        console.print(Text(f"WRONG: {problem}", style="bold red"))
    console.print()
    for path in report.pictures:
        console.print(Text("  " + str(path), style="cyan"), soft_wrap=True)
    console.print()


def _work_table(work: WorkReport) -> Table:
    table = Table(
        box=SIMPLE_HEAD, header_style="bold", border_style="bright_black", padding=(0, 1, 0, 0), pad_edge=False
    )
    table.add_column("plan", no_wrap=True)
    for name in ("MB/s", "×\ncentral", "of\nlimit", "cores\nbusy"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("busiest site", no_wrap=True)
    table.add_column("windows\nall right", no_wrap=True)
    for one in work.plans:
        table.add_row(*_plan_row(work, one))
    limit = work.bare_mb_s(max(work.bare))
    for processes, rates in work.bare.items():
        if rates:
            rate = work.bare_mb_s(processes)
            name = f"bare, {processes} core{'s' if processes > 1 else ''}"
            shares = (f"{rate / max(work.central.mb_s, 1e-9):.2f}", f"{rate / limit:.2f}" if limit else "")
            table.add_row(Text(name, style="bright_black"), f"{rate:,.0f}", *shares)
    return table


def _plan_row(work: WorkReport, one: PlanReport) -> tuple[RenderableType, ...]:
    does, share = one.busiest
    return (
        one.plan.words if one.plan else "",
        f"{one.mb_s:,.0f}",
        f"{one.mb_s / max(work.central.mb_s, 1e-9):.2f}",
        f"{of_limit(work, one):.2f}",
        f"{one.cores_busy:.1f}",
        f"{does} {share:.0%}",
        _problem_text(one),
    )


def _problem_text(one: PlanReport) -> Text:
    problem = one.delivery.problem
    if problem is not None:
        return Text(problem, style="bold red")
    return Text(f"✓ {one.delivery.arrived:,}", style="green")
