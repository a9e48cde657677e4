"""Function code as it is uploaded: a Python file, a zip archive, or a package's folder packed into one, in memory.

What a bundle may hold is the coordinator's business; here only what nobody means to upload is left out.
"""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

from gsdm_grid.errors import QueryError

MAX_BYTES = 32 << 20
"""Of all files of a folder; the coordinator takes no more."""
_NEVER_MEANT = ("__pycache__", ".pyc")
_LONG_AGO = (1980, 1, 1, 0, 0, 0)


def code_in(path: Path) -> bytes:
    """The content to upload of a file or a folder."""
    try:
        return _packed(path) if path.is_dir() else path.read_bytes()
    except OSError as error:
        raise QueryError(f"function code {str(path)!r} cannot be read: {error}") from error


def _packed(folder: Path) -> bytes:
    """A zip archive of a folder. The same files give the same bytes, so that they are not stored as a new version."""
    files = _files(folder)
    if not any(file.suffix == ".py" for file in files):
        raise QueryError(f"function code {str(folder)!r}: there is no Python file in it")
    packed, size = io.BytesIO(), 0
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            size += file.stat().st_size
            if size > MAX_BYTES:
                raise QueryError(f"function code {str(folder)!r} has more than {MAX_BYTES >> 20} MiB of files")
            entry = zipfile.ZipInfo(file.relative_to(folder).as_posix(), _LONG_AGO)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, file.read_bytes())
    return packed.getvalue()


def _files(folder: Path) -> list[Path]:
    """Its files, sorted; hidden ones and what Python leaves behind are left out. Does not follow links to folders."""
    found = []
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if _is_meant(name)]
        found += [Path(parent) / name for name in names if _is_meant(name)]
    return sorted(file for file in found if file.is_file())


def _is_meant(name: str) -> bool:
    return not name.startswith(".") and not name.endswith(_NEVER_MEANT)
