"""Showing a picture on the screen of whoever sits at this machine, if there is one."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

VIEWER = "xdg-open"
SCREENS = ("DISPLAY", "WAYLAND_DISPLAY")


def open_picture(path: Path, environment: Mapping[str, str]) -> bool:
    """Open a picture in the usual program. Says whether there is a screen and such a program; does not wait for it."""
    viewer = shutil.which(VIEWER, path=environment.get("PATH"))
    if viewer is None or not any(environment.get(screen) for screen in SCREENS):
        return False
    subprocess.Popen(
        [viewer, str(path)],
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    return True
