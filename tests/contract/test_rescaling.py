"""The degree of parallelism of a running query changes: no window is lost, doubled or reordered.

The grid has working nodes of all kinds: in threads, Ray actors and Spark tasks.
"""

import itertools
import threading

import numpy as np
import pytest

from gsdm_grid import (
    PCC,
    Radio,
    central,
    create_stream_type,
    current_window,
    mergestream,
    parallel,
    parallelize,
    pipe,
    register_input_stream,
    sqf,
)
from gsdm_grid.errors import InvalidTransition, PlanError, ResourceError
from gsdm_grid.functions import window_distribute
from gsdm_grid.model import TypeRegistry

Call = create_stream_type("Call", {"caller": "int64", "count": "int64"}, registry=TypeRegistry())


@pytest.fixture(params=["threads", "grid"])
def grid(request, make_grid):
    return make_grid(request.param)


def distributed(degree):
    return PCC(degree, "RRpart", "fft3", {}, "S-Merge")


def split(degree):
    return parallelize("fft3", {}, "window_split", degree)


def counted(query, blocks=None):
    """Read a query's result in a thread; gives the ordinals so far, and a function that waits for so many."""
    ordinals, came = [], threading.Condition()

    def read():
        for block in query.blocks():
            with came:
                ordinals.extend(block.ordinals)
                if blocks is not None:
                    blocks.append(block)
                came.notify_all()

    def wait_for(count):
        with came:
            assert came.wait_for(lambda: len(ordinals) >= count, 60), (len(ordinals), query)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    return ordinals, wait_for, reader


@pytest.mark.parametrize("flow", [distributed, split], ids=["window distribute", "window split"])
def test_growing_and_shrinking_under_load_keeps_every_window_in_order(grid, flow):
    source = register_input_stream("Radio", None, "synthetic_radio", window=64, rate=2000)
    query = grid.cq(flow(1), [source])
    try:
        query.run()
        ordinals, wait_for, reader = counted(query)
        wait_for(200)
        for degree in (4, 2, 1) * 3:
            before = len(ordinals)
            assert query.rescale(flow(degree)) > 0
            assert sum(site.role == "compute" for site in query.plan.sites) == degree
            wait_for(before + 200)
        query.stop(60)
        reader.join(60)
        assert len(ordinals) >= 2000
        assert ordinals == list(range(len(ordinals)))
    finally:
        query.drop()


Level = create_stream_type("Level", {"value": "float64"}, registry=TypeRegistry())


def summed(size, step):
    def flow(degree):
        return parallelize("aggregate", {"size": size, "step": step, "how": "sum"}, "window_distribute", degree)

    return flow, lambda read: [float(sum(range(k, k + size))) for k in range(0, read - size + 1, step)]


def summed_over_time(degree):
    return parallelize("time_aggregate", {"span": 40e-9, "how": "sum"}, "window_distribute", degree)


WINDOWED = {
    "sliding": summed(50, 3),
    "jumping": summed(20, 20),
    "with gaps": summed(5, 9),
    "time": (summed_over_time, lambda read: [float(sum(range(max(k - 4, 0), k + 1))) for k in range(read)]),
    "behind what is rescaled": (
        lambda degree: pipe(
            PCC(degree, "RRpart", "identity", {}, "S-Merge"),
            central("aggregate", {"size": 50, "step": 3, "how": "sum"}),
        ),
        summed(50, 3)[1],
    ),
}


@pytest.mark.parametrize(
    ("placement", "kind"), [*(("threads", kind) for kind in WINDOWED), ("grid", "sliding"), ("grid", "time")]
)
def test_windows_that_are_kept_for_results_to_come_move_too(make_grid, placement, kind):
    grid = make_grid(placement)
    flow, expected = WINDOWED[kind]

    def levels():
        for number in itertools.count():
            yield {"ts": number * 10, "value": float(number)}

    source = register_input_stream(Level, None, "generator", function=levels, rate=2000)
    got, read = rescaled(grid, [flow(degree) for degree in (1, 3, 2, 2, 1)], 60, source)
    assert got == expected(*read.values())


