"""The program that shows a picture is started."""

from gsdm_grid.apps.demo.picture_viewer import VIEWER, open_picture
from gsdm_grid.testing import eventually


def test_a_picture_is_opened_on_a_screen(tmp_path):
    viewer = tmp_path / VIEWER
    viewer.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/opened\n')
    viewer.chmod(0o755)
    assert open_picture(tmp_path / "waterfall.png", {"DISPLAY": ":1", "PATH": f"{tmp_path}:/bin:/usr/bin"})
    opened = tmp_path / "opened"
    assert eventually(lambda: opened.exists() and opened.read_text()) == f"{tmp_path}/waterfall.png\n"
