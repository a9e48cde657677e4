import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsdm_grid import register_input_stream, register_result_stream
from gsdm_grid.errors import ChannelError, QueryError, SchemaError
from gsdm_grid.functions import current_window, sqf
from gsdm_grid.interfaces import InterfaceContext, interfaces
from gsdm_grid.model import PhysicalWindow, TypeRegistry, create_stream_type
from gsdm_grid.storage.result_log import ResultLog, ResultLogSink

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


def read_all(log, seq=0, **limits):
    got = []
    while (reading := log.read(seq, **limits)).blocks:
        assert not reading.missed
        for first, block in reading.blocks:
            assert first == seq
            assert len(block)
            got.append(block)
            seq += len(block)
        assert reading.next == seq
    return PhysicalWindow.concat([PhysicalWindow.empty(log.type), *got])


def assert_same(got, expected):
    assert len(got) == len(expected)
    assert list(got.ordinals) == list(expected.ordinals)
    for name in expected.columns:
        for one, other in zip(got[name], expected[name], strict=True):
            assert np.array_equal(one, other), name


def test_what_was_appended_is_read_with_its_ordinals(tmp_path):
    log = ResultLog(tmp_path / "log", Mixed)
    blocks = [mixed(0, 3), mixed(3, 5, ragged=True), mixed(8, 2, ordinals=np.array([40, 44])), mixed(10, 1)]
    for block in blocks:
        log.append(block)
    assert (log.first, log.next) == (0, 11)
    assert_same(read_all(log), PhysicalWindow.concat(blocks))
    log.close()


@pytest.mark.parametrize("limits", [{"max_windows": 1}, {"max_windows": 3}, {"max_bytes": 1}, {"max_bytes": 300}])
def test_blocks_are_cut_to_the_limits_of_a_reading(tmp_path, limits):
    log = ResultLog(tmp_path, Mixed)
    whole = mixed(0, 20)
    for part in (whole[:7], whole[7:8], whole[8:]):
        log.append(part)
    for seq in range(21):
        assert_same(read_all(log, seq, **limits), whole[seq:])
    reading = log.read(2, **limits)
    assert sum(len(block) for _, block in reading.blocks) <= limits.get("max_windows", 5)
    log.close()


def test_reading_beyond_the_end_gives_nothing(tmp_path):
    log = ResultLog(tmp_path, Mixed)
    assert log.read(0) == (0, [], 0)
    log.append(mixed(0, 2))
    assert log.read(2) == (0, [], 2)
    assert log.read(99) == (0, [], 99)
    log.close()


def test_windows_before_the_first_were_not_missed_but_never_were(tmp_path):
    log = ResultLog(tmp_path, Mixed)
    log.append(mixed(0, 3))
    with pytest.raises(QueryError, match="numbered from 0: there is no window -2"):
        log.read(-2)
    log.close()


def test_the_oldest_windows_go_when_there_are_too_many_bytes(tmp_path):
    log = ResultLog(tmp_path, Mixed, keep_bytes=40_000, segment_bytes=8_000)
    for first in range(0, 2000, 10):
        log.append(mixed(first, 10))
        assert log.kept_bytes <= 40_000
    on_disk = sum(path.stat().st_size for path in tmp_path.glob("*.log"))
    assert on_disk == log.kept_bytes
    assert 0 < log.first < 2000 == log.next
    reading = log.read(5, max_windows=10_000)
    assert reading.missed == log.first - 5
    assert numbers(reading) == list(range(log.first, 2000))
    log.close()
    again = ResultLog(tmp_path, None, keep_bytes=40_000)
    assert (again.first, again.next) == (log.first, 2000)
    assert numbers(again.read(0, max_windows=10_000)) == list(range(log.first, 2000))
    again.close()


def test_a_block_larger_than_all_that_is_kept_fits(tmp_path):
    log = ResultLog(tmp_path, Mixed, keep_bytes=1000, segment_bytes=500)
    log.append(mixed(0, 10))
    large = mixed(10, 5000, length=40)
    log.append(large)
    assert log.first == 10
    assert_same(read_all(log, 10), large)
    log.append(mixed(5010, 1))
    assert (log.first, log.next) == (5010, 5011)
    log.close()


def test_blocks_that_were_read_stay_valid_after_their_file_is_gone(tmp_path):
    log = ResultLog(tmp_path, Mixed, keep_bytes=10_000)
    log.append(mixed(0, 10))
    ((_, block),) = log.read(0).blocks
    for first in range(10, 1000, 10):
        log.append(mixed(first, 10))
    assert log.first > 10
    assert_same(block, mixed(0, 10))
    log.close()


