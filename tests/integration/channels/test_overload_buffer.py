"""A producer in a thread of its own waits for room in the buffer."""

import threading

import numpy as np

from gsdm_grid.interfaces import EndOfStream
from gsdm_grid.interfaces.overload import OverloadBuffer
from gsdm_grid.model import create_stream_type
from gsdm_grid.testing import eventually

Item = create_stream_type("BufferedItem", {"x": "vector[3] of float64"})
WINDOW_BYTES = 8 + 24


def items(start, count):
    return Item.block(ts=np.arange(start, start + count), x=np.full((count, 3), start))


def accounted(statistics):
    dropped = sum(value for name, value in statistics.items() if name.startswith("dropped_"))
    return statistics["delivered"] + dropped + statistics["buffered"]


def test_blocking_makes_the_producer_wait_and_loses_nothing():
    buffer = OverloadBuffer("block", 10 * WINDOW_BYTES, 3)
    woken = threading.Event()
    buffer.open(woken.set)

    def produce():
        for start in range(0, 1000, 4):
            assert buffer.put(items(start, 4))
        buffer.end()

    producer = threading.Thread(target=produce)
    producer.start()
    eventually(lambda: buffer.statistics()["received"] > buffer.statistics()["buffered"] > 0)
    assert producer.is_alive()
    delivered = []
    try:
        while True:
            block = buffer.take(7)
            if block is None:
                assert woken.wait(60)
                woken.clear()
            else:
                delivered += block.ts.tolist()
    except EndOfStream:
        pass
    producer.join(60)
    assert delivered == list(range(1000))
    assert buffer.statistics()["delivered"] == 1000


def test_closing_lets_a_waiting_producer_go_and_keeps_what_waits():
    buffer = OverloadBuffer("block", 5 * WINDOW_BYTES)
    results = []
    producer = threading.Thread(target=lambda: results.extend(buffer.put(items(s, 5)) for s in (0, 5)))
    producer.start()
    eventually(lambda: buffer.statistics()["received"] == 10)
    buffer.close()
    buffer.close()
    producer.join(60)
    assert results == [True, False]
    buffer.open(lambda: None)
    assert buffer.take(100).ts.tolist() == list(range(5))
    statistics = buffer.statistics()
    assert statistics["dropped_closed"] == 5
    assert accounted(statistics) == 10
