"""The window router: whole physical windows, evenly and at random, and the same again."""

import numpy as np
import pytest

from gsdm_grid.operators import WindowRouter
from gsdm_grid.operators.window_router import route_of


def test_a_window_is_handed_on_as_it_is_and_the_others_get_its_mark(readings, reading):
    block = readings(100).stamped(ordinals=range(50, 150), mark=200)
    made = WindowRouter(reading, 4).push(0, block)
    assert [one for one in made if len(one)] == [block]  # the very same: nothing was looked at or copied
    assert [one.mark for one in made] == [200] * 4


def test_a_window_that_comes_again_goes_the_same_way(readings, reading):
    blocks = [readings(10).stamped(ordinals=range(k, k + 10)) for k in range(0, 1000, 10)]

    def ways():
        router = WindowRouter(reading, 5)
        return [[len(one) for one in router.push(0, block)] for block in blocks]

    assert ways() == ways()


@pytest.mark.parametrize("size", [1, 1000, 16384])
def test_windows_are_spread_evenly_whatever_their_size(size):
    counts = np.bincount([route_of(k * size, 1, 8) for k in range(8000)], minlength=8)
    assert counts.min() > 850
    assert counts.max() < 1150


def test_routers_of_a_tree_choose_independently():
    below = [route_of(k, 2, 2) for k in range(4000) if route_of(k, 1, 2) == 0]
    assert 0.45 < np.mean(below) < 0.55


def test_statistics_count_physical_windows(readings, reading):
    router = WindowRouter(reading, 3)
    for k in range(30):
        router.push(0, readings(2).stamped(ordinals=range(2 * k, 2 * k + 2)))
    assert sum(router.statistics()["per_output"]) == 30
