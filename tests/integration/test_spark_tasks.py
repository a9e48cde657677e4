"""Tasks of a Spark job that never return are ended, some or all, and their Python workers with them."""

import contextlib

import psutil
import pytest

from gsdm_grid.hosts.spark_tasks import SparkTasks
from gsdm_grid.testing import eventually

pytestmark = pytest.mark.grid


def stay(folder):
    """A task's function: it never returns, unless it is tried again."""

    def run(batches):
        import os

        for batch in batches:
            (number,) = batch.column(0).to_pylist()
            again = any(name.startswith(f"{number}-") for name in os.listdir(folder))
            open(f"{folder}/{number}-{os.getpid()}", "w").close()
            while not again:
                pass
            yield batch

    return run


def is_gone(pid):
    return not psutil.pid_exists(pid)


@pytest.fixture
def started(pools, tmp_path):
    """A job of two such tasks: its tasks, its thread, and the process of each task."""
    from pyspark import InheritableThread

    session = pools["spark"].session
    tasks = SparkTasks(session.sparkContext, "staying")

    def run():
        tasks.begin()
        with contextlib.suppress(Exception):  # it is cancelled
            session.range(0, 2, 1, 2).mapInArrow(stay(str(tmp_path)), "id long").collect()

    thread = InheritableThread(target=run, session=session, daemon=True)
    thread.start()
    eventually(lambda: len(list(tmp_path.iterdir())) == 2)
    pids = {int(number): int(pid) for number, _, pid in (path.name.partition("-") for path in tmp_path.iterdir())}
    yield tasks, thread, pids
    tasks.cancel()


def test_one_task_is_ended_and_the_other_goes_on(started):
    tasks, thread, pids = started
    assert not tasks.ended({0}, 0.0)
    tasks.end({0})
    assert tasks.ended({0}, 0.0)
    eventually(lambda: is_gone(pids[0]))
    assert psutil.pid_exists(pids[1])
    assert thread.is_alive()


def test_a_cancelled_job_leaves_no_worker_running(started):
    tasks, thread, pids = started
    tasks.cancel()
    thread.join(60)
    assert not thread.is_alive()
    eventually(lambda: all(is_gone(pid) for pid in pids.values()))