def rescaled(grid, flows, apart, *sources):
    """Values that a query gives which is given one flow after the other while it runs, and how far it has read."""
    query = grid.cq(flows[0], list(sources))
    found = []
    try:
        query.run()
        ordinals, wait_for, reader = counted(query, found)
        for flow in flows[1:]:
            wait_for(len(ordinals) + apart)
            query.rescale(flow)
        wait_for(len(ordinals) + apart)
        query.stop(60)
        reader.join(60)
        return [value for block in found for value in block.value.tolist()], query.positions()
    finally:
        query.drop()


def test_results_that_wait_in_a_merge_for_a_rare_key_are_not_lost(threads_grid):
    def rare(number):
        return number % 3 == 0

    def calls():
        for number in itertools.count():
            yield {"ts": number, "key": int(rare(number)), "value": float(number)}

    keyed = create_stream_type("Keyed", {"key": "int64", "value": "float64"}, registry=TypeRegistry())
    flow = PCC(2, ("hashpart", {"key": "key"}), "aggregate", {"size": 3, "step": 1, "how": "sum"}, "S-Merge")
    source = register_input_stream(keyed, None, "generator", function=calls, rate=2000)
    got, read = rescaled(threads_grid, [flow] * 4, 200, source)
    results = {}
    for of_key in (False, True):
        rows = [number for number in range(*read.values()) if rare(number) == of_key]
        results |= {row: float(sum(rows[at : at + 3])) for at, row in enumerate(rows[:-2])}
    expected = [results[row] for row in sorted(results)]
    assert got == expected[: len(got)]
    assert len(expected) - len(got) < 20  # they wait for the next rare one


def test_windows_that_wait_in_a_merge_by_time_are_not_lost(threads_grid):
    def levels(step, offset):
        return lambda: ({"ts": ts, "value": float(ts)} for ts in itertools.count(offset, step))

    ahead = register_input_stream(Level, None, "generator", function=levels(100, 0), rate=500)
    behind = register_input_stream(Level, None, "generator", function=levels(10, 1), rate=2000)
    flow = pipe(parallel(2, "identity"), central("S-Merge", None, 2))
    got, read = rescaled(threads_grid, [flow] * 4, 200, ahead, behind)
    first, second = read.values()
    expected = sorted([*range(0, first * 100, 100), *range(1, second * 10, 10)])
    assert got == expected[: len(got)]


def test_positions_come_in_the_order_of_the_inputs_whichever_site_reports_first(threads_grid):
    inputs = [register_input_stream(Level, [], name=name) for name in ("first", "second")]
    flow = pipe(parallel(2, "identity"), central("S-Merge", None, 2))
    query, same_query = (threads_grid.cq(flow, inputs) for _ in range(2))
    try:
        query.run().wait(60)
        reports = query.refresh()
        for sites in (list(reports), list(reversed(reports))):
            same_query.compile()
            for site in sites:
                report = {"event": "statistics", "node": same_query.node(site), "statistics": reports[site]}
                same_query.on_event(report)
            assert list(same_query.positions()) == ["first", "second"]
            same_query.drop()
            same_query = threads_grid.cq(flow, inputs)
    finally:
        query.drop()
        same_query.drop()


def _divide(states, sites):
    """Counters by caller, where the partition by hash will look for them."""
    together = {caller: count for state in states for caller, count in state.items()}
    from gsdm_grid.functions.library.partitioning import hash_column

    divided = [{} for _ in range(sites)]
    if together:
        callers = np.array(sorted(together), np.int64)
        block = Call.block(ts=np.zeros(len(callers), np.int64), caller=callers, count=callers)
        for caller, site in zip(
            callers.tolist(), (hash_column(block, "caller") % np.uint64(sites)).tolist(), strict=True
        ):
            divided[site][caller] = together[caller]
    return divided


@sqf(
    Call,
    init=dict,
    rescale=_divide,
    strategies=[window_distribute("hashpart", key="caller")],
    register=False,
)
def calls(s, state):
    """How often each caller has called so far."""
    v = current_window(s)
    state[int(v.caller)] = state.get(int(v.caller), 0) + 1
    return v.replace(count=state[int(v.caller)])


