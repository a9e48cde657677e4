import pytest

from gsdm_grid.apps.demo.picture_viewer import open_picture
from gsdm_grid.apps.demo.plans import (
    PLANS,
    DemoOptions,
    sink,
    source,
)
from gsdm_grid.compiler import compile_flow, rescaling_obstacle
from gsdm_grid.errors import QueryError
from gsdm_grid.plan import GRID
from gsdm_grid.reports.plan_picture import draw_plan


def compiled(plan, tmp_path, degree=None):
    inputs, outputs = [source(DemoOptions()).spec()], [sink(tmp_path / "kept.npz").spec()]
    return compile_flow(plan.id, plan.flow(DemoOptions().turn, degree), inputs, outputs, GRID)


@pytest.mark.parametrize(
    "wrong", [{"seconds": 0}, {"seconds": float("nan")}, {"window": 15}, {"window": 33}, {"placement": "moon"}]
)
def test_options_that_make_no_sense_are_refused(wrong):
    with pytest.raises(QueryError, match="demo: "):
        DemoOptions(**wrong).checked()


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.id)
def test_every_plan_can_be_drawn_with_its_hosts(plan, tmp_path):
    assert draw_plan(compiled(plan, tmp_path), tmp_path / "plan.svg", "title").stat().st_size > 1000
    drawn = (tmp_path / "plan.svg").read_text()
    assert "Spark task" in drawn
    assert "this process" not in drawn


def test_the_plan_that_grows_can_grow(tmp_path):
    growing = next(plan for plan in PLANS if plan.name == "window_distribute")
    small, large = (compiled(growing, tmp_path, degree) for degree in (1, 2))
    assert rescaling_obstacle(small, large) is None
    assert len(large.sites) == len(small.sites) + 1


@pytest.mark.parametrize("environment", [{"PATH": "/bin"}, {"DISPLAY": ":1", "PATH": "/nowhere"}])
def test_no_picture_is_opened_without_a_screen_or_a_viewer(tmp_path, environment):
    assert not open_picture(tmp_path / "waterfall.png", environment)
