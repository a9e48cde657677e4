"""The documents keep their promises: their examples run and print what they say, their links lead somewhere.

All ``python`` blocks of one document are one script; a ``text`` block behind one shows lines that it prints. A block
with the comment ``<!-- skip-test -->`` in the line before it is shown only.
"""

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
SKIP = "<!-- skip-test -->"
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:root|home|Users)/\w")
REGISTRY = re.compile(r"pypi\.org/simple|pythonhosted\.org|artifactory|index-url['\"]?[\s=:]+['\"]?\w+://", re.I)


def blocks(text):
    """Fenced blocks: (language, number of the first line, lines, whether it is skipped)."""
    lines = text.splitlines()
    found, start, language, skipped = [], None, "", False
    for number, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if start is None:
            start, language = number + 1, line[3:].strip()
            skipped = number > 0 and lines[number - 1].strip() == SKIP
        else:
            found.append((language, start, lines[start:number], skipped))
            start = None
    assert start is None, f"a block that begins in line {start} does not end"
    return found


def script_of(text):
    """The python blocks of a document in their own lines, so that tracebacks point into the document."""
    made = [""] * len(text.splitlines())
    for language, start, lines, skipped in blocks(text):
        if language == "python" and not skipped:
            made[start : start + len(lines)] = lines
    return "\n".join(made)


def printed_lines(text):
    """What the text blocks behind python blocks say that those print."""
    found = blocks(text)
    return [
        line
        for before, after in pairwise(found)
        if before[0] == "python" and not before[3] and after[0] == "text" and not after[3]
        for line in after[2]
    ]


def headings(text):
    """Anchors of the headings, as GitHub makes them."""
    plain = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    titles = re.findall(r"^#+ +(.+)$", plain, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def tracked_texts():
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        if path == Path(__file__).resolve() or not path.is_file():
            continue
        try:
            yield name, path.read_text("utf-8")
        except UnicodeDecodeError:
            continue


WITH_CODE = [path for path in DOCUMENTS if script_of(path.read_text()).strip()]


@pytest.mark.parametrize("path", WITH_CODE, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_examples_of_a_document_run_and_print_what_it_says(path, tmp_path):
    text = path.read_text()
    script = tmp_path / f"{path.stem}.py"
    script.write_text(script_of(text))
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    rest = iter(done.stdout.splitlines())
    for line in printed_lines(text):
        assert line in rest, f"not printed, or not in this order: {line!r}\n{done.stdout}"


def test_the_readme_and_the_tutorial_have_examples():
    assert {ROOT / "README.md", ROOT / "docs/tutorial.md"} <= set(WITH_CODE)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(path):
    plain = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.S | re.M)
    for target in LINK.findall(plain):
        if "://" in target or target.startswith("mailto:"):
            continue
        name, _, anchor = unquote(target).partition("#")
        there = (path.parent / name).resolve() if name else path
        assert there.exists(), f"{path.name}: {target} does not exist"
        if anchor and there.suffix == ".md":
            assert anchor in headings(there.read_text()), f"{path.name}: {target} has no such heading"


def test_no_text_names_a_path_of_somebodys_machine_or_a_package_registry():
    found = [
        f"{name}: {match.group()}"
        for name, text in tracked_texts()
        for match in [*MACHINE_PATH.finditer(text), *REGISTRY.finditer(text)]
    ]
    assert found == []
