"""What every operator of the engine keeps to, and executed functions of every kind: one suite for all.

An operator that is restored from a snapshot goes on with the results of the one that it was taken of. No result comes
at or before a mark of its stream, whatever marks the inputs have; and if nothing is held, marks get through.
"""

from itertools import pairwise

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsdm_grid import create_stream_type, current_window, sliding_window, sqf, time_window
from gsdm_grid.engine.catalogue import BUILTIN, make_operator
from gsdm_grid.engine.snapshots import packed, unpacked
from gsdm_grid.functions import FUNCTION, Traits, functions, reference
from gsdm_grid.model import NO_MARK, NO_TIME_MARK, PhysicalWindow, TypeRegistry, as_array
from gsdm_grid.plan import PlanOperator

Level = create_stream_type("Level", {"key": "int64", "value": "float64"}, registry=TypeRegistry())


@sqf(Level, register=False)
def single(s):
    return current_window(s)


@sqf(Level, init=dict, register=False, traits=Traits(keeps_time=True))
def counts(s, state):
    window = current_window(s)
    state[int(window.key)] = state.get(int(window.key), 0) + 1
    return window.replace(value=float(state[int(window.key)]))


@sqf(Level, register=False, traits=Traits(keeps_time=True))
def latest_sum(s, span=25e-9):
    windows = time_window(s, span)
    return windows[len(windows) - 1].replace(value=float(windows.value.sum()))


@sqf(Level, kind="combining", returns=Level, register=False)
def pairs(streams):
    first, second = (sliding_window(s, 2, 1) for s in streams)
    return first[1].replace(value=float(first.value.sum() - second.value.sum()))


@sqf(Level, kind="combine", returns=Level, register=False)
def summed(parts):
    return parts[0].replace(value=float(sum(part.value for part in parts)))


END_NS = 10_000

CASES = {
    "single": (single, {}, 1, "ordinal"),
    "counts": (counts, {}, 1, "ordinal"),
    "where": ("where", {"condition": "key != 1"}, 1, "ordinal"),
    "aggregate": ("aggregate", {"size": 3, "step": 2, "how": "sum"}, 1, "ordinal"),
    "aggregate with gaps": ("aggregate", {"size": 2, "step": 5, "how": "sum"}, 1, "ordinal"),
    "latest_sum": (latest_sum, {}, 1, "ordinal"),
    "RRpart": ("RRpart", {"n": 2, "i": 1}, 1, "ordinal"),
    "hashpart": ("hashpart", {"n": 2, "i": 1, "key": "key"}, 1, "ordinal"),
    "overlap_part": ("overlap_part", {"n": 3, "i": 1, "size": 3, "step": 2, "chunk": 2}, 1, "ordinal"),
    "overlap_part of long windows": ("overlap_part", {"n": 2, "i": 0, "size": 9, "step": 1, "chunk": 1}, 1, "ordinal"),
    "time_overlap_part": ("time_overlap_part", {"n": 2, "i": 1, "span": 25e-9, "chunk": 3}, 1, "ordinal"),
    "split": ("split", {"w": 3, "rfn": "key % w", "bfn": "key == 2"}, 1, "ordinal"),
    "route": ("route", {"w": 3}, 1, "ordinal"),
    "pairs": (pairs, {}, 2, "ordinal"),
    "S-Merge": ("S-Merge", {}, 3, "ordinal"),
    "S-Merge by time": ("S-Merge", {}, 3, "time"),
    "OS-Join": ("OS-Join", {"combine": summed}, 2, "ordinal"),
    "OS-Join by time": ("OS-Join", {"combine": summed}, 2, "time"),
    "union": ("union", {}, 2, "arrival"),
    "key_join": ("key_join", {"key": "key", "how": {"value": "sum"}}, 2, "ordinal"),
    "key_join by time": ("key_join", {"key": "key", "how": {"value": "sum"}, "within": 40e-9}, 2, "time"),
    "key_aggregate": ("key_aggregate", {"key": "key", "how": {"value": "sum"}}, 2, "ordinal"),
    "key_aggregate by time": ("key_aggregate", {"key": "key", "how": {"value": "max"}}, 2, "time"),
}


def test_every_operator_of_the_engine_has_a_case():
    assert {given if isinstance(given, str) else given.name for given, *_ in CASES.values()} >= set(BUILTIN)


def operator(case):
    given, params, inputs, order = CASES[case]
    function = functions.get(given)
    bound = {
        name: {FUNCTION: reference(functions.get(value))} if name == "combine" and value is not None else value
        for name, value in function.bind(params).items()
    }
    streams = tuple(f"in{number}" for number in range(inputs))
    types = [Level] * inputs
    result = function.result_type(types, bound)
    return make_operator(PlanOperator("v", reference(function), bound, streams, ("out",), result, 0, order), types)


