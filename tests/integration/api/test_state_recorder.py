"""States of a query on the grid, as they are stored."""

import pytest

from api.operations import CrashWatch, Operations
from api.queries import QueryRows, StateRecorder
from api.store import Store
from gsdm_grid import Grid, Radio, register_input_stream
from gsdm_grid.errors import NodeLost
from gsdm_grid.testing import eventually


class Recording:
    """A query on a grid of threads, which should run, and what was stored and asked for since."""

    def __init__(self, tmp_path):
        self.store = Store(f"sqlite:///{tmp_path / 'store.sqlite'}")
        self.rows = QueryRows(self.store)
        self.rows.add("q", {"name": "q"}, "token", limit=1)
        self.rows.update("q", desired="active")
        self.carried_out = []
        self.operations = Operations(self.store, lambda operation: self.carried_out.append(operation["action"]))
        self.states = StateRecorder(self.rows, self.operations, CrashWatch(self.store, lambda name: {}), restarts=1)
        self.states.start()
        self.grid = Grid("threads", on_change=self.states.on_change)
        self.query = self.grid.cq("identity", [register_input_stream(Radio, [], "memory")], name="q")

    def lose_a_node(self):
        """Gives what is stored then."""
        self.query.state, self.query.error = "failed", NodeLost("q/compute.0", "gone")
        self.states.on_change(self.query)
        self.states.settle()
        return self.rows.row("q")

    def close(self):
        self.grid.close()
        self.operations.close()
        self.states.close()
        self.store.close()


@pytest.fixture
def recording(tmp_path):
    recording = Recording(tmp_path)
    yield recording
    recording.close()


def test_a_query_that_lost_a_node_is_brought_back_and_has_another_version(recording):
    version = recording.rows.row("q")["version"]
    row = recording.lose_a_node()
    assert (row["state"], row["desired"], row["version"]) == ("failed", "active", version + 1)
    assert recording.rows.events("q", 1)[0]["detail"].endswith("it is brought back")
    eventually(lambda: recording.carried_out, lambda actions: actions == ["recover"])


def test_a_query_that_loses_nodes_over_and_over_has_failed(recording):
    recording.lose_a_node()
    eventually(lambda: recording.operations.unfinished("q"), lambda unfinished: not unfinished)
    row = recording.lose_a_node()
    assert (row["state"], row["desired"], row["failure"]["action"]) == ("failed", "failed", "run")
    assert recording.carried_out == ["recover"]


def test_what_changes_while_the_coordinator_ends_is_not_stored(recording):
    recording.states.freeze()
    assert recording.lose_a_node()["state"] == "specified"
