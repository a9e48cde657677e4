"""The documents' commands work as written: the ``sh`` blocks of a document are one script, run against a coordinator.

A block with ``<!-- skip-test -->`` in the line before it cannot run here, because it installs something, starts a
service or measures for minutes. Its `gsdm` commands are parsed.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from gsdm_grid import cli
from gsdm_grid.client import Client
from gsdm_grid.splitting.split_cost import Coefficients
from gsdm_grid.tuning.split_profile import SplitProfile, keep_profile

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^(?P<skip> *<!-- skip-test -->\n)? *```sh\n(?P<lines>.*?)^ *```", re.S | re.M)
SKIPPED = {  # blocks that cannot run, by document; this list is to stay short
    "README.md": 2,  # demo and all tests; serve
    "airflow.md": 4,  # Airflow: started, asked, installed, set up
    "coordinator.md": 1,  # serve
    "deploy.md": 9,  # machines, Docker, Kubernetes; `test_deploy.py` checks these
    "performance.md": 1,  # benchmarks
    "resources.md": 1,  # serve
    "splitstream.md": 1,  # measures for minutes
}
ELSEWHERE = ("bench", "test")  # what follows is passed on
TIMEOUT_S = 240
GSDM = f"""#!{sys.executable}
# As the launcher, with this interpreter; Ctrl-C is pressed when --follow has shown five lines. Failures are noted.
import signal, subprocess, sys

with subprocess.Popen([sys.executable, "-m", "gsdm_grid.cli", *sys.argv[1:]], stdout=subprocess.PIPE, text=True) as run:
    for number, line in enumerate(run.stdout):
        print(line, end="", flush=True)
        if "--follow" in sys.argv and number == 4:
            run.send_signal(signal.SIGINT)
if run.returncode:
    with open("failed", "a") as failed:
        print(*sys.argv[1:], "ended with", run.returncode, file=failed)
sys.exit(run.returncode)
"""


def blocks(path, skipped):
    found = BLOCK.finditer(path.read_text())
    return [match["lines"] for match in found if (match["skip"] is not None) == skipped]


def gsdm_commands(block):
    """Arguments of each `gsdm` command of a block, pipes and redirections cut off."""
    for line in block.replace("\\\n", " ").splitlines():
        for part in re.split(r"&&|\|\|?|;", line):
            try:
                words = shlex.split(part, comments=True)
            except ValueError:  # a quotation that holds a separator
                continue
            if words and Path(words[0]).name == "gsdm" and len(words) > 1:
                cut = next((k for k, word in enumerate(words) if word in (">", "<", "&", "2>")), len(words))
                yield words[1:cut]


RUN = [path for path in DOCUMENTS if blocks(path, skipped=False)]
PARSED = [
    (path.name, words)
    for path in DOCUMENTS
    for block in blocks(path, skipped=True)
    for words in gsdm_commands(block)
]  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    """Where a reader of the documents works: a folder with the launcher and the examples."""
    (tmp_path / "gsdm").write_text(GSDM)
    (tmp_path / "gsdm").chmod(0o755)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return tmp_path


@pytest.fixture
def environment(service, folder, monkeypatch):
    """As on a reader's machine: the coordinator's address and a token, a measured profile, no browser."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    coefficients = Coefficients(
        cc=5e-9, cp=2e-8, ce=1e-9, crW=2e-5, ceW=1e-5, cr=1e-9, cm=2e-8, cmW=3e-5, cpoll=1e-6, router=5e-5
    )
    keep_profile(SplitProfile("threads", coefficients, 68, 2 << 20, 3e-9, 0.0, 0.05, "2026-01-01T00:00:00+00:00"))
    return {
        **os.environ,
        "PATH": f"{folder}:{os.environ['PATH']}",
        "GSDM_HOME": str(folder / "home"),
        "GSDM_SERVER": service.url,
        "GSDM_TOKEN": service.token,
        "SERVER": service.url,
        "TOKEN": service.token,
        "BROWSER": "true",
    }


@pytest.fixture
def tidy(service):
    """What a document leaves at the coordinator is removed."""
    with Client(service.url, service.token) as client:
        before = {query.name for query in client.queries()}, {source["name"] for source in client.sources()}
        yield
        for search in client.optimizations():
            client.remove_optimization(search.id)
        for name in {query.name for query in client.queries()} - before[0]:
            client.drop(name, timeout_s=60)
        for segment in client.segments():
            client.remove_segment(segment.id)
        for name in {source["name"] for source in client.sources()} - before[1]:
            client.delete("sources", name)
        for bundle in client.bundles():
            client.remove_bundle(bundle.name)


@pytest.mark.parametrize("path", RUN, ids=lambda path: path.name)
def test_the_commands_of_a_document_work_as_written(path, folder, environment, tidy):
    script = "\n".join(["set -euxo pipefail", *blocks(path, skipped=False)])
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    failed = folder / "failed"  # bash goes on if what stands before && fails
    assert not failed.exists(), failed.read_text() + done.stderr[-4000:]


@pytest.mark.parametrize(("document", "words"), PARSED, ids=[f"{name}: {' '.join(words)}" for name, words in PARSED])
def test_a_command_that_cannot_run_here_is_one_that_gsdm_takes(document, words):
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


def test_few_commands_of_the_documents_are_not_run():
    counted = {path.name: len(blocks(path, skipped=True)) for path in DOCUMENTS}
    assert {name: count for name, count in counted.items() if count} == SKIPPED


def test_the_documents_about_the_coordinator_have_commands_that_run():
    assert {"README.md", "coordinator.md", "optimizer.md", "splitstream.md", "resources.md"} <= {p.name for p in RUN}
