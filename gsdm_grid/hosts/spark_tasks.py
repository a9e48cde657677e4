"""The tasks of one Spark job: which of them run, and ending them by force, on whatever machine they are.

Spark ends the Python worker of a task only if the task is killed and not interrupted. Then the executor's thread goes
on waiting for the worker, Spark notices within two seconds that the task goes on although it was killed, and the daemon
that forked the worker sends it SIGKILL. A thread that is interrupted ends at once, and leaves its worker running: a
function that never returns would keep its core for ever. So nothing is interrupted here.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

END_S = 30.0
"""How long killed tasks may take to end; Spark takes two seconds."""
KILLED_AT_ONCE = {"spark.python.task.killTimeout": "0ms"}
"""Setting of an application: its workers are killed as soon as Spark notices, not two seconds later."""
_LOOK_S = 0.05
_RUNNING, _DONE = "RUNNING", "SUCCESS"
_numbers = itertools.count()


class SparkTasks:
    """Made with the job, which carries its tag: the job groups of a query's jobs are the same. Thread-safe."""

    def __init__(self, context: Any, query: str) -> None:
        self._context = context
        self._query = query
        self.tag = f"gsdm-{next(_numbers)}"

    def begin(self) -> None:
        """The jobs that this thread starts from now on are meant. It must be an ``InheritableThread``."""
        self._context.setJobGroup(self._query, f"compute sites of query {self._query}", interruptOnCancel=False)
        self._context.addJobTag(self.tag)

    def cancel(self) -> None:
        """End the job with all its tasks."""
        self._context.cancelJobsWithTag(self.tag)
        self._wait(lambda: not any(status == _RUNNING for _, _, status in self._attempts()), END_S)

    def end(self, numbers: Collection[int]) -> None:
        """End these tasks, by number; the others go on. Spark tries each once more, in another worker: that has to end
        by itself.
        """
        for number, attempt, status in self._attempts():
            if number in numbers and status == _RUNNING:
                self._context._jsc.sc().killTaskAttempt(attempt, False, f"a site of query {self._query} was released")
        self.ended(numbers, END_S)

    def ended(self, numbers: Collection[int], timeout_s: float) -> bool:
        """Whether these tasks have returned, or do in time."""
        return self._wait(
            lambda: set(numbers) <= {number for number, _, status in self._attempts() if status == _DONE}, timeout_s
        )

    def _wait(self, holds: Callable[[], bool], timeout_s: float) -> bool:
        deadline_s = time.monotonic() + timeout_s
        while not holds():
            if time.monotonic() > deadline_s:
                return False
            time.sleep(_LOOK_S)
        return True

    def _attempts(self) -> Iterator[tuple[int, int, str]]:
        """Number, id and status of each attempt of each task so far."""
        tracker, store = self._context._jsc.sc().statusTracker(), self._context._jsc.sc().statusStore()
        for job in tracker.getJobIdsForTag(self.tag):
            info = self._context.statusTracker().getJobInfo(job)
            for stage in info.stageIds if info is not None else ():
                tasks = store.taskList(stage, 0, 1 << 20)
                for place in range(tasks.size()):
                    task = tasks.apply(place)
                    yield task.index(), task.taskId(), task.status()
