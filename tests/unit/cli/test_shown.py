from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from rich.console import Console

from gsdm_grid import Radio
from gsdm_grid.cli import plan_tables, tables
from gsdm_grid.cli.results import Plot
from gsdm_grid.client import Bundle, Operation, Query, ResultEvent, Trial

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


def statistics(windows, active_s, idle_s, since_s=THEN_S):
    return {
        "p.0": {
            "since_s": since_s,
            "active_s": active_s,
            "idle_s": idle_s,
            "streams": {"in": stream(windows, buffered=3), "p→c": stream(windows)},
        }
    }


def rendered(renderable, width=120):
    console = Console(width=width, no_color=True)
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
    text = rendered(tables.queries_table([query(), failed], NOW))
    assert "1 min ago" in text
    assert "it was lost" in text
    assert "wanted: active" in tables.title(failed, NOW).plain
    assert "wanted" not in tables.title(query(), NOW).plain


def test_a_query_whose_run_failed_says_so_whatever_state_it_is_in():
    problem = {"type": "urn:gsdm:problem:no-resources", "status": 503, "detail": "there are no hosts"}
    document = {**query("compiled", problem).document, "failure": {"action": "run", "operation": "op", "at": THEN_S}}
    text = rendered(tables.queries_table([Query.from_json(document)], NOW))
    assert "run failed 1 min ago: there are no hosts" in text


def test_operations_are_listed_with_how_long_they_took():
    done = {"id": "op", "query": "q", "action": "run", "status": "succeeded", "created": THEN_S, "finished": THEN_S + 2}
    assert "2.0 s" in rendered(tables.operations_table([Operation.from_json(done)], NOW))


def test_figures_of_sites_count_streams_and_measure_rates():
    (figures,) = tables.site_figures(PLAN, statistics(100, 10.0, 4.0))
    assert figures["does"] == "RRpart"
    assert (figures["windows_in"], figures["windows_out"], figures["buffered_blocks"]) == (100, 100, 3)
    assert figures["utilization"] == pytest.approx(0.6)
    assert figures["mb_s"] == pytest.approx(10.0)
    assert "3 blocks" in rendered(tables.statistics_table([figures]))


def test_figures_since_an_earlier_look_are_rates_of_the_time_between():
    (figures,) = tables.site_figures(PLAN, statistics(100, 10.0, 4.0), statistics(50, 8.0, 4.0))
    assert figures["utilization"] == 1.0
    assert figures["mb_s"] == pytest.approx(25.0)


def test_figures_of_a_site_that_began_anew_since_an_earlier_look_are_those_since_then():
    before = statistics(5_000, 60.0, 30.0)
    (figures,) = tables.site_figures(PLAN, statistics(100, 10.0, 4.0, THEN_S + 60), before)
    assert figures["utilization"] == pytest.approx(0.6)
    assert figures["mb_s"] == pytest.approx(10.0)


def test_totals_of_a_query_are_told_beside_since_when_its_sites_have_counted():
    totals = {
        "read": {"radio": {"windows": 12_345, "bytes": 1, "dropped": {"oldest": 1_000}}},
        "delivered": {"out": {"windows": 11_000, "bytes": 1, "dropped": {}}},
        "dropped": {"late": 3},
    }
    assert tables.totals_lines(totals, THEN_S, NOW) == [
        "read radio: 12,345 windows; dropped: oldest 1,000",
        "delivered out: 11,000 windows",
        "dropped by merges: late 3",
        "sites have counted since 1 min ago, and report twice a second",
    ]


def test_figures_of_a_site_that_has_just_begun_are_zero():
    (figures,) = tables.site_figures(PLAN, statistics(0, 0.0, 0.0))
    assert (figures["utilization"], figures["mb_s"]) == (0.0, 0.0)


def test_sites_are_listed():
    site = {"query": "q", "site": "c.0", "functions": ["fft3", "fft3"], "host": "ray", "utilization": 0.25, "pid": 7}
    assert "25%" in rendered(tables.sites_table([site, {**site, "pid": None, "machine": "m"}]))


