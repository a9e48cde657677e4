"""Splitstream plans on every kind of host: splitters on Ray, query processors on Spark, and all on threads."""

from __future__ import annotations

import numpy as np
import pytest

from gsdm_grid import (
    PhysicalWindow,
    create_stream_type,
    current_window,
    pipe,
    register_input_stream,
    register_result_stream,
    sqf,
)
from gsdm_grid.errors import FunctionError
from gsdm_grid.flow import exptree, fsplit, mapstream, mergestream, parasplit

DEADLINE_S = 90.0
Report = create_stream_type("ContractReport", {"kind": "int8", "xway": "int32", "amount": "float64"})
QUESTION, IGNORED = 2, 3


def reports(count):
    rng = np.random.default_rng(3)
    return Report.block(
        ts=np.arange(count) // 3,
        kind=rng.choice([0, 0, 0, 0, 0, 0, 0, 0, QUESTION, IGNORED], count),
        xway=rng.integers(0, 4, count),
        amount=rng.random(count),
    )


@sqf(Report, returns=Report, whole=True, register=False)
def doubled(s):
    v = current_window(s)
    return v.replace(amount=v.amount * 2)


def by_hand(block, w):
    return np.where(block.kind == 0, block.xway % w, np.nan)


FLOWS = {
    "fsplit": lambda rfn, bfn: pipe(fsplit(4, rfn, bfn), mapstream(doubled, None, 4)),
    "exptree": lambda rfn, bfn: pipe(exptree(4, rfn, bfn), mapstream(doubled, None, 4)),
    "parasplit": lambda rfn, bfn: parasplit(2, 4, rfn, bfn, doubled),
}


@pytest.mark.slow
@pytest.mark.parametrize("placement", ["threads", "grid"])
@pytest.mark.parametrize("plan", FLOWS)
def test_splits_are_the_same_on_every_host(plan, placement, make_grid):
    source = reports(3000)
    blocks = [PhysicalWindow(Report, source[at : at + 500].columns) for at in range(0, 3000, 500)]
    flow = pipe(FLOWS[plan](by_hand, f"kind == {QUESTION}"), mergestream(4))
    query = make_grid(placement).cq(
        flow, [register_input_stream(Report, blocks)], [register_result_stream(blocks=1000)]
    )
    try:
        got = PhysicalWindow.concat(list(query.run().wait(DEADLINE_S).blocks()))
        expected = [
            row
            for row in range(3000)
            if source.kind[row] != IGNORED
            for _ in range(4 if source.kind[row] == QUESTION else 1)
        ]
        assert np.array_equal(got.amount, 2 * source.amount[expected])
        splitters = [
            figures
            for site in query.statistics().values()
            for name, figures in site["operators"].items()
            if name.startswith("split.")
        ]
        assert splitters
        assert all(figures["o"] + figures["r"] + figures["b"] == pytest.approx(1) for figures in splitters)
    finally:
        query.drop()


@pytest.mark.slow
def test_an_error_on_a_splitter_elsewhere_names_the_tuple(make_grid):
    flow = pipe(parasplit(2, 2, "xway"), mergestream(2))
    query = make_grid("grid").cq(flow, [register_input_stream(Report, [reports(50)])], [register_result_stream()])
    try:
        with pytest.raises(FunctionError, match=r"tuple \d+ ContractReport\(.*: output [23] is outside 0…1"):
            query.run().wait(DEADLINE_S)
    finally:
        query.drop()
