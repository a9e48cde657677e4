"""The Spark cluster follows what is claimed: its size as a pure function, and the cluster over fake daemons."""

from hypothesis import given
from hypothesis import strategies as st

from resource_manager.spark_slots import (
    DRAIN_S,
    Decommission,
    EndWorker,
    SlotBook,
    StartWorkers,
    WorkerState,
    next_steps,
)

SIZE = 4
LINGER_S = 10.0
NOW_S = 100.0


@st.composite
def worker_lists(draw):
    workers = []
    for number in range(draw(st.integers(0, 8))):
        registered = draw(st.booleans())
        tasks = draw(st.integers(0, SIZE)) if registered else 0
        idle = registered and tasks == 0
        since = draw(st.floats(0, NOW_S)) if idle else None
        workers.append(WorkerState(f"w{number}", SIZE, registered, draw(st.booleans()), tasks, since))
    return workers


def carried_out(workers, steps):
    """The workers after the steps."""
    ended = {step.name for step in steps if isinstance(step, EndWorker)}
    drained = {step.name for step in steps if isinstance(step, Decommission)}
    left = [
        WorkerState(one.name, one.slots, one.registered, one.draining or one.name in drained, one.tasks)
        for one in workers
        if one.name not in ended
    ]
    new = sum(step.count for step in steps if isinstance(step, StartWorkers))
    return left + [WorkerState(f"new{number}", SIZE) for number in range(new)]


def capacity(workers):
    return sum(one.slots for one in workers if not one.draining)


@given(worker_lists(), st.integers(0, 40))
def test_a_worker_that_runs_a_task_is_left_alone(workers, wanted):
    busy = {one.name for one in workers if one.tasks}
    steps = next_steps(NOW_S, workers, wanted, SIZE, LINGER_S)
    assert not busy & {step.name for step in steps if not isinstance(step, StartWorkers)}


@given(worker_lists(), st.integers(0, 40))
def test_what_is_kept_serves_all_that_is_claimed(workers, wanted):
    after = carried_out(workers, next_steps(NOW_S, workers, wanted, SIZE, LINGER_S))
    assert capacity(after) >= wanted


@given(worker_lists(), st.integers(0, 40))
def test_workers_are_not_started_and_ended_for_the_same_reason(workers, wanted):
    steps = next_steps(NOW_S, workers, wanted, SIZE, LINGER_S)
    grows = any(isinstance(step, StartWorkers) for step in steps)
    draining = {one.name for one in workers if one.draining}
    shrinks = any(not isinstance(step, StartWorkers) and step.name not in draining for step in steps)
    assert not (grows and shrinks)
    again = next_steps(NOW_S, carried_out(workers, steps), wanted, SIZE, LINGER_S)
    assert not any(isinstance(step, StartWorkers) for step in again)


def test_no_more_workers_are_started_than_are_missing():
    workers = [WorkerState("a", SIZE, registered=True, tasks=4)]
    assert next_steps(NOW_S, workers, 9, SIZE, LINGER_S) == [StartWorkers(2)]


def test_an_idle_worker_goes_after_a_while_and_the_longest_idle_first():
    workers = [
        WorkerState("a", SIZE, registered=True, idle_since_s=NOW_S - LINGER_S + 1),
        WorkerState("b", SIZE, registered=True, idle_since_s=NOW_S - LINGER_S),
        WorkerState("c", SIZE, registered=True, idle_since_s=NOW_S - LINGER_S - 1),
    ]
    assert next_steps(NOW_S, workers, 8, SIZE, LINGER_S) == [Decommission("c")]
    assert next_steps(NOW_S, workers, 0, SIZE, LINGER_S) == [Decommission("c"), Decommission("b")]


def test_a_worker_that_is_not_needed_before_it_is_there_goes_at_once():
    assert next_steps(NOW_S, [WorkerState("a", SIZE)], 0, SIZE, LINGER_S) == [EndWorker("a")]


def test_a_draining_worker_is_ended_when_its_executor_is_gone_or_has_long_been_idle():
    running = WorkerState("a", SIZE, registered=True, draining=True, tasks=1)
    idle = WorkerState("b", SIZE, registered=True, draining=True, idle_since_s=NOW_S - 1)
    stuck = WorkerState("c", SIZE, registered=True, draining=True, idle_since_s=NOW_S - DRAIN_S)
    gone = WorkerState("d", SIZE, draining=True)
    assert next_steps(NOW_S, [running, idle, stuck, gone], 0, SIZE, 0.0) == [EndWorker("c"), EndWorker("d")]


@given(st.lists(st.integers(1, 6), max_size=8), st.integers(0, 30), st.integers(0, 10))
def test_claims_are_granted_in_their_order_and_never_beyond_what_is_there(claims, registered, tasks):
    book = SlotBook()
    made = [book.claim(f"q{number}", slots) for number, slots in enumerate(claims)]
    book.grant(registered, tasks)
    granted = [claim.granted for claim in made]
    assert granted == sorted(granted, reverse=True)
    assert book.granted == 0 or book.granted + tasks <= registered
    assert book.wanted == sum(claims)


def test_slots_that_are_given_back_go_to_who_waits_when_their_tasks_have_ended():
    book = SlotBook()
    first, second = book.claim("first", 3), book.claim("second", 3)
    book.grant(registered=4, tasks=0)
    assert (first.granted, second.granted) == (True, False)
    book.keep(first, 1)
    book.grant(registered=4, tasks=3)  # two of the tasks have not noticed yet
    assert not second.granted
    book.grant(registered=4, tasks=1)
    assert second.granted
