import numpy as np
import pytest

from gsdm_grid.apps.demo.sink import CheckedResults, PlaceCheck, read_kept
from gsdm_grid.errors import QueryError
from gsdm_grid.functions.library.radio import Radio
from gsdm_grid.model import PhysicalWindow


def block(first, count, time=None):
    signal = np.zeros((count, 4), np.complex64) + np.arange(first, first + count)[:, None]
    times = np.arange(first, first + count) if time is None else np.asarray(time)
    windows = Radio.block(ts=times, x=signal, y=signal, z=signal)
    return windows.stamped(ordinals=range(first, first + count))


def checked(*blocks):
    check = PlaceCheck()
    for one in blocks:
        check.take(one)
    return check.figures()


def test_a_stream_in_order_has_nothing_to_complain_of():
    counts = checked(block(0, 3), PhysicalWindow.empty(Radio), block(3, 1), block(4, 2))
    assert counts == {"arrived": 6, "missing": 0, "misplaced": 0, "time_reversals": 0}


def test_windows_that_do_not_come_are_missing():
    assert checked(block(0, 3), block(5, 2))["missing"] == 2


def test_the_first_windows_may_be_missing_too():
    assert checked(block(2, 3))["missing"] == 2


def test_a_window_that_comes_again_is_misplaced():
    assert checked(block(0, 3), block(2, 2))["misplaced"] == 1


def test_windows_in_another_order_are_misplaced():
    swapped = block(0, 4).select(np.array([0, 2, 1, 3]))
    assert checked(swapped)["misplaced"] == 1


@pytest.mark.parametrize("time", [[2, 5], [5, 4], [5, 5]])
def test_time_that_does_not_rise_is_counted(time):
    assert checked(block(0, 3), block(3, 2, time=time))["time_reversals"] == 1


def test_the_sink_keeps_the_first_windows_with_their_places_and_counts_them_all(tmp_path):
    sink = CheckedResults(Radio, {"path": str(tmp_path / "kept.npz"), "keep": 5})
    for first in (0, 3, 6):
        sink.insert(block(first, 3))
    kept = read_kept(tmp_path / "kept.npz", Radio)
    assert list(kept.ordinals) == [0, 1, 2, 3, 4]
    assert np.array_equal(kept.x, block(0, 5).x)
    assert sink.statistics()["arrived"] == 9


def test_a_run_that_ends_early_leaves_what_has_come(tmp_path):
    sink = CheckedResults(Radio, {"path": str(tmp_path / "kept.npz"), "keep": 5})
    sink.insert(block(0, 2))
    sink.pause()
    assert len(read_kept(tmp_path / "kept.npz", Radio)) == 2
    sink.insert(block(2, 4))
    assert len(read_kept(tmp_path / "kept.npz", Radio)) == 5


def test_what_nobody_has_written_is_an_empty_stream(tmp_path):
    assert len(read_kept(tmp_path / "kept.npz", Radio)) == 0


def test_the_sink_must_know_where_to_keep_windows():
    with pytest.raises(QueryError, match="path"):
        CheckedResults(Radio, {})
