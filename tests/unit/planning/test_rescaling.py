"""What allows a running query to be given another plan, and what its operators are told of the past."""

import pytest

from gsdm_grid import PCC, Radio, central, current_window, parallel, parallelize, pipe, sliding_window, sqf
from gsdm_grid.compiler import compile_flow, moved, rescaling_obstacle
from gsdm_grid.errors import PlanError
from gsdm_grid.plan import StreamSpec

SLIDING = {"size": 4, "step": 1}
LESS, MORE = {"at": 3, "count": 1, "windows": b"less"}, {"at": 0, "count": 4, "windows": b"more"}


def plan(flow):
    return compile_flow("q", flow, [StreamSpec("in", "synthetic_radio", Radio)], [StreamSpec("out", "null")])


def in_parts(degree):
    return plan(parallelize("aggregate", SLIDING, "window_distribute", degree))


def by_key(degree):
    return plan(PCC(degree, ("hashpart", {"key": "ts"}), "aggregate", SLIDING, "S-Merge"))


def operators(made, function):
    return sorted(one.id for site in made.sites for one in site.operators if one.function["name"] == function)


def snapshot(windows=None, memory=None):
    return {"kept": [windows], "memory": memory, "progress": b"far", "numbered": 0}


def left(made, **held):
    """What the operators of a plan leave: nothing but these windows."""
    kept = {one.id: None for site in made.sites for one in site.operators} | held
    return {name: snapshot(windows) for name, windows in kept.items()}


def held(inherited):
    assert all(one["progress"] is None for one in inherited.values())  # it would mean something else there
    return {name: one["kept"][0] for name, one in inherited.items() if one["kept"]}


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
    pending = {"at": 0, "count": 3, "windows": b"pending"}
    memories[merge]["kept"] = [None, pending]
    inherited = move(before, by_key(2), memories)[merge]
    assert (inherited["kept"], inherited["progress"]) == ([None, pending], b"far")
    with pytest.raises(PlanError, match=r"'S-Merge.0' holds windows that the new plan has no place for"):
        move(before, by_key(3), memories)
    with pytest.raises(PlanError, match="remembers what the new plan has no place for"):
        move(plan(central(remembers)), before, {"remembers.0": snapshot(memory=b"7")})


def test_a_merge_that_holds_nothing_begins_anew():
    before = by_key(2)
    inherited = move(before, by_key(3), left(before))
    assert inherited["S-Merge.0"] == {"kept": [], "memory": None, "progress": None, "numbered": 0}


def test_a_join_by_key_goes_on_with_all_that_it_remembers():
    inputs = [StreamSpec(name, "synthetic_radio", Radio) for name in ("a", "b")]
    flow = pipe(parallel(2, "identity"), central("key_join", {"key": "ts"}, 2))
    before, after = (compile_flow("q", flow, inputs, [StreamSpec("out", "null")]) for _ in range(2))
    assert rescaling_obstacle(before, after) is None
    inherited = move(before, after, left(before))["key_join.0"]
    assert (inherited["kept"], inherited["progress"]) == ([None], b"far")


def test_every_new_partition_begins_with_what_the_fullest_old_one_held():
    before, after = in_parts(2), in_parts(3)
    first, second = operators(before, "overlap_part")
    memories = left(before, **{first: LESS, second: MORE})
    assert held(move(before, after, memories)) == dict.fromkeys(operators(after, "overlap_part"), MORE)


def test_partitions_hand_their_windows_to_a_function_without_partitions_and_back():
    windows = {"at": -2, "count": 2, "windows": b"seen"}
    parted, single = in_parts(2), plan(central("aggregate", SLIDING))
    (function,) = operators(single, "aggregate")
    there = move(parted, single, left(parted, **dict.fromkeys(operators(parted, "overlap_part"), windows)))
    assert held(there) == {function: windows}
    back = move(single, parted, left(single, **{function: windows}))
    assert held(back) == dict.fromkeys(operators(parted, "overlap_part"), windows)


def test_what_a_function_behind_partitions_still_has_is_of_no_use():
    before, after = in_parts(2), in_parts(2)
    memories = left(
        before, **{name: {"at": 0, "count": 1, "windows": b"rest"} for name in operators(before, "aggregate")}
    )
    assert held(move(before, after, memories)) == {}


def test_a_stage_that_stays_keeps_its_own_windows():
    def flow(degree):
        return plan(pipe(PCC(degree, "RRpart", "fft3", {}, "S-Merge"), central("aggregate", SLIDING)))

    (function,) = operators(flow(1), "aggregate")
    windows = {"at": 0, "count": 3, "windows": b"three of four"}
    assert held(move(flow(1), flow(3), left(flow(1), **{function: windows}))) == {function: windows}


def test_windows_that_nobody_knew_of_are_not_lost_silently():
    before, after = plan(PCC(1, "RRpart", "fft3", {}, "S-Merge")), plan(PCC(2, "RRpart", "fft3", {}, "S-Merge"))
    memories = left(before, **{operators(before, "fft3")[0]: {"at": 0, "count": 1, "windows": b"unexpected"}})
    with pytest.raises(PlanError, match=r"'fft3.0' holds windows that the new plan has no place for"):
        move(before, after, memories)


def test_state_moves_from_a_central_plan_to_a_parallel_one():
    @sqf(Radio, init=int, rescale=lambda states, n: [sum(states), *[0] * (n - 1)], register=False)
    def counts(s, state):
        return current_window(s)

    before, after = plan(central(counts)), plan(PCC(2, "RRpart", counts, {}, "S-Merge"))
    (function,) = operators(before, "counts")
    memories = {function: snapshot(memory=b"7")}
    told = moved(before, after, memories, int, lambda state: str(state).encode())
    assert [told[name]["memory"] for name in operators(after, "counts")] == [b"7", b"0"]
