"""What an upload of function code holds: one Python module, or a zip archive of a pure Python package. Pure.

A package may bring a ``requirements.txt``: see `api.registry.requirements`.

Whatever comes, the answer is files or a problem; nothing is written here, and no name leads out of a folder.
"""

from __future__ import annotations

import ast
import io
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator

from api.errors import Problem
from api.registry.requirements import FILE as REQUIREMENTS

Files = dict[str, bytes]
"""Sources by path, relative to the package's folder and with ``/``; ``__init__.py`` is always there.

So is ``requirements.txt``, if the upload had one at its top or beside ``__init__.py``.
"""

PYTHON = "text/x-python"
ZIP = "application/zip"
MEDIA_TYPES = (PYTHON, ZIP)
MAX_ENTRIES = 1000
MAX_BYTES = 32 << 20
"""Of all files of an archive, unpacked: counted while they are unpacked, whatever the archive's directory says."""
MAX_RATIO = 200
"""How many times larger a file may be than it is packed; small files may be so anyway."""
_SMALL = 1 << 16
_CHUNK = 1 << 16
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # those that can be unpacked a piece at a time
_PART = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)
_TEXTS = (".md", ".txt", ".rst", ".pyi", ".typed")
_NATIVE = (".so", ".pyd", ".dll", ".dylib", ".pyc", ".a", ".o", ".exe")


def unpack(media_type: str, content: bytes) -> Files:
    """The sources of an upload, checked."""
    files = _unzip(content) if media_type == ZIP else {"__init__.py": content}
    for path, source in files.items():
        if path != REQUIREMENTS:
            _check_source(path, source)
    return files


def _wrong(reason: str) -> Problem:
    return Problem("invalid-request", reason)


def _unzip(content: bytes) -> Files:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            _check_sizes(entries)
            files = _read(archive, entries)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise _wrong(f"the archive cannot be read: {error}") from None
    except (NotImplementedError, RuntimeError, ValueError, OverflowError, MemoryError) as error:
        raise _wrong(f"the archive cannot be unpacked: {error}") from None
    return _without_top_folder(files)


def _read(archive: zipfile.ZipFile, entries: list[zipfile.ZipInfo]) -> Files:
    """The files that are kept, never more than the limits allow in memory."""
    files, left = {}, MAX_BYTES
    for entry, path in _kept(entries):
        if entry.compress_type not in _METHODS:
            raise _wrong(f"{path[:120]!a} is packed by method {entry.compress_type}: only deflate, or none, is taken")
        content, limit = bytearray(), max(_SMALL, entry.compress_size * MAX_RATIO)
        with archive.open(entry) as source:
            while chunk := source.read(_CHUNK):
                content += chunk
                left -= len(chunk)
                if left < 0:
                    raise _wrong(f"the archive unpacks to more than {MAX_BYTES} bytes")
                if len(content) > limit:
                    raise _wrong(f"{path[:120]!a} unpacks to more than {MAX_RATIO} times its size")
        files[path] = bytes(content)
    return files


def _check_sizes(entries: list[zipfile.ZipInfo]) -> None:
    if len(entries) > MAX_ENTRIES:
        raise _wrong(f"the archive has {len(entries)} entries; at most {MAX_ENTRIES} are taken")
    if sum(entry.file_size for entry in entries) > MAX_BYTES:
        raise _wrong(f"the archive unpacks to more than {MAX_BYTES} bytes")
    for entry in entries:
        if entry.file_size > max(_SMALL, entry.compress_size * MAX_RATIO):
            raise _wrong(f"{entry.orig_filename[:120]!a} unpacks to more than {MAX_RATIO} times its size")


def _kept(entries: list[zipfile.ZipInfo]) -> Iterator[tuple[zipfile.ZipInfo, str]]:
    """The entries that are Python sources, with their paths."""
    seen: set[str] = set()
    for entry in entries:
        path = entry.orig_filename
        if _checked_path(entry) is None:
            continue
        if path.lower() in seen:
            raise _wrong(f"{path[:120]!a} is in the archive twice")
        seen.add(path.lower())
        yield entry, path


def _checked_path(entry: zipfile.ZipInfo) -> str | None:
    """The path of a Python source or of requirements; None for what may be there and is not needed; else a problem."""
    path = entry.orig_filename
    shown = f"{path[:120]!a}"
    parts = path.rstrip("/").split("/")
    if path.startswith(("/", "\\")) or "\\" in path or "\0" in path or ":" in path or ".." in parts:
        raise _wrong(f"{shown} leads out of the archive: paths must be relative, with '/' and without '..'")
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise _wrong(f"{shown} is a link or a device: only plain files are taken")
    if entry.flag_bits & 0x1:
        raise _wrong(f"{shown} is encrypted")
    if parts[0] == "__MACOSX" or path.endswith("/"):
        return None
    folders, file = parts[:-1], parts[-1]
    if file.lower().endswith(_NATIVE):
        raise _wrong(f"{shown} is compiled code: only Python sources are taken")
    if file == REQUIREMENTS and len(folders) < 2:
        return path
    if file.lower().endswith(_TEXTS) or file.upper() in ("LICENSE", "README", "NOTICE"):
        return None
    if not file.endswith(".py"):
        raise _wrong(f"{shown} is not a Python source: only code reaches the working nodes")
    if len(path) > 255 or not all(_PART.fullmatch(part) for part in (*folders, file.removesuffix(".py"))):
        raise _wrong(f"{shown} cannot be imported: folders and files need names that are Python's")
    return path


def _without_top_folder(files: Files) -> Files:
    """The package's files, wherever in the archive it is; requirements may lie in it, or beside it."""
    sources = {path for path in files if not path.endswith(REQUIREMENTS)}
    top = {path.partition("/")[0] for path in sources}
    folder = next(iter(top)) if len(top) == 1 else ""
    if "__init__.py" in sources:
        folder = ""
    elif f"{folder}/__init__.py" not in sources:
        raise _wrong("the archive must hold __init__.py at its top, or one folder that is a package")
    prefix = f"{folder}/" if folder else ""
    declared = [path for path in dict.fromkeys((REQUIREMENTS, f"{prefix}{REQUIREMENTS}")) if path in files]
    if len(declared) > 1:
        raise _wrong(f"the archive has two {REQUIREMENTS}, at its top and in {folder!r}: one is taken")
    made = {path.removeprefix(prefix): files[path] for path in files if path in sources}
    return made | ({REQUIREMENTS: files[declared[0]]} if declared else {})


def _check_source(path: str, source: bytes) -> None:
    """Refuse what does not compile, or cannot work on another host."""
    try:
        tree = ast.parse(source, path)
    except SyntaxError as error:
        raise Problem("function-failed", f"SyntaxError: {error.msg} ({path}, line {error.lineno})") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise Problem("function-failed", f"{path} cannot be compiled: {type(error).__name__}: {error}") from None
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            inner = next((n for n in ast.walk(node) if isinstance(n, ast.ImportFrom) and n.level), None)
            if inner is not None:
                raise _wrong(
                    f"{path}, line {inner.lineno}: a relative import inside a function cannot work on other hosts, "
                    "where the bundle is not installed: import at the top of the module"
                )
