"""Merges by key as pure logic: joins of answers, sums of parts, what never completes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsdm_grid import create_stream_type, seconds
from gsdm_grid.model import TypeRegistry, as_array
from gsdm_grid.operators import KeyAggregate, KeyJoin, Union
from gsdm_grid.operators.keyed_merge import added_up

Answer = create_stream_type(
    "Answer", {"question": "int32", "balance": "int32", "site": "string"}, registry=TypeRegistry()
)


def answers(ordinals, questions, balances, site="s", ts=None):
    ordinals = np.asarray(ordinals, np.int64)
    ts = ordinals * 10 if ts is None else ts
    return Answer.block(ts=ts, question=questions, balance=balances, site=[site] * len(ordinals)).stamped(
        ordinals=ordinals
    )


def joined(ports, within_s=60.0, key="question"):
    return KeyJoin(ports, Answer, key, lambda parts: added_up(parts, {"balance": "sum"}), "ordinal", within_s)


def told(blocks):
    return [(int(w.question), int(w.balance)) for block in blocks for w in block]


def test_answers_to_one_question_are_added_up():
    join = joined(3)
    out = [*join.push(0, answers([0, 1], [7, 8], [1, 10])), *join.push(1, answers([0, 1], [7, 8], [2, 20]))]
    assert told(out) == []
    out = join.push(2, answers([0, 1], [7, 8], [3, 30]))
    assert told(out) == [(7, 6), (8, 60)]
    assert as_array(out[0].ordinals).tolist() == [0, 1]


def test_a_result_has_the_time_of_the_window_that_completed_it():
    join = KeyJoin(2, Answer, "question", lambda parts: parts[0], "ordinal", 60.0)
    join.push(0, answers([0, 1], [1, 2], [1, 1], ts=[10, 20]).stamped(time_mark=19))
    out = join.push(1, answers([0, 1], [2, 1], [1, 1], ts=[12, 40]).stamped(time_mark=39))
    assert [(int(w.question), int(w.ts)) for block in out for w in block] == [(2, 20), (1, 40)]


def test_keys_need_not_come_in_the_same_order():
    join = joined(2)
    join.push(0, answers([0, 1, 2], [1, 2, 3], [1, 1, 1]))
    out = join.push(1, answers([0, 1, 2], [3, 1, 2], [5, 6, 7]))
    assert told(out) == [(1, 7), (2, 8), (3, 6)]
    assert as_array(out[0].ordinals).tolist() == [1, 2, 2]  # the place of the window that completed each


def test_a_key_that_comes_again_joins_the_second_with_the_second():
    join = joined(2)
    join.push(0, answers([0, 1], [5, 5], [1, 2]))
    assert told(join.push(1, answers([0, 1], [5, 5], [10, 20]))) == [(5, 11), (5, 22)]


def test_text_is_a_key_too():
    join = joined(2, key="site")
    join.push(0, answers([0], [1], [1], "a"))
    assert told([*join.push(1, answers([0], [1], [2], "b")), *join.push(1, answers([1], [1], [3], "a"))]) == []
    assert told(join.push(0, answers([1], [1], [4], "c"))) == [(1, 4)]


def test_a_window_without_counterparts_is_given_up_after_a_while_and_counted():
    join = joined(2, within_s=1.0)
    join.push(0, answers([0], [1], [1], ts=[0]))
    join.push(1, answers([0], [2], [1], ts=[0]))
    assert join.statistics()["waiting"] == [1, 1]
    assert join.floor(0) == 0
    later = {"ts": [seconds(2)]}
    join.push(0, answers([1], [3], [1], **later))
    assert told(join.push(1, answers([1], [3], [1], **later))) == [(3, 2)]
    assert join.statistics()["incomplete"] == 2
    assert join.floor(0) is None


def test_what_waits_at_the_end_is_counted():
    join = joined(2)
    join.push(0, answers([0], [1], [1]))
    assert told([*join.close(0), *join.close(1)]) == []
    assert join.statistics()["incomplete"] == 1


@given(data=st.data(), ports=st.integers(1, 4), count=st.integers(1, 30))
def test_a_join_gives_each_common_key_once_however_its_inputs_are_cut(data, ports, count):
    orders = [data.draw(st.permutations(range(count))) for _ in range(ports)]
    join = joined(ports)
    got = []
    for port in data.draw(st.permutations([port for port in range(ports) for _ in range(3)])):
        at = len([1 for p, _ in got if p == port])
        part = slice(count * at // 3, count * (at + 1) // 3)
        ordinals = np.arange(count)[part]
        out = join.push(port, answers(ordinals, orders[port][part], [1] * len(ordinals))) if len(ordinals) else ()
        got.append((port, told(out)))
    rest = [row for port in range(ports) for row in told(join.close(port))]
    assert sorted([row for _, out in got for row in out] + rest) == [(key, ports) for key in range(count)]


def test_windows_of_one_time_and_key_are_aggregated_when_the_time_is_over():
    merge = KeyAggregate(2, Answer, "question", {"balance": "sum"}, "ordinal")
    first = merge.push(0, answers([0, 1, 4], [1, 2, 1], [1, 2, 9], ts=[0, 0, 10]))
    out = [*first, *merge.push(1, answers([2, 3, 5], [2, 3, 1], [20, 30, 90], ts=[0, 0, 10]))]
    assert told(out) == [(1, 1), (2, 22), (3, 30)]
    assert as_array(out[0].ordinals).tolist() == [4, 4, 4]
    assert merge.floor(0) == 4
    assert told([*merge.close(0), *merge.close(1)]) == [(1, 99)]


@pytest.mark.parametrize(("how", "expected"), [("sum", 9), ("min", 2), ("max", 7)])
def test_each_aggregate(how, expected):
    merge = KeyAggregate(1, Answer, "question", {"balance": how}, "ordinal")
    merge.push(0, answers([0, 1], [1, 1], [2, 7], ts=[0, 0]))
    assert told(merge.close(0)) == [(1, expected)]


def test_a_union_passes_on_what_comes():
    block = answers([0, 1], [1, 2], [1, 1])
    assert Union(2, Answer).push(1, block) == [block]
