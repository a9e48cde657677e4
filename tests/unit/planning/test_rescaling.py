"""What allows a running query to be given another plan, and what its operators are told of the past."""

import pytest

from gsdm_grid import PCC, Radio, central, current_window, parallelize, pipe, sliding_window, sqf
from gsdm_grid.compiler import compile_flow, moved, rescaling_obstacle
from gsdm_grid.errors import PlanError
from gsdm_grid.plan import StreamSpec

SLIDING = {"size": 4, "step": 1}


def plan(flow):
    return compile_flow("q", flow, [StreamSpec("in", "synthetic_radio", Radio)], [StreamSpec("out", "null")])


def in_parts(degree):
    return plan(parallelize("aggregate", SLIDING, "window_distribute", degree))


def by_key(degree):
    return plan(PCC(degree, ("hashpart", {"key": "ts"}), "aggregate", SLIDING, "S-Merge"))


def operators(made, function):
    return sorted(one.id for site in made.sites for one in site.operators if one.function["name"] == function)


def left(made, **held):
    """What the operators of a plan leave: nothing but these windows."""
    told = {one.id: None for site in made.sites for one in site.operators} | held
    return {name: {"state": None, "numbered": 0, "held": windows} for name, windows in told.items()}


def held(made):
    return {name: memory["held"] for name, memory in made.items() if memory.get("held") is not None}


def move(before, after, memories):
    return moved(before, after, memories, bytes, bytes)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (in_parts(2), in_parts(3)),
        (plan(central("aggregate", SLIDING)), in_parts(3)),
        (in_parts(3), plan(central("aggregate", SLIDING))),
        (by_key(3), by_key(3)),
    ],
    ids=["parts to parts", "central to parts", "parts to central", "by key, as many"],
)
def test_windows_that_are_kept_do_not_stand_in_the_way(before, after):
    assert rescaling_obstacle(before, after) is None


@sqf(Radio, init=list, register=False)
def remembers(s, state):
    return current_window(s)


@sqf(Radio, kind="combining", register=False)
def pairs(s):
    return sliding_window(s[0], 2)[0]


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (by_key(2), by_key(3), "holds several windows at a time of a part of the stream"),
        (by_key(2), in_parts(2), "holds several windows at a time of a part of the stream"),
        (in_parts(2), plan(central("fft3")), "holds several windows at a time"),
        (plan(central(remembers)), plan(central(remembers)), "does not say how to rescale"),
        (plan(PCC(2, "RRpart", "fft3", {}, pairs)), plan(central("fft3")), "'pairs.0' holds several windows at a time"),
    ],
    ids=["by key, more", "by key to parts of as many", "another function", "state", "combining"],
)
def test_what_cannot_be_moved_is_said_before_anything_is_touched(before, after, told):
    assert told in rescaling_obstacle(before, after)


def in_stages(first, second):
    return plan(pipe(first, second))


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (
            in_stages(PCC(2, "RRpart", "fft3", {}, "S-Merge"), central("aggregate", SLIDING)),
            in_stages(
                PCC(2, "RRpart", "fft3", {}, "S-Merge"), parallelize("aggregate", SLIDING, "window_distribute", 2)
            ),
            "would be numbered otherwise",
        ),
        (
            plan(PCC(2, "RRpart", "PCC", [2, ("overlap_part", SLIDING), "aggregate", SLIDING, "S-Merge"], "S-Merge")),
            plan(PCC(2, "RRpart", "PCC", [3, ("overlap_part", SLIDING), "aggregate", SLIDING, "S-Merge"], "S-Merge")),
            "of a part of the stream",
        ),
    ],
    ids=["numbers begin in between", "partitions of different streams"],
)
def test_plans_that_do_not_correspond_are_refused(before, after, told):
    assert told in rescaling_obstacle(before, after)


def test_a_merge_that_holds_windows_hands_them_to_one_of_as_many_streams():
    before = by_key(2)
    (merge,) = operators(before, "S-Merge")
    memories = left(before)
    memories[merge]["state"] = b"pending"
    assert move(before, by_key(2), memories)[merge]["state"] == b"pending"
    with pytest.raises(PlanError, match=r"'S-Merge.0' holds windows that the new plan has no place for"):
        move(before, by_key(3), memories)
    with pytest.raises(PlanError, match="remembers what the new plan has no place for"):
        move(before, plan(central("aggregate", SLIDING)), memories)


def test_every_new_partition_begins_with_what_the_fullest_old_one_held():
    before, after = in_parts(2), in_parts(3)
    first, second = operators(before, "overlap_part")
    memories = left(before, **{first: {"at": 3, "windows": b"less"}, second: {"at": 0, "windows": b"more"}})
    assert held(move(before, after, memories)) == {
        name: {"at": 0, "windows": b"more"} for name in operators(after, "overlap_part")
    }


def test_partitions_hand_their_windows_to_a_function_without_partitions_and_back():
    windows = {"at": -2, "windows": b"seen"}
    parted, single = in_parts(2), plan(central("aggregate", SLIDING))
    (function,) = operators(single, "aggregate")
    there = move(parted, single, left(parted, **dict.fromkeys(operators(parted, "overlap_part"), windows)))
    assert held(there) == {function: windows}
    back = move(single, parted, left(single, **{function: windows}))
    assert held(back) == dict.fromkeys(operators(parted, "overlap_part"), windows)


def test_what_a_function_behind_partitions_still_has_is_of_no_use():
    before, after = in_parts(2), in_parts(2)
    memories = left(before, **{name: {"at": 0, "windows": b"rest"} for name in operators(before, "aggregate")})
    assert held(move(before, after, memories)) == {}


def test_a_stage_that_stays_keeps_its_own_windows():
    def flow(degree):
        return plan(pipe(PCC(degree, "RRpart", "fft3", {}, "S-Merge"), central("aggregate", SLIDING)))

    (function,) = operators(flow(1), "aggregate")
    windows = {"at": 0, "windows": b"three of four"}
    assert held(move(flow(1), flow(3), left(flow(1), **{function: windows}))) == {function: windows}


def test_windows_that_nobody_knew_of_are_not_lost_silently():
    before, after = plan(PCC(1, "RRpart", "fft3", {}, "S-Merge")), plan(PCC(2, "RRpart", "fft3", {}, "S-Merge"))
    memories = left(before, **{operators(before, "fft3")[0]: {"at": 0, "windows": b"unexpected"}})
    with pytest.raises(PlanError, match=r"'fft3.0' holds windows that the new plan has no place for"):
        move(before, after, memories)


def test_state_moves_from_a_central_plan_to_a_parallel_one():
    @sqf(Radio, init=int, rescale=lambda states, n: [sum(states), *[0] * (n - 1)], register=False)
    def counts(s, state):
        return current_window(s)

    before, after = plan(central(counts)), plan(PCC(2, "RRpart", counts, {}, "S-Merge"))
    (function,) = operators(before, "counts")
    memories = {function: {"state": b"7", "numbered": 0, "held": None}}
    told = moved(before, after, memories, int, lambda state: str(state).encode())
    assert [told[name]["state"] for name in operators(after, "counts")] == [b"7", b"0"]
