"""Sharing between processes: the shared part on Ray and Spark, its readers too."""

import os
import signal
import threading

import pytest

from gsdm_grid import PCC, register_input_stream
from gsdm_grid.testing import eventually

DEADLINE_S = 90.0
pytestmark = pytest.mark.slow


@pytest.fixture
def grid(make_grid):
    grid = make_grid("grid")
    yield grid
    for query in list(grid.queries.values()):
        query.drop()


class Collected:
    """Ordinals of a query's results, taken by a thread as they come."""

    def __init__(self, query):
        self.ordinals = []
        self.query = query
        self._thread = threading.Thread(target=self._take, daemon=True)
        self._thread.start()

    def _take(self):
        for block in self.query.blocks():
            self.ordinals.extend(int(ordinal) for ordinal in block.ordinals)

    def finish(self):
        self._thread.join(DEADLINE_S)
        return self.ordinals


def actors():
    """Names of the Ray actors of shared parts."""
    from ray.util import list_named_actors

    return [one["name"] for one in list_named_actors(all_namespaces=True) if "shared:" in one["namespace"]]


@pytest.mark.parametrize("share", [False, True])
def test_queries_on_ray_and_spark_read_a_source_once_and_one_outlives_the_other_s_end_and_death(grid, share):
    radio = register_input_stream("Radio", None, "synthetic_radio", name="radio", shared=True, window=2048, rate=300)
    flow = PCC(1, "RRpart", "fft3", {}, "S-Merge")
    a, b = (grid.cq(flow, [radio], name=f"{name}-{share}", share=share) for name in "ab")
    a.run()
    first = Collected(a)
    eventually(lambda: len(first.ordinals) > 20, timeout_s=DEADLINE_S)
    b.run()
    second = Collected(b)
    eventually(lambda: len(second.ordinals) > 20, timeout_s=DEADLINE_S)
    assert [one["with"] for one in b.shared().values()] == [[a.id]]
    running = [name for name in grid.queries if name.startswith("shared:")]
    assert len(running) == (2 if share else 1)
    assert actors().count("source.0") == 1
    if share:
        a.drop()
    else:
        os.kill(grid.whereabouts(a.node("partition.0"))["pid"], signal.SIGKILL)
        eventually(lambda: a.state == "failed", timeout_s=DEADLINE_S)
    at = len(second.ordinals)
    eventually(lambda: len(second.ordinals) > at + 100, timeout_s=DEADLINE_S)
    b.stop()
    ordinals = second.finish()
    assert ordinals == list(range(ordinals[0], ordinals[0] + len(ordinals)))
    assert ordinals[0] > 0, "it joined in mid-stream"
    assert first.ordinals == list(range(len(first.ordinals)))
    b.drop()
    assert not [name for name in grid.queries if name.startswith("shared:")]
    eventually(lambda: not actors(), timeout_s=DEADLINE_S)
