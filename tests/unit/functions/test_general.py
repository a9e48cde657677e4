import numpy as np
import pytest

from gsdm_grid.errors import QueryError
from gsdm_grid.functions import NeedMore, StreamView
from gsdm_grid.functions.library.general import aggregate, identity, sample, time_aggregate, timestamp_it
from gsdm_grid.model import StreamType, SystemClock, TypeRegistry, create_stream_type, seconds

MIXED = create_stream_type(
    "AggregateMixed",
    {
        "small": "int8",
        "count": "uint16",
        "flag": "bool",
        "gain": "float32",
        "pair": "vector[2] of int16",
        "wave": "vector of complex64",
        "name": "string",
        "seen": "timestamp",
    },
    registry=TypeRegistry(),
)


def mixed(count, ragged=False):
    rows = np.arange(count)
    return MIXED.block(
        ts=rows * seconds(1),
        small=100 - rows,
        count=60000 + rows,
        flag=rows % 2 == 0,
        gain=rows / 4,
        pair=np.stack([rows, -rows], axis=1),
        wave=[np.full(1 + row * ragged, row * 1j, np.complex64) for row in rows],
        name=[f"n{row}" for row in rows],
        seen=rows + 7,
    )


def executions(function, *blocks, **params):
    view = StreamView(blocks[0].type, function.whole)
    results = []
    for block in blocks:
        view.feed(block)
        while True:
            try:
                results.append(function(view, **params))
            except NeedMore:
                break
            view.advance()
    return results


def test_identity_hands_on_what_it_gets(levels, run):
    block = levels(0, 5)
    assert run(identity, block) is block


def test_arrival_times_replace_timestamps_only(levels, run):
    before = SystemClock().now_ns()
    got = run(timestamp_it, levels(0, 5))
    assert before <= got.ts.min() <= got.ts.max() <= SystemClock().now_ns()
    assert got.value.tolist() == [0, 0.5, 1, 1.5, 2]
    assert got.ordinals == range(5)


def test_sample_takes_one_window_out_of_each_n(levels):
    got = [int(window.value * 2) for window in executions(sample, levels(0, 100), n=10)]
    assert [place // 10 for place in got] == list(range(10))
    assert len({place % 10 for place in got}) > 3


def test_sample_is_the_same_however_often_and_wherever_it_is_asked(levels):
    whole = executions(sample, levels(0, 100), n=10, seed=3)
    assert executions(sample, levels(0, 100), n=10, seed=3) == whole
    assert executions(sample, *(levels(a, a + 4) for a in range(0, 100, 4)), n=10, seed=3) == whole
    assert executions(sample, levels(40, 60).stamped(range(40, 60), halo=0), n=10, seed=3) == whole[4:6]
    assert executions(sample, levels(0, 100), n=10, seed=4) != whole


def test_sample_of_each_single_window_is_the_stream(levels):
    assert executions(sample, levels(0, 5), n=1) == list(levels(0, 5))


@pytest.mark.parametrize(("size", "step"), [(4, None), (4, 4), (4, 1), (3, 2), (1, 3)])
@pytest.mark.parametrize("how", ["mean", "sum", "min", "max"])
def test_aggregates_are_those_of_the_values_of_the_windows(levels, how, size, step):
    got = executions(aggregate, levels(0, 7), levels(7, 20), size=size, step=step, how=how)
    values = np.arange(20) / 2
    starts = range(0, 20 - size + 1, step or size)
    assert [float(window.value) for window in got] == [getattr(np, how)(values[a : a + size]) for a in starts]
    assert [int(window.ts) for window in got] == [seconds(a) for a in starts]


def test_mean_of_integers_is_floating_point_and_of_floats_keeps_its_type():
    (got,) = executions(aggregate, mixed(4), size=4)
    assert got.type.name == "AggregateMixedMean"
    kinds = {name: str(kind) for name, kind in got.type.attributes.items()}
    assert kinds == {
        "ts": "timestamp",
        "small": "float64",
        "count": "float64",
        "flag": "float64",
        "gain": "float32",
        "pair": "vector[2] of float64",
        "wave": "vector of complex64",
        "name": "string",
        "seen": "timestamp",
    }
    assert (got.small, got.count, got.flag, got.gain) == (98.5, 60001.5, 0.5, 0.375)
    assert got.pair.tolist() == [1.5, -1.5]
    assert got.wave.tolist() == [1.5j]


def test_sum_of_small_integers_does_not_wrap():
    (got,) = executions(aggregate, mixed(4), size=4, how="sum")
    assert (got.small, got.count, got.flag) == (394, 240006, 2)
    assert got.pair.tolist() == [6, -6]
    assert str(got.type.attribute("count")) == "uint64"
    assert str(got.type.attribute("small")) == str(got.type.attribute("flag")) == "int64"


@pytest.mark.parametrize("how", ["min", "max"])
def test_extremes_keep_their_type(how):
    (got,) = executions(aggregate, mixed(4), size=4, how=how)
    assert got.type == MIXED
    assert got.small == (97 if how == "min" else 100)
    assert got.flag == (how == "max")


@pytest.mark.parametrize("how", ["mean", "sum", "min", "max"])
def test_text_and_times_are_those_of_the_first_window(how):
    first, second = executions(aggregate, mixed(4), size=2, how=how)
    assert [(w.name, int(w.seen), int(w.ts)) for w in (first, second)] == [*(("n0", 7, 0), ("n2", 9, seconds(2)))]


@pytest.mark.parametrize("how", ["mean", "sum", "min", "max"])
def test_result_type_is_that_of_the_results_and_survives_json(levels, how):
    for block in (mixed(4), levels(0, 4)):
        promised = aggregate.result_type([block.type], aggregate.bind({"size": 4, "how": how}))
        (got,) = executions(aggregate, block, size=4, how=how)
        assert got.type == promised
        assert StreamType.from_json(promised.to_json()) == promised


def test_type_without_integers_is_kept_for_the_mean(levels, level_type):
    assert aggregate.result_type([level_type], {"size": 2}) == level_type


def test_unknown_aggregate_is_explained(level_type):
    with pytest.raises(QueryError, match="unknown aggregate 'median'; known: mean, sum, min, max"):
        aggregate.result_type([level_type], {"size": 2, "how": "median"})


def test_vectors_of_different_lengths_cannot_be_aggregated():
    with pytest.raises(QueryError, match="attribute 'wave' has vectors of different lengths"):
        executions(aggregate, mixed(4, ragged=True), size=2)


@pytest.mark.parametrize("how", ["mean", "sum", "min", "max"])
def test_time_aggregate_covers_the_span_before_each_window(levels, how):
    got = executions(time_aggregate, levels(0, 4), levels(4, 10), span=2, how=how)
    values = np.arange(10) / 2
    assert [float(w.value) for w in got] == [getattr(np, how)(values[max(0, n - 2) : n + 1]) for n in range(10)]
    assert [int(w.ts) for w in got] == [seconds(n) for n in range(10)]


def test_parallel_strategies_of_aggregates_pass_their_windows_on():
    params = aggregate.bind({"size": 4})
    assert aggregate.strategy("window_distribute").resolve(params)[0] == {"size": 4, "step": None}
    params = time_aggregate.bind({"span": 2.5})
    assert time_aggregate.strategy("window_distribute").resolve(params)[0] == {"span": 2.5}
    assert sample.strategy("window_distribute").resolve({"n": 10, "seed": 0})[0] == {"size": 10, "step": 10}
