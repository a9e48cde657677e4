"""Which queries are started again by themselves after the coordinator died."""

import pytest

from api.crashes import judge, kept_results, mark, with_deliveries


def test_the_only_query_that_was_being_started_is_not_started_again():
    verdict = judge({"q": mark("starting", 0)})
    assert verdict.blamed == {"q"}
    assert not verdict.again


def test_a_query_that_had_been_started_is_brought_back_once():
    first = judge({"q": mark("running", 0)})
    assert (first.blamed, first.again) == (frozenset(), {"q": 1})
    assert judge({"q": mark("running", 1)}).blamed == {"q"}


@pytest.mark.parametrize("phase", ["starting", "running"])
def test_of_several_suspects_none_is_blamed_before_they_were_started_one_after_the_other(phase):
    together = judge({"good": mark(phase, 0), "bad": mark(phase, 0)})
    assert (together.blamed, together.again) == (frozenset(), {"good": 1, "bad": 1})
    alone = judge({"good": mark("queued", 1), "bad": mark(phase, 1)})
    assert (alone.blamed, alone.again) == ({"bad"}, {"good": 1})


def test_a_query_that_waited_for_its_turn_is_not_suspected_of_the_death():
    assert judge({"good": mark("queued", 1)}).again == {"good": 1}


def test_a_query_that_delivered_windows_while_it_was_being_started_is_brought_back(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "0.log").write_bytes(b"windows of an earlier run")
    starting = mark("starting", 0, kept_results(tmp_path))
    assert judge({"q": with_deliveries(starting, kept_results(tmp_path))}).blamed == {"q"}
    with (tmp_path / "out" / "0.log").open("ab") as log:
        log.write(b"one more")
    assert judge({"q": with_deliveries(starting, kept_results(tmp_path))}).again == {"q": 1}
