"""Law 8, for every template, placement and kind of stream."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from gsdm_grid import PCC, STREAM, Radio, central, current_window, lpipe, parallel, pipe, sqf
from gsdm_grid.compiler import compile_flow
from gsdm_grid.flow import DataFlow
from gsdm_grid.plan import POLICIES, Plan, StreamSpec


@sqf(STREAM, register=False)
def own(s, anything=None):
    return current_window(s)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
leaves = st.one_of(
    st.sampled_from(["fft3", "dft3", "identity"]).map(central),
    st.floats(0, 1e9).map(lambda t: central("xmagn", {"threshold": t})),
    values.map(lambda value: central(own, {"anything": value})),
)
partitions = st.sampled_from([("RRpart", {"run": 2}), "RRpart", ("hashpart", {"key": "ts"}), "fft3part"])


def composed(inner):
    return st.one_of(
        st.tuples(inner, inner).map(lambda both: pipe(*both)),
        st.tuples(inner, inner).map(lambda both: lpipe(*both)),
        st.builds(lambda n, part, flow: PCC(n, part, flow, None, "S-Merge", 0.5), st.integers(1, 3), partitions, inner),
        st.builds(
            lambda n, flow: PCC(n, "fft3part", flow, None, "OS-Join", {"combine": "fft3combine"}),
            st.integers(1, 3),
            inner,
        ),
        st.builds(lambda n, flow: pipe(parallel(n, flow), "S-Merge"), st.integers(1, 3), inner),
    ).filter(lambda flow: flow.arity == 1)


flows = st.recursive(leaves, composed, max_leaves=4)


@settings(max_examples=60)
@given(
    flow=flows,
    policy=st.sampled_from(list(POLICIES.values())),
    live=st.tuples(st.booleans(), st.booleans()),
    options=st.dictionaries(st.text(), values, max_size=3),
    outputs=st.integers(1, 2),
)
def test_a_plan_round_trips_through_json(flow, policy, live, options, outputs):
    source = StreamSpec("in", "udp", Radio, options, live[0])
    results = [StreamSpec(f"out{k}", "tcp", live=live[1]) for k in range(outputs)]
    plan = compile_flow("q", flow, [source], results, policy)
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    again = compile_flow("q", DataFlow.from_json(json.loads(json.dumps(flow.to_json()))), [source], results, policy)
    assert again == plan
