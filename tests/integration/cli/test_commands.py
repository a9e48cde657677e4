"""Commands that ask a coordinator, where none answers, and the completion of commands in a shell."""

import json
import os
import socket
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from gsdm_grid.cli.commands import app


@pytest.fixture
def nobody():
    """An address at which nobody answers, and nobody will as long as the test runs."""
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{kept.getsockname()[1]}"


@pytest.fixture
def home(tmp_path, monkeypatch, nobody):
    """A home in which a coordinator was, that is gone."""
    for name in ("GSDM_DEBUG", "GSDM_SERVER", "GSDM_TOKEN", "GSDM_DATABASE"):
        monkeypatch.delenv(name, raising=False)
    made = tmp_path / "home"
    made.mkdir()
    (made / "server.json").write_text(json.dumps({"url": nobody, "pid": 1}))
    monkeypatch.setenv("GSDM_HOME", str(made))
    return made


@pytest.fixture
def gsdm(home):
    runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    return lambda *arguments, **more: runner.invoke(app, [str(argument) for argument in arguments], **more)


@pytest.mark.parametrize(
    "command",
    [
        "ls",
        "open",
        "open q",
        "show q",
        "run q",
        "stop q",
        "rm q",
        "results q",
        "stats q",
        "sites",
        "operations",
        "resources",
        "bundle ls",
        "bundle rm b",
        "trial ls",
        "trial show t",
        "trial rm t",
        "token ls",
        "token rm x",
    ],
)
def test_if_nobody_answers_one_line_says_what_to_do(gsdm, nobody, command):
    done = gsdm(*command.split())
    assert done.exit_code == 1
    assert done.stderr == (
        f"error: no coordinator answers at {nobody}: start one with `gsdm serve`, or name another with --server, "
        "or its home with GSDM_HOME\n"
    )


def test_a_token_can_be_made_before_the_coordinator_serves(gsdm, home):
    secret = gsdm("token", "create", "ops", "--role", "operator").stdout.strip()
    again = gsdm("token", "create", "ops", "--json")
    assert secret.startswith("gsdm_")
    assert again.exit_code == 1
    assert "there is a token named 'ops' already" in again.stderr

    from api.http.auth import Tokens
    from api.store import Store

    store = Store(f"sqlite:///{home / 'gsdm.sqlite'}")
    assert Tokens(store).authenticate(secret).role == "operator"
    store.close()


def test_a_token_is_not_made_here_if_another_coordinator_is_named(gsdm, home, nobody):
    assert gsdm("token", "create", "ops", "--server", nobody).exit_code == 1
    assert not (home / "gsdm.sqlite").exists()


def test_the_graph_of_a_function_needs_no_coordinator(gsdm):
    assert "fft3.0" in gsdm("graph", "fft3").output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_offered_for_shells(shell):
    command = [sys.executable, "-m", "gsdm_grid.cli", "--show-completion", shell]
    environment = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert f"_GSDM_COMPLETE=complete_{shell}" in shown


def test_commands_are_completed(home):
    environment = {**os.environ, "_GSDM_COMPLETE": "complete_bash", "COMP_WORDS": "gsdm resu", "COMP_CWORD": "1"}
    command = [sys.executable, "-m", "gsdm_grid.cli"]
    assert subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout == "results\n"


def test_completing_a_query_is_silent_if_nobody_answers(home):
    environment = {**os.environ, "_GSDM_COMPLETE": "complete_bash", "COMP_WORDS": "gsdm show f", "COMP_CWORD": "2"}
    command = [sys.executable, "-m", "gsdm_grid.cli"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("", "")
