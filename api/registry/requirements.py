"""What a bundle says that it needs: a ``requirements.txt`` beside its ``__init__.py``, or inline metadata. Pure.

One module alone has no folder for a ``requirements.txt``: it says it in a comment, as Python scripts do (PEP 723). Only
names of packages with versions, extras and markers are taken: where packages come from is the coordinator's business.
"""

from __future__ import annotations

import re
import tomllib

from packaging.requirements import InvalidRequirement, Requirement

from api.errors import Problem

FILE = "requirements.txt"
MAX_REQUIREMENTS = 100
_INLINE = re.compile(r"(?m)^# /// script\s*$\n(?P<content>(?:^#(?:| .*)$\n)+?)^# ///$")


def in_file(text: bytes) -> list[str]:
    """The requirements in a ``requirements.txt``."""
    joined = re.sub(r"\\\r?\n", " ", _decoded(text, FILE))
    found = []
    for number, line in enumerate(joined.splitlines(), 1):
        wanted = re.sub(r"(^|\s)#.*$", "", line).strip()
        if wanted:
            found.append(_checked(wanted, f"{FILE}, line {number}"))
    return _limited(found)


def in_module(source: bytes) -> list[str]:
    """The ``dependencies`` in the inline metadata of a module."""
    blocks = [found.group("content") for found in _INLINE.finditer(source.decode("utf-8", "replace"))]
    if not blocks:
        return []
    if len(blocks) > 1:
        raise Problem("invalid-request", "the module has more than one block '# /// script'")
    content = "".join(line[2:] if line.startswith("# ") else line[1:] for line in blocks[0].splitlines(keepends=True))
    try:
        declared = tomllib.loads(content).get("dependencies", [])
    except tomllib.TOMLDecodeError as error:
        raise Problem("invalid-request", f"the block '# /// script' of the module is not TOML: {error}") from None
    if not isinstance(declared, list) or not all(isinstance(one, str) for one in declared):
        raise Problem("invalid-request", "'dependencies' in the block '# /// script' must be a list of texts")
    return _limited([_checked(one.strip(), "dependencies") for one in declared])


def _decoded(text: bytes, place: str) -> str:
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Problem("invalid-request", f"{place} is not text in UTF-8") from None


def _checked(wanted: str, place: str) -> str:
    """A requirement in its plain form."""
    allowed = "requirements such as 'roman>=4' are taken"
    if wanted.startswith("-") or " --" in wanted:
        raise Problem("invalid-request", f"{place}: {wanted[:120]!r} has options of pip: {allowed}", requirement=wanted)
    try:
        made = Requirement(wanted)
    except InvalidRequirement as error:
        reason = str(error).splitlines()[0]
        raise Problem(
            "invalid-request", f"{place}: {wanted[:120]!r}: {reason}; {allowed}", requirement=wanted
        ) from None
    if made.url is not None:
        detail = f"{place}: {wanted[:120]!r} names an address: {allowed}, from where the coordinator's pip gets them"
        raise Problem("invalid-request", detail, requirement=wanted)
    return str(made)


def _limited(found: list[str]) -> list[str]:
    if len(found) > MAX_REQUIREMENTS:
        raise Problem("invalid-request", f"{len(found)} requirements; at most {MAX_REQUIREMENTS} are taken")
    return sorted(dict.fromkeys(found), key=str.lower)
