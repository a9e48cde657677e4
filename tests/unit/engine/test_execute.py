"""The execute operator: how functions are called, and what they may return."""

from functools import partial

import numpy as np
import pytest

import gsdm_grid
from gsdm_grid import STREAM, PhysicalWindow, Radio, current_window, sliding_window, sqf, time_window
from gsdm_grid import sliding_window as sw
from gsdm_grid.engine.execute import Execute
from gsdm_grid.errors import FunctionError
from gsdm_grid.functions import functions


@pytest.fixture
def execute(reading):
    def make(code, inputs=1, output=None, params=None, **said):
        function = sqf(STREAM, register=False, **said)(code)
        return Execute("v.0", function, params or {}, [reading] * inputs, output or reading)

    return make


@pytest.fixture
def rows(readings):
    def make(first, stop, halo=None):
        made = readings(ts=np.arange(first, stop) * 10, first=first)
        return made.stamped(ordinals=range(first, stop), halo=halo)

    return make


def ids(blocks):
    return [int(k) for block in blocks for k in block.id]


def ordinals(blocks):
    return [int(k) for block in blocks for k in block.ordinals]


def test_window_by_window_a_result_takes_the_place_of_its_window(execute, rows):
    op = execute(lambda s: current_window(s).replace(value=0.0))
    (out,) = op.push(0, rows(3, 7))
    assert list(out.ordinals) == [3, 4, 5, 6]
    assert set(out.value) == {0.0}
    assert op.executions == 4


def test_a_whole_block_is_handled_at_once(execute, rows):
    op = execute(lambda s: current_window(s).replace(value=np.zeros(4)), whole=True)
    (out,) = op.push(0, rows(3, 7))
    assert list(out.ordinals) == [3, 4, 5, 6]
    assert op.executions == 1


def test_a_new_block_of_the_same_length_takes_the_places_of_the_old(execute, rows, reading):
    def renewed(s):
        v = current_window(s)
        return reading.block(ts=v.ts, id=v.id, value=v.value)

    op = execute(renewed, whole=True)
    assert ordinals(op.push(0, rows(3, 7))) == [3, 4, 5, 6]
    assert ordinals(op.push(0, rows(7, 12, halo=2))) == [9, 10, 11]


def test_a_new_block_of_another_length_is_refused_with_advice(execute, rows, reading):
    op = execute(lambda s: reading.block(ts=[0], id=[0], value=[0.0]), whole=True)
    with pytest.raises(FunctionError, match=r"returned 1 new windows for 4: derive them with select\(\)"):
        op.push(0, rows(0, 4))


def test_a_filter_over_blocks_keeps_places_and_moves_the_mark(execute, rows):
    op = execute(lambda s: (v := current_window(s)).select(v.id % 3 == 0), whole=True)
    (out,) = op.push(0, rows(0, 6))
    assert list(out.ordinals) == [0, 3]
    assert out.mark == 5
    (none,) = op.push(0, rows(7, 9))
    assert (len(none), none.mark) == (0, 8)


def test_none_is_no_result_but_moves_the_mark(execute, rows):
    for whole in (False, True):
        op = execute(lambda s: current_window(s) and None, whole=whole)
        (told,) = op.push(0, rows(0, 4))
        assert (len(told), told.mark) == (0, 3)


def test_a_function_that_does_not_look_at_its_stream_is_called_once_per_window_or_block(execute, rows, reading):
    constant = reading.window(ts=1, id=2, value=3.0)
    op = execute(lambda s: constant)
    assert ids(op.push(0, rows(0, 3))) == [2, 2, 2]
    blind = execute(lambda s: None, whole=True)
    blind.push(0, rows(0, 5))
    blind.push(0, rows(5, 8))
    assert blind.executions == 2
    assert blind.floor(0) is None


@pytest.mark.parametrize("kind", ["list", "tuple", "generator", "block"])
def test_several_windows_per_execution_have_the_place_of_theirs(execute, rows, reading, kind):
    def twice(s):
        v = current_window(s)
        if kind == "block":
            return reading.block(ts=[v.ts] * 2, id=[v.id, v.id + 100], value=[v.value] * 2)
        return (list if kind == "list" else tuple)([v, v.replace(id=v.id + 100)])

    def generator(s):
        v = current_window(s)
        yield v
        yield v.replace(id=current_window(s).id + 100)

    out = execute(generator if kind == "generator" else twice).push(0, rows(0, 3))
    assert ids(out) == [0, 100, 1, 101, 2, 102]
    assert ordinals(out) == [0, 0, 1, 1, 2, 2]


