"""Where a run of a query begins and stops, also one that was broken off."""

from api.queries import runs
from gsdm_grid.spec import Stop


def test_a_run_stops_so_many_windows_after_where_the_run_before_it_stopped():
    run = runs.begun(Stop(count=50), {}, {"positions": {"a": 100, "b": 90}}, 1.0)
    assert (run["base"], run["positions"]) == (100, {"a": 100, "b": 90})
    assert runs.last_window(run, Stop(count=50)) == 150


def test_a_query_that_lives_may_be_ahead_of_what_is_stored():
    assert runs.begun(Stop(), {"a": 120}, {"positions": {"a": 100}}, 1.0)["base"] == 120


def test_a_run_that_stops_by_itself_has_no_last_window():
    assert runs.last_window(runs.begun(Stop(time_s=3.0), {}, None, 1.0), Stop(time_s=3.0)) is None


def test_a_run_that_was_broken_off_stops_where_it_was_to_stop():
    run = runs.begun(Stop(count=50), {"a": 100}, None, 1.0)
    assert runs.rest(run, Stop(count=50), 7.0) == {"upto": 150}


def test_a_run_whose_time_is_over_ends_at_once():
    run = runs.begun(Stop(time_s=5.0), {}, None, 1.0)
    assert runs.rest(run, Stop(time_s=5.0), 100.0) == {"time_s": runs.SHORTEST_S}


def test_a_run_that_ended_or_has_no_end_begins_anew():
    run = runs.begun(Stop(), {}, None, 1.0)
    assert runs.rest(run, Stop(), 2.0) is None
    assert runs.rest({**run, "running": False}, Stop(count=5), 2.0) is None
    assert runs.rest(None, Stop(count=5), 2.0) is None
