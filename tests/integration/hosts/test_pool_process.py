"""Host pools in a process of their own."""

import os
import threading
from functools import partial

import pytest

from gsdm_grid.errors import ResourceError
from gsdm_grid.hosts import HostRequest
from gsdm_grid.hosts.pool_process import ForwardingPool, PoolProcess


class RefusingGroup:
    """A group that says what it was told."""

    def __init__(self, query):
        self.query = query

    def lost(self):
        return {f"{self.query}/a": "gone"}

    def restart(self, node):
        return node.endswith("a")

    def release(self, nodes, timeout_s):
        return nodes

    def stop(self, timeout_s):
        return [f"{self.query}/b"]


class SlowPool:
    """Waits until it is given up, unless the query is called ``quick``."""

    def start(self, request):
        if request.query == "never":
            raise ResourceError("there is nothing like that here")
        while request.query != "quick":
            threading.Event().wait(0.01)
            request.waiting("all hosts are taken")
        return RefusingGroup(request.query)

    def warm(self):
        pass

    def inventory(self):
        return {"started": True, "pid": os.getpid()}

    def close(self):
        pass


@pytest.fixture(scope="module")
def pool():
    process = PoolProcess("field", partial(dict, slow=SlowPool()))
    made = ForwardingPool(process, "slow")
    assert made.inventory() == {"started": False}
    made.warm()
    yield made
    made.close()
    assert not process.alive


def test_calls_go_to_a_process_of_its_own(pool):
    assert pool.inventory()["pid"] != os.getpid()
    group = pool.start(HostRequest("quick", []))
    assert group.lost() == {"quick/a": "gone"}
    assert group.restart("quick/a")
    assert group.release(["quick/a"], 1.0) == ["quick/a"]
    assert group.stop(1.0) == ["quick/b"]


def test_an_error_there_is_raised_here(pool):
    with pytest.raises(ResourceError, match="there is nothing like that here"):
        pool.start(HostRequest("never", []))


def test_a_request_that_waits_tells_why_and_can_be_given_up(pool):
    told = []

    def waiting(reason):
        told.append(reason)
        if len(told) == 3:
            raise ResourceError("I do not want it any more")

    with pytest.raises(ResourceError, match="do not want it any more"):
        pool.start(HostRequest("slow", [], waiting=waiting))
    assert told == ["all hosts are taken"] * 3
    assert pool.inventory()["started"]


def test_when_the_process_dies_its_nodes_are_lost_and_the_next_start_makes_a_new_one():
    process = PoolProcess("field", partial(dict, slow=SlowPool()))
    pool = ForwardingPool(process, "slow")
    pool.warm()
    group = pool.start(HostRequest("quick", []))
    process._process.kill()
    process._process.join()
    assert group._nodes == []
    assert not group.restart("quick/a")
    group.stop(1.0)
    assert pool.start(HostRequest("quick", [])).restart("a")
    pool.close()