def test_reasons_are_only_shown_where_there_are_some():
    assert "why" not in rendered(tables.queries_table([query()], NOW))


def trial(status="succeeded", error=None, **changes):
    times = {"processing_s": 2.0, "communication_s": 0.5, "system_s": 0.25, "utilization_s": 2.75}
    result = {
        "windows": 1000,
        "seconds": 4.0,
        "mb_s": 6.1,
        "windows_s": 250.0,
        "cost_s": 2.75,
        "derived_windows_s": 363.6,
        "busiest": "compute.1",
        "sites": [
            {"site": f"compute.{k}", "role": "compute", "host": "thread", "functions": ["fft3", "fft3"], **times}
            for k in (0, 1)
        ],
        **changes,
    }
    return Trial.from_json(
        {
            "id": "trial-1",
            "query": "q",
            "specification": {},
            "count": 1000,
            "status": status,
            "error": error,
            "result": result if status == "succeeded" else None,
            "created": THEN_S,
        }
    )


@pytest.mark.parametrize("width", [80, 120])
def test_the_busiest_site_of_a_trial_is_marked_and_nothing_is_cut_off(width):
    text = rendered(tables.costs_table(trial().result), width)
    first, second = (line.split() for line in text.splitlines() if "fft3" in line)
    assert first == ["compute.0", "compute", "fft3", "thread", "2.000", "0.500", "0.250", "2.750"]
    assert second == ["▸", "compute.1", *first[1:]]


def test_a_trial_is_summed_up():
    assert "trial trial-1 of q: succeeded, 1,000 windows" in tables.trial_title(trial(), NOW).plain
    told = tables.costs(trial().result)
    for expected in ("2.750 CPU s", "364 windows/s", "250 windows/s, 6.1 MB/s"):
        assert expected in told
    assert max(map(len, told.splitlines())) <= 80


def test_trials_are_listed_with_what_they_cost_or_why_they_failed():
    failed = trial("failed", {"type": "urn:gsdm:problem:node-lost", "status": 503, "detail": "it was lost"})
    text = rendered(tables.trials_table([trial(), failed], NOW))
    assert "2.750 s" in text
    assert "it was lost" in text


def test_bundles_are_listed_with_all_their_functions():
    one = Bundle.from_json({"name": "b", "version": 2, "functions": ["b.f", "b.g"], "created": THEN_S})
    text = rendered(tables.bundles_table([one], NOW))
    assert "1 min ago" in text
    assert "b.g" in text


def test_resources_tell_what_each_kind_of_host_has_and_uses():
    total = {"CPU": 4.0, "memory": 8 * 2.0**30, "object_store_memory": 2.0**30, "node:10.0.0.1": 1.0}
    kinds = {
        "thread": {"started": True, "cores": 2, "sites": 3},
        "ray": {"started": True, "address": "embedded", "nodes": [{}], "total": total, "sites": 1}
        | {"available": {**total, "CPU": 1.5}},
        "spark": {"started": False, "master": "embedded", "sites": 0},
    }
    thread, ray, memory, store, spark = rendered(tables.resources_table(kinds), 80).splitlines()[3:8]
    assert thread.split() == ["thread", "yes", "this", "process", "2", "cores", "3"]
    assert ray.split() == ["ray", "yes", "embedded,", "1", "machine", "2.5", "of", "4", "CPU", "1"]
    assert memory.strip() == "0.0 of 8.0 GiB memory"
    assert store.strip() == "0.0 of 1.0 GiB object store"
    assert "when needed" in spark


def test_a_window_is_one_line():
    x = np.zeros(8, np.complex64)
    x[3] = 3 - 4j
    line = tables.window_line(12, Radio.window(ts=1_500_000, x=x, y=x, z=x[:0]))
    assert line == ("    12  0.001500 s  x, y: 8 complex64, |max| 5@3, 5@3  z: 0 complex64")


def test_values_are_summed_up_by_their_kind():
    assert tables.summary(np.array([[1, 2], [9, 0]])) == "2×2 int64, max 9@1,0"
    assert tables.summary(np.float32(0.5)) == "0.5"
    assert tables.summary(np.int64(7)) == "7"
    assert tables.summary(True) == "True"


