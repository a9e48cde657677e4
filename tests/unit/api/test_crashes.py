"""Which queries are started again by themselves after the coordinator died."""

import pytest

from api.operations.crashes import judge, mark, with_progress
from gsdm_grid import Radio
from gsdm_grid.storage import end_of
from gsdm_grid.storage.result_log import ResultLog


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


@pytest.fixture
def log(tmp_path):
    return ResultLog(tmp_path / "out", Radio, segment_bytes=2_000, keep_bytes=6_000)


def test_a_query_that_delivered_windows_while_it_was_being_started_is_brought_back(log, radio_block):
    log.append(radio_block(3, 8))
    starting = mark("starting", 0, {"out": log.next})
    assert judge({"q": with_progress(starting, "installed", {"out": end_of(log.path)})}).blamed == {"q"}
    log.append(radio_block(1, 8))
    assert judge({"q": with_progress(starting, "installed", {"out": end_of(log.path)})}).again == {"q": 1}


def test_a_query_that_was_active_is_brought_back_though_it_had_delivered_nothing():
    assert judge({"q": with_progress(mark("starting", 0), "active", {})}).again == {"q": 1}


def test_windows_count_as_delivered_though_old_files_were_removed_and_new_ones_begun(log, radio_block):
    log.append(radio_block(3, 8))
    before = {path.name for path in log.path.glob("*.log")}
    starting = mark("starting", 0, {"out": end_of(log.path)})
    while before & {path.name for path in log.path.glob("*.log")}:
        log.append(radio_block(3, 8))
    assert end_of(log.path) == log.next
    assert with_progress(starting, "installed", {"out": end_of(log.path)})["phase"] == "running"


def test_windows_count_as_delivered_though_they_are_shorter_than_the_torn_end_that_they_replaced(log, radio_block):
    log.append(radio_block(3, 8))
    log.close()
    (file,) = log.path.glob("*.log")
    whole = file.read_bytes()
    file.write_bytes(whole + whole[:-1])
    starting = mark("starting", 0, {"out": end_of(log.path)})
    mended = ResultLog(log.path)
    assert with_progress(starting, "installed", {"out": mended.next})["phase"] == "starting"
    mended.append(radio_block(1, 8))
    assert file.stat().st_size < len(whole + whole[:-1])
    assert with_progress(starting, "installed", {"out": end_of(log.path)})["phase"] == "running"


def test_a_folder_without_files_has_had_no_windows(tmp_path):
    assert end_of(tmp_path) == 0
