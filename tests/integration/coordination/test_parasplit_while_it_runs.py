"""The number of window splitters changes while a query runs."""

import threading

from gsdm_grid import register_input_stream, register_result_stream
from gsdm_grid.flow import mergestream, parasplit, pipe
from gsdm_grid.splitting.split_sites import scaled_sites
from gsdm_grid.trials.split_trials import BFN, RFN, SplitTuple, tuple_stream

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
