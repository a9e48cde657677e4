"""Every name of ours that `docs/papers.md` gives for a name of the papers exists."""

import dataclasses
import importlib
import re
from pathlib import Path

import pytest
import typer

import gsdm_grid
from gsdm_grid.cli.commands import app
from gsdm_grid.flow import TEMPLATES
from gsdm_grid.functions import functions
from gsdm_grid.interfaces import interfaces

PAPERS = Path(__file__).resolve().parents[2] / "docs/papers.md"
SPAN = re.compile(r"`([^`]+)`")
NOTHING = "—"


def rows():
    """The rows of the tables: name in the paper, ours, difference."""
    for line in PAPERS.read_text().splitlines():
        if line.startswith("| ") and not line.startswith("|---"):
            cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
            if "here" not in cells:
                yield cells


def is_command(name):
    command = typer.main.get_command(app)
    for word in name.split()[1:]:
        command = getattr(command, "commands", {}).get(word)
    return command is not None


def is_attribute(name):
    """Whether a dotted name is a public name of ours, a module, or something in one."""
    first, *rest = name.split(".")
    value = getattr(gsdm_grid, first, None) if first != "gsdm_grid" else gsdm_grid
    if value is None and not rest and first in ("api", "resource_manager"):
        return importlib.import_module(first) is not None
    path = first
    for part in rest:
        path = f"{path}.{part}"
        if dataclasses.is_dataclass(value) and part in {field.name for field in dataclasses.fields(value)}:
            continue
        if not hasattr(value, part):
            try:
                value = importlib.import_module(path)
            except ImportError:
                return False
        else:
            value = getattr(value, part)
    return value is not None


def exists(name):
    if name.startswith("gsdm "):
        return is_command(name)
    return functions.has(name) or name in TEMPLATES or name in interfaces.names() or is_attribute(name)


OURS = sorted({name for row in rows() for name in SPAN.findall(row[1])})


@pytest.mark.parametrize("name", OURS)
def test_a_name_that_stands_for_one_of_the_papers_exists(name):
    assert exists(name)


def test_names_that_do_not_exist_would_be_noticed():
    assert not any(map(exists, ["fft4", "gsdm fly", "gsdm_grid.flow.nothing", "DataFlow.nothing", "Nothing"]))


def test_every_row_names_something_of_ours_or_says_why_not():
    for row in rows():
        assert len(row) == 3 or (len(row) == 2 and row[1] != NOTHING), row
        assert SPAN.search(row[1]) or (row[1] == NOTHING and len(row) == 3), row


@pytest.mark.parametrize("name", sorted([*(name for name in TEMPLATES if TEMPLATES[name].is_builtin)]))
def test_every_template_of_the_library_is_in_the_tables(name):
    assert name in OURS