@st.composite
def arrivals(draw, inputs, marks=False):
    """Blocks with the ports that they come in at: of one numbered stream, dealt out at random, each port in order.

    With ``marks`` they say, now and then, as much as is true about what comes after them on their port.
    """
    count, rng = draw(st.integers(0, 40)), np.random.default_rng(draw(st.integers(0, 2**32)))
    ports = rng.integers(0, inputs, count)
    ts = np.cumsum(rng.integers(0, 13, count))
    block = Level.block(ts=ts, key=rng.integers(0, 4, count), value=np.arange(count) * 1.5)
    block = block.stamped(ordinals=np.arange(count))
    queues = []
    for port in range(inputs):
        rows = np.flatnonzero(ports == port)
        cuts = rng.choice(len(rows), draw(st.integers(0, min(4, len(rows)))), replace=False)
        bounds = np.unique([0, *cuts, len(rows)])
        queue = [block.select(rows[start:stop]) for start, stop in pairwise(bounds)]
        if marks:
            queue = [block.select(rows[:0]), *queue]
            ahead = [(int(rows[at]), int(ts[rows[at]])) for at in [0, *bounds[1:-1]] if at < len(rows)]
            ahead += [(count + 5, END_NS)] * (len(queue) - len(ahead))
            queue = [
                one.stamped(
                    mark=int(rng.integers(max(place - 5, 0), place + 1)) - 1,
                    time_mark=int(rng.integers(max(time - 20, 0), time + 1)) - 1,
                )
                for one, (place, time) in zip(queue, ahead, strict=True)
            ]
        queues.append(queue)
    order = rng.permutation([port for port, queue in enumerate(queues) for _ in queue]).astype(int)
    return [(port, queues[port].pop(0)) for port in order.tolist()]


def plain(blocks):
    """Results as values that compare."""
    rows = [(int(place), *window.values().values()) for block in blocks for place, window in zip(block.ordinals, block)]
    return rows, max((block.mark for block in blocks), default=-1)


def fed(one, coming):
    return [plain(one.push(port, block)) for port, block in coming]


@pytest.mark.parametrize("case", CASES)
@given(data=st.data())
def test_an_operator_goes_on_from_its_snapshot(case, data):
    inputs = CASES[case][2]
    coming = data.draw(arrivals(inputs))
    before = data.draw(st.integers(0, len(coming)))
    first = operator(case)
    fed(first, coming[:before])
    snapshot = unpacked(msgpack.unpackb(msgpack.packb(packed(first.snapshot()))))
    second = operator(case)
    second.restore(snapshot)
    for port in range(inputs):  # what overlap partitions have sent already, they need not take along
        assert (second.floor(port) or 0) >= (first.floor(port) or 0) or second.floor(port) is None
    assert fed(second, coming[before:]) == fed(first, coming[before:])
    assert [plain(second.close(port)) for port in range(inputs)] == [plain(first.close(port)) for port in range(inputs)]
    for name, value in first.statistics().items():
        if name in ("late", "gaps", "gap_list", "incomplete", "partial_results"):
            assert second.statistics()[name] == value, name


class Told:
    """What a result stream has said so far; checks what comes against it."""

    def __init__(self, placed):
        self.placed = placed
        self.mark, self.time_mark = NO_MARK, NO_TIME_MARK

    def take(self, block):
        first = block.halo or 0  # what comes before is context
        if self.placed:
            assert (as_array(block.ordinals)[first:] > self.mark).all(), (block.ordinals, self.mark)
        assert (block.ts[first:] > self.time_mark).all(), (block.ts, self.time_mark)
        self.mark = max(self.mark, block.mark) if self.placed else NO_MARK
        self.time_mark = max(self.time_mark, block.time_mark)


def results_of(blocks, results):
    """Blocks with the number of the result stream that each is of."""
    return enumerate(blocks) if results > 1 else ((0, block) for block in blocks)


@pytest.mark.parametrize("case", CASES)
@given(data=st.data())
def test_no_result_comes_at_or_before_a_mark_and_marks_get_through(case, data):
    _, params, inputs, order = CASES[case]
    one, results = operator(case), params.get("w", 1)
    placed = order == "ordinal" and "overlap" not in case  # segments repeat windows of those before them
    told = [Told(placed) for _ in range(results)]
    for port, block in data.draw(arrivals(inputs, marks=True)):
        for number, result in results_of(one.push(port, block), results):
            told[number].take(result)
    for port in range(inputs):
        last = PhysicalWindow.empty(Level, 1000, time_mark=END_NS)
        for number, result in results_of(one.push(port, last), results):
            told[number].take(result)
    if not any(len(block) for port in range(inputs) for block in one.waiting(port)):
        assert [stream.time_mark for stream in told] == [END_NS] * results
