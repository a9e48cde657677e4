from collections import Counter

from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette

from api.metrics import (
    MAX_QUERIES,
    MAX_SITES,
    MAX_STREAMS,
    STATES,
    Metrics,
    Sample,
    chosen,
    families,
    samples_of,
    totals_of,
)
from gsdm_grid.engine.statistics import NodeStatistics, StreamStatistics


def statistics(**streams):
    told = NodeStatistics(1.5, 0.5, 0.25, 1.0, 4.0, streams={"in": StreamStatistics(10, 800)}).to_json()
    told["streams"]["in"] |= streams
    return told


def values(samples):
    return {(sample.name, sample.labels): sample.value for sample in samples}


def test_a_query_is_told_by_state_site_and_stream():
    told = statistics(dropped_oldest=3, dropped_tail_samples=7, position=10)
    found = values(samples_of({"name": "q", "state": "active", "restarts": {"s0": 2, "s1": 1}}, {"s0": told}))
    assert found["gsdm_query_state", ("q", "active")] == 1
    assert sum(found["gsdm_query_state", ("q", state)] for state in STATES) == 1
    assert found["gsdm_query_restarts_total", ("q",)] == 3
    assert found["gsdm_site_utilization_ratio", ("q", "s0")] == 0.75
    assert found["gsdm_site_processing_seconds_total", ("q", "s0")] == 1.5
    assert found["gsdm_site_communication_seconds_total", ("q", "s0")] == 0.5
    assert found["gsdm_site_system_seconds_total", ("q", "s0")] == 0.25
    assert found["gsdm_stream_windows_total", ("q", "s0", "in")] == 10
    assert found["gsdm_stream_bytes_total", ("q", "s0", "in")] == 800
    assert found["gsdm_stream_dropped_windows_total", ("q", "s0", "in", "oldest")] == 3
    assert not any(labels[-1] == "tail_samples" for _, labels in found)


def test_what_a_query_counted_in_all_is_told_by_stream():
    totals = {
        "read": {"in": {"windows": 10, "bytes": 800, "dropped": {"oldest": 3}}},
        "delivered": {"out": {"windows": 7, "bytes": 70, "dropped": {}}},
        "dropped": {"late": 2},
    }
    figures = values(samples_of({"name": "q", "state": "active", "totals": totals}, {}))
    assert figures["gsdm_query_read_windows_total", ("q", "in")] == 10
    assert figures["gsdm_query_read_bytes_total", ("q", "in")] == 800
    assert figures["gsdm_query_delivered_windows_total", ("q", "out")] == 7
    assert figures["gsdm_query_delivered_bytes_total", ("q", "out")] == 70
    assert figures["gsdm_query_dropped_windows_total", ("q", "in", "oldest")] == 3
    assert figures["gsdm_query_dropped_windows_total", ("q", "", "late")] == 2


def test_streams_of_a_query_are_bounded():
    streams = {f"s{number}": {"windows": 1, "bytes": 8, "dropped": {"late": 1}} for number in range(MAX_STREAMS + 10)}
    totals = {"read": streams, "delivered": streams, "dropped": {}}
    counts = Counter(sample.name for sample in samples_of({"name": "q", "state": "active", "totals": totals}, {}))
    assert counts["gsdm_query_read_windows_total"] == counts["gsdm_query_delivered_bytes_total"] == MAX_STREAMS
    assert counts["gsdm_query_dropped_windows_total"] == 2 * MAX_STREAMS


def test_queries_are_counted_by_state():
    found = values(totals_of(["active", "active", "failed"]))
    assert found["gsdm_queries", ("active",)] == 2
    assert found["gsdm_queries", ("failed",)] == 1
    assert found["gsdm_queries", ("specified",)] == 0


def test_labels_are_bounded():
    sites = {f"s{number}": statistics() for number in range(MAX_SITES + 10)}
    told = {sample.labels[1] for sample in samples_of({"name": "q", "state": "active"}, sites) if "site" in sample.name}
    assert len(told) == MAX_SITES
    many = [Sample("gsdm_query_restarts_total", (f"q{number}",), 0) for number in range(MAX_QUERIES + 10)]
    family = next(f for f in families(many) if f.name == "gsdm_query_restarts")
    assert len(family.samples) == MAX_QUERIES


def test_queries_at_work_are_chosen_first():
    idle = [{"name": f"idle{number}", "state": "specified", "since_s": 1.0} for number in range(MAX_QUERIES)]
    busy = {"name": "busy", "state": "active", "since_s": 0.0}
    recent = {"name": "recent", "state": "specified", "since_s": 2.0}
    assert chosen([*idle, busy, recent])[:2] == [busy, recent]
    assert len(chosen([*idle, busy, recent])) == MAX_QUERIES


def test_the_text_is_what_prometheus_reads():
    metrics = Metrics(Starlette())
    metrics.begun()
    metrics.done("GET", "/v1/queries/{name}", 200, 0.01)
    metrics.begun()
    metrics.done("BREW", None, 404, 0.01)
    found = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
    }
    assert found["gsdm_http_requests_total", "/v1/queries/{name}", "200", "GET"] == 1
    assert found["gsdm_http_requests_total", "404", "other", "unmatched"] == 1
    assert found["gsdm_http_requests_open",] == 0
    assert ("process_cpu_seconds_total",) in found
    assert any(name == "gsdm_build_info" for name, *_ in found)
