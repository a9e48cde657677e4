"""The stream type of a result log: the file ``type.json`` in its folder, with a checksum.

Who writes a log knows its type from the plan. So a file that is damaged or missing is written anew, if the windows that
are logged can be of that type. Who only reads is told what is wrong with which file.
"""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Callable
from pathlib import Path

from gsdm_grid.errors import ChannelError, QueryError, SchemaError
from gsdm_grid.model import StreamType

_NAME = "type.json"
_CHECKSUM = "crc32"
_log = logging.getLogger(__name__)


def type_of(folder: Path, expected: StreamType | None, windows_fit: Callable[[StreamType], bool]) -> StreamType:
    """The type of the log in a folder; a folder without a log gets the expected type.

    ``windows_fit`` says whether what is logged, if there is anything, can be windows of a type.
    """
    file = folder / _NAME
    try:
        kept = _read(file)
    except FileNotFoundError:
        if expected is None and not any(folder.glob("*.log")):
            raise ChannelError(f"there is no result log in {str(folder)!r}") from None
        return _written_anew(file, expected, windows_fit, "missing")
    except OSError as error:
        raise ChannelError(f"the type of a result log cannot be read: {error}") from error
    except (ValueError, QueryError) as error:
        return _written_anew(file, expected, windows_fit, f"damaged ({error})")
    if expected is not None and expected != kept:
        raise SchemaError(expected.name, None, f"the type that the log in {str(folder)!r} has, {kept}", repr(expected))
    return expected or kept


def _read(file: Path) -> StreamType:
    document = json.loads(file.read_text("utf-8"))
    kept = StreamType.from_json(document)
    if document.get(_CHECKSUM, _checksum(kept)) != _checksum(kept):  # logs of earlier versions have none
        raise ValueError("its checksum does not fit")
    return kept


def _written_anew(
    file: Path, expected: StreamType | None, windows_fit: Callable[[StreamType], bool], fault: str
) -> StreamType:
    if expected is None:
        raise ChannelError(
            f"result log {str(file.parent)!r} cannot be read, because {str(file)!r} is {fault}: open it once with its "
            "stream type, which writes the file anew (a coordinator does when it is asked for the results), or put the "
            "file back"
        )
    if not windows_fit(expected):
        raise ChannelError(
            f"result log {str(file.parent)!r} cannot be opened, because {str(file)!r} is {fault} and what is logged "
            f"cannot be of type {expected!r}: open it with the type that it was written with, or remove the folder to "
            "begin anew"
        )
    if file.exists() or any(file.parent.glob("*.log")):
        _log.warning("the type of a result log is written anew as %r, because %s is %s", expected, file, fault)
    file.parent.mkdir(parents=True, exist_ok=True)
    scratch = file.with_suffix(".part")
    scratch.write_text(json.dumps({**expected.to_json(), _CHECKSUM: _checksum(expected)}), "utf-8")
    scratch.replace(file)
    return expected


def _checksum(stream_type: StreamType) -> int:
    return zlib.crc32(json.dumps(stream_type.to_json(), sort_keys=True).encode())
