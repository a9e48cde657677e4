"""Queries that need hosts of several kinds, when there are not enough for all of them."""

import threading
import time

import pytest

from gsdm_grid import PCC, Grid, Settings, register_input_stream, register_result_stream
from gsdm_grid.errors import NodeLost, ResourceError
from gsdm_grid.hosts import ThreadPool
from gsdm_grid.spec import parse_demands
from gsdm_grid.testing import eventually


class FakeCluster:
    """So many hosts, which pools of several kinds share."""

    def __init__(self, hosts):
        self.free = hosts
        self.changed = threading.Condition()


class FakePool(ThreadPool):
    """Threads, as many as a cluster has hosts for; whoever finds none waits."""

    def __init__(self, cluster):
        super().__init__()
        self._cluster = cluster

    def start(self, request):
        cluster, wanted, until_s = self._cluster, len(request.bootstraps), time.monotonic() + request.deadline_s
        with cluster.changed:
            while cluster.free < wanted:
                request.waiting(f"it needs {wanted} hosts, free are {cluster.free}")
                if time.monotonic() > until_s:
                    raise ResourceError(f"query {request.query!r} found no hosts")
                cluster.changed.wait(0.02)
            cluster.free -= wanted
        group = super().start(request)
        stop = group.stop

        def give_back(timeout_s):
            left = stop(timeout_s)
            with cluster.changed:
                cluster.free += wanted
                cluster.changed.notify_all()
            return left

        group.stop = give_back
        return group


class SlowPool(ThreadPool):
    """Threads that take a while to be taken leave of."""

    def start(self, request):
        group = super().start(request)
        stop = group.stop

        def later(timeout_s):
            left = stop(timeout_s)
            time.sleep(0.5)
            return left

        group.stop = later
        return group


def test_a_query_that_failed_may_be_installed_again_while_its_hosts_are_still_being_ended(reading, readings):
    settings = Settings(start_timeout_s=5)
    with Grid("ray", settings, pools={"ray": SlowPool()}) as grid:
        query = grid.cq("identity", [register_input_stream(reading, [readings(30)])])
        query.install()
        failing = threading.Thread(target=query._fail, args=(NodeLost("q/compute.0", "pulled the plug"),))
        failing.start()
        eventually(lambda: query.state == "failed")
        assert len(list(query.run().results())) == 30
        failing.join(60)


@pytest.fixture
def run(reading, readings):
    """Begin to install a query of two hosts of each kind on a grid of five; gives it and the thread that does it."""
    cluster = FakeCluster(5)
    with Grid("grid", pools={"ray": FakePool(cluster), "spark": FakePool(cluster)}) as grid:

        def begin(name, deadline_s=60):
            source = register_input_stream(reading, [readings(30)])
            flow = PCC(2, "RRpart", "identity", {}, "S-Merge")
            demands = parse_demands({"deadline_s": deadline_s})
            query = grid.cq(flow, [source], [register_result_stream()], name=name, demands=demands)
            failed = []

            def install():
                try:
                    query.run()
                except ResourceError as error:
                    failed.append(str(error))

            thread = threading.Thread(target=install)
            thread.start()
            return query, thread, failed

        yield begin


def test_of_queries_that_each_could_hold_a_part_one_runs_and_the_others_hold_nothing(run):
    began = [run(f"q{number}") for number in range(4)]
    waiting = list(began)
    while waiting:
        query, thread, failed = eventually(
            lambda: next((one for one in waiting if one[0].state in ("active", "installed")), None)
        )
        assert len(list(query.results())) == 30
        thread.join(60)
        assert not failed
        query.drop()
        waiting = [one for one in waiting if one[0] is not query]


def test_who_is_not_served_yet_says_so_and_gives_up_at_its_deadline(run):
    first, thread, _ = run("first")
    thread.join(60)
    second, holds, _ = run("second")
    eventually(lambda: second.waiting)
    third, gives_up, failed = run("third", deadline_s=1)
    eventually(lambda: third.waiting or failed)
    gives_up.join(60)
    assert failed == ["query 'third' found no hosts within 1 s: it is the turn of a query that came before it"]
    first.drop()
    holds.join(60)
    assert second.state in ("active", "installed")
    second.drop()
