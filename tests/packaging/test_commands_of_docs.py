"""The `gsdm` commands in the documents' ``sh`` blocks are commands that there are, with arguments that they take.

They are parsed, not run. A block with ``<!-- skip-test -->`` in the line before it is not looked at.
"""

import re
import shlex
from pathlib import Path

import pytest
import typer

from gsdm_grid import cli

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"(?<!<!-- skip-test -->\n)^ *```sh\n(.*?)^ *```", re.S | re.M)
ELSEWHERE = ("bench", "test")  # what follows is passed on


def commands(text):
    """Arguments of each `gsdm` command of a document, pipes and redirections cut off."""
    for block in BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            for part in re.split(r"&&|\|\|?|;", line):
                try:
                    words = shlex.split(part, comments=True)
                except ValueError:  # a quotation that holds a separator
                    continue
                if words and Path(words[0]).name == "gsdm" and len(words) > 1:
                    cut = next((k for k, word in enumerate(words) if word in (">", "<", "&", "2>")), len(words))
                    yield words[1:cut]


CASES = [(path.name, words) for path in DOCUMENTS for words in commands(path.read_text())]


@pytest.mark.parametrize(("document", "words"), CASES, ids=[f"{name}: {' '.join(words)}" for name, words in CASES])
def test_a_command_of_a_document_is_one_that_gsdm_takes(document, words):
    command, context = typer.main.get_command(cli.app), None
    while hasattr(command, "get_command") and words and not words[0].startswith("-"):
        context = command.context_class(command, parent=context, info_name=command.name)
        found = command.get_command(context, words[0])
        assert found is not None, f"{document}: there is no command {words[0]!r}"
        command, words = found, words[1:]
    if command.name not in ELSEWHERE and not hasattr(command, "get_command"):
        try:
            command.make_context(command.name, list(words), parent=context)
        except Exception as error:
            if "does not exist" not in str(error):  # a file of the reader's
                raise


def test_the_documents_about_the_coordinator_have_commands():
    assert {"README.md", "coordinator.md", "optimizer.md", "splitstream.md"} <= {name for name, _ in CASES}
