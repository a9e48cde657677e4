"""What is stored of a query when its state has changed."""

import pytest

from api.queries.state_changes import COMEBACK_S, Comebacks, StateChange, may_give_up_hosts
from gsdm_grid.errors import NodeLost, QueryError

RUN = {"stop": {}, "base": 0, "positions": {"in0": 0}, "running": True}
ACTIVATION = {"action": "activate", "id": "op-1"}


def row(desired="active", run=RUN):
    return {"desired": desired, "run": run}


def test_a_run_that_is_over_keeps_how_far_its_inputs_were_read_and_is_not_desired_any_more():
    change = StateChange("q", "installed", 1.0, positions={"in0": 100})
    values = change.values_after(row(), ACTIVATION, is_last=True)
    assert values["run"] == {**RUN, "positions": {"in0": 100}, "running": False}
    assert (values["state"], values["desired"], values["error"], values["failure"]) == ("installed",) * 2 + (None, None)


def test_a_run_that_is_over_while_another_was_asked_for_leaves_the_desired_state_alone():
    change = StateChange("q", "installed", 1.0, positions={"in0": 100})
    assert "desired" not in change.values_after(row(), ACTIVATION, is_last=False)


def test_a_query_that_fails_says_which_operation_failed():
    values = StateChange("q", "failed", 2.0, QueryError("out of luck")).values_after(row(), ACTIVATION, is_last=True)
    assert values["failure"] == {"action": "activate", "operation": "op-1", "at": 2.0}
    assert values["error"]["detail"] == "out of luck"
    assert values["desired"] == "failed"


def test_a_query_that_fails_while_something_else_was_asked_is_still_desired_to_run():
    values = StateChange("q", "failed", 2.0, QueryError("out of luck")).values_after(row(), None, is_last=False)
    assert values["failure"]["action"] == "run"
    assert "desired" not in values


def test_a_query_that_was_compiled_keeps_its_plan():
    values = StateChange("q", "compiled", 1.0, plan={"sites": []}).values_after(row("compiled"), None, is_last=False)
    assert values["plan"] == {"sites": []}
    assert "run" not in values


@pytest.mark.parametrize(
    ("error", "desired", "lost"),
    [
        (NodeLost("q/compute.0", "gone"), "active", True),
        (NodeLost("q/compute.0", "gone"), "compiled", False),
        (QueryError("out of luck"), "active", False),
        (None, "active", False),
    ],
)
def test_only_a_query_that_lost_a_node_and_should_have_it_is_brought_back(error, desired, lost):
    assert StateChange("q", "failed", 1.0, error).lost_hosts(desired) is lost


def test_a_query_is_not_brought_back_over_and_over():
    comebacks = Comebacks(2)
    for at_s in (0.0, 1.0):
        assert comebacks.may_try("q", at_s)
        comebacks.count("q", at_s)
    assert not comebacks.may_try("q", 2.0)
    assert comebacks.may_try("another", 2.0)
    assert comebacks.may_try("q", 3.0 + COMEBACK_S)


def test_only_a_query_that_has_run_and_stopped_gives_up_its_hosts():
    assert may_give_up_hosts(row("installed", {**RUN, "running": False}))
    assert not may_give_up_hosts(row("installed"))
    assert not may_give_up_hosts(row("active", {**RUN, "running": False}))
    assert not may_give_up_hosts(row("installed", None))
    assert not may_give_up_hosts(None)
