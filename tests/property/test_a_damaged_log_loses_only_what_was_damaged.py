"""The law: whatever happens to the files of a result log, each window that is read is the one that was written under
its number, only windows of damaged frames are missing, and readers are told how many."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gsdm_grid.model import TypeRegistry, create_stream_type
from gsdm_grid.storage.result_log import ResultLog

Numbered = create_stream_type("DamagedResult", {"n": "int64", "v": "vector[7] of float32"}, registry=TypeRegistry())


def numbered(first, count):
    rows = np.arange(first, first + count)
    vectors = np.repeat(rows[:, None], 7, axis=1).astype(np.float32)
    return Numbered.block(ts=rows * 10, n=rows, v=vectors).stamped(ordinals=rows * 3 + 7)


def write(log, counts):
    """Append blocks; gives each frame as (file, first byte, byte after the last, windows)."""
    written = []
    for count in counts:
        seq = log.next
        log.append(numbered(seq, count))
        file = max(log.path.glob("*.log"))
        start = max((end for path, _, end, _ in written if path == file), default=0)
        written.append((file, start, file.stat().st_size, range(seq, seq + count)))
    return written


def harm(data, file, in_place):
    """Damage a file somewhere; gives the bytes that were harmed."""
    content = bytearray(file.read_bytes())
    start = data.draw(st.integers(0, len(content) - 1), "place")
    end = data.draw(st.integers(start + 1, min(start + 600, len(content))), "end")
    kinds = ["bit", "noise", "zeros", "tail"] if in_place else ["bit", "noise", "zeros", "tail", "removed", "inserted"]
    kind = data.draw(st.sampled_from(kinds), "kind")
    if kind == "bit":
        end = start + 1
        content[start] ^= 1 << data.draw(st.integers(0, 7), "bit")
    elif kind == "noise":
        content[start:end] = data.draw(st.binary(min_size=end - start, max_size=end - start))
    elif kind == "zeros":
        content[start:end] = bytes(end - start)
    elif kind == "tail":
        end = len(content)
        del content[start:]
    elif kind == "removed":
        del content[start:end]
    else:
        content[start:start] = data.draw(st.binary(min_size=1, max_size=50) | st.just(b"GSRL" * 20))
        end = start + 1
    with file.open("r+b") as target:  # the same file, as somebody may have it open
        target.truncate(0)
        target.write(content)
    return start, end


def read_all(log, data):
    """Numbers that were read, and how many windows were missed."""
    seq, seen, missed = 0, [], 0
    while seq < log.next:
        reading = log.read(seq, data.draw(st.integers(1, 60)), data.draw(st.integers(1, 4000)))
        missed += reading.missed
        seq += reading.missed
        for first, block in reading.blocks:
            assert first == seq
            rows = np.arange(seq, seq + len(block))
            assert list(block.ordinals) == (rows * 3 + 7).tolist()
            assert block.n.tolist() == rows.tolist()
            assert (block.v == rows[:, None]).all()
            seen += rows.tolist()
            seq += len(block)
        assert reading.next == seq
    return seen, missed


@settings(max_examples=200)
@given(data=st.data())
def test_what_is_read_of_a_damaged_log_is_as_it_was_written(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("log")
    log = ResultLog(folder, Numbered, segment_bytes=data.draw(st.sampled_from([500, 3000, 1 << 20])))
    written = write(log, data.draw(st.lists(st.integers(1, 20), min_size=1, max_size=25)))
    while_open = data.draw(st.booleans(), "while open")
    if not while_open or data.draw(st.booleans(), "opened again"):
        log.close()
        log = ResultLog(folder)
    if not while_open:
        log.close()
    files = sorted({file for file, *_ in written})
    harmed = []
    for file in data.draw(st.lists(st.sampled_from(files), unique=True, max_size=3), "files"):
        if data.draw(st.integers(0, 4), "deleted") == 0:
            harmed.append((file, 0, file.stat().st_size))
            file.unlink()
        else:
            harmed.append((file, *harm(data, file, while_open)))
    if not while_open:
        log = ResultLog(folder)
    broken = {
        seq
        for file, start, end, windows in written
        if any(file == other and start < b and a < end for other, a, b in harmed)
        for seq in windows
    }
    total = written[-1][-1].stop
    seen, missed = read_all(log, data)
    assert len(seen) + missed == log.next
    assert log.lost == missed - log.first
    assert set(range(total)) - set(seen) <= broken
    if while_open:
        assert log.next == total
        log.close()
        log = ResultLog(folder)
    goes_on = log.next
    log.append(numbered(goes_on, 3))
    assert read_all(log, data)[0][-3:] == [goes_on, goes_on + 1, goes_on + 2]
    log.remove()
