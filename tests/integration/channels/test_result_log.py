"""Result logs between processes and threads, and those of queries."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from gsdm_grid import register_input_stream, register_result_stream
from gsdm_grid.errors import ChannelError
from gsdm_grid.functions import current_window, sqf
from gsdm_grid.model import PhysicalWindow, TypeRegistry, create_stream_type
from gsdm_grid.storage.result_log import ResultLog

DEADLINE_S = 60.0
Mixed = create_stream_type(
    "LoggedMixed", {"n": "int64", "v": "vector of complex64", "name": "string"}, registry=TypeRegistry()
)


def mixed(first, count, ragged=False, ordinals=None, length=4):
    rows = np.arange(first, first + count)
    if ragged:
        vectors = [np.full(row % 4, row, np.complex64) for row in rows]
    else:
        vectors = (rows[:, None] + 1j * np.arange(length)).astype(np.complex64)
    block = Mixed.block(ts=rows * 10, n=rows, v=vectors, name=[f"é{row}" for row in rows])
    return block.stamped(range(first, first + count) if ordinals is None else ordinals)


def numbers(reading):
    return [int(n) for _, block in reading.blocks for n in block.n]


WRITER = """
import sys
sys.path.insert(0, {folder!r})
import test_result_log as t
log = t.ResultLog({path!r}, t.Mixed, keep_bytes=1 << 22, segment_bytes=1 << 16)
first = log.next
while True:
    log.append(t.mixed(first, 7, ragged=first % 2 == 0))
    first += 7
    if first % 700 == 0:
        print(first, flush=True)
"""


def test_a_killed_writer_leaves_a_log_that_goes_on(tmp_path):
    code = WRITER.format(folder=os.path.dirname(__file__), path=str(tmp_path))
    seen = 0
    for _ in range(3):
        writer = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        for _ in range(3):
            seen = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        writer.wait(DEADLINE_S)
        writer.stdout.close()
        log = ResultLog(tmp_path, Mixed)
        assert log.next >= seen
        assert log.next % 7 == 0
        assert (log.last_ordinal, log.last_count) == (log.next - 1, 1)
        assert numbers(log.read(log.first, 1 << 30, 1 << 30)) == list(range(log.first, log.next))
        log.close()


def test_a_waiting_reader_is_woken_by_windows_and_by_the_end(tmp_path):
    log = ResultLog(tmp_path, Mixed)
    log.begin()
    assert not log.wait(0, 0.01)
    found = []
    reader = threading.Thread(target=lambda: found.extend([log.wait(1, DEADLINE_S), log.wait(2, DEADLINE_S)]))
    reader.start()
    log.append(mixed(0, 1))
    log.append(mixed(1, 1))
    log.end(final=True)
    reader.join(DEADLINE_S)
    assert found == [True, False]
    assert log.state == "ended"
    log.close()


@pytest.fixture
def quick_switches():
    """Threads take turns after every few instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("end", ["close", "remove"])
def test_a_log_that_is_ended_under_its_writer_closes_its_file_once_and_leaves_none_open(tmp_path, quick_switches, end):
    """Else a number that was closed twice, or written to afterwards, may be that of a file of somebody else."""
    unexpected = []
    for number in range(100):
        log = ResultLog(tmp_path / str(number), Mixed, segment_bytes=1)  # every block closes a file and opens another
        writing = threading.Event()

        def write(log=log, writing=writing):
            try:
                while True:
                    log.append(mixed(log.next, 1))
                    writing.set()
            except ChannelError as error:
                if "is closed" not in str(error) and "is removed" not in str(error):
                    unexpected.append(error)
            except BaseException as error:
                unexpected.append(error)

        writer = threading.Thread(target=write)
        writer.start()
        writing.wait(DEADLINE_S)
        try:
            getattr(log, end)()
        except OSError as error:
            unexpected.append(error)
        writer.join(DEADLINE_S)
    handles = [os.readlink(entry) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
    assert not [handle for handle in handles if handle.startswith(str(tmp_path))]
    assert unexpected == []


def test_a_disk_that_takes_no_more_leaves_whole_frames(tmp_path):
    code = f"""
import resource, signal, sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
import test_result_log as t
from gsdm_grid.errors import ChannelError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
log = t.ResultLog({str(tmp_path)!r}, t.Mixed)
first = 0
try:
    while True:
        log.append(t.mixed(first, 500))
        first += 500
except ChannelError as error:
    assert "cannot be written" in str(error), error
assert first == log.next
log.append(t.mixed(first, 1))
print(log.next)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    log = ResultLog(tmp_path)
    assert log.next == int(done.stdout) > 500
    assert numbers(log.read(0, 1 << 30, 1 << 30)) == list(range(log.next))
    log.close()


def test_readers_and_the_writer_do_not_disturb_each_other(tmp_path):
    log = ResultLog(tmp_path, Mixed, keep_bytes=200_000, segment_bytes=10_000)
    log.begin()
    failures, got = [], [0] * 6

    def follow(reader):
        seq = 0
        try:
            while True:
                reading = log.read(seq, max_windows=1 + reader * 20)
                seq += reading.missed
                for first, block in reading.blocks:
                    assert first == seq
                    assert block.n.tolist() == list(range(seq, seq + len(block)))
                    seq += len(block)
                got[reader] = seq
                if not reading.blocks and not log.wait(seq, DEADLINE_S):
                    return
        except BaseException as error:
            failures.append(error)

    readers = [threading.Thread(target=follow, args=(reader,)) for reader in range(6)]
    for reader in readers:
        reader.start()
    for first in range(0, 15_000, 15):
        log.append(mixed(first, 15, ragged=first % 2 == 0))
    log.end(final=True)
    for reader in readers:
        reader.join(DEADLINE_S)
    assert not failures
    assert got == [15_000] * 6
    log.close()


def test_a_querys_results_are_logged(tmp_path, threads_grid, reading, readings):
    made = []

    def opener(stream_type):
        made.append(ResultLog(tmp_path, stream_type))
        return made[-1]

    @sqf(reading, returns=reading, register=False)
    def same(s):
        return current_window(s)

    source = register_input_stream(reading, [readings(100)])
    query = threads_grid.cq(same, [source], [register_result_stream(None, "log", name="kept", log=opener)])
    try:
        query.run().wait(DEADLINE_S)
        (log,) = made
        assert log.state == "ended"
        got = PhysicalWindow.concat([block for _, block in log.read(0).blocks])
        assert got.id.tolist() == list(range(100))
    finally:
        query.drop()
    log.close()
