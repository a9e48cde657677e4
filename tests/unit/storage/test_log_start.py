"""Where what is kept of a result log begins: how many windows of its last ordinal there were before."""

import errno
import os
import shutil

import numpy as np
import pytest

from gsdm_grid.model import TypeRegistry, create_stream_type
from gsdm_grid.storage import ResultLog, result_log

Parted = create_stream_type("Parted", {"n": "int64", "v": "vector[32] of int64"}, registry=TypeRegistry())
LIMITS = {"keep_bytes": 4000, "segment_bytes": 1000}


def parts(first, count, ordinal):
    """Windows of one ordinal: what a function made of one window."""
    rows = np.arange(first, first + count)
    vectors = np.zeros((count, 32), np.int64)
    return Parted.block(ts=rows, n=rows, v=vectors).stamped(ordinals=np.full(count, ordinal))


def written(folder, stop=200, ordinal=7):
    """A log that was closed, in which all windows have one ordinal and most are not kept."""
    log = ResultLog(folder, Parted, **LIMITS)
    for first in range(0, stop, 2):
        log.append(parts(first, 2, ordinal))
    assert log.first > 0
    log.close()
    return log


def test_a_log_that_cannot_say_where_it_begins_takes_windows_and_deletes_later(tmp_path, monkeypatch):
    def full_disk(folder, start):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    log = ResultLog(tmp_path, Parted, **LIMITS)
    with monkeypatch.context() as patched:
        patched.setattr(result_log, "write_start", full_disk)
        for first in range(0, 100, 2):
            log.append(parts(first, 2, first))
    assert (log.first, log.next) == (0, 100)
    log.append(parts(100, 2, 100))
    assert log.first > 50
    assert log.kept_bytes <= LIMITS["keep_bytes"]
    log.close()


def test_windows_of_the_last_ordinal_that_are_no_longer_kept_are_not_taken_a_second_time(tmp_path):
    written(tmp_path)
    again = ResultLog(tmp_path, **LIMITS)
    assert (again.last_ordinal, again.last_count) == (7, 200)
    again.resume()
    for first in range(0, 210, 2):
        again.append(parts(first, 2, 7))
    assert (again.next, again.duplicates) == (210, 200)
    again.close()


def test_the_count_goes_on_over_any_number_of_restarts(tmp_path):
    for restart in range(5):
        log = ResultLog(tmp_path, Parted, **LIMITS)
        assert log.last_count == log.next == restart * 50
        for first in range(log.next, log.next + 50, 2):
            log.append(parts(first, 2, 7))
        log.close()


def test_a_greater_ordinal_is_counted_from_where_it_begins(tmp_path):
    written(tmp_path)
    log = ResultLog(tmp_path, **LIMITS)
    log.append(parts(200, 3, 8))
    log.close()
    again = ResultLog(tmp_path, **LIMITS)
    assert (again.last_ordinal, again.last_count) == (8, 3)
    again.close()


def test_a_writer_that_was_killed_before_it_had_deleted_old_files_counts_their_windows_once(tmp_path):
    log = ResultLog(tmp_path / "log", Parted, **LIMITS)
    for first in range(0, 200, 2):
        log.append(parts(first, 2, 7))
        shutil.copytree(tmp_path / "log", tmp_path / "files", dirs_exist_ok=True)
    log.close()
    (tmp_path / "files" / "start.json").unlink()
    shutil.copytree(tmp_path / "files", tmp_path / "log", dirs_exist_ok=True)
    again = ResultLog(tmp_path / "log", **LIMITS)
    assert (again.first, again.next) == (0, 200)
    assert (again.last_ordinal, again.last_count) == (7, 200)
    again.close()


def test_a_log_of_an_earlier_version_goes_on_with_the_windows_that_it_keeps(tmp_path):
    log = written(tmp_path)
    (tmp_path / "start.json").unlink()
    again = ResultLog(tmp_path, **LIMITS)
    assert (again.last_ordinal, again.last_count) == (7, log.next - log.first)
    for first in range(200, 300, 2):
        again.append(parts(first, 2, 7))
    count = again.last_count
    again.close()
    later = ResultLog(tmp_path, **LIMITS)
    assert (later.last_ordinal, later.last_count) == (7, count)
    later.close()


@pytest.mark.parametrize("damage", [b"", b"[]", b'{"seq": 1, "ordinal": 7, "windows": 3, "crc32": 0}'])
def test_a_damaged_start_is_reported_and_the_windows_that_are_kept_are_counted(tmp_path, caplog, damage):
    log = written(tmp_path)
    (tmp_path / "start.json").write_bytes(damage)
    again = ResultLog(tmp_path, **LIMITS)
    assert (again.last_ordinal, again.last_count) == (7, log.next - log.first)
    assert f"{tmp_path / 'start.json'} is damaged" in caplog.text
    again.close()
