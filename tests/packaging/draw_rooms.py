"""Draws the rooms and their imports into ``docs/architecture.md``, between two comments for each picture.

Run it after a change of the rooms: ``.venv/bin/python tests/packaging/draw_rooms.py``. An arrow leads from a room to
one that it imports. An import that follows from others (a → b → c makes a → c superfluous) is left out, so that the
picture can be read; imports for type checking only do not count.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "architecture.md"
COMMAND = ".venv/bin/python tests/packaging/draw_rooms.py"
PACKAGES = ("gsdm_grid", "api", "resource_manager")
BASE = "errors, ids, config"
"""Three modules that stand together at the bottom of `gsdm_grid`."""

Imports = Mapping[str, frozenset[str]]
"""By room, the rooms that it imports."""


def room_of_the_whole(module: str) -> str | None:
    """`api` and `resource_manager` are drawn as one room each; `gsdm_grid` itself only re-exports names."""
    package, _, rest = module.partition(".")
    if package != "gsdm_grid":
        return package
    room = rest.partition(".")[0]
    return BASE if room in BASE.split(", ") else room or None


def room_of_the_service(module: str) -> str | None:
    """Rooms and files directly in `api`; its migrations are run by Alembic, nothing imports them."""
    package, _, rest = module.partition(".")
    room = rest.partition(".")[0]
    return None if package != "api" or room in ("", "migrations") else room


PICTURES = {"rooms": room_of_the_whole, "service": room_of_the_service}


def imports_between(graph: grimp.ImportGraph, room_of) -> Imports:
    """Which room imports which."""
    imports: dict[str, set[str]] = {}
    for module in graph.modules:
        room = room_of(module)
        if room is None:
            continue
        imported = {room_of(other) for other in graph.find_modules_directly_imported_by(module)}
        imports.setdefault(room, set()).update(imported - {None, room})
    return {room: frozenset(imported) for room, imported in imports.items()}


def without_transitive(imports: Imports) -> Imports:
    """Only the imports that do not follow from others. The rooms must not import each other in circles."""

    def below(room: str) -> Iterator[str]:
        for imported in imports[room]:
            yield imported
            yield from below(imported)

    return {
        room: imported - {lower for other in imported for lower in below(other)} for room, imported in imports.items()
    }


def as_mermaid(imports: Imports) -> str:
    """A flowchart; who is imported by nobody comes first."""
    identity = {room: re.sub(r"\W+", "_", room) for room in sorted(imports)}
    lines = ["```mermaid", "flowchart TB"]
    lines += [f'    {identity[room]}["{room}"]' for room in identity]
    lines += [f"    {identity[room]} --> {identity[other]}" for room in identity for other in sorted(imports[room])]
    return "\n".join([*lines, "```"])


def with_pictures(document: str) -> str:
    """The document with the pictures of the rooms as they are."""
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True, cache_dir=None)
    for name, room_of in PICTURES.items():
        begin, end = f"<!-- {name}: drawn by {COMMAND} -->", f"<!-- {name}: end -->"
        before, found, rest = document.partition(begin)
        _, also_found, after = rest.partition(end)
        if not (found and also_found):
            raise SystemExit(f"{DOCUMENT.name} lacks the comments {begin!r} and {end!r}")
        picture = as_mermaid(without_transitive(imports_between(graph, room_of)))
        document = f"{before}{begin}\n{picture}\n{end}{after}"
    return document


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    DOCUMENT.write_text(with_pictures(DOCUMENT.read_text()))
