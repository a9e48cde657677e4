"""Law: queries that share a source come, stop, resume and go: each gets contiguous runs of windows, once, in order.

A run begins at a physical window that was read after it was started, and lacks nothing that was read while it lasted.
"""

from collections import deque

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gsdm_grid import PCC, central, pipe, register_input_stream, register_result_stream
from gsdm_grid.interfaces import StreamInterface, register_stream_interface
from gsdm_grid.testing import eventually

DEADLINE_S = 60.0
FLOWS = {
    "central": lambda: (central("identity"), False),
    "parallel": lambda: (PCC(2, "RRpart", "identity", {}, "S-Merge"), False),
    "shared sites": lambda: (pipe("identity", {}, "identity", {}), True),
}


class Fed(StreamInterface):
    """A live source that holds what the test fed."""

    local = True

    def open(self, context):
        super().open(context)
        self.options["fed"].wake = context.wake

    def next(self, limit):
        waiting = self.options["fed"].waiting
        if not waiting:
            return None
        block = waiting.popleft()
        if len(block) > limit:
            waiting.appendleft(block[limit:])
            block = block[:limit]
        return block


register_stream_interface("fed", Fed)


class Source:
    def __init__(self, reading):
        self.reading = reading
        self.fed = 0
        self.waiting = deque()
        self.wake = lambda: None

    def feed(self, size):
        ids = np.arange(self.fed, self.fed + size)
        self.waiting.append(self.reading.block(ts=ids, id=ids, value=ids.astype(float)))
        self.fed += size
        self.wake()


class Subscriber:
    """A query that comes and goes; its results, run by run."""

    def __init__(self, grid, stream, flow):
        self.grid, self.stream = grid, stream
        self.flow, self.share = FLOWS[flow]()
        self.runs = []
        self.endless = False
        self.query = None

    def run(self, count):
        if self.query is None:
            sink = register_result_stream(lambda block: self.runs[-1].extend(block.id.tolist()))
            self.query = self.grid.cq(self.flow, [self.stream], [sink], share=self.share)
        if self.query.state == "active":
            return
        self.endless = count is None
        self.runs.append([])
        self.query.run(count=count)

    def stop(self):
        if self.query is not None and self.query.state == "active":
            self.query.stop(DEADLINE_S)
            self.endless = False

    def drop(self):
        if self.query is not None:
            self.query.drop()
            self.query, self.endless = None, False


subscribers = st.integers(0, 2)
actions = st.one_of(
    st.tuples(st.just("feed"), st.lists(st.integers(1, 5), min_size=1, max_size=6)),
    st.tuples(st.just("run"), subscribers, st.one_of(st.none(), st.integers(1, 12))),
    st.tuples(st.just("stop"), subscribers),
    st.tuples(st.just("drop"), subscribers),
)


@settings(max_examples=40)
@given(st.lists(st.sampled_from(sorted(FLOWS)), min_size=3, max_size=3), st.lists(actions, min_size=4, max_size=14))
def test_each_reader_of_a_shared_source_gets_a_contiguous_run_of_windows(threads_grid, reading, flows, steps):
    source = Source(reading)
    stream = register_input_stream(reading, None, "fed", fed=source, shared=True)
    readers = [Subscriber(threads_grid, stream, flow) for flow in flows]
    try:
        for kind, *what in steps:
            if kind == "feed":
                for size in what[0]:
                    source.feed(size)
            else:
                reader, *arguments = what
                getattr(readers[reader], kind)(*arguments)
        source.feed(7)
        eventually(lambda: all(r.runs[-1][-1:] == [source.fed - 1] for r in readers if r.endless))
    finally:
        for reader in readers:
            reader.drop()
    for reader in readers:
        seen = -1
        for run in filter(None, reader.runs):
            assert run == list(range(run[0], run[0] + len(run)))
            assert run[0] > seen
            seen = run[-1]
    assert not [name for name in threads_grid.queries if name.startswith("shared:")]
