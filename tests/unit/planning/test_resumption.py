"""Where a plan goes on when its coordinator was killed."""

from dataclasses import replace

import pytest

from gsdm_grid import PCC, Radio, central, current_window, sqf
from gsdm_grid import sliding_window as window_of
from gsdm_grid.compiler import compile_flow, recovery_obstacle, resumption
from gsdm_grid.functions import window_distribute
from gsdm_grid.plan import StreamSpec


def plan(flow, inputs=1):
    sources = [StreamSpec(f"in{n}", "synthetic_radio", Radio) for n in range(inputs)]
    return compile_flow("q", flow, sources, [StreamSpec("out", "null")])


def test_a_windowwise_plan_goes_on_at_the_last_kept_window():
    made = resumption(plan(PCC(2, "RRpart", "fft3", {}, "S-Merge")), {"in0": True}, {"in0": 900}, {"out": 41})
    assert (dict(made.positions), made.exact) == ({"in0": 41}, True)


def test_of_several_kept_streams_the_shortest_counts():
    made = resumption(plan(central("fft3")), {"in0": True}, {}, {"a": 41, "b": 17})
    assert made.positions == {"in0": 17}


def test_without_a_kept_window_the_stream_is_read_from_its_beginning():
    assert resumption(plan(central("fft3")), {"in0": True}, {"in0": 9}, {"out": None}).positions == {"in0": 0}


@sqf(Radio, init=lambda: [0])
def counts(s, state):
    """Keeps state."""
    return s


@sqf(Radio, strategies=[window_distribute("overlap_part", size=4, step=1)])
def slides(s):
    """Looks at several windows."""
    return s


@pytest.mark.parametrize("function", [counts, slides])
def test_a_result_of_several_windows_needs_the_whole_stream(function):
    made = resumption(plan(central(function)), {"in0": True}, {"in0": 50}, {"out": 41})
    assert (dict(made.positions), made.exact) == ({"in0": 0}, True)


def test_merged_sources_are_read_from_their_beginning():
    flow = central("S-Merge", {}, 2)
    made = resumption(plan(flow, 2), {"in0": True, "in1": True}, {"in0": 5, "in1": 6}, {"out": 9})
    assert made.positions == {"in0": 0, "in1": 0}


def test_a_stream_that_cannot_be_read_again_goes_on_with_what_comes():
    made = resumption(plan(central("fft3")), {"in0": False}, {"in0": 50}, {"out": 41})
    assert (dict(made.positions), made.exact) == ({"in0": 50}, False)


def test_a_query_that_keeps_nothing_goes_on_where_it_last_stopped():
    made = resumption(plan(central("fft3")), {"in0": True}, {"in0": 50}, {})
    assert (dict(made.positions), made.exact) == ({"in0": 50}, True)


def pair(s):
    """A helper that a function may call."""
    return window_of(s, 2)


@sqf(Radio, uses_neighbours=True, register=False)
def through_a_helper(s):
    """Says what its code does not show."""
    return pair(s)[0]


@sqf(Radio, kind="partitioning", uses_neighbours=True, register=False)
def part_of_pairs(s, n, i):
    """A partition that looks around."""
    windows = pair(s)
    return windows[0] if windows[0].ts % n == i else None


@sqf(Radio, kind="combining", register=False)
def zipped(streams):
    """Takes the first window of each stream, then the second, and so on."""
    return current_window(streams[0])


@pytest.mark.parametrize(
    "flow",
    [
        central(through_a_helper),
        PCC(2, part_of_pairs, "fft3", {}, "S-Merge"),
        PCC(2, "RRpart", "fft3", {}, zipped),
    ],
    ids=["transforming", "partitioning", "combining"],
)
def test_what_uses_neighbouring_windows_is_computed_again_from_the_beginning(flow):
    made = resumption(plan(flow), {"in0": True}, {"in0": 50}, {"out": 41})
    assert (dict(made.positions), made.exact) == ({"in0": 0}, True)


@pytest.mark.parametrize(
    ("flow", "vertex"),
    [
        (PCC(2, "RRpart", through_a_helper, {}, "S-Merge"), "through_a_helper.0"),
        (PCC(2, "RRpart", "aggregate", {"size": 7}, "S-Merge"), "aggregate.0"),
        (PCC(2, "RRpart", "fft3", {}, zipped), "zipped.0"),
    ],
)
def test_a_site_that_uses_neighbouring_windows_is_not_started_anew_because_its_place_among_them_is_lost(flow, vertex):
    compiled = plan(flow)
    site = next(site for site in compiled.sites if any(one.id == vertex for one in site.operators))
    streams = [stream for stream in compiled.streams if stream.kind not in ("source", "sink")]
    inner = replace(compiled, streams=tuple(streams))
    assert f"{vertex!r} uses neighbouring windows" in str(recovery_obstacle(inner, site))
