import io
import json

import numpy as np
import pytest
from rich.console import Console

from gsdm_grid.apps.plan_picture import draw_plan, functions_of
from gsdm_grid.apps.radio.demo import STRATEGIES, DemoOptions, DemoReport, Measured, OrderCheck, run_demo
from gsdm_grid.apps.radio.demo_view import LiveView, PlainView, headline, show_report
from gsdm_grid.coordination import Grid, register_input_stream
from gsdm_grid.errors import QueryError
from gsdm_grid.functions.library.radio import Radio
from gsdm_grid.model import PhysicalWindow


def block(first, count, time=None):
    signal = np.zeros((count, 4), np.complex64)
    times = np.arange(first, first + count) if time is None else np.asarray(time)
    made = Radio.block(ts=times, x=signal, y=signal, z=signal)
    return made.stamped(ordinals=range(first, first + count))


def run(tmp_path, view_class, terminal):
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=100, height=40)
    options = DemoOptions(windows=12, window=256, placement="threads", out=tmp_path / "out")
    console.print(headline(options))
    with view_class(console) as view:
        report = run_demo(options, view)
    show_report(report, console)
    return report, text.getvalue()


@pytest.mark.parametrize(("view", "terminal"), [(PlainView, False), (LiveView, True)])
def test_all_plans_are_equal_to_the_central_one_and_in_order(tmp_path, view, terminal):
    report, shown = run(tmp_path, view, terminal)
    told = json.loads(json.dumps(report.to_json()))
    assert told["ok"] is True
    assert list(told["strategies"]) == ["central", "window_distribute", "window_split", "tree", "pipe"]
    assert told["strategies"]["tree"]["degree"] == 4
    for one in told["strategies"].values():
        assert (one["windows"], one["windows_compared"]) == (12, 12)
        assert one["mb_s"] > 0
        assert one["in_order"]
        assert one["equals_central"]
    assert {path.name for path in report.pictures} >= {"waterfall.png", "flow-tree.png"}
    assert all(path.stat().st_size > 1000 for path in report.pictures)
    assert "window distribute" in shown
    assert str(report.pictures[0].name) in shown


def test_the_report_is_not_ok_without_all_plans():
    assert not DemoReport([Measured(STRATEGIES[0])]).ok


@pytest.mark.parametrize("wrong", [{"in_order": False}, {"difference": "I differs in window 3"}])
def test_the_report_is_not_ok_if_one_plan_is_not(wrong):
    measured = [Measured(strategy) for strategy in STRATEGIES]
    assert DemoReport(measured).ok
    measured[2] = Measured(STRATEGIES[2], **wrong)
    assert not DemoReport(measured).ok
    text = io.StringIO()
    show_report(DemoReport(measured), Console(file=text, width=120))
    assert wrong.get("difference", "no") in text.getvalue()


def test_order_is_followed_over_blocks():
    order = OrderCheck()
    for start in (0, 3, 6):
        order.take(block(start, 3))
    assert order.ok
    assert order.windows == 9


@pytest.mark.parametrize("second", [block(4, 2), block(2, 2), block(3, 2, time=[2, 5]), block(3, 2, time=[5, 4])])
def test_gaps_repetitions_and_time_that_goes_back_are_noticed(second):
    order = OrderCheck()
    order.take(block(0, 3))
    order.take(second)
    assert not order.ok


def test_an_empty_block_does_not_disturb_the_order():
    order = OrderCheck()
    order.take(PhysicalWindow.empty(Radio))
    order.take(block(0, 3))
    assert order.ok


@pytest.mark.parametrize("wrong", [{"windows": 0}, {"window": 15}, {"window": 33}, {"placement": "moon"}])
def test_options_that_make_no_sense_are_refused(wrong):
    with pytest.raises(QueryError, match="demo: "):
        DemoOptions(**wrong).checked()


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
def test_every_plan_can_be_drawn_with_its_hosts(strategy, tmp_path):
    with Grid("grid") as grid:
        source = register_input_stream(Radio, None, "gsdm_grid.apps.radio:SyntheticRadio")
        plan = grid.cq(strategy.flow(), [source]).compile()
    assert draw_plan(plan, tmp_path / "plan.svg", "title").stat().st_size > 1000
    drawn = (tmp_path / "plan.svg").read_text()
    assert "Spark task" in drawn
    assert "polarize" in functions_of(plan, "compute.0") or strategy.degree > 1 or strategy.name == "pipe"
