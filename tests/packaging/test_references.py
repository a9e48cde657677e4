"""What texts name exists: files and folders, commands, settings with their values, and the helpers of templates."""

import dataclasses
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
import typer

from gsdm_grid.cli.commands import app
from gsdm_grid.config import Settings

ROOT = Path(__file__).resolve().parents[2]
HISTORY = ("CHANGELOG.md", "docs/roadmap.md")
DOCUMENTS = [
    path
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
    if str(path.relative_to(ROOT)) not in HISTORY
]
ROOMS = ("", "gsdm_grid/", "docs/", "api/", "tests/", "deploy/")
"""Folders that texts name files in without saying so."""
NAMED = re.compile(r"`((?:\.ci|[a-z_]+)/[\w./-]*)`")
DOCUMENT = re.compile(r"\bdocs/[\w/-]+\.md\b")
COMMAND = re.compile(r"(?:^|`)(?:\./)?gsdm ((?:[a-z][a-z-]*)(?: [a-z][a-z-]*)?)", re.M)
SETTING = re.compile(r"`Settings\.(\w+)`(?: \((\d+(?:\.\d+)?)( MiB| KiB)?)?")
UNITS = {"": 1, " KiB": 1 << 10, " MiB": 1 << 20}
relative = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


@cache
def tracked():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.split("\0") if name]


def exists(name):
    """Whether a file or folder is in the repository, from its root or from one of the rooms."""
    places = {f"{room}{name}".rstrip("/") for room in ROOMS}
    return any(place in places or place.startswith(tuple(f"{one}/" for one in places)) for place in tracked())


@relative
def test_every_file_that_a_document_names_exists(path):
    first = {name.partition("/")[0] for name in tracked()} | {
        name.removeprefix("gsdm_grid/").partition("/")[0] for name in tracked() if name.startswith("gsdm_grid/")
    }
    named = [name for name in NAMED.findall(path.read_text()) if name.partition("/")[0] in first]
    assert [name for name in named if not exists(name)] == []


def test_every_document_that_a_program_names_exists():
    sources = [name for name in tracked() if name.endswith((".py", ".js", ".toml", ".yaml", ".yml", ".service"))]
    named = {
        (source, document)
        for source in sources
        if (ROOT / source).is_file() and source != "tests/packaging/test_references.py"
        for document in DOCUMENT.findall((ROOT / source).read_text())
    }
    assert [one for one in sorted(named) if not exists(one[1])] == []


@relative
def test_every_command_that_a_document_names_exists(path):
    root = typer.main.get_command(app)
    unknown = []
    for words in COMMAND.findall(path.read_text()):
        first, _, second = words.partition(" ")
        command = root.commands.get(first)
        if command is None or (second and hasattr(command, "commands") and second not in command.commands):
            unknown.append(words)
    assert unknown == []


@relative
def test_every_setting_that_a_document_names_has_the_value_that_it_says(path):
    defaults = {field.name: field.default for field in dataclasses.fields(Settings)}
    for name, value, unit in SETTING.findall(path.read_text()):
        assert name in defaults, f"there is no Settings.{name}"
        if value:
            assert float(value) * UNITS[unit] == defaults[name], f"Settings.{name} is {defaults[name]}"


def test_the_helpers_of_templates_that_the_guide_names_exist():
    guide = (ROOT / "CONTRIBUTING.md").read_text().partition("### … a template")[2].partition("###")[0]
    files = [ROOT / f"gsdm_grid/flow/{name}.py" for name in ("templates", "split_templates", "graph")]
    code = "".join(file.read_text() for file in files)
    named = re.findall(r"`(_?[a-z_]+)(?:\(…\))?`", guide)
    assert named
    assert [name for name in named if f"def {name}(" not in code] == []
