"""The pictures of the rooms in the documents are those of the imports, and the map of rooms names all of them."""

import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = runpy.run_path(str(ROOT / "tests/packaging/draw_rooms.py"))


def test_the_pictures_of_the_rooms_are_those_of_the_imports():
    document = PROGRAM["DOCUMENT"].read_text()
    assert document == PROGRAM["with_pictures"](document), f"the imports have changed; renew it: {PROGRAM['COMMAND']}"


def test_an_import_that_follows_from_others_is_left_out():
    imports = {
        "service": frozenset({"query", "plan", "model"}),
        "query": frozenset({"plan"}),
        "plan": frozenset({"model"}),
        "model": frozenset(),
    }
    assert PROGRAM["without_transitive"](imports) == {
        "service": frozenset({"query"}),
        "query": frozenset({"plan"}),
        "plan": frozenset({"model"}),
        "model": frozenset(),
    }


def test_the_map_of_rooms_names_every_room():
    guide = (ROOT / "CONTRIBUTING.md").read_text()
    rooms = sorted(
        path.parent.relative_to(ROOT)
        for package in ("gsdm_grid", "api")
        for path in ROOT.glob(f"{package}/*/__init__.py")
    )
    assert rooms
    unnamed = [str(room) for room in rooms if f"`{room}/`" not in guide and f"`{room.name}/`" not in guide]
    assert unnamed == []
