"""The law: however often the writer of a result log is restarted, and however little is kept, the log goes on where it
was, and each reader gets under every number that is kept the window of that number, and is told how many are not."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gsdm_grid.model import TypeRegistry, create_stream_type
from gsdm_grid.storage.result_log import ResultLog

Numbered = create_stream_type("RestartedResult", {"n": "int64", "v": "vector of int8"}, registry=TypeRegistry())


def results(ordinals, first, stop):
    """Windows of a stream of which several may have one ordinal."""
    rows = np.arange(first, stop)
    vectors = [np.full(row % 40, row % 100, np.int8) for row in rows]
    return Numbered.block(ts=rows * 10, n=rows, v=vectors).stamped(ordinals=ordinals[first:stop])


def place_of(ordinals, count):
    """The last ordinal of so many windows, and how many have it."""
    if not count:
        return None, 0
    last = int(ordinals[count - 1])
    return last, int((ordinals[:count] == last).sum())


class Reader:
    """Reads at its own pace, and knows what it should see."""

    def __init__(self, ordinals):
        self.ordinals = ordinals
        self.at = 0

    def read(self, log, data):
        reading = log.read(self.at, data.draw(st.integers(1, 30), "windows"), data.draw(st.integers(1, 3000), "bytes"))
        assert reading.missed == max(log.first - self.at, 0)
        self.at += reading.missed
        assert reading.blocks or self.at == log.next
        for first, block in reading.blocks:
            assert first == self.at
            rows = np.arange(first, first + len(block))
            assert block.n.tolist() == rows.tolist()
            assert list(block.ordinals) == self.ordinals[first : first + len(block)].tolist()
            assert all(vector.tolist() == [row % 100] * (row % 40) for row, vector in zip(rows, block.v, strict=True))
            self.at += len(block)
        assert reading.next == self.at


@settings(max_examples=60)
@given(data=st.data())
def test_readers_of_a_log_that_is_restarted_and_keeps_little_see_each_number_as_it_was(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("log")
    limits = {
        "keep_bytes": data.draw(st.sampled_from([1500, 5000, 1 << 20]), "keep"),
        "segment_bytes": data.draw(st.sampled_from([300, 2000, 1 << 20]), "segment"),
    }
    step = st.integers(0, 2) | st.just(0)  # windows of one ordinal may be more than what is kept
    steps = np.array(data.draw(st.lists(step, min_size=80, max_size=80), "steps"), np.int64)
    ordinals = np.cumsum(steps)
    log, position, readers = ResultLog(folder, Numbered, **limits), 0, [Reader(ordinals), Reader(ordinals)]
    while log.next < len(ordinals):
        step = data.draw(st.sampled_from(["append", "append", "read", "restart"]), "step")
        if step == "append":
            stop = min(position + data.draw(st.integers(1, 20), "size"), len(ordinals))
            before = log.next
            log.append(results(ordinals, position, stop))
            assert log.next == max(before, stop)
            position = stop
        elif step == "read":
            data.draw(st.sampled_from(readers), "reader").read(log, data)
        else:
            if data.draw(st.booleans(), "closed"):  # or killed
                log.close()
            log = ResultLog(folder, **limits)
            log.resume()
            last, _ = place_of(ordinals, log.next)
            restart = 0 if last is None else data.draw(st.integers(0, last), "from ordinal")
            position = int(np.searchsorted(ordinals, restart))
        assert (log.last_ordinal, log.last_count) == place_of(ordinals, log.next)
    for reader in readers:
        while reader.at < log.next:
            reader.read(log, data)
    log.remove()