@pytest.mark.parametrize("torn", [1, 31, 40, 200])
def test_a_torn_last_frame_is_cut_off(tmp_path, torn):
    log = ResultLog(tmp_path, Mixed)
    log.append(mixed(0, 3))
    whole = log.kept_bytes
    log.append(mixed(3, 3))
    log.close()
    (file,) = tmp_path.glob("*.log")
    os.truncate(file, whole + torn)
    again = ResultLog(tmp_path, Mixed)
    assert (again.next, again.kept_bytes, file.stat().st_size) == (3, whole, whole)
    again.append(mixed(3, 2))
    assert_same(read_all(again), mixed(0, 5))
    again.close()


@pytest.mark.parametrize("place", [0, 6, 10, 20, 100, -1])
def test_a_damaged_last_frame_is_cut_off(tmp_path, place):
    log = ResultLog(tmp_path, Mixed)
    log.append(mixed(0, 3))
    whole = log.kept_bytes
    log.append(mixed(3, 3))
    log.close()
    (file,) = tmp_path.glob("*.log")
    data = bytearray(file.read_bytes())
    data[whole + place if place >= 0 else -1] ^= 0x55
    file.write_bytes(data)
    again = ResultLog(tmp_path, None)
    assert again.next == 3
    assert numbers(again.read(0)) == [0, 1, 2]
    again.close()


def flip(file, place):
    data = bytearray(file.read_bytes())
    data[place] ^= 0x55
    file.write_bytes(data)


@pytest.mark.parametrize("number", [1, -1])
def test_a_flipped_bit_loses_one_block_and_readers_are_told(tmp_path, caplog, number):
    log = ResultLog(tmp_path, Mixed, segment_bytes=4000)
    for first in range(0, 200, 5):
        log.append(mixed(first, 5))
    log.close()
    file = sorted(tmp_path.glob("*.log"))[number]
    flip(file, 1000)
    again = ResultLog(tmp_path)
    assert again.next == 200
    before = again.read(0, 1000)
    assert numbers(before) == list(range(before.next))
    assert before.next >= int(file.stem)
    after = again.read(before.next, 1000)
    assert after.missed == 5 == again.lost
    assert numbers(after) == list(range(before.next + 5, 200))
    (record,) = caplog.records
    assert str(file) in record.message
    assert f"5 windows of a result log are lost, {before.next} to {before.next + 4}: bytes" in record.message
    again.read(before.next, 1000)
    assert len(caplog.records) == 1
    again.close()


