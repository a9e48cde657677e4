"""Where what is kept of a result log begins: the file ``start.json`` in its folder, with a checksum.

Several windows may have one ordinal, and the oldest files of a log are deleted. So the files that are left may not hold
all windows of the last ordinal; this file says how many there were before. It is written before files are deleted: what
it says is true of its window whether they still are there or not. Logs of earlier versions have none until they delete
a file.
"""

from __future__ import annotations

import json
import logging
import zlib
from pathlib import Path
from typing import NamedTuple

_NAME = "start.json"
_CHECKSUM = "crc32"
_log = logging.getLogger(__name__)


class LogStart(NamedTuple):
    """What a log had before one of its windows."""

    seq: int
    """Of that window."""
    ordinal: int
    """Of the window before it."""
    windows: int
    """How many windows before it had that ordinal, without one of another ordinal between them."""


def start_of(folder: Path) -> LogStart | None:
    """What was written last; None if there is nothing, or if it is damaged."""
    file = folder / _NAME
    try:
        document = json.loads(file.read_text("utf-8"))
        start = LogStart(int(document["seq"]), int(document["ordinal"]), int(document["windows"]))
        if document[_CHECKSUM] != _checksum(start):
            raise ValueError("its checksum does not fit")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        _log.warning(
            "%s is damaged (%s): of the log's last ordinal, only the windows that are kept are counted", file, error
        )
        return None
    return start


def write_start(folder: Path, start: LogStart) -> None:
    """Write it in the place of what was written before; it is there as a whole or not at all."""
    scratch = folder / f"{_NAME}.part"
    scratch.write_text(json.dumps({**start._asdict(), _CHECKSUM: _checksum(start)}), "utf-8")
    scratch.replace(folder / _NAME)


def _checksum(start: LogStart) -> int:
    return zlib.crc32(json.dumps(list(start)).encode())
