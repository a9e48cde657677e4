"""The number of window splitters changes while a query runs, when the load says so."""

import threading

import pytest

from gsdm_grid import register_input_stream, register_result_stream
from gsdm_grid.errors import FlowError
from gsdm_grid.flow import mergestream, parasplit, pipe
from gsdm_grid.spec import parse, with_degree
from gsdm_grid.splitting.split_sites import scaled_sites
from gsdm_grid.trials.split_trials import (
    ATTRIBUTES,
    BFN,
    RFN,
    SplitTuple,
    tuple_stream,
)
from resource_manager.policy import AutoscalePolicy, LoadMeter, decide

Q, N = 4, 200


def flow(p):
    return pipe(parasplit(p, Q, RFN, BFN), mergestream(Q))


def test_growing_and_shrinking_keeps_every_tuple_in_order(threads_grid):
    source = register_input_stream(
        SplitTuple, None, "generator", function=tuple_stream, params={"n": N, "w": Q, "b": 0.0, "o": 0.0}, rate=20_000
    )
    query = threads_grid.cq(flow(1), [source], [register_result_stream(name="out")])
    ordinals, came = [], threading.Condition()

    def read():
        for block in query.blocks("out"):
            with came:
                ordinals.extend(block.ordinals)
                came.notify_all()

    def wait_for(count):
        with came:
            assert came.wait_for(lambda: len(ordinals) >= count, 60), len(ordinals)

    try:
        query.run()
        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        wait_for(2 * N)
        for p in (3, 2, 5):
            before = len(ordinals)
            query.rescale(flow(p))
            assert len(scaled_sites(query.plan)) == p
            wait_for(before + 10 * N)
        query.stop(30)
        reader.join(60)
        assert ordinals == list(range(len(ordinals)))
    finally:
        query.drop()


def document(template="parasplit", **more):
    split = {"template": template, "rfn": RFN, "bfn": BFN, "p": 2, "q": Q, **more}
    return {
        "name": "roads",
        "inputs": [
            {
                "type": {"name": "SplitTuple", "attributes": dict.fromkeys(ATTRIBUTES, "int32")},
                "interface": "generator",
                "options": {
                    "function": "gsdm_grid.trials.split_trials:tuple_stream",
                    "params": {"n": N, "w": Q, "b": 0.0, "o": 0.0},
                },
            }
        ],
        "flow": {"template": "pipe", "args": [split, {"template": "mergestream", "w": Q}]},
        "autoscale": {"min": 1, "max": 6},
    }


def test_a_document_gets_another_number_of_window_splitters():
    bounds = parse(document(), None).specification.autoscale
    assert (bounds.min, bounds.max) == (1, 6)
    for degree in (1, 5):
        changed = with_degree(document(), degree)
        assert sum(v.function_name == "split" for v in parse(changed, None).flow.vertices) == degree
    bare = {**document(), "flow": document()["flow"]["args"][0]}
    assert with_degree(bare, 3)["flow"]["p"] == 3
    positional = {**bare, "flow": {"template": "parasplit", "args": [2, Q, RFN]}}
    assert with_degree(positional, 4)["flow"]["args"] == [4, Q, RFN]


def test_a_tree_has_no_degree_to_change():
    given = document()
    given["flow"]["args"][0] = {"template": "exptree", "w": Q, "rfn": RFN}
    with pytest.raises(FlowError, match="has no degree of parallelism: it is template 'pipe'"):
        parse(given, None)


def test_busy_window_splitters_ask_for_more_of_them(threads_grid):
    """The policy sees the splitters, not the query processors, which are many and idle."""
    query = threads_grid.cq(flow(2), [register_input_stream(SplitTuple, [])], [register_result_stream(None, "null")])
    plan = query.compile()
    meter, loads = LoadMeter(), []
    for second in range(6):
        told = {
            site.id: {
                "active_s": float(second),
                "idle_s": second * (0.02 if site.id in scaled_sites(plan) else 0.99),
                "streams": {},
            }
            for site in plan.sites
        }
        load = meter.read(float(second), set(scaled_sites(plan)), told)
        loads += [load] if load else []
    query.drop()
    decision = decide(AutoscalePolicy(1, 6, pause_s=1.0), loads, changed_s=0.0)
    assert decision is not None
    assert decision.degree == 4
