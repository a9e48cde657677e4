"""The number of window splitters of a query, in its document and as the load asks for it."""

import pytest

from gsdm_grid.compiler import compile_flow
from gsdm_grid.errors import FlowError
from gsdm_grid.flow import mergestream, parasplit, pipe
from gsdm_grid.plan import StreamSpec
from gsdm_grid.spec import parse, with_degree
from gsdm_grid.splitting.split_sites import scaled_sites
from gsdm_grid.trials.split_trials import ATTRIBUTES, BFN, RFN, SplitTuple
from resource_manager.policy import AutoscalePolicy, LoadMeter, decide

Q, N = 4, 200


def flow(p):
    return pipe(parasplit(p, Q, RFN, BFN), mergestream(Q))


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


def test_busy_window_splitters_ask_for_more_of_them():
    """The policy sees the splitters, not the query processors, which are many and idle."""
    plan = compile_flow("q", flow(2), [StreamSpec("in", "memory", SplitTuple)], [StreamSpec("out", "null")])
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
    decision = decide(AutoscalePolicy(1, 6, pause_s=1.0), loads, changed_s=0.0)
    assert decision is not None
    assert decision.degree == 4
