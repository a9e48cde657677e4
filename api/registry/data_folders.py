"""Which files the streams of people who are no admins may touch: those in the coordinator's data folders.

A coordinator without data folders does not limit them. Files are those that an interface says it would read or write
(`StreamInterface.files`). Where links lead is found out when a stream is submitted; who can write to a data folder by
other means could change them later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from api.errors import Problem
from gsdm_grid.errors import FlowError
from gsdm_grid.interfaces import StreamInterface


def check_files(
    interface: type[StreamInterface], options: Mapping[str, Any], place: str, folders: Sequence[Path]
) -> None:
    """Refuse a stream that would touch a file outside of all folders, if there are folders."""
    if not folders:
        return
    for file in interface.files(options):
        if not file.is_absolute():
            raise FlowError(place, f"{str(file)!r:.200} must be an absolute path, in one of: {_shown(folders)}")
        try:
            found = file.resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise FlowError(place, f"{str(file)!r:.200} cannot be looked up: {error}") from None
        if not any(found.is_relative_to(folder.resolve()) and found != folder.resolve() for folder in folders):
            detail = f"{place}: {str(file)!r:.200} lies outside of the data folders; allowed: {_shown(folders)}"
            raise Problem("forbidden", detail, allowed=[str(folder) for folder in folders])


def _shown(folders: Sequence[Path]) -> str:
    return ", ".join(map(str, folders))
