"""The sink ``visualize`` as queries use it: it draws in a thread of its own, into files or on a screen."""

import io
import os
import shutil
import subprocess

import numpy as np
import pytest
from matplotlib.image import imread

from gsdm_grid import Grid, Radio, central, cq, create_stream_type, register_input_stream, register_result_stream
from gsdm_grid.errors import ChannelError, QueryError
from gsdm_grid.interfaces import InterfaceContext
from gsdm_grid.interfaces.picture_window import PictureWindow, screen
from gsdm_grid.interfaces.visualize import VisualizeSink
from gsdm_grid.model import TypeRegistry
from gsdm_grid.testing import eventually

Level = create_stream_type("Level", {"value": "float64"}, registry=TypeRegistry())


def levels(count, first=0):
    rows = np.arange(first, first + count)
    return Level.block(ts=rows * 10**9, value=np.sin(rows))


@pytest.fixture
def sink(tmp_path):
    """Make open sinks to a file; they are closed after the test."""
    sinks = []

    def make(name="live.png", **options):
        sinks.append(VisualizeSink(Level, {"path": str(tmp_path / name), **options}))
        sinks[-1].open(InterfaceContext())
        return sinks[-1]

    yield make
    for one in sinks:
        one.close()


@pytest.mark.parametrize("name", ["live.png", "live.html"])
def test_a_query_draws_its_newest_results_to_a_file(tmp_path, name):
    with Grid("threads") as grid:
        source = register_input_stream(Radio, interface="synthetic_radio", window=256, limit=50)
        result = register_result_stream(
            str(tmp_path / name), interface="visualize", sample_rate=1_000_000, title="Spectra"
        )
        query = cq(central("fft3"), [source], [result], grid=grid)
        query.run()
        query.wait(60)
        query.drop()
    content = (tmp_path / name).read_bytes()
    assert content.startswith(b"\x89PNG" if name.endswith("png") else b"<!doctype html>")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_the_file_is_written_anew_while_windows_come(sink, tmp_path):
    drawing = sink(every=0.01)
    drawing.insert(levels(10))
    eventually(lambda: drawing.statistics()["pictures"] == 1)
    before = (tmp_path / "live.png").read_bytes()
    drawing.insert(levels(10, 10))
    eventually(lambda: drawing.statistics()["pictures"] == 2)
    assert (tmp_path / "live.png").read_bytes() != before


def test_windows_that_come_faster_than_they_are_drawn_are_counted(sink):
    drawing = sink(every=3600, rows=20)
    for first in range(0, 1000, 10):
        drawing.insert(levels(10, first))
        figures = drawing.statistics()
        assert figures["windows"] == first + 10
        assert figures["windows"] == figures["drawn"] + figures["dropped_undrawn"] + figures["waiting"]
    drawing.close()
    figures = drawing.statistics()
    assert figures["dropped_undrawn"] > 0
    assert figures["windows"] == figures["drawn"] + figures["dropped_undrawn"] == 1000
    assert figures["waiting"] == 0


def test_what_came_last_is_drawn_when_the_sink_is_closed_and_it_goes_on_when_it_is_opened_again(sink, tmp_path):
    drawing = sink(every=3600)
    drawing.insert(levels(5))
    drawing.close()
    first = (tmp_path / "live.png").read_bytes()
    drawing.open(InterfaceContext())
    drawing.insert(levels(5, 5))
    drawing.close()
    drawing.close()
    assert (tmp_path / "live.png").read_bytes() != first
    assert drawing.statistics()["drawn"] == 10


def test_a_picture_that_cannot_be_shown_is_counted_and_logged_and_the_query_goes_on(sink, tmp_path, caplog):
    folder = tmp_path / "gone"
    folder.mkdir()
    drawing = sink("gone/live.png", every=0.01)
    shutil.rmtree(folder)
    drawing.insert(levels(5))
    eventually(lambda: drawing.statistics()["failed_pictures"] == 1)
    assert "cannot be shown" in caplog.text
    folder.mkdir()
    drawing.insert(levels(5))
    eventually(lambda: drawing.statistics()["pictures"] == 1)
    assert imread(io.BytesIO((folder / "live.png").read_bytes())).shape[1] == 900


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "live.gif"}, "png"),
        ({"path": 5}, "5"),
        ({"path": "live.png", "every": 0}, "'every'"),
        ({"path": "live.png", "rows": 1.5}, "'rows'"),
        ({"path": "live.png", "sample_rate": "fast"}, "'sample_rate'"),
        ({"path": "live.png", "attribute": "nothing"}, "nothing"),
        ({"path": "live.png", "colour": "red"}, "colour"),
    ],
)
def test_a_wrong_option_is_refused_at_once(options, message):
    with pytest.raises(QueryError, match=message):
        VisualizeSink(Level, options)


def test_a_folder_that_is_not_there_is_refused_when_the_query_begins(tmp_path):
    with pytest.raises(ChannelError, match="cannot write to the folder"):
        VisualizeSink(Level, {"path": str(tmp_path / "nowhere" / "live.png")}).open(InterfaceContext())


def test_without_a_screen_a_path_is_asked_for(monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    with pytest.raises(ChannelError, match=r"no screen here; give a path to a \.png or \.html file"):
        VisualizeSink(Level, {}).open(InterfaceContext())


@pytest.fixture
def display(monkeypatch):
    """A screen that nobody sees."""
    if shutil.which("Xvfb") is None:
        pytest.skip("no Xvfb on this machine: install the package xvfb")
    reading, writing = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(writing), "-screen", "0", "1280x800x24"],
        pass_fds=[writing],
        stderr=subprocess.DEVNULL,
    )
    os.close(writing)
    with os.fdopen(reading) as numbers:
        monkeypatch.setenv("DISPLAY", f":{numbers.readline().strip()}")
    yield
    server.terminate()
    server.wait(30)


def test_with_a_screen_there_is_a_window_until_the_query_ends(display):
    assert screen()
    drawing = VisualizeSink(Level, {"every": 0.01})
    drawing.open(InterfaceContext())
    try:
        drawing.insert(levels(10))
        eventually(lambda: drawing.statistics()["pictures"] == 1)
        process = drawing._window._process
        assert process.poll() is None
    finally:
        drawing.close()
    assert process.wait(30) == 0


def test_a_window_that_people_closed_is_no_reason_to_end_a_query(display):
    window = PictureWindow("closed")
    window._process.kill()
    window._process.wait()
    assert not window.show(b"a picture")
    window.close()
