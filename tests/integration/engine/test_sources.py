"""Input streams read by queries: the places that their windows get."""

import numpy as np
import pytest

from gsdm_grid import PCC, PhysicalWindow, central, sliding_window, sqf


@pytest.mark.parametrize("halo", [None, 2])
@pytest.mark.parametrize("degree", [1, 2, 3])
def test_windows_that_had_places_in_another_stream_get_those_of_this_one(
    readings, reading, run_in_threads, assert_equal_streams, degree, halo
):
    blocks = [
        readings(3, first=first).stamped(ordinals=np.array([0, 5, 9]) + 5 * first, mark=5 * first + 12, halo=halo)
        for first in (0, 3, 6, 9)
    ]
    expected = run_in_threads(central("identity"), reading, blocks)
    assert expected.id.tolist() == list(range(12))
    assert list(expected.ordinals) == list(range(12))
    assert_equal_streams(run_in_threads(PCC(degree, "RRpart", "identity", None, "S-Merge"), reading, blocks), expected)


def test_a_result_of_several_windows_does_not_hide_those_of_the_next(readings, reading, run_in_threads):
    @sqf(reading, returns=reading, register=False, uses_neighbours=True)
    def doubled(s):
        ahead = sliding_window(s, 3)
        return PhysicalWindow.concat([ahead, ahead])

    made = run_in_threads(PCC(1, "RRpart", doubled, None, "S-Merge"), reading, [readings(5)])
    assert made.id.tolist() == [k + j for k in range(3) for j in (0, 1, 2, 0, 1, 2)]


def test_blocks_without_windows_do_not_hold_up_a_source(readings, reading, run_in_threads):
    blocks = [readings(0), readings(3), *[readings(0)] * 300, readings(2, first=3)]
    assert run_in_threads(central("identity"), reading, blocks).id.tolist() == list(range(5))
