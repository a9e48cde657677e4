"""Law: whatever plan the optimizer may choose gives the windows of the central plan, in the same order."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsdm_grid import Radio
from gsdm_grid.optimizer.candidates import Candidate, Stage, planned_flow
from gsdm_grid.optimizer.plan_space import Limits, PlanSpace

WORKS = {
    "fft3": (Stage.of("fft3"),),
    "aggregate": (Stage.of("aggregate", {"size": 3, "step": 2}),),
    "pipe": (Stage.of("fft3"), Stage.of("xmagn", {"threshold": 8.0}), Stage.of("polarize")),
}
LIMITS = {"fft3": Limits(most=8, runs=(1, 3)), "aggregate": Limits(most=8), "pipe": Limits(most=4)}


@pytest.fixture(scope="module")
def spaces():
    return {name: PlanSpace(work, LIMITS[name]).plans() for name, work in WORKS.items()}


@pytest.mark.parametrize("name", WORKS)
@settings(max_examples=12)
@given(data=st.data())
def test_every_plan_in_the_space_equals_the_central_plan(
    name, data, spaces, radio_block, cut, run_in_threads, assert_equal_streams
):
    plan = data.draw(st.sampled_from(spaces[name]))
    count = data.draw(st.integers(0, 40))
    blocks = cut(radio_block(count, 16), data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
    work = WORKS[name]
    central = planned_flow(work, Candidate((None,) * len(work)))
    expected = run_in_threads(central, Radio, blocks)
    found = run_in_threads(planned_flow(work, plan), Radio, blocks)
    assert_equal_streams(found, expected, rtol=1e-3, atol=1e-3)
