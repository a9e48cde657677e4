"""The coordinator's folder: for its own account only, whatever an older version, or somebody, left open.

It holds the database, tokens, results and uploaded code.
"""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

import sqlalchemy as sa

from api.settings import ServiceSettings
from gsdm_grid.errors import ResourceError

_log = logging.getLogger("gsdm.home")
PRIVATE_UMASK = 0o077
"""For the whole process of a service: files that it makes are 0600, folders 0700."""
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def protect_home(settings: ServiceSettings) -> None:
    """Make the folder if there is none, and take away the rights of others in it; says in the log if there were any."""
    home = settings.home
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        opened = [path for path in (home, *_below(home), *_database_files(settings)) if _close(path)]
        if not os.access(home, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        raise ResourceError(
            f"the home folder {home} cannot be used ({error.strerror}): it must be a folder that this account may "
            "write to; choose another with --home"
        ) from None
    if opened:
        _log.warning(
            "others could read the home folder: only this account can now",
            extra={"home": str(home), "count": len(opened), "first": str(opened[0])},
        )


def _below(home: Path) -> list[Path]:
    """All files and folders in it; links are not followed."""
    return [Path(folder, name) for folder, folders, files in os.walk(home) for name in (*folders, *files)]


def _database_files(settings: ServiceSettings) -> list[Path]:
    url = sa.make_url(settings.database_url)
    if url.get_backend_name() != "sqlite" or not url.database or url.database == ":memory:":
        return []
    files = (Path(f"{url.database}{suffix}") for suffix in ("", "-wal", "-shm"))
    return [path for path in files if path.exists()]


def _close(path: Path) -> bool:
    """Take away the rights of others to a file or folder; whether they had any."""
    try:
        mode = path.lstat().st_mode
        if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)) or not mode & _OTHERS:
            return False
        path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
    except FileNotFoundError:  # removed meanwhile
        return False
    return True
