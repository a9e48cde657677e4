"""Law: every splitstream plan gives, output by output, exactly the tuples that fsplit gives, in stream order.

Broadcast tuples arrive once at every output, and each tuple is omitted, routed or broadcast: o + r + b = 1.
"""

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gsdm_grid import PhysicalWindow, create_stream_type, register_input_stream, register_result_stream
from gsdm_grid.flow import autosplit, exptree, fsplit, maxtree, parasplit, pipe, splitstream, splittree
from gsdm_grid.functions import OMIT, per_tuple
from gsdm_grid.model import TypeRegistry

RUN = settings(
    max_examples=60,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
Report = create_stream_type(
    "Report", {"kind": "int8", "xway": "int32", "speed": "float32", "plate": "string"}, registry=TypeRegistry()
)
ROUTED, BROADCAST, IGNORED = 0, 2, 3


def by_columns(block, w):
    return np.where(block.kind == ROUTED, block.xway % w, OMIT)


def by_tuple(one, w):
    return int(one.xway) % w if one.kind == ROUTED else None


def masked(block, w):
    return np.ma.masked_array(block.xway % w, mask=block.kind != ROUTED)


ROUTES = [f"xway % w if kind == {ROUTED} else None", by_columns, per_tuple(by_tuple), masked]
BROADCASTS = [None, f"kind == {BROADCAST}", lambda block: block.kind == BROADCAST]
block_sizes = st.lists(st.integers(1, 20), min_size=1, max_size=3)


@st.composite
def reports(draw):
    count = draw(st.integers(0, 60))
    kinds = st.sampled_from([ROUTED] * 6 + [BROADCAST, IGNORED])
    return Report.block(
        ts=np.cumsum(draw(st.lists(st.sampled_from([0, 0, 1, 7]), min_size=count, max_size=count)) or [0])[:count],
        kind=draw(st.lists(kinds, min_size=count, max_size=count)),
        xway=draw(st.lists(st.integers(0, 1000), min_size=count, max_size=count)),
        speed=np.arange(count),
        plate=[f"p{n % 7}" * (n % 3) for n in range(count)],
    )


@st.composite
def trees(draw, w):
    """Fanouts of any tree with at least w outputs."""
    fanouts = [draw(st.integers(2, 5))]
    while np.prod(fanouts) < w:
        fanouts.append(draw(st.integers(2, 5)))
    return fanouts


@pytest.fixture(scope="session")
def split(threads_grid):
    """Run a flow over blocks; gives the outputs as blocks, and the statistics of all splitters."""

    def run(flow, blocks):
        outputs = [register_result_stream(name=f"out{k}", blocks=100_000) for k in range(flow.width)]
        query = threads_grid.cq(flow, [register_input_stream(Report, blocks)], outputs)
        try:
            query.run().wait(20.0)
            made = [PhysicalWindow.concat([PhysicalWindow.empty(Report), *query.blocks(o.name)]) for o in outputs]
            operators = {
                name: figures for site in query.statistics().values() for name, figures in site["operators"].items()
            }
            return made, {name: figures for name, figures in operators.items() if name.startswith("split.")}
        finally:
            query.drop()

    return run


def rows(block):
    return [tuple(window.values().values()) for window in block]


@RUN
@given(data=st.data(), source=reports(), w=st.integers(1, 11), sizes=block_sizes)
def test_every_split_plan_gives_what_fsplit_gives(data, source, w, sizes, cut, split):
    rfn, bfn = data.draw(st.sampled_from(ROUTES)), data.draw(st.sampled_from(BROADCASTS))
    blocks = cut(source, sizes)
    reference, told_by = split(fsplit(w, rfn, bfn), blocks)
    told = told_by["split.0"]
    p = data.draw(st.integers(1, 4))
    plans = {
        "tree": lambda: splittree(data.draw(trees(w)), w, rfn, bfn),
        "exptree": lambda: exptree(w, rfn, bfn),
        "maxtree": lambda: maxtree(w, rfn, bfn, b=data.draw(st.sampled_from([0.0, 0.1, 0.9]))),
        "autosplit": lambda: autosplit(w, rfn, bfn),
        "parasplit": lambda: parasplit(p, w, rfn, bfn),
        "parasplit with a query": lambda: parasplit(p, w, rfn, bfn, "identity"),
        "router tree": lambda: splitstream(w, rfn, bfn, plan="parasplit", p=4, routers=[2, 2]),
    }
    flow = plans[data.draw(st.sampled_from(sorted(plans)))]()
    got, _ = split(flow, blocks)
    assert [rows(block) for block in got] == [rows(block) for block in reference]

    expected = [
        [
            window
            for window in rows(source)
            if (bfn is not None and window[1] == BROADCAST) or (window[1] == ROUTED and window[2] % w == number)
        ]
        for number in range(w)
    ]
    assert [rows(block) for block in reference] == expected
    if len(source):
        assert told["o"] + told["r"] + told["b"] == pytest.approx(1.0)
        assert told["omitted"] + told["routed"] + told["broadcast"] == told["tuples"] == len(source)
        assert told["per_output"] == [len(one) for one in expected]


@RUN
@given(source=reports(), w=st.integers(1, 6), p=st.integers(1, 3))
def test_what_was_split_without_broadcasting_merges_into_the_stream_it_was(source, w, p, run_in_threads):
    rfn = "xway % w"
    expected = rows(source)
    for flow in (fsplit(w, rfn), exptree(w, rfn), parasplit(p, w, rfn, fun="identity")):
        merged = pipe(flow, "S-Merge", {})
        assert rows(run_in_threads(merged, Report, [source] if len(source) else [])) == expected