def test_an_empty_list_or_block_is_no_result(execute, rows, reading):
    for nothing in ([], PhysicalWindow.empty(reading)):
        op = execute(lambda s, nothing=nothing: nothing if current_window(s) else None)
        assert ids(op.push(0, rows(0, 3))) == []


@pytest.mark.parametrize("wrong", [42, "text", {"ts": 0}, [1, 2], b"", np.zeros(3)], ids=lambda w: type(w).__name__)
@pytest.mark.parametrize("whole", [False, True])
def test_what_is_no_window_is_refused(execute, rows, wrong, whole):
    op = execute(lambda s, wrong=None: wrong, params={"wrong": wrong}, whole=whole, name="liar")
    with pytest.raises(FunctionError, match=r"vertex 'v.0', function 'liar': promised .*'Reading', returned"):
        op.push(0, rows(0, 2))


def test_windows_of_another_type_are_refused(execute, rows):
    other = Radio.window(ts=0, x=[], y=[], z=[])
    with pytest.raises(FunctionError, match="promised windows of 'Reading', returned windows of 'Radio'"):
        execute(lambda s: other).push(0, rows(0, 1))


def test_windows_of_a_subtype_are_taken_for_what_was_promised(execute, rows, reading):
    out = execute(lambda s: current_window(s), output=STREAM).push(0, rows(0, 2))
    assert {block.type for block in out} == {STREAM}


