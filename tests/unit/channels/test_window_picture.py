import io

import numpy as np
import pytest

from gsdm_grid import Radio, create_stream_type
from gsdm_grid.errors import QueryError
from gsdm_grid.interfaces.window_picture import COLUMNS, WindowPicture, drawable
from gsdm_grid.model import Ragged, TypeRegistry

Mixed = create_stream_type(
    "Mixed",
    {"name": "string", "level": "float64", "trace": "vector of float32", "wave": "vector of complex64"},
    registry=TypeRegistry(),
)
Text = create_stream_type("Text", {"name": "string"}, registry=TypeRegistry())


def block(count=3, length=8, first=0):
    rows = np.arange(first, first + count)
    return Mixed.block(
        ts=rows * 10**9,
        name=[str(row) for row in rows],
        level=rows.astype(np.float64),
        trace=(rows[:, None] + np.arange(length)).astype(np.float32),
        wave=np.full((count, length), 10j, np.complex64),
    )


def pixels(picture):
    from matplotlib.image import imread

    return imread(io.BytesIO(picture.png()))


def colors(picture):
    return len(np.unique((pixels(picture) * 255).astype(np.uint8).reshape(-1, 4), axis=0))


def test_vectors_are_drawn_before_numbers_and_text_never():
    assert drawable(Mixed) == "trace"
    assert drawable(Radio) == "x"
    with pytest.raises(QueryError, match="'Text' has no numbers"):
        drawable(Text)
    with pytest.raises(QueryError, match="'name' has no numbers"):
        WindowPicture(Mixed, "name")


@pytest.mark.parametrize("attribute", ["level", "trace", "wave"])
def test_every_kind_of_number_gives_a_picture(attribute):
    picture = WindowPicture(Mixed, attribute)
    picture.take(block(20))
    assert pixels(picture).shape[1] == 900
    assert colors(picture) > 16


def test_a_picture_changes_with_its_windows():
    picture = WindowPicture(Mixed)
    picture.take(block(5))
    before = picture.png()
    picture.take(block(5, first=5))
    assert picture.png() != before


def test_a_picture_of_many_windows_has_the_newest():
    many, few = WindowPicture(Mixed, rows=4), WindowPicture(Mixed, rows=4)
    many.take(block(50))
    many.take(block(50, first=50))
    few.take(block(4, first=96))
    assert many.png() == few.png()


def test_a_long_vector_keeps_its_peak():
    picture = WindowPicture(Mixed, "trace", rows=1)
    trace = np.zeros((1, 100_000), np.float32)
    trace[0, 77_777] = 5
    picture.take(Mixed.block(ts=[0], name=["a"], level=[0.0], trace=trace, wave=np.zeros((1, 1), np.complex64)))
    drawn = picture._rows[0]
    assert COLUMNS / 2 < drawn.size <= COLUMNS
    assert drawn.max() == 5


def test_vectors_of_different_lengths_and_none_at_all_are_drawn():
    picture = WindowPicture(Mixed)
    ragged = Ragged(np.ones(12, np.float32), np.array([0, 3, 3, 12]))
    picture.take(
        Mixed.block(ts=[0, 1, 2], name=list("abc"), level=np.zeros(3), trace=ragged, wave=np.ones((3, 2), np.complex64))
    )
    assert colors(picture) > 16


def test_a_spectrum_has_its_lowest_frequency_on_the_left():
    picture = WindowPicture(Mixed, "wave", rows=1, sample_rate=2e6)
    wave = np.zeros((1, 8), np.complex64)
    wave[0, 4] = 1  # half the sample rate, which is the lowest frequency as well
    picture.take(Mixed.block(ts=[0], name=["a"], level=[0.0], trace=np.zeros((1, 1), np.float32), wave=wave))
    assert picture._rows[0].argmax() == 0
    assert picture._axis() == (-1.0, 1.0, "frequency [MHz]")


def test_a_page_needs_nothing_else_and_a_title_is_text():
    picture = WindowPicture(Mixed, title="<script>alert(1)</script>")
    picture.take(block())
    page = picture.html(refresh_s=2).decode()
    assert 'http-equiv="refresh" content="2"' in page
    assert "data:image/png;base64," in page
    assert "<script" not in page
    assert "http:" not in page.replace("http-equiv", "")
    assert "refresh" not in picture.html().decode()


def test_without_windows_there_is_no_picture():
    with pytest.raises(QueryError, match="at least one window"):
        WindowPicture(Mixed).png()