def test_state_moves_with_its_keys(grid):
    def flow(degree):
        return PCC(degree, ("hashpart", {"key": "caller"}), calls, {}, "S-Merge")

    def windows():
        for number in itertools.count():
            yield {"ts": number, "caller": number % 7, "count": 0}

    query = grid.cq(flow(1), [register_input_stream(Call, None, "generator", function=windows, rate=500)])
    found = []
    try:
        query.run()
        ordinals, wait_for, reader = counted(query, found)
        for degree in (3, 2):
            wait_for(len(ordinals) + 200)
            query.rescale(flow(degree))
        wait_for(len(ordinals) + 200)
        query.stop(60)
        reader.join(60)
        counts = [count for block in found for count in block.count.tolist()]
        assert counts == [number // 7 + 1 for number in range(len(ordinals))]
    finally:
        query.drop()


def test_a_query_goes_on_when_there_is_no_room_for_more_sites(make_grid):
    source = register_input_stream("Radio", None, "synthetic_radio", window=64, rate=1000)
    query = make_grid("grid").cq(distributed(1), [source])
    try:
        query.run()
        ordinals, wait_for, reader = counted(query)
        with pytest.raises(ResourceError, match="there are 64 slots"):
            query.rescale(distributed(100))
        assert query.state == "active"
        wait_for(len(ordinals) + 200)
        query.rescale(distributed(2))
        wait_for(len(ordinals) + 200)
        query.stop(60)
        reader.join(60)
        assert ordinals == list(range(len(ordinals)))
    finally:
        query.drop()


def test_state_that_cannot_be_divided_is_refused(threads_grid):
    @sqf(Radio, init=list, register=False)
    def remembers(s, state):
        return current_window(s)

    source = register_input_stream("Radio", None, "synthetic_radio", window=64, rate=100)
    query = threads_grid.cq(central(remembers), [source])
    try:
        query.run()
        with pytest.raises(PlanError, match="does not say how to rescale"):
            query.rescale(central(remembers))
        assert query.state == "active"
    finally:
        query.drop()


def test_a_query_that_does_not_run_is_not_rescaled(threads_grid):
    source = register_input_stream("Radio", None, "synthetic_radio", window=64, rate=100)
    query = threads_grid.cq(distributed(1), [source])
    try:
        with pytest.raises(InvalidTransition, match="cannot rescale"):
            query.rescale(distributed(2))
    finally:
        query.drop()


def test_the_figures_of_all_sites_begin_anew_and_the_totals_of_the_query_go_on(grid):
    source = register_input_stream("Radio", None, "synthetic_radio", name="radio", window=64, rate=2000)
    query = grid.cq(distributed(1), [source])
    try:
        query.run()
        ordinals, wait_for, reader = counted(query)
        wait_for(1000)
        query.rescale(distributed(3))
        rescaled_s = max(one["since_s"] for one in query.statistics().values())
        assert query.totals()["read"]["radio"]["windows"] >= 1000
        wait_for(len(ordinals) + 200)
        query.stop(60)
        reader.join(60)
        sites, totals, read = query.statistics(), query.totals(), query.positions()["radio"]
        assert set(sites) == {site.id for site in query.plan.sites}
        assert rescaled_s == max(one["since_s"] for one in sites.values())
        counts = {
            kind: {
                stream.name: sum(one["streams"].get(stream.name, {}).get("windows", 0) for one in sites.values())
                for stream in query.plan.streams
                if stream.kind == kind
            }
            for kind in ("source", "sink", "channel")
        }
        since = counts["source"]["radio"]
        assert since < read - 900
        assert sum(counts["sink"].values()) == since
        entering = [s.name for s in query.plan.streams if s.kind == "channel" and "compute" in s.to_site]
        assert sum(counts["channel"][name] for name in entering) == 2 * since  # at both ends
        assert totals["read"]["radio"] == {"windows": read, "bytes": read * 64 * 24 + read * 8, "dropped": {}}
        assert [one["windows"] for one in totals["delivered"].values()] == [read] == [len(ordinals)]
        assert totals["dropped"] == {}
    finally:
        query.drop()


def test_positions_come_in_the_order_of_the_streams_of_the_plan(threads_grid):
    names = ["west", "north", "east"]
    sources = [register_input_stream("Radio", None, "synthetic_radio", name=n, window=64, limit=9) for n in names]
    query = threads_grid.cq(pipe(parallel(3, "fft3"), mergestream(3)), sources)
    try:
        list(query.run())
        query.wait(30)
        for nodes in itertools.permutations(query._statistics):
            query._statistics = {node: query._statistics[node] for node in nodes}
            assert list(query.positions().items()) == [("west", 9), ("north", 9), ("east", 9)]
    finally:
        query.drop()