def test_damage_under_an_open_log_is_found_when_it_is_read(tmp_path):
    log = ResultLog(tmp_path, Mixed)
    for first in range(0, 20, 5):
        log.append(mixed(first, 5))
    (file,) = tmp_path.glob("*.log")
    flip(file, file.stat().st_size // 2 - 20)
    assert numbers(log.read(0)) == [0, 1, 2, 3, 4]
    assert log.read(5).missed == 5
    assert numbers(log.read(5)) == list(range(10, 20))
    log.append(mixed(20, 5))
    assert numbers(log.read(10)) == list(range(10, 25))
    log.close()


def test_a_file_that_disappears_is_a_gap(tmp_path):
    log = ResultLog(tmp_path, Mixed, segment_bytes=1000)
    for first in range(0, 60, 5):
        log.append(mixed(first, 5))
    files = sorted(tmp_path.glob("*.log"))
    files[1].unlink()
    first, following = int(files[1].stem), int(files[2].stem)
    for opened in (log, ResultLog(tmp_path)):
        assert numbers(opened.read(0)) == list(range(first))
        assert opened.read(first).missed == following - first
        assert numbers(opened.read(first)) == list(range(following, 60))
        opened.close()


def test_a_torn_tail_that_is_cut_off_is_logged(tmp_path, caplog):
    log = ResultLog(tmp_path, Mixed)
    log.append(mixed(0, 3))
    whole = log.kept_bytes
    log.append(mixed(3, 3))
    log.close()
    (file,) = tmp_path.glob("*.log")
    os.truncate(file, whole + 40)
    ResultLog(tmp_path).close()
    (record,) = caplog.records
    assert f"bytes {whole} to {whole + 40} of {file} are cut off, after window 2" in record.message
    ResultLog(tmp_path).close()
    assert len(caplog.records) == 1


def test_windows_of_the_last_ordinal_are_counted_over_a_gap(tmp_path):
    log = ResultLog(tmp_path, Mixed)
    log.append(mixed(0, 4, ordinals=np.array([3, 3, 5, 5])))
    place = log.kept_bytes + 100
    log.append(mixed(4, 3, ordinals=np.full(3, 5)))
    log.append(mixed(7, 2, ordinals=np.full(2, 5)))
    log.close()
    (file,) = tmp_path.glob("*.log")
    flip(file, place)
    again = ResultLog(tmp_path)
    assert (again.last_ordinal, again.last_count, again.lost) == (5, 7, 3)
    again.close()


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


def test_an_opened_log_knows_how_many_windows_have_the_last_ordinal(tmp_path):
    log = ResultLog(tmp_path, Mixed, segment_bytes=1000)
    assert (log.last_ordinal, log.last_count) == (None, 0)
    log.append(mixed(0, 4, ordinals=np.array([3, 3, 5, 5])))
    assert (log.last_ordinal, log.last_count) == (5, 2)
    for first in range(4, 104, 20):
        log.append(mixed(first, 20, ordinals=np.full(20, 5)))
    assert (log.last_ordinal, log.last_count) == (5, 102)
    log.append(mixed(104, 1, ordinals=range(5, 6)))
    assert (log.last_ordinal, log.last_count) == (5, 103)
    log.close()
    again = ResultLog(tmp_path)
    assert (again.last_ordinal, again.last_count) == (5, 103)
    again.append(mixed(105, 3, ordinals=range(6, 9)))
    assert (again.last_ordinal, again.last_count) == (8, 1)
    again.close()


def test_an_opened_log_whose_ordinals_began_anew_counts_those_at_its_end(tmp_path):
    log = ResultLog(tmp_path, Mixed)
    log.append(mixed(0, 3, ordinals=np.array([98, 99, 100])))
    log.append(mixed(3, 2, ordinals=np.array([4, 4])))
    log.close()
    again = ResultLog(tmp_path)
    assert (again.last_ordinal, again.last_count) == (log.last_ordinal, log.last_count) == (4, 2)
    again.close()


@settings(max_examples=60)
@given(data=st.data())
def test_resuming_anywhere_before_the_end_doubles_and_loses_nothing(tmp_path_factory, data):
    steps = data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=40))
    places = np.cumsum(steps)
    stream = mixed(0, len(places), ordinals=places)
    logged = data.draw(st.integers(0, len(places)))
    known = int(places[logged - 1]) if logged else 0
    restart = int(np.searchsorted(places, data.draw(st.integers(0, known))))  # engines resume between ordinals
    log = ResultLog(tmp_path_factory.mktemp("log"), Mixed)

    def write(start, stop):
        while start < stop:
            size = data.draw(st.integers(1, 7))
            log.append(stream[start : min(start + size, stop)])
            start += size

    write(0, logged)
    log.resume()
    write(restart, len(places))
    assert log.duplicates == logged - restart
    assert_same(read_all(log), stream)
    log.remove()


def test_nothing_is_left_out_without_resumption(tmp_path):
    log = ResultLog(tmp_path, Mixed)
    log.append(mixed(0, 3))
    log.append(mixed(0, 3))
    assert numbers(log.read(0)) == [0, 1, 2, 0, 1, 2]
    assert log.duplicates == 0
    log.close()


def test_opening_with_another_type_is_refused(tmp_path):
    ResultLog(tmp_path, Mixed).close()
    other = create_stream_type("LoggedOther", {"n": "int64"}, registry=TypeRegistry())
    with pytest.raises(SchemaError, match="LoggedOther"):
        ResultLog(tmp_path, other)
    with pytest.raises(ChannelError, match="no result log"):
        ResultLog(tmp_path / "elsewhere")


def files_of_a_log(path):
    log = ResultLog(path, Mixed)
    for first in range(0, 20, 5):
        log.append(mixed(first, 5))
    log.close()
    return path / "type.json"


@given(data=st.data())
def test_a_damaged_type_is_named_to_readers_and_written_anew_by_who_knows_it(tmp_path_factory, data):
    file = files_of_a_log(tmp_path_factory.mktemp("log"))
    content = bytearray(file.read_bytes())
    if data.draw(st.booleans(), "cut"):
        del content[data.draw(st.integers(0, len(content) - 1), "length") :]
    else:
        content[data.draw(st.integers(0, len(content) - 1), "place")] ^= 1 << data.draw(st.integers(0, 7), "bit")
    file.write_bytes(content)
    try:
        found = ResultLog(file.parent)
    except ChannelError:
        with pytest.raises(ChannelError, match=f"{re.escape(str(file))}' is damaged .*: open it once with its stream"):
            ResultLog(file.parent)
        found = ResultLog(file.parent, Mixed)
    assert found.type == Mixed
    assert_same(read_all(found), mixed(0, 20))
    found.close()
    again = ResultLog(file.parent)
    assert again.type == Mixed
    again.remove()