def test_result_events_are_lines():
    assert tables.event_lines(ResultEvent(3, ({"seq": 2},))) == [{"seq": 2}]
    assert tables.event_lines(ResultEvent(3, missed=2)) == [{"missed": 2}]
    assert tables.event_lines(ResultEvent(3, end="finished")) == []


@pytest.mark.parametrize("values", [[], [np.nan], [1.0], [2.0, 2.0], range(1000), [np.inf, 1, 2]])
def test_any_numbers_can_be_plotted(values):
    drawn = tables.series_text(list(values), 40, 5)
    assert all(len(line) <= 40 for line in drawn.splitlines())
    assert bool(drawn) == bool(np.isfinite(list(values)).any())


def test_times_are_told_in_their_largest_unit():
    assert tables.ago(NOW - timedelta(days=3), NOW) == "3 d ago"
    assert tables.ago(NOW + timedelta(seconds=3), NOW) == "0.0 s ago"


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


def test_every_cost_of_a_search_is_readable_at_80_columns():
    figures = {"cost_s": 0.0212345, "throughput": 12345.6, "measured_throughput": 2345.6, "hosts": 12.0}
    row = {"key": "window_distribute-8-tree-run21-512KiB", "windows": 1008, "predicted_s": 0.0198765}
    rows = [{**row, "figures": figures, "busiest": "partition.0", "error": None}]
    drawn = rendered(plan_tables.plans_table({"table": rows, "key": row["key"]}), 80)
    for figure in ("1,008", "21.23", "19.88", "12,346", "2,346", "12"):
        assert figure in drawn
    assert "…" not in drawn


def test_resources_at_80_columns_show_hosts_in_full_and_only_resources_that_people_know():
    total = {"CPU": 64.0, "CPU_group_0_6327ab": 4.0, "bundle_group_6327ab": 1000.0, "memory": 8 * 2.0**30}
    ray = {
        "started": True,
        "address": "192.168.120.114:6379",
        "nodes": [{}, {}],
        "total": total,
        "cores": 2,
        "sites": 1,
    }
    drawn = rendered(
        tables.resources_table({"ray": {**ray, "available": total}, "pools": {"antennas": {"ray": ray}}}), 80
    )
    assert "…" not in drawn
    assert "_group_" not in drawn
    assert "ray of antennas" in drawn
    assert "192.168.120.114:6379" in drawn
    assert "0 of 64 logical CPUs" in drawn
    assert "2 cores" in drawn


def lease(query, reason, machines):
    return {
        "query": query,
        "state": "requested" if reason else "held",
        "planned": [f"compute.{number}" for number in range(len(machines))],
        "requested": {"CPU": float(len(machines)), "memory": 2 * 2.0**30, "GPU": 1.0},
        "observed": {f"compute.{number}": machine for number, machine in enumerate(machines)},
        "reason": reason,
    }


def test_leases_at_80_columns_show_what_is_held_where_and_why_others_wait():
    reason = "no machine has 5 CPU free: 3 of 8 are in use by 'long-radio-query'"
    held = lease("long-radio-query", None, ["192.168.120.114"] * 3 + ["192.168.120.115"] * 2)
    waiting = lease("another-query", reason, [None] * 5)
    kinds = {"ray": {"leases": [held]}, "pools": {"antennas": {"ray": {"leases": [waiting]}}}}
    drawn = rendered(tables.leases_table(kinds), 80)
    assert max(len(line.rstrip()) for line in drawn.splitlines()) <= 80
    assert "…" not in drawn
    for text in ("long-radio-query", "held", "5 CPU", "2.0 GiB memory", "1 GPU", "antennas", "5 on nowhere yet"):
        assert text in drawn
    for text in ("3 on 192.168.120.114", "2 on 192.168.120.115"):
        assert text in drawn
    assert f"another-query waits: {reason}" in " ".join(drawn.split())


def test_without_leases_there_is_no_table_of_them():
    assert tables.leases_table({"ray": {"leases": []}, "thread": {}}) is None
