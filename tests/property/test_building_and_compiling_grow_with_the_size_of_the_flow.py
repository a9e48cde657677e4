"""The law: the work to build and to compile a data flow grows in proportion to its size, not with its square.

Work is counted in executed lines of Python; the first sizes are large enough for that to be most of it.
"""

import sys
from collections.abc import Callable
from functools import partial

import pytest

from gsdm_grid import PCC, Radio, autosplit, fsplit, lpipe, mapstream, mergestream, parallel, parasplit, partition, pipe
from gsdm_grid.compiler import compile_query
from gsdm_grid.flow import DataFlow
from gsdm_grid.plan import GRID, THREADS, StreamSpec

SIZE = 60
BUILDERS: dict[str, Callable[[int], DataFlow]] = {
    "window distribute": lambda n: PCC(n, "RRpart", "fft3", {}, "S-Merge"),
    "window split": lambda n: PCC(n, "slicepart", "polarize", {}, "OS-Join", {"combine": "polarcombine"}),
    "a pipe in each branch": lambda n: PCC(n, "RRpart", pipe("fft3", "polarize"), None, "S-Merge"),
    "partition": lambda n: partition(n, "RRpart"),
    "parallel": lambda n: parallel(n, "fft3"),
    "pipe": lambda n: pipe(*["fft3"] * n),
    "lpipe": lambda n: lpipe(*["fft3"] * n),
    "fsplit": lambda n: fsplit(n, "ts"),
    "a tree of splits": lambda n: autosplit(n, "ts", "ts == 0"),
    "parasplit": lambda n: parasplit(2, n, "ts"),
    "selections behind a split": lambda n: pipe(fsplit(n, "ts"), mapstream("where", {"condition": "ts < 9"}, n)),
    "mapstream on few sites": lambda n: mapstream("fft3", {}, n, sites=3),
    "mergestream": mergestream,
}


def lines_of(work: Callable[[], object]) -> int:
    """How many lines of Python a piece of work executes."""
    lines = 0

    def count(frame, event, arg):
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines


def size(flow: DataFlow) -> int:
    """Vertices and the ends of all arcs."""
    return sum(1 + len(vertex.inputs) + vertex.width for vertex in flow.vertices)


def grows_with_size(small: DataFlow, large: DataFlow, work: Callable[[DataFlow], object]) -> bool:
    """Whether the lines of some work grow as the size does; quadratic work would double the ratio."""
    return lines_of(partial(work, large)) / size(large) < 1.3 * lines_of(partial(work, small)) / size(small)


def compiled(flow: DataFlow, placement=GRID, share=False, live=False):
    kind = {"shared": True, "identity": "same"} if share else {}
    inputs = [StreamSpec(f"in{i}", "udp", Radio, live=live, **kind) for i in range(flow.arity)]
    outputs = [StreamSpec(f"out{i}", "tcp", live=live) for i in range(flow.width)]
    return compile_query("q", flow, inputs, outputs, placement, share)


@pytest.mark.parametrize("name", BUILDERS)
def test_building_a_flow_grows_with_its_size(name):
    build = BUILDERS[name]
    small, large = build(2 * SIZE), build(4 * SIZE)  # what is remembered from the first time on is so already
    assert grows_with_size(small, large, lambda flow: build(2 * SIZE if flow is small else 4 * SIZE))


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("options", [{"placement": THREADS}, {"live": True}], ids=["threads", "grid, live streams"])
def test_compiling_a_flow_grows_with_its_size(name, options):
    compiled(BUILDERS[name](SIZE), **options)
    assert grows_with_size(BUILDERS[name](SIZE), BUILDERS[name](2 * SIZE), lambda flow: compiled(flow, **options))


@pytest.mark.parametrize("name", ["window distribute", "window split", "a pipe in each branch"])
def test_compiling_a_flow_that_shares_its_first_sites_grows_with_its_size(name):
    compiled(BUILDERS[name](SIZE), share=True)
    assert grows_with_size(BUILDERS[name](SIZE), BUILDERS[name](2 * SIZE), lambda flow: compiled(flow, share=True))


@pytest.mark.parametrize("name", BUILDERS)
def test_looking_up_all_sites_and_streams_of_a_plan_grows_with_its_size(name):
    small, large = BUILDERS[name](SIZE), BUILDERS[name](2 * SIZE)
    plans = {id(flow): compiled(flow) for flow in (small, large)}

    def look(flow):
        plan = plans[id(flow)]
        for site in plan.sites:
            assert plan.site(site.id) is site
            assert all(plan.stream(stream.name) is stream for stream in plan.streams_of(site.id))

    assert grows_with_size(small, large, look)