def test_a_type_that_is_written_anew_is_logged(tmp_path, caplog):
    file = files_of_a_log(tmp_path)
    assert not caplog.records
    file.write_text('{"name": ')
    ResultLog(tmp_path, Mixed).close()
    file.unlink()
    with pytest.raises(ChannelError, match=r"type\.json' is missing: open it once with its stream type"):
        ResultLog(tmp_path)
    ResultLog(tmp_path, Mixed).close()
    told = [record.getMessage() for record in caplog.records]
    assert [f"{file} is damaged" in told[0], f"{file} is missing" in told[1], len(told)] == [True, True, 2]


def test_a_damaged_type_is_not_replaced_by_one_that_the_windows_are_not_of(tmp_path):
    file = files_of_a_log(tmp_path)
    file.write_bytes(bytes(30))
    other = create_stream_type("LoggedOther", {"n": "int64"}, registry=TypeRegistry())
    with pytest.raises(ChannelError, match=r"cannot be of type LoggedOther.*begin anew"):
        ResultLog(tmp_path, other)
    assert file.read_bytes() == bytes(30)


def test_a_type_of_an_earlier_version_has_no_checksum(tmp_path):
    file = files_of_a_log(tmp_path)
    file.write_text(json.dumps(Mixed.to_json()))
    log = ResultLog(tmp_path)
    assert_same(read_all(log), mixed(0, 20))
    log.close()


def test_a_type_that_cannot_be_read_is_named(tmp_path):
    file = files_of_a_log(tmp_path)
    file.unlink()
    file.mkdir()
    with pytest.raises(ChannelError, match=r"cannot be read: .*type\.json"):
        ResultLog(tmp_path, Mixed)


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


def test_listeners_are_called_until_they_cancel(tmp_path):
    log, heard = ResultLog(tmp_path, Mixed), []
    cancel = log.subscribe(lambda: heard.append((log.state, log.next)))
    log.begin()
    log.append(mixed(0, 2))
    log.end(final=False)
    cancel()
    cancel()
    log.append(mixed(2, 2))
    assert heard == [("writing", 0), ("writing", 2), ("paused", 2)]
    log.close()


def test_a_removed_log_is_gone_and_takes_nothing(tmp_path):
    log = ResultLog(tmp_path / "log", Mixed)
    log.append(mixed(0, 2))
    log.remove()
    assert not (tmp_path / "log").exists()
    assert log.state == "removed"
    assert log.read(0).blocks == []
    with pytest.raises(ChannelError, match="removed"):
        log.append(mixed(2, 2))
    log.end(final=True)
    log.close()
    assert log.state == "removed"


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
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
log = t.ResultLog({str(tmp_path)!r}, t.Mixed)
first = 0
try:
    while True:
        log.append(t.mixed(first, 500))
        first += 500
except t.ChannelError as error:
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


def test_sink_appends_and_tells_readers_what_the_query_does(tmp_path):
    log = ResultLog(tmp_path, Mixed)
    sink = interfaces.get("log")(Mixed, {"log": lambda stream_type: log})
    assert isinstance(sink, ResultLogSink)
    sink.open(InterfaceContext())
    assert log.state == "writing"
    assert sink.ready()
    sink.insert(mixed(0, 4))
    sink.pause()
    sink.close()
    assert log.state == "paused"
    sink.open(InterfaceContext())
    sink.insert(mixed(4, 1))
    sink.close()
    sink.close()
    assert log.state == "idle"
    sink.open(InterfaceContext())
    sink.finish()
    sink.close()
    assert log.state == "ended"
    expected = {"kept_windows": 5, "kept_bytes": log.kept_bytes, "first": 0, "next": 5, "duplicates": 0, "lost": 0}
    assert sink.statistics() == expected
    log.close()


def test_sink_with_a_path_resumes_if_told(tmp_path):
    for resume, numbered in ((False, [0, 1, 2]), (True, [0, 1, 2, 3]), (False, [0, 1, 2, 3, 0, 1, 2, 3])):
        sink = ResultLogSink(Mixed, {"log": tmp_path, "resume": resume})
        sink.open(InterfaceContext())
        sink.insert(mixed(0, 3 if len(numbered) == 3 else 4))
        assert numbers(sink.log.read(0)) == numbered
        sink.close()
    with pytest.raises(QueryError, match="needs option 'log'"):
        ResultLogSink(Mixed, {})


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
