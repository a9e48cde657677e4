"""The Spark cluster follows what is claimed: the cluster, with a thread of its own, over fake daemons."""

import threading

import pytest

from gsdm_grid.errors import ResourceError
from gsdm_grid.hosts.executors import Executor
from gsdm_grid.hosts.spark_daemon import MasterRole
from gsdm_grid.testing import eventually
from resource_manager.spark_cluster import SparkCluster
from resource_manager.spark_fleet import FleetSettings

SIZE = 4


# -- the cluster, over daemons that are made up ----------------------------------------------------------------------


class FakeDaemon:
    """A daemon that is there at once; its executor runs as many tasks as a test says."""

    def __init__(self, name, role):
        self.name, self.role = name, role
        self.tasks = 0
        self.draining = self.killed = False
        self.reason = None
        self.unwell = None

    def url(self):
        if self.unwell:
            raise ResourceError(self.unwell)
        return f"spark://127.0.0.1:{self.role.port or 7077}" if isinstance(self.role, MasterRole) else "http://here"

    def ended(self):
        return self.reason

    def decommission(self):
        self.draining = True

    def stop(self):
        self.reason = "stopped"

    def kill(self):
        self.killed = True


class FakeDaemons:
    """Daemons for at most so many slots at a time; the rest waits for room."""

    def __init__(self, room=100, at_a_time=100):
        self.started = []
        self._room, self._at_a_time = room, at_a_time

    def connect(self):
        pass

    def address(self):
        return "127.0.0.1"

    def room(self, slots):
        return self._room

    def start(self, name, role, secret):
        self.started.append(FakeDaemon(name, role))
        return self.started[-1]

    @property
    def workers(self):
        return [one for one in self.started if not isinstance(one.role, MasterRole) and one.reason is None]

    @property
    def masters(self):
        return [one for one in self.started if isinstance(one.role, MasterRole)]

    def observe(self):
        there = self.workers[: self._at_a_time // SIZE]
        return [Executor(one.name, SIZE, one.tasks) for one in there if not (one.draining and one.tasks == 0)]


@pytest.fixture
def daemons():
    return FakeDaemons()


@pytest.fixture
def cluster_of():
    made = []

    def make(daemons, **settings):
        cluster = SparkCluster(daemons, FleetSettings(slots=SIZE, **{"linger_s": 0.0, **settings}))
        cluster.watch(daemons.observe)
        made.append(cluster)
        return cluster

    yield make
    for cluster in made:
        cluster.close()


def patiently(_reason):
    pass


def test_workers_come_with_claims_and_go_with_them(daemons, cluster_of):
    cluster = cluster_of(daemons)
    claim = cluster.claim("q", 6)
    claim.wait(10, patiently)
    assert len(daemons.workers) == 2
    assert cluster.inventory()["claimed"] == {"q": 6}
    claim.keep(3)
    eventually(lambda: len(daemons.workers) == 1)
    claim.keep(0)
    eventually(lambda: not daemons.workers)
    eventually(lambda: all(one.killed for one in daemons.started[1:]))


def test_a_worker_with_tasks_stays_until_they_have_ended(daemons, cluster_of):
    cluster = cluster_of(daemons)
    claim = cluster.claim("q", 8)
    claim.wait(10, patiently)
    busy, idle = daemons.workers
    busy.tasks = 1
    claim.keep(0)
    eventually(lambda: idle.reason)
    assert busy.reason is None
    assert not busy.draining
    busy.tasks = 0
    eventually(lambda: busy.reason)


def test_a_lost_worker_is_replaced(daemons, cluster_of):
    cluster = cluster_of(daemons)
    cluster.claim("q", 4).wait(10, patiently)
    lost = daemons.workers[0]
    lost.reason = "killed"
    eventually(lambda: daemons.workers and daemons.workers != [lost])
    eventually(lambda: cluster.inventory()["slots"] == 4)
    assert lost.killed


def test_a_worker_that_does_not_start_is_replaced_and_whoever_waits_is_told(cluster_of):
    daemons = FakeDaemons(at_a_time=0)
    cluster = cluster_of(daemons)
    claim = cluster.claim("q", 4)
    reasons = []

    def waiting(reason):
        reasons.append(reason)
        for one in daemons.workers:
            one.unwell = "no java"
        if len(daemons.started) > 2:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        claim.wait(20, waiting)
    assert any("was lost: no java" in reason for reason in reasons)


def test_a_lost_master_comes_back_at_its_address_with_what_it_remembered(daemons, cluster_of):
    cluster = cluster_of(daemons)
    assert cluster.application()["spark.master"] == "spark://127.0.0.1:7077"
    daemons.masters[0].reason = "killed"
    eventually(lambda: len(daemons.masters) == 2)
    assert daemons.masters[1].role.port == 7077
    assert daemons.masters[1].role.recovery == daemons.masters[0].role.recovery


def test_what_there_will_never_be_is_refused_at_once(cluster_of):
    cluster = cluster_of(FakeDaemons(room=8))
    with pytest.raises(ResourceError, match=r"query 'q' asks for 9 Spark tasks .* room for 8, in workers of 4 slots"):
        cluster.claim("q", 9)
    assert cluster.inventory()["waiting"] == {}


def test_who_finds_no_slot_waits_with_a_reason_and_gets_one_when_another_query_ends(cluster_of):
    cluster = cluster_of(FakeDaemons(at_a_time=4))
    first = cluster.claim("first", 4)
    first.wait(10, patiently)
    second = cluster.claim("second", 2)
    reasons = []

    def waiting(reason):
        reasons.append(reason)
        first.keep(0)

    second.wait(10, waiting)
    assert "it asks for 2 slots; 4 slots are there, of which other queries have 4" in reasons[0]


def test_who_waits_too_long_is_told_what_there_is_and_claims_nothing(cluster_of):
    daemons = FakeDaemons(at_a_time=4)
    cluster = cluster_of(daemons)
    cluster.claim("first", 4).wait(10, patiently)
    with pytest.raises(ResourceError, match=r"'second' found no Spark tasks in 0\.1 s: it asks for 4 slots; 4 slots"):
        cluster.claim("second", 4).wait(0.1, patiently)
    eventually(lambda: len(daemons.workers) == 1)
    assert cluster.inventory()["waiting"] == {}


def test_spare_slots_are_there_before_anybody_claims_them(daemons, cluster_of):
    cluster = cluster_of(daemons, spare_slots=3)
    cluster.application()
    eventually(lambda: cluster.inventory()["slots"] == 4)


def test_closing_ends_everything_and_whoever_waits(cluster_of):
    daemons = FakeDaemons(at_a_time=0)
    cluster = cluster_of(daemons)
    claim = cluster.claim("q", 1)
    closer = threading.Thread(target=cluster.close)

    def waiting(_reason):
        if not closer.is_alive():
            closer.start()

    with pytest.raises(ResourceError, match="is being closed"):
        claim.wait(10, waiting)
    closer.join(60)
    assert all(one.killed for one in daemons.started)
    with pytest.raises(ResourceError, match="closed"):
        cluster.claim("q", 1)
