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

from gsdm_grid.apps.radio.demo import SAMPLE_RATE, STRATEGIES, DemoOptions, DemoReport
from gsdm_grid.apps.radio.pictures import spectral_power, spectrum_text
from gsdm_grid.model import PhysicalWindow

_SPECTRUM_S = 0.15
_LINE_S = 2.0
_NAMES = tuple(strategy.name for strategy in STRATEGIES)


@dataclass
class _Step:
    text: str
    began_s: float = field(default_factory=time.monotonic)
    took_s: float | None = None
    done: int = 0
    total: int = 0


class PlainView:
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

    def began(self, step: str, text: str) -> None:
        """See `DemoView`."""
        self._steps[step] = _Step(text)
        self._say(f"{step}: {text} …")

    def progressed(self, step: str, done: int, total: int, latest: PhysicalWindow | None) -> None:
        """See `DemoView`."""
        if time.monotonic() - self._said_s > _LINE_S and latest is not None:
            self._say(f"{step}: {done:,} of {total:,} windows")

    def ended(self, step: str, text: str) -> None:
        """See `DemoView`."""
        took_s = time.monotonic() - self._steps[step].began_s
        self._say(f"{step}: {text} ({took_s:.1f} s)")

    def _say(self, text: str) -> None:
        self._said_s = time.monotonic()
        self._console.print(text, highlight=False, markup=False)


class LiveView:
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

    def began(self, step: str, text: str) -> None:
        """See `DemoView`."""
        self._steps[step] = _Step(text)

    def progressed(self, step: str, done: int, total: int, latest: PhysicalWindow | None) -> None:
        """See `DemoView`."""
        self._steps[step].done, self._steps[step].total = done, total
        now_s = time.monotonic()
        if latest is not None and len(latest) and now_s - self._drawn_s > _SPECTRUM_S:
            self._drawn_s = now_s
            width = min(self._console.width - 4, 120)
            height = max(min(self._console.height - len(self._steps) - 8, 16), 6)
            text = spectrum_text(spectral_power(latest).mean(axis=0), SAMPLE_RATE, width, height)
            self._spectrum = (step, text, int(latest.ordinals[-1]))

    def ended(self, step: str, text: str) -> None:
        """See `DemoView`."""
        self._steps[step].text = text
        self._steps[step].took_s = time.monotonic() - self._steps[step].began_s
        if step == _NAMES[-1]:
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
        table.add_column(no_wrap=True, min_width=max(map(len, _NAMES)))
        table.add_column(no_wrap=True, overflow="ellipsis")
        table.add_column(justify="right", no_wrap=True, min_width=7)
        for name, step in list(self._steps.items()):
            over = step.took_s is not None
            mark: RenderableType = Text("✓", style="green") if over else self._spinner
            seconds = step.took_s if step.took_s is not None else time.monotonic() - step.began_s
            table.add_row(
                mark,
                Text(name.replace("_", " "), style="" if over else "bold"),
                self._middle(name, step, over),
                Text(f"{seconds:.1f} s", style="bright_black"),
            )
        return table

    def _middle(self, name: str, step: _Step, over: bool) -> RenderableType:
        if over or not step.total:
            return Text(step.text)
        bar = Table.grid(padding=(0, 1))
        counted = f"{step.done:,}/{step.total:,}" + (" windows" if name in _NAMES else "")
        bar.add_row(ProgressBar(step.total, step.done, width=24), counted)
        return bar


def headline(options: DemoOptions) -> Text:
    """What is going to happen, in a line."""
    where = "on Ray and Spark" if options.placement == "grid" else "on threads"
    text = Text("GSDM-grid demo", style="bold")
    text.append(
        f" · fft3 and polarize over three-channel radio, {where}",
        style="not bold",
    )
    return text


def show_report(report: DemoReport, console: Console) -> None:
    """The final table and where the pictures are."""
    table = Table(
        box=SIMPLE_HEAD, header_style="bold", border_style="bright_black", padding=(0, 1, 0, 0), pad_edge=False
    )
    table.add_column("strategy", no_wrap=True)
    for name in ("degree", "windows", "MB/s"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("busiest site", no_wrap=True)
    table.add_column("equals\ncentral")
    table.add_column("in\norder")
    for one in report.measured:
        central = one.strategy.name == "central"
        table.add_row(
            one.strategy.name.replace("_", " "),
            str(one.strategy.degree),
            f"{one.windows:,}",
            f"{one.mb_s:,.1f}",
            f"{one.busiest_does} {one.utilization:.0%}",
            Text("—", style="bright_black") if central else _verdict(one.difference),
            _verdict(None if one.in_order else "no"),
        )
    console.print()
    console.print(table)
    for path in report.pictures:
        console.print(Text("  " + str(path), style="cyan"), soft_wrap=True)
    console.print()


def _verdict(problem: str | None) -> Text:
    return Text("yes", style="green") if problem is None else Text(problem, style="bold red")
