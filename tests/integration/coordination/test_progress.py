"""What a person sees while Ray and Spark are being started."""

import re
import sys

import pytest

from gsdm_grid import Grid, Settings, register_input_stream
from gsdm_grid.hosts import ThreadPool


class Engine(ThreadPool):
    """Threads behind something that must be started first."""

    started = False
    starts = True

    def warm(self):
        self.started = self.starts

    def inventory(self):
        return {"started": self.started}


@pytest.fixture
def engines():
    return {"ray": Engine(), "spark": Engine()}


def run_twice(settings, engines, reading, readings):
    with Grid("grid", settings, pools=engines) as grid:
        for _ in range(2):
            query = grid.cq("identity", [register_input_stream(reading, [readings(3)])])
            assert len(list(query.run())) == 3
            query.drop()


def test_a_grid_says_once_that_ray_and_spark_are_being_started(engines, reading, readings, capsys):
    run_twice(Settings(progress=True), engines, reading, readings)
    out, err = capsys.readouterr()
    assert not out
    lines = [re.sub(r"[\d.]+ s", "1 s", line) for line in err.splitlines()]
    assert [line for line in lines if "Spark" in line] == ["Spark: starting …", "Spark: started (1 s)"]
    assert {line for line in lines if "Ray" in line} <= {"Ray: starting …", "Ray: started (1 s)"}


@pytest.mark.parametrize(
    ("progress", "terminal", "said"), [(None, True, True), (None, False, False), (False, True, False)]
)
def test_unless_told_otherwise_a_grid_speaks_at_a_terminal_only(
    engines, reading, readings, capsys, monkeypatch, progress, terminal, said
):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    run_twice(Settings(progress=progress), engines, reading, readings)
    assert ("Spark: starting …" in capsys.readouterr().err) == said


def test_a_grid_speaks_in_a_notebook(engines, reading, readings, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    run_twice(Settings(), engines, reading, readings)
    assert "Spark: starting …" in capsys.readouterr().err


def test_an_engine_that_could_not_be_started_is_not_said_to_have_started(engines, reading, readings, capsys):
    engines["spark"].starts = False
    run_twice(Settings(progress=True), engines, reading, readings)
    assert "Spark: could not be started" in capsys.readouterr().err