@pytest.mark.parametrize("whole", [False, True])
def test_an_error_names_the_vertex_the_function_and_the_cause(execute, rows, whole):
    def broken(s):
        raise ZeroDivisionError("by nothing")

    with pytest.raises(FunctionError, match=r"vertex 'v.0', function 'broken': ZeroDivisionError: by nothing") as error:
        execute(broken, whole=whole).push(0, rows(0, 1))
    assert "raise ZeroDivisionError" in error.value.trace
    assert isinstance(error.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("whole", [False, True])
def test_an_error_shows_the_lines_of_the_function_and_none_of_the_engine(execute, rows, whole):
    def part(window):
        return np.zeros(3).reshape(window)

    def broken(s):
        return part((2, 2))

    with pytest.raises(FunctionError) as error:
        execute(broken, whole=whole).push(0, rows(0, 1))
    files = [line for line in error.value.trace.splitlines() if line.startswith("  File")]
    assert [line.rpartition("in ")[2] for line in files] == ["broken", "part"]
    assert all(f'"{__file__}", line ' in line for line in files)
    assert "    return np.zeros(3).reshape(window)" in error.value.trace.splitlines()
    assert error.value.__notes__ == [error.value.trace]


def test_an_error_of_a_library_function_shows_its_lines_only(rows, reading):
    aggregate = Execute("v.0", functions.get("aggregate"), {"size": 1, "how": "sideways"}, [reading], reading)
    with pytest.raises(FunctionError) as error:
        aggregate.push(0, rows(0, 1))
    assert "general.py" in error.value.trace
    assert "execute.py" not in error.value.trace


def test_an_error_in_a_generator_names_the_function_too(execute, rows):
    def broken(s):
        yield current_window(s)
        raise ValueError("halfway")

    with pytest.raises(FunctionError, match="'broken': ValueError: halfway"):
        execute(broken).push(0, rows(0, 1))


def test_an_unknown_attribute_is_named_with_those_that_there_are(execute, rows):
    with pytest.raises(FunctionError, match="unknown attribute 'colour' of stream type 'Reading'"):
        execute(lambda s: current_window(s).colour).push(0, rows(0, 1))


@pytest.mark.parametrize("whole", [False, True])
def test_a_function_cannot_change_its_input(execute, rows, whole):
    def spoil(s):
        windows = current_window(s) if whole else sliding_window(s, 2)
        windows.value[0] = 7.0
        return windows

    with pytest.raises(FunctionError, match="read-only"):
        execute(spoil, whole=whole).push(0, rows(0, 2))


def test_a_window_refuses_assignment(execute, rows):
    def spoil(s):
        current_window(s).value = 1.0

    with pytest.raises(FunctionError, match="windows are immutable"):
        execute(spoil).push(0, rows(0, 1))


def test_a_function_that_needs_more_windows_is_called_again_when_they_have_come(execute, rows):
    op = execute(lambda s: sliding_window(s, 3, 2)[0])
    assert ids(op.push(0, rows(0, 2))) == []
    assert op.floor(0) == 0
    out = op.push(0, rows(2, 6))
    assert ids(out) == [0, 2]
    assert out[-1].mark == 3
    assert op.floor(0) == 4
    assert op.executions == 2


def test_code_that_catches_exceptions_does_not_see_that_windows_are_lacking(execute, rows):
    def careful(s):
        try:
            return sliding_window(s, 2)[1]
        except Exception:
            return current_window(s)

    assert ids(execute(careful).push(0, rows(0, 3))) == [1, 2]


def test_a_new_segment_forgets_what_came_before_and_skips_its_context(execute, rows):
    op = execute(lambda s: current_window(s).replace(id=len(time_window(s, 100e-9))))
    assert ids(op.push(0, rows(0, 3))) == [1, 2, 3]
    out = op.push(0, rows(2, 6, halo=2))
    assert ids(out) == [3, 4]
    assert ordinals(out) == [4, 5]


def test_state_lives_from_init_to_cleanup(execute, rows):
    gone = []

    def count(s, start, state=None):
        state["seen"] += 1
        return current_window(s).replace(id=state["seen"])

    op = execute(count, params={"start": 10}, init=lambda start: {"seen": start}, cleanup=gone.append)
    assert ids(op.push(0, rows(0, 2)))[-1] == 12
    assert gone == []
    op.dispose()
    assert [list(state) for state in gone] == [["seen"]]


def test_errors_in_init_and_cleanup_name_the_function(execute):
    def fail(*given, **named):
        raise OSError("no disk")

    def named(s, state=None):
        return None

    with pytest.raises(FunctionError, match="'named': OSError: no disk"):
        execute(named, init=fail)
    op = execute(named, init=lambda: 0, cleanup=fail)
    with pytest.raises(FunctionError, match="'named': OSError: no disk"):
        op.dispose()


def test_a_combining_function_is_fed_where_it_lacks_windows(execute, rows):
    def both(streams):
        one, two = (current_window(s) for s in streams)
        return one.replace(id=one.id * 100 + two.id)

    op = execute(both, inputs=2, kind="combining")
    assert op.wants(0)
    assert op.wants(1)
    assert ids(op.push(0, rows(0, 3))) == []
    assert not op.wants(0)
    assert op.wants(1)
    assert ids(op.push(1, rows(0, 2))) == [0, 101]
    assert not op.wants(0)
    assert ids(op.push(1, rows(2, 9))) == [202]
    assert op.wants(0)
    assert not op.wants(1)
    assert op.floor(1) == 3


def window_of_two(s):
    """A helper elsewhere, whose name says nothing."""
    return sliding_window(s, 2)


def through_a_helper(s):
    return window_of_two(s)[1]


def through_an_alias(s):
    return sw(s, 2)[1]


def through_getattr(s):
    return getattr(gsdm_grid, "time" + "_window")(s, 1)[0]


def swallowing_the_error(s):
    v = current_window(s)
    try:
        return window_of_two(s)[1]
    except Exception:
        return v


UNDECLARED = {
    "alias": through_an_alias,
    "helper": through_a_helper,
    "getattr": through_getattr,
    "partial": partial(lambda s, size: sw(s, size)[1], size=2),
    "swallowed": swallowing_the_error,
}


@pytest.mark.parametrize("code", UNDECLARED.values(), ids=UNDECLARED)
@pytest.mark.parametrize("whole", [False, True])
def test_a_function_that_uses_neighbouring_windows_without_saying_so_is_refused_at_once(execute, rows, code, whole):
    op = execute(code, name="sly", whole=whole)
    with pytest.raises(FunctionError, match=r"'sly' calls (sliding|time)_window.*@sqf\(…, uses_neighbours=True\)"):
        op.push(0, rows(0, 1))


def test_a_function_that_uses_neighbouring_windows_through_a_helper_and_says_so_is_executed(execute, rows):
    op = execute(through_a_helper, uses_neighbours=True)
    assert ids(op.push(0, rows(0, 4))) == [1, 2, 3]


def test_a_function_that_says_it_uses_its_current_window_only_is_held_to_it(execute, rows):
    op = execute(lambda s: sliding_window(s, 2)[0], uses_neighbours=False)
    with pytest.raises(FunctionError, match="calls sliding_window"):
        op.push(0, rows(0, 4))


def test_a_window_that_a_built_in_function_cannot_split_is_the_querys_fault():
    from gsdm_grid import Radio
    from gsdm_grid.errors import FlowError
    from gsdm_grid.functions import functions

    split = Execute("fft3part.0", functions.get("fft3part"), {"n": 3, "i": 0}, [Radio], Radio)
    samples = {channel: [[1, 2, 3, 4]] for channel in "xyz"}
    with pytest.raises(FlowError, match=r"vertex 'fft3part.0': fft3part: a window of 4 samples cannot be split in 3"):
        split.push(0, Radio.block(ts=[0], **samples))
