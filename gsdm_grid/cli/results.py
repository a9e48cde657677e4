"""Commands about what queries give and how they fare: results as lines or as a live plot, statistics."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gsdm_grid.cli import tables
from gsdm_grid.cli.commands import (
    OF_COORDINATOR,
    AsJson,
    QueryName,
    Secret,
    ServerUrl,
    app,
    connect,
    console,
    print_json,
    until_interrupted,
)
from gsdm_grid.errors import QueryError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from gsdm_grid.client import Client, NumberedBlock
    from gsdm_grid.interfaces import WindowPicture
    from gsdm_grid.model import PhysicalWindow

PLOT_S = 0.15
DRAWN_S = 2.0
LAST, LAST_DRAWN = 10, 200
HISTORY = 2000


@app.command(rich_help_panel=OF_COORDINATOR)
def results(
    name: QueryName,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with those to come.")] = False,
    last: Annotated[
        int | None,
        typer.Option("--last", "-n", min=1, max=10_000, help=f"Begin with so many: {LAST}, to draw {LAST_DRAWN}."),
    ] = None,
    stream: Annotated[str | None, typer.Option(help="Of this result stream, if there are several.")] = None,
    plot: Annotated[bool, typer.Option("--plot", help="A live spectrum or series instead of lines.")] = False,
    png: Annotated[Path | None, typer.Option(help="Draw them to a PNG file; with --follow, anew as they come.")] = None,
    html: Annotated[Path | None, typer.Option(help="The same as a page that needs nothing else.")] = None,
    server: ServerUrl = None,
    token: Secret = None,
    points: Annotated[int, typer.Option(min=0, max=10_000, help="With --json: reduce longer vectors to so many.")] = 64,
    complex_parts: Annotated[
        bool, typer.Option("--complex-parts", help="With --json: reduced complex vectors keep both parts.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document per line.")] = False,
) -> None:
    """Print a query's latest windows, one line each, plot them, or draw them to a file.

    --follow and --plot end with the run.
    """
    with connect(server, token) as client, until_interrupted(follow or plot):
        count = client.window_count(name, stream=stream)
        first = count - (last or (LAST_DRAWN if png or html else LAST))
        start, until = max(first, 0), None if follow or plot else count
        if as_json:
            events = client.results(
                name, start=start, until=until, stream=stream, points=points, complex_parts=complex_parts
            )
            for event in events:
                for line in tables.event_lines(event):
                    typer.echo(json.dumps(line))
            return
        blocks = client.numbered_blocks(name, start=start, until=until, stream=stream)
        if png or html:
            picture = ResultPicture(name, _sample_rate(client.query(name).specification), png, html, follow)
            if windows := picture.draw_all(blocks):
                typer.echo(f"{windows:,} windows drawn: {', '.join(str(file) for file in (png, html) if file)}")
            else:
                typer.echo(f"there are no windows yet; is the query running? gsdm show {name}", err=True)
        elif plot:
            plotted = Plot(name, _sample_rate(client.query(name).specification))
            _show_plot(console(), plotted, blocks)
        elif _print_lines(blocks, start) == start:
            typer.echo(f"there are no windows yet; is the query running? gsdm show {name}", err=True)


def _print_lines(blocks: Iterator[NumberedBlock], following: int) -> int:
    """Print windows, and how many are missing, as they come; returns the number after the last."""
    for seq, block in blocks:
        if seq > following:
            typer.secho(f"… {seq - following:,} windows are missing: not kept any more, or damaged on disk", dim=True)
        for row, window in enumerate(block):
            typer.echo(tables.window_line(seq + row, window))
        following = seq + len(block)
    return following


def _sample_rate(specification: Mapping[str, Any]) -> float:
    given = [one.get("options") or {} for one in specification.get("inputs", []) if isinstance(one, Mapping)]
    return float(next((options["sample_rate"] for options in given if "sample_rate" in options), 1_000_000))


def _show_plot(out: Console, plotted: Plot, blocks: Iterator[NumberedBlock]) -> None:
    """Plot what comes until it ends; drawing too seldom never holds up reading."""
    from rich.live import Live

    drawn_s = 0.0
    with Live(console=out, auto_refresh=False) as live:
        for seq, block in blocks:
            if not len(block):  # a gap
                continue
            plotted.take(seq, block)
            if time.monotonic() - drawn_s > PLOT_S:
                drawn_s = time.monotonic()
                live.update(plotted.drawn(out.width, out.height), refresh=True)
        if drawn_s:
            live.update(plotted.drawn(out.width, out.height), refresh=True)


class Plot:
    """What a live plot shows: a spectrum of radio windows, the latest vector, or a history of numbers."""

    def __init__(self, name: str, sample_rate: float) -> None:
        self._name = name
        self._sample_rate = sample_rate
        self._seq = 0
        self._block: PhysicalWindow | None = None
        self._history: list[float] = []

    def take(self, seq: int, block: PhysicalWindow) -> None:
        """Windows that came, and the number of the first."""
        self._seq, self._block = seq + len(block) - 1, block
        attribute = self._attribute(block)
        if attribute is not None and block.type.attribute(attribute).is_scalar:
            self._history = [*self._history, *(float(value) for value in block[attribute])][-HISTORY:]

    def drawn(self, width: int, height: int) -> RenderableType:
        """The plot in its frame."""
        from rich.panel import Panel
        from rich.text import Text

        assert self._block is not None
        what, drawing = self._drawing(self._block, min(width - 4, 120), max(min(height - 4, 18), 6))
        title = Text.assemble((self._name, "bold"), f" · {what} · window {self._seq:,}")
        return Panel(
            Text(drawing, style="bright_cyan", no_wrap=True),
            title=title,
            title_align="left",
            border_style="bright_black",
            width=min(width, 124),
        )

    def _drawing(self, block: PhysicalWindow, width: int, height: int) -> tuple[str, str]:
        import numpy as np

        from gsdm_grid import Polar, Radio
        from gsdm_grid.apps.radio import spectral_power, spectrum_text

        if block.type.is_under(Radio) or block.type.is_under(Polar):
            power = spectral_power(block).mean(axis=0)
            return "power of x, y and z", spectrum_text(power, self._sample_rate, width, height)
        attribute = self._attribute(block)
        if attribute is None:
            return "no numbers to plot", ""
        if self._history:
            return attribute, tables.series_text(self._history, width, height)
        latest = np.asarray(block[attribute][-1])
        return attribute, tables.series_text(np.abs(latest) if latest.dtype.kind == "c" else latest, width, height)

    @staticmethod
    def _attribute(block: PhysicalWindow) -> str | None:
        """The first attribute that has numbers, the timestamp apart."""
        kinds = block.type.attributes.items()
        return next((name for name, kind in kinds if not kind.is_string and kind.dtype != "timestamp"), None)


class ResultPicture:
    """Pictures of results in files, for `gsdm results --png FILE --html FILE`."""

    def __init__(self, name: str, sample_rate: float, png: Path | None, html: Path | None, follow: bool) -> None:
        for file in (png, html):
            if file is not None and not file.parent.is_dir():
                raise QueryError(f"{str(file)!r} cannot be drawn: there is no folder {str(file.parent)!r}")
        self._name = name
        self._sample_rate = sample_rate
        self._png, self._html, self._follow = png, html, follow
        self._picture: WindowPicture | None = None

    def draw_all(self, blocks: Iterator[NumberedBlock]) -> int:
        """Draw what comes until it ends, now and then and at the end; returns how many windows came."""
        windows, drawn_s = 0, time.monotonic()
        for _, block in blocks:
            windows += len(block)
            self._take(block)
            if self._follow and time.monotonic() - drawn_s > DRAWN_S:
                self._write()
                drawn_s = time.monotonic()
        if windows:
            self._write()
        return windows

    def _take(self, block: PhysicalWindow) -> None:
        from gsdm_grid import Polar, Radio
        from gsdm_grid.interfaces import WindowPicture

        if self._picture is None:
            is_spectrum = block.type.is_under(Radio) or block.type.is_under(Polar)
            rate = self._sample_rate if is_spectrum else None
            self._picture = WindowPicture(block.type, sample_rate=rate, title=self._name)
        self._picture.take(block)

    def _write(self) -> None:
        assert self._picture is not None
        if self._png:
            self._png.write_bytes(self._picture.png())
        if self._html:
            self._html.write_bytes(self._picture.html(DRAWN_S if self._follow else None))


@app.command(rich_help_panel=OF_COORDINATOR)
def stats(
    name: QueryName,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show them as they change, until Ctrl-C.")] = False,
    period_s: Annotated[float, typer.Option("--period", min=0.1, help="Seconds between two looks.")] = 1.0,
    server: ServerUrl = None,
    token: Secret = None,
    as_json: AsJson = False,
) -> None:
    """Show a query's figures site by site: how busy, how many windows, how fast, how much is waiting."""
    with connect(server, token) as client:
        if watch:
            with until_interrupted(True):
                _watch(client, name, period_s, as_json)
            return
        told = client.statistics(name)
        figures = tables.site_figures(client.plan(name), told) if told else []
        totals = client.query(name).totals
    if as_json:
        print_json(figures)
        return
    console().print(tables.statistics_table(figures) if figures else f"query {name} has no sites at work")
    if figures and totals is not None:
        for line in tables.totals_lines(totals, min(one["since_s"] for one in figures), datetime.now(UTC)):
            console().print(line, markup=False, highlight=False)


def _watch(client: Client, name: str, period_s: float, as_json: bool) -> None:
    """Show the figures of each period until the query is no longer at work."""
    from rich.live import Live

    if as_json:
        for state, figures in _looks(client, name, period_s):
            typer.echo(json.dumps({"query": name, "state": state, "sites": figures}))
        return
    with Live(console=console(), auto_refresh=False) as live:
        for state, figures in _looks(client, name, period_s):
            made = tables.statistics_table(figures)
            made.title, made.title_justify = f"{name} · {state}", "left"
            live.update(made, refresh=True)


def _looks(client: Client, name: str, period_s: float) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    before: Mapping[str, Any] | None = None
    while True:
        state, told = client.query(name).state, client.statistics(name)
        yield state, tables.site_figures(client.plan(name), told, before) if told else []
        if state not in ("installed", "active", "stopping"):
            return
        before = told
        time.sleep(period_s)
