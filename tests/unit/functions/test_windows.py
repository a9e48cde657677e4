import itertools
from datetime import timedelta

import numpy as np
import pytest

from gsdm_grid.errors import QueryError
from gsdm_grid.functions import NeedMore, StreamView, current_window, sliding_window, time_window
from gsdm_grid.model import PhysicalWindow, seconds


def floor(view):
    """Ordinal of the first window that the view still needs."""
    _, needed = view.kept()
    return int(needed.ordinals[0]) if len(needed) else None


def times(windows):
    return [int(ts) // seconds(1) for ts in windows.ts]


def run_over(view, blocks, ask):
    """What the engine does: feed a block, execute as often as possible, feed the next one."""
    results = []
    for block in blocks:
        view.feed(block)
        while True:
            try:
                results.append(ask(view))
            except NeedMore:
                break
            view.advance()
    return results


def pieces(block, sizes):
    bounds = np.cumsum([0, *sizes])
    return [block[a:b] for a, b in itertools.pairwise(bounds)]


CUTS = [[20], [1] * 20, [3, 0, 7, 10], [0, 19, 1], [5, 5, 5, 5]]


def test_current_window_is_the_one_at_the_cursor(levels, view_of):
    view = view_of(levels(5, 8))
    assert current_window(view) == levels(5, 8)[0]
    assert view.ordinal == 5
    view.advance()
    assert current_window(view).value == 3
    assert view.ordinal == 6


@pytest.mark.parametrize("cut", CUTS)
def test_current_window_goes_through_the_stream_however_it_is_cut(levels, level_type, cut):
    got = run_over(StreamView(level_type), pieces(levels(0, 20), cut), lambda s: current_window(s).value)
    assert got == [place / 2 for place in range(20)]


def test_window_functions_leave_by_need_more_on_an_empty_view(level_type):
    view = StreamView(level_type)
    for ask, rows in [
        (lambda: current_window(view), 1),
        (lambda: sliding_window(view, 4, 2), 4),
        (lambda: time_window(view, 3), 1),
    ]:
        with pytest.raises(NeedMore) as caught:
            ask()
        assert caught.value.view is view
        assert caught.value.rows == rows


def test_need_more_passes_through_user_code_that_catches_exceptions(level_type):
    assert not issubclass(NeedMore, Exception)


def test_need_more_says_how_many_windows_are_missing(levels, view_of):
    view = view_of(levels(0, 3))
    view.advance()
    with pytest.raises(NeedMore) as caught:
        sliding_window(view, 5)
    assert caught.value.rows == 3
    view.feed(levels(3, 6))
    assert times(sliding_window(view, 5)) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize(("size", "step"), [(1, 1), (3, 1), (4, 2), (4, 4), (2, 5), (1, 7), (20, 1), (21, 1)])
def test_sliding_windows_are_the_same_however_the_stream_is_cut(levels, level_type, cut, size, step):
    got = run_over(StreamView(level_type), pieces(levels(0, 20), cut), lambda s: times(sliding_window(s, size, step)))
    assert got == [list(range(at, at + size)) for at in range(0, 20 - size + 1, step)]


def test_sliding_window_can_be_read_as_windows_and_as_columns(levels, view_of):
    windows = sliding_window(view_of(levels(0, 4)), 3)
    assert isinstance(windows, PhysicalWindow)
    assert windows.value.tolist() == [0, 0.5, 1]
    assert [window.value for window in windows] == [0, 0.5, 1]
    assert windows.ordinals == range(3)


@pytest.mark.parametrize(("size", "step"), [(0, 1), (-1, 1), (1, 0), (3, -2)])
def test_sliding_window_needs_size_and_step(levels, view_of, size, step):
    with pytest.raises(QueryError, match=f"got size {size} and step {step}"):
        sliding_window(view_of(levels(0, 4)), size, step)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("span", [0, 1, 2.5, 7, 100, 1e15, timedelta(seconds=3)])
def test_time_windows_are_the_same_however_the_stream_is_cut(levels, level_type, cut, span):
    got = run_over(StreamView(level_type), pieces(levels(0, 20), cut), lambda s: times(time_window(s, span)))
    length = span.total_seconds() if isinstance(span, timedelta) else span
    assert got == [[at for at in range(now + 1) if at >= now - length] for now in range(20)]


def test_time_window_leaves_out_what_is_behind_the_cursor(level_type, view_of):
    block = level_type.block(ts=[0, 5, 5, 5], value=[0, 1, 2, 3])
    view = view_of(block)
    got = []
    for _ in range(4):
        got.append(time_window(view, 1e-9).value.tolist())
        view.advance()
    assert got == [[0], [1], [1, 2], [1, 2, 3]]


@pytest.mark.parametrize("span", [-1, -1e-9, float("nan"), float("inf"), timedelta(seconds=-2)])
def test_time_window_needs_a_span(levels, view_of, span):
    with pytest.raises(QueryError, match="span must be a number of seconds, at least 0"):
        time_window(view_of(levels(0, 4)), span)


def test_view_forgets_what_no_window_function_needs(levels, level_type):
    view = StreamView(level_type)
    run_over(view, pieces(levels(0, 20), [5, 5, 5, 5]), current_window)
    assert len(view.block) <= 5
    assert floor(view) is None
    view = StreamView(level_type)
    run_over(view, pieces(levels(0, 20), [5, 5, 5, 5]), lambda s: time_window(s, 3))
    assert len(view.block) <= 5 + 4
    assert floor(view) == 16


def test_floor_is_the_first_ordinal_that_is_still_needed(levels, view_of):
    view = view_of(levels(10, 16))
    assert floor(view) == 10
    sliding_window(view, 4, 2)
    view.advance()
    assert floor(view) == 12
    time_window(view, 1)
    assert floor(view) == 11


def test_step_beyond_the_windows_at_hand_is_taken_when_they_come(levels, view_of):
    view = view_of(levels(0, 3))
    sliding_window(view, 2, 5)
    view.advance()
    with pytest.raises(NeedMore):
        current_window(view)
    view.feed(levels(3, 4))
    with pytest.raises(NeedMore):
        current_window(view)
    view.feed(levels(4, 9))
    assert current_window(view).value == 2.5


def test_whole_function_gets_the_physical_window_at_the_cursor(levels, view_of):
    view = view_of(levels(0, 4), whole=True)
    assert current_window(view) is view.block
    view.advance()
    with pytest.raises(NeedMore):
        current_window(view)
    view.feed(levels(4, 6))
    assert times(current_window(view)) == [4, 5]
    assert current_window(view).ordinals == range(4, 6)


def test_segment_start_replaces_what_was_held(levels, view_of):
    view = view_of(levels(0, 4), levels(50, 54).stamped(halo=2))
    assert view.ordinal == 52
    assert times(time_window(view, 100)) == [50, 51, 52]
    view.feed(levels(90, 93).stamped(halo=0))
    assert times(time_window(view, 100)) == [90]
    assert times(sliding_window(view, 3)) == [90, 91, 92]


def test_whole_function_does_not_see_the_halo_of_a_segment(levels, view_of):
    view = view_of(levels(50, 54).stamped(halo=2), whole=True)
    assert times(current_window(view)) == [52, 53]


def test_halo_may_reach_into_the_next_block(levels, view_of):
    view = view_of(levels(0, 2).stamped(halo=3))
    with pytest.raises(NeedMore):
        time_window(view, 10)
    view.feed(levels(2, 5))
    assert times(time_window(view, 10)) == [0, 1, 2, 3]


def test_empty_segment_start_forgets_everything(levels, level_type, view_of):
    view = view_of(levels(0, 4), PhysicalWindow.empty(level_type, 9, 0))
    with pytest.raises(NeedMore):
        current_window(view)
    assert floor(view) is None


@pytest.mark.parametrize(("chunk", "span"), [(1, 0), (2, 3), (5, 3), (7, 30)])
def test_time_windows_over_segments_with_their_history_are_those_of_the_stream(levels, level_type, chunk, span):
    block = levels(0, 20)
    segments = []
    for first in range(0, 20, chunk):
        begin = max(0, first - span)
        segments.append(block[begin : first + chunk].stamped(halo=first - begin))
    got = run_over(StreamView(level_type), segments, lambda s: times(time_window(s, span)))
    assert got == [list(range(max(0, now - span), now + 1)) for now in range(20)]


def test_sliding_windows_over_overlapping_segments_are_those_of_the_stream(levels, level_type):
    block, size, step, chunk = levels(0, 20), 4, 2, 3
    segments = [
        block[first : first + (chunk - 1) * step + size].stamped(halo=0) for first in range(0, 16, chunk * step)
    ]
    got = run_over(StreamView(level_type), segments, lambda s: times(sliding_window(s, size, step)))
    assert got == [list(range(at, at + size)) for at in range(0, 17, step)]
