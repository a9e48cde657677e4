"""Steps of one query's life cycle that are taken at the same time: one of them is taken, the others are refused."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from gsdm_grid import Grid, register_input_stream
from gsdm_grid.errors import GsdmError, InvalidTransition, NodeLost
from gsdm_grid.hosts import ThreadPool
from gsdm_grid.hosts.thread import ThreadGroup
from gsdm_grid.testing import eventually

DEADLINE_S = 30.0


class GatedPool(ThreadPool):
    """Threads that are started when the gate is opened, as hosts that take a while."""

    def __init__(self):
        super().__init__()
        self.asked = 0
        self.gate = threading.Event()

    def start(self, request):
        self.asked += 1
        assert self.gate.wait(DEADLINE_S)
        return super().start(request)


class LateGroup(ThreadGroup):
    """Threads whose nodes register only when the gate is opened, which nobody does before they are to be ended."""

    def __init__(self, *args):
        self.gate = threading.Event()
        self.ending = threading.Event()
        super().__init__(*args)

    def _run(self, bootstrap, live):
        assert self.gate.wait(DEADLINE_S)
        super()._run(bootstrap, live)

    def stop(self, timeout_s):
        self.ending.set()
        return super().stop(timeout_s)


class LatePool(ThreadPool):
    """Starts one `LateGroup`."""

    group = None

    def start(self, request):
        self.group = LateGroup(request.bootstraps, request.live)
        return self.group


@pytest.fixture
def begin(reading, readings):
    """Make a query named ``q`` on hosts of a pool; all is ended after the test."""
    grids = []

    def make(pool):
        pools = {"thread": pool, "local": pool}
        grids.append(Grid("threads", pools=pools))
        return grids[-1].cq("identity", [register_input_stream(reading, [readings(30)])], name="q")

    yield make
    for grid in grids:
        grid.close()


@pytest.fixture
def at_once():
    """Take steps in threads of their own."""
    with ThreadPoolExecutor(4) as threads:
        yield threads.submit


def nodes():
    """Names of the query's working nodes that live in threads of this process."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("q/")]


def test_of_two_installations_at_once_the_second_is_refused(begin, at_once):
    pool = GatedPool()
    query = begin(pool)
    query.compile()
    first = at_once(query.install)
    eventually(lambda: pool.asked)
    second = at_once(query.install)
    refused = eventually(lambda: second.done() or pool.asked > 1) and second.done()
    pool.gate.set()
    assert refused
    with pytest.raises(InvalidTransition, match="being installed"):
        second.result(DEADLINE_S)
    first.result(DEADLINE_S)
    query.activate()
    assert len(list(query.results())) == 30


@pytest.mark.parametrize("step", ["compile", "run"])
def test_while_a_query_is_installed_it_is_neither_compiled_nor_run(begin, at_once, step):
    pool = GatedPool()
    query = begin(pool)
    plan = query.compile()
    installing = at_once(query.install)
    eventually(lambda: pool.asked)
    try:
        with pytest.raises(InvalidTransition, match="being installed"):
            getattr(query, step)()
    finally:
        pool.gate.set()
    installing.result(DEADLINE_S)
    assert query.plan is plan
    assert query.state == "installed"


def test_a_query_dropped_while_it_is_installed_stays_dropped_and_leaves_no_node(begin, at_once):
    pool = GatedPool()
    query = begin(pool)
    installing = at_once(query.install)
    eventually(lambda: pool.asked)
    query.drop()
    pool.gate.set()
    with pytest.raises(GsdmError, match="dropped"):
        installing.result(DEADLINE_S)
    assert query.state == "dropped"
    eventually(nodes, lambda found: not found, DEADLINE_S)


def test_nodes_that_register_after_their_query_was_dropped_are_dropped_at_once(begin, at_once):
    pool = LatePool()
    query = begin(pool)
    installing = at_once(query.install)
    eventually(lambda: pool.group)
    dropping = at_once(query.drop)
    assert pool.group.ending.wait(DEADLINE_S)
    pool.group.gate.set()
    eventually(nodes, lambda found: not found, 5)  # not as orphans, nor at the end of a time limit
    dropping.result(DEADLINE_S)
    with pytest.raises(GsdmError):
        installing.result(DEADLINE_S)


def test_a_query_that_was_uninstalled_while_it_was_activated_has_not_failed(begin):
    query = begin(ThreadPool())
    query.install()
    query.activate()
    query.uninstall()
    query._fail(NodeLost("q/compute.0", "it is gone"))  # as the activation or a node that was under way reports
    assert (query.state, query.error) == ("compiled", None)


def test_a_query_whose_results_have_all_been_read_can_be_run_again_at_once(threads_grid):
    source = register_input_stream("Radio", None, "synthetic_radio", window=64)
    query = threads_grid.cq("identity", [source])
    try:
        ordinals = [int(o) for _ in range(30) for block in query.run(count=3).blocks() for o in block.ordinals]
        assert ordinals == list(range(90))
    finally:
        query.drop()
