from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from rich.console import Console

from gsdm_grid import Radio
from gsdm_grid.cli import shown
from gsdm_grid.cli.results import Plot
from gsdm_grid.client import Operation, Query, ResultEvent

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
THEN_S = NOW.timestamp() - 90
PLAN = {
    "sites": [
        {"id": "p.0", "role": "partition", "host": "ray", "operators": [{"function": {"name": "RRpart"}}] * 2},
        {"id": "c.0", "role": "compute", "host": "spark", "operators": [{"function": {"name": "fft3"}}]},
    ],
    "streams": [
        {"name": "in", "from_site": None, "to_site": "p.0"},
        {"name": "p→c", "from_site": "p.0", "to_site": "c.0"},
        {"name": "out", "from_site": "c.0", "to_site": None},
    ],
}


def stream(windows, size=1_000_000, buffered=0):
    return {"windows": windows, "bytes": windows * size, "buffered_blocks": buffered}


def statistics(windows, active_s, idle_s):
    return {
        "p.0": {
            "active_s": active_s,
            "idle_s": idle_s,
            "streams": {"in": stream(windows, buffered=3), "p→c": stream(windows)},
        }
    }


def rendered(renderable):
    console = Console(width=120, no_color=True)
    with console.capture() as captured:
        console.print(renderable)
    return captured.get()


def query(state="active", error=None):
    return Query.from_json(
        {
            "name": "q",
            "state": state,
            "desired": "active",
            "since": THEN_S,
            "created": THEN_S,
            "version": 1,
            "specification": {},
            "error": error,
        }
    )


def test_queries_are_listed_with_why_they_failed():
    failed = query("failed", {"type": "urn:gsdm:problem:node-lost", "status": 503, "detail": "it was lost"})
    text = rendered(shown.queries_table([query(), failed], NOW))
    assert "1 min ago" in text
    assert "it was lost" in text
    assert "wanted: active" in shown.title(failed, NOW).plain
    assert "wanted" not in shown.title(query(), NOW).plain


def test_operations_are_listed_with_how_long_they_took():
    done = {"id": "op", "query": "q", "action": "run", "status": "succeeded", "created": THEN_S, "finished": THEN_S + 2}
    assert "2.0 s" in rendered(shown.operations_table([Operation.from_json(done)], NOW))


def test_figures_of_sites_count_streams_and_measure_rates():
    (figures,) = shown.site_figures(PLAN, statistics(100, 10.0, 4.0))
    assert figures["does"] == "RRpart"
    assert (figures["windows_in"], figures["windows_out"], figures["buffered_blocks"]) == (100, 100, 3)
    assert figures["utilization"] == pytest.approx(0.6)
    assert figures["mb_s"] == pytest.approx(10.0)
    assert "3 blocks" in rendered(shown.statistics_table([figures]))


def test_figures_since_an_earlier_look_are_rates_of_the_time_between():
    (figures,) = shown.site_figures(PLAN, statistics(100, 10.0, 4.0), statistics(50, 8.0, 4.0))
    assert figures["utilization"] == 1.0
    assert figures["mb_s"] == pytest.approx(25.0)


def test_figures_of_a_site_that_has_just_begun_are_zero():
    (figures,) = shown.site_figures(PLAN, statistics(0, 0.0, 0.0))
    assert (figures["utilization"], figures["mb_s"]) == (0.0, 0.0)


def test_sites_are_listed():
    site = {"query": "q", "site": "c.0", "functions": ["fft3", "fft3"], "host": "ray", "utilization": 0.25, "pid": 7}
    assert "25%" in rendered(shown.sites_table([site, {**site, "pid": None, "machine": "m"}]))


def test_a_window_is_one_line():
    x = np.zeros(8, np.complex64)
    x[3] = 3 - 4j
    line = shown.window_line(12, Radio.window(ts=1_500_000, x=x, y=x, z=x[:0]))
    assert line == ("      12  0.001500 s  x: 8 complex64, |max| 5 at 3  y: 8 complex64, |max| 5 at 3  z: 0 complex64")


def test_values_are_summed_up_by_their_kind():
    assert shown.summary(np.array([[1, 2], [9, 0]])) == "2×2 int64, max 9 at 1,0"
    assert shown.summary(np.float32(0.5)) == "0.5"
    assert shown.summary(np.int64(7)) == "7"
    assert shown.summary(True) == "True"


def test_result_events_are_lines():
    assert shown.event_lines(ResultEvent(3, ({"seq": 2},))) == [{"seq": 2}]
    assert shown.event_lines(ResultEvent(3, missed=2)) == [{"missed": 2}]
    assert shown.event_lines(ResultEvent(3, end="finished")) == []


@pytest.mark.parametrize("values", [[], [np.nan], [1.0], [2.0, 2.0], range(1000), [np.inf, 1, 2]])
def test_any_numbers_can_be_plotted(values):
    drawn = shown.series_text(list(values), 40, 5)
    assert all(len(line) <= 40 for line in drawn.splitlines())
    assert bool(drawn) == bool(np.isfinite(list(values)).any())


def test_times_are_told_in_their_largest_unit():
    assert shown.ago(NOW - timedelta(days=3), NOW) == "3 d ago"
    assert shown.ago(NOW + timedelta(seconds=3), NOW) == "0.0 s ago"


def test_a_plot_shows_a_spectrum_of_radio(radio_block):
    plot = Plot("q", 1e6)
    plot.take(5, radio_block(3))
    drawn = rendered(plot.drawn(80, 20))
    assert "q · power of x, y and z · window 7" in drawn
    assert "kHz" in drawn


def test_a_plot_shows_the_history_of_numbers(readings):
    plot = Plot("q", 1e6)
    plot.take(0, readings(10))
    plot.take(10, readings(5, first=10))
    drawn = rendered(plot.drawn(80, 12))
    assert "id · window 14" in drawn
    assert " 14 ┤" in drawn
