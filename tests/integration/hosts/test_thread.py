"""Working nodes in threads: the cores they share."""

import os

import pytest

from gsdm_grid import Grid, Settings, register_input_stream
from gsdm_grid.errors import QueryError

CORES = os.sched_getaffinity(0)


def cores_of_nodes(reading, readings, thread_cores):
    """The cores that a source on a working node could use."""
    found = []

    def look():
        found.append(os.sched_getaffinity(0))
        yield readings(3)

    with Grid("threads", Settings(thread_cores=thread_cores)) as grid:
        grid.cq("identity", [register_input_stream(reading, None, "memory", items=look())]).run().wait(60)
    return found[0]


def test_nodes_use_all_cores_unless_told_otherwise(reading, readings):
    assert cores_of_nodes(reading, readings, None) == CORES


def test_nodes_keep_to_the_cores_they_are_given_and_nobody_else_does(reading, readings):
    assert len(cores_of_nodes(reading, readings, 1)) == 1
    assert os.sched_getaffinity(0) == CORES


def test_more_cores_than_there_are_is_all_of_them(reading, readings):
    assert cores_of_nodes(reading, readings, 10_000) == CORES


def test_no_cores_at_all_are_refused():
    with pytest.raises(QueryError, match="at least one core, got thread_cores = 0"):
        Grid("threads", Settings(thread_cores=0))
