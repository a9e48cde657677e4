import threading

import numpy as np
import pytest

from gsdm_grid.errors import FunctionError, QueryError
from gsdm_grid.interfaces import EndOfStream, InterfaceContext, interfaces
from gsdm_grid.interfaces.generator import GeneratorSource
from gsdm_grid.interfaces.memory import MemorySource
from gsdm_grid.model import create_stream_type
from gsdm_grid.testing import FakeClock

Sample = create_stream_type("GeneratedSample", {"x": "float64"})


def count(stop=10, kind="mapping"):
    for i in range(stop):
        if kind == "mapping":
            yield {"ts": i, "x": i / 2}
        elif kind == "window":
            yield Sample.window(i, i / 2)
        else:
            yield Sample.block(ts=[2 * i, 2 * i + 1], x=[1.0 * i, i + 0.5])


def broken(stop=3):
    yield from count(stop)
    raise ZeroDivisionError("the antenna fell over")


def read(source, limit=4):
    windows = []
    try:
        while True:
            block = source.next(limit)
            assert block is not None
            assert len(block) <= limit
            windows += block.ts.tolist()
    except EndOfStream:
        return windows


@pytest.mark.parametrize("kind", ["mapping", "window", "block"])
def test_items_of_every_kind_become_windows(kind):
    source = GeneratorSource(Sample, {"function": count, "params": {"stop": 5, "kind": kind}})
    source.open(InterfaceContext())
    assert read(source) == list(range(10 if kind == "block" else 5))
    with pytest.raises(EndOfStream):
        source.next(1)


def test_a_function_may_be_named_by_its_path():
    source = interfaces.get("generator")(Sample, {"function": "itertools:repeat", "params": {}})
    with pytest.raises(FunctionError, match="repeat"):
        source.next(1)
    with pytest.raises(QueryError, match="cannot be loaded"):
        GeneratorSource(Sample, {"function": "itertools:nothing_like_this"})
    with pytest.raises(QueryError, match="needs option 'function'"):
        GeneratorSource(Sample, {})


@pytest.mark.parametrize("ordinal", [0, 3, 9, 10, 25])
@pytest.mark.parametrize("kind", ["mapping", "block"])
def test_seek_goes_on_at_the_ordinal(ordinal, kind):
    source = GeneratorSource(
        Sample, {"function": count, "params": {"stop": 5 if kind == "block" else 10, "kind": kind}}
    )
    source.open(InterfaceContext())
    source.next(3)
    source.seek(ordinal)
    assert read(source) == list(range(ordinal, 10))


def test_a_function_that_does_not_repeat_itself_is_not_replayable():
    assert GeneratorSource(Sample, {"function": count}).replayable
    source = GeneratorSource(Sample, {"function": count, "replayable": False})
    assert not source.replayable
    with pytest.raises(QueryError, match="cannot go back"):
        source.seek(0)


def test_what_the_function_raises_is_the_function_authors_error():
    source = GeneratorSource(Sample, {"function": broken})
    with pytest.raises(FunctionError, match="the antenna fell over") as caught:
        read(source, 1)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(QueryError, match="must return an iterator"):
        GeneratorSource(Sample, {"function": lambda: 5}).next(1)


def test_the_rate_is_kept_by_the_clock_without_waiting():
    clock = FakeClock()
    source = GeneratorSource(Sample, {"function": count, "params": {"stop": 100}, "rate": 10})
    source.open(InterfaceContext(clock=clock))
    assert source.next(64).ts.tolist() == [0]
    assert source.next(64) is None
    clock.s += 0.1
    assert source.next(64).ts.tolist() == [1]
    assert source.next(64) is None
    clock.s += 1.0
    assert source.next(6).ts.tolist() == [2, 3, 4, 5, 6, 7]
    assert source.next(64).ts.tolist() == [8, 9, 10, 11]
    source.close()
    source.close()


def test_a_paced_source_knows_when_the_next_window_is_due_and_needs_no_thread():
    clock = FakeClock()
    source = GeneratorSource(Sample, {"function": count, "rate": 50})
    before = threading.active_count()
    source.open(InterfaceContext(clock=clock))
    began = clock.s
    assert len(source.next(10)) == 1
    assert source.next(10) is None
    assert source.due_s() == pytest.approx(began + 0.02)
    assert threading.active_count() == before


def test_a_wrong_rate_is_refused():
    with pytest.raises(QueryError, match="positive number"):
        GeneratorSource(Sample, {"function": count, "rate": 0})


def test_cut_blocks_have_no_place_unless_the_whole_had_one():
    source = MemorySource(Sample, {"items": [Sample.block(ts=np.arange(5), x=np.zeros(5))]})
    assert [source.next(3).placed, source.next(3).placed] == [False, False]
    placed = Sample.block(ts=np.arange(5), x=np.zeros(5)).stamped(ordinals=range(7, 12))
    source = MemorySource(Sample, {"items": placed})
    assert source.next(3).ordinals == range(7, 10)
    assert source.next(3).ordinals == range(10, 12)


def test_a_list_in_memory_can_be_read_again_and_an_iterator_cannot():
    source = MemorySource(Sample, {"items": list(count())})
    assert source.replayable
    source.next(5)
    source.seek(2)
    assert read(source) == list(range(2, 10))
    once = MemorySource(Sample, {"items": count()})
    assert not once.replayable
    with pytest.raises(QueryError, match="cannot go back"):
        once.seek(0)
    assert read(once) == list(range(10))


def test_an_item_that_is_no_window_is_refused():
    with pytest.raises(QueryError, match="got NoneType"):
        MemorySource(Sample, {"items": [None]}).next(1)
