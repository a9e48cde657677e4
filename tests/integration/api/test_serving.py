"""What a coordinator shows whom: people at a terminal, and what collects logs."""

import json
import os
import pty
import subprocess
import sys

import httpx
import pytest

from gsdm_grid.client import Client
from gsdm_grid.testing import eventually

START_S = 60.0


class AtTerminal:
    """A coordinator that somebody has started at a terminal."""

    def __init__(self, home, *options):
        self.home = home
        self._screen, terminal = pty.openpty()
        os.set_blocking(self._screen, False)
        self._shown = b""
        command = [sys.executable, "-m", "gsdm_grid.cli", "serve", "--home", home.name, "--port", "0", *options]
        self.process = subprocess.Popen(
            [*command, "--placement", "threads"], stdout=terminal, stderr=terminal, cwd=home.parent
        )
        os.close(terminal)

    @property
    def url(self):
        """Where it answers."""
        return json.loads((self.home / "server.json").read_text())["url"]

    @property
    def screen(self):
        """All that has been shown."""
        try:
            while part := os.read(self._screen, 1 << 16):
                self._shown += part
        except OSError:  # nothing more, for now or for ever
            pass
        return self._shown.decode().replace("\r\n", "\n")

    def answers(self):
        """Whether it takes work."""
        try:
            return httpx.get(f"{self.url}/readyz").status_code == 200
        except (OSError, ValueError, httpx.HTTPError):
            return False

    def close(self):
        """End it."""
        self.process.terminate()
        self.process.wait(START_S)
        os.close(self._screen)


@pytest.fixture
def at_terminal(tmp_path):
    started = []

    def start(*options):
        started.append(AtTerminal(tmp_path / "kept here", *options))
        eventually(started[0].answers, bool, START_S)
        return started[0]

    yield start
    for one in started:
        one.close()


def test_at_a_terminal_people_see_their_lines_and_the_log_is_in_a_file(at_terminal):
    coordinator = at_terminal()
    token = (coordinator.home / "admin.token").read_text().strip()
    with Client(coordinator.url, token) as client:
        assert list(client.queries()) == []
    shown = coordinator.screen.splitlines()
    assert [line for line in shown if not line.startswith("warning: a query that does not say otherwise")] == [
        f"GSDM-grid coordinator at {coordinator.url}  (documentation: {coordinator.url}/docs)",
        f"other commands find it with: export GSDM_HOME='{coordinator.home}'",
        "in a browser: gsdm open",
        f"log: {coordinator.home}/coordinator.log",
        f"admin token, shown once (also in {coordinator.home}/admin.token): {token}",
    ]
    log = coordinator.home / "coordinator.log"
    eventually(lambda: log.read_text(), lambda text: "/v1/queries" in text, START_S)
    assert all(json.loads(line)["at"] for line in log.read_text().splitlines())
    assert log.stat().st_mode & 0o077 == 0


def test_whoever_asks_for_it_sees_the_log_at_a_terminal_too(at_terminal):
    coordinator = at_terminal("--verbose")
    eventually(lambda: coordinator.screen, lambda text: '{"at": ' in text, START_S)
    assert not (coordinator.home / "coordinator.log").exists()


def test_what_collects_logs_gets_them_on_standard_error(own_service):
    service = own_service("--placement", "threads").start()
    lines = [line for line in service.log_lines() if line.startswith("{")]
    assert lines
    assert not (service.home / "coordinator.log").exists()
