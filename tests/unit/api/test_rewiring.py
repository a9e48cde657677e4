"""What a query becomes when it is scaled, or given a chosen plan."""

import pytest

from api.queries.rewiring import PlanChange
from gsdm_grid.errors import FlowError

INPUT = {"type": "Radio", "interface": "synthetic_radio"}
DOCUMENT = {"name": "q", "inputs": [INPUT], "function": "fft3", "plan": "auto"}
CHOSEN = {"optimization": "opt-1", "chosen": "window_distribute x2"}


def test_another_degree_is_in_the_document_and_says_why():
    change = PlanChange.of(DOCUMENT, "scale", {"degree": 3})
    assert change.document["plan"] == {"strategy": "window_distribute", "degree": 3}
    assert change.result == {"degree": 3}
    assert change.explained("sites are busy", 0.25) == "degree 3; sites are busy; stood still for 0.250 s"


def test_a_chosen_plan_is_in_the_document():
    plan = {"plan": {"strategy": "window_distribute", "degree": 2}, "block_bytes": None}
    change = PlanChange.of(DOCUMENT, "replan", {**CHOSEN, "plan": plan})
    assert change.document["plan"] == plan["plan"]
    assert change.result == {"plan": "window_distribute x2"}
    assert change.explained(None, 0.0) == "plan window_distribute x2 of opt-1"


def test_a_query_that_leaves_its_plan_to_the_optimizer_keeps_its_document():
    assert PlanChange.of(DOCUMENT, "replan", {**CHOSEN, "plan": None}).document == DOCUMENT


def test_a_flow_without_a_degree_cannot_be_scaled():
    with pytest.raises(FlowError):
        PlanChange.of({"name": "q", "inputs": [INPUT], "flow": "fft3"}, "scale", {"degree": 3})
