"""Whether a function uses windows beside its current one: declared, or assumed from its code; never guessed wrongly."""

from functools import partial

import cloudpickle
import pytest

import gsdm_grid
from gsdm_grid import current_window, sqf, time_window
from gsdm_grid import sliding_window as sw
from gsdm_grid.errors import QueryError
from gsdm_grid.functions import functions, reference, resolve, window_distribute
from gsdm_grid.testing import apply


def by_name(s):
    return gsdm_grid.sliding_window(s, 2)[0]


def by_inner_function(s):
    def latest():
        return time_window(s, 1)

    return latest()[0]


def by_alias(s):
    return sw(s, 2)[0]


def by_getattr(s):
    return getattr(gsdm_grid, "sliding" + "_window")(s, 2)[0]


def one_by_one(s):
    return current_window(s)


def made(code, **said):
    return sqf(register=False, **{"name": "made", **said})(code)


@pytest.mark.parametrize("code", [by_name, by_inner_function, partial(by_name)])
def test_a_function_that_names_a_window_function_is_assumed_to_use_neighbouring_windows(code):
    assert made(code).uses_neighbours


def test_a_function_with_an_overlap_partition_is_assumed_to_use_neighbouring_windows():
    assert made(by_alias, strategies=(window_distribute("overlap_part", size=2, step=1),)).uses_neighbours


@pytest.mark.parametrize("code", [one_by_one, by_alias, by_getattr])
def test_any_other_function_is_assumed_to_use_its_current_window_only(code):
    assert not made(code).uses_neighbours


@pytest.mark.parametrize("declared", [True, False])
def test_a_declaration_goes_before_what_the_code_suggests_and_travels_with_the_function(declared):
    function = made(by_name if not declared else by_alias, uses_neighbours=declared)
    assert function.uses_neighbours is declared
    assert resolve(reference(function)).uses_neighbours is declared
    assert cloudpickle.loads(cloudpickle.dumps(function)).uses_neighbours is declared
    assert function.describe()["uses_neighbours"] is declared


def test_round_robin_is_assumed_only_for_functions_of_single_windows():
    assert [strategy.partition for strategy in made(one_by_one).strategies] == ["RRpart"]
    assert made(by_name).strategies == ()
    assert made(by_alias, uses_neighbours=True).strategies == ()


def test_round_robin_is_refused_for_a_function_that_uses_neighbouring_windows():
    with pytest.raises(QueryError, match=r"neighbouring windows would be on different sites.*overlap_part"):
        made(by_name, strategies=(window_distribute(),))


def test_a_combining_function_pairs_windows_by_their_count_whatever_it_declares():
    assert made(lambda streams: current_window(streams[0]), kind="combining").uses_neighbours
    with pytest.raises(QueryError, match="combining function always uses neighbouring windows"):
        made(lambda streams: current_window(streams[0]), kind="combining", uses_neighbours=False)


@pytest.mark.parametrize("kind", ["combine", "routing"])
def test_a_function_of_windows_has_no_stream_to_look_around_in(kind):
    with pytest.raises(QueryError, match=f"a {kind} function is given windows, not a stream"):
        made(lambda parts: parts[0], kind=kind, uses_neighbours=True)


@pytest.mark.parametrize(
    ("name", "uses"),
    [
        ("fft3", False),
        ("identity", False),
        ("RRpart", False),
        ("S-Merge", False),
        ("OS-Join", False),
        ("union", False),
        ("aggregate", True),
        ("time_aggregate", True),
        ("sample", True),
        ("overlap_part", True),
        ("time_overlap_part", True),
        ("key_join", True),
        ("key_aggregate", True),
    ],
)
def test_the_built_in_functions_say_what_they_use(name, uses):
    assert functions.get(name).uses_neighbours is uses


def test_the_shipped_test_helper_refuses_an_undeclared_use_as_the_engine_does(levels):
    with pytest.raises(QueryError, match=r"'made' calls sliding_window.*@sqf\(…, uses_neighbours=True\)"):
        apply(made(by_alias), levels(0, 4))
