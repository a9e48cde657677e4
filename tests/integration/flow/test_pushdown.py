"""A query whose selections were pushed into its split gives what it gave before."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gsdm_grid import register_input_stream, register_result_stream
from gsdm_grid.flow import pipe
from gsdm_grid.flow.split_templates import exptree, fsplit, mapstream, mergestream, parasplit
from gsdm_grid.model import TypeRegistry, create_stream_type

Car = create_stream_type("PushedCar", {"kind": "int32", "xway": "int32", "spd": "int32"}, registry=TypeRegistry())
RFN, BFN, SLOW = "xway if kind == 0 else None", "kind == 2", "spd < 40"


FLOWS = {
    "fsplit": lambda: pipe(fsplit(4, RFN, BFN), mapstream("where", [SLOW], 4)),
    "exptree": lambda: pipe(exptree(8, RFN, BFN), mapstream("where", [SLOW], 8)),
    "parasplit": lambda: parasplit(3, 4, RFN, BFN, "where", [SLOW]),
    "parasplit, then merged": lambda: pipe(parasplit(2, 4, RFN, BFN), mapstream("where", [SLOW], 4), mergestream(4)),
}


TUPLES = st.lists(st.tuples(st.sampled_from([0, 0, 2, 4]), st.integers(0, 3), st.integers(0, 80)), max_size=60)


@settings(max_examples=20)
@given(TUPLES, st.sampled_from(["fsplit", "parasplit"]))
def test_the_result_is_the_same_and_what_was_dropped_is_omitted(threads_grid, tuples, name):
    if not tuples:
        return
    kind, xway, spd = (np.array(column, np.int32) for column in zip(*tuples, strict=True))
    block = Car.block(ts=np.arange(len(kind)), kind=kind, xway=xway, spd=spd)
    expected = [
        [t for t, one in enumerate(tuples) if one[2] < 40 and (one[0] == 2 or (one[0] == 0 and one[1] == output))]
        for output in range(4)
    ]
    flow = FLOWS[name]()
    sinks = [register_result_stream(name=f"out{number}", blocks=1000) for number in range(4)]
    query = threads_grid.cq(flow, [register_input_stream(Car, [block])], sinks)
    try:
        query.run().wait(60)
        got = [[int(t) for block in query.blocks(sink.name) for t in block.ts] for sink in sinks]
        assert got == expected
        assert not any(o.function["name"] == "where" for site in query.plan.sites for o in site.operators)
        counted = [
            operator
            for site in query.refresh().values()
            for operator in site["operators"].values()
            if "omitted" in operator
        ]
        kept = {t for output in expected for t in output}
        assert sum(one["omitted"] for one in counted) == len(tuples) - len(kept)
    finally:
        query.drop()
