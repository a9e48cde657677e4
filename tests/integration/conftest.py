"""A running coordinator for tests over its REST face: a process of its own, as people run it. And a browser."""

import base64
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from gsdm_grid.testing import eventually

START_S = 60.0
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
RADIO = {"type": "Radio", "interface": "synthetic_radio", "options": {"window": 64}}


class Service:
    """A coordinator's process over a home folder; it can be killed and started again (at the same port)."""

    def __init__(self, home, *options, port=0):
        self.home = Path(home)
        self.options = ("--port", str(port), *options)
        self.process = None
        self.trusted = True
        self.inside = ()  # a command that runs another elsewhere, such as in a network namespace
        self.environment = {}  # variables of its own

    def start(self):
        """Start it and wait until it takes work."""
        (self.home / "server.json").unlink(missing_ok=True)
        self.home.mkdir(parents=True, exist_ok=True)
        with (self.home / "log").open("ab") as log:
            command = [*self.inside, sys.executable, "-m", "gsdm_grid.cli", "serve", "--home", str(self.home)]
            environment = {**os.environ, **self.environment}
            self.process = subprocess.Popen([*command, *self.options], stdout=log, stderr=log, env=environment)
        deadline_s = time.monotonic() + START_S
        while not self._ready():
            assert self.process.poll() is None, (self.home / "log").read_text()[-3000:]
            assert time.monotonic() < deadline_s, (self.home / "log").read_text()[-3000:]
            time.sleep(0.05)
        return self

    def _ready(self):
        try:
            return httpx.get(f"{self.url}/readyz", verify=self.trusted).status_code == 200
        except (OSError, ValueError, httpx.HTTPError):
            return False

    @property
    def url(self):
        return json.loads((self.home / "server.json").read_text())["url"]

    @property
    def token(self):
        return (self.home / "admin.token").read_text().strip()

    def log_lines(self):
        """What it logged."""
        return (self.home / "log").read_text().splitlines()

    def client(self, token=None, **options):
        """A plain HTTP client with a token."""
        headers = {"Authorization": f"Bearer {token or self.token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=30, verify=self.trusted, **options)

    def kill(self):
        """End it as a crash would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(60)

    def stop(self):
        """End it politely."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(60)


class Browser:
    """Headless Chromium, driven over its DevTools protocol."""

    def __init__(self, executable, profile, scratch, width, height):
        from websockets.sync.client import connect

        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        flags += ["--hide-scrollbars", "--remote-debugging-port=0", f"--user-data-dir={profile}"]
        self.process = subprocess.Popen(
            [executable, *flags, "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "TMPDIR": scratch},  # where it leaves something behind
        )
        self._number = 0
        port = self._port(Path(profile) / "DevToolsActivePort")
        pages = httpx.get(f"http://127.0.0.1:{port}/json/list").json()
        (page,) = [one for one in pages if one["type"] == "page"]
        self._socket = connect(page["webSocketDebuggerUrl"], max_size=None)
        self.complaints = []
        for domain in ("Page", "Log", "Runtime"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def _port(self, file):
        deadline_s = time.monotonic() + 60
        while not (file.exists() and (lines := file.read_text().split())):
            assert self.process.poll() is None
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
        return lines[0]

    def call(self, method, **params):
        """Call a method of the protocol; gives its result."""
        message = self._answer(method, params)
        assert "error" not in message, message
        return message["result"]

    def _answer(self, method, params):
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv(timeout=60))
            if message.get("id") == self._number:
                return message
            self._hear(message)

    def _hear(self, message):
        """Keep what the page's console shows as an error."""
        params = message.get("params", {})
        levels = (params.get("entry", {}).get("level"), params.get("type"))
        if message.get("method") == "Runtime.exceptionThrown" or "error" in levels:
            self.complaints.append(params)

    def open(self, url):
        self.call("Page.navigate", url=url)

    def evaluate(self, script):
        """The value of a JavaScript expression in the page."""
        told = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def _value_if_any(self, script):
        """As `evaluate`; None while the page is only being made and the expression has no value."""
        told = self._answer("Runtime.evaluate", {"expression": script, "returnByValue": True}).get("result", {})
        return None if "exceptionDetails" in told else told.get("result", {}).get("value")

    def wait_for(self, script, timeout_s=60):
        """Wait until an expression is true."""
        deadline_s = time.monotonic() + timeout_s
        while not (found := self._value_if_any(script)):
            assert time.monotonic() < deadline_s, (script, self.evaluate("document.body.innerText"))
            time.sleep(0.1)
        return found

    def wait_for_text(self, text):
        return self.wait_for(f"document.body.innerText.includes({json.dumps(text)})")

    def type_into(self, selector, text):
        """Type into a field as people do."""
        self.wait_for(f"!!document.querySelector({json.dumps(selector)})")
        self.evaluate(f"document.querySelector({json.dumps(selector)}).focus()")
        self.call("Input.insertText", text=text)

    def click(self, selector):
        self.wait_for(f"!!document.querySelector({json.dumps(selector)})")
        self.evaluate(f"document.querySelector({json.dumps(selector)}).click()")

    def screenshot(self):
        """What is seen, as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def close(self):
        self._socket.close()
        self.process.terminate()
        self.process.wait(30)


@pytest.fixture(scope="session")
def service(tmp_path_factory):
    """One coordinator over threads, shared by the tests."""
    made = Service(tmp_path_factory.mktemp("coordinator"), "--placement", "threads").start()
    yield made
    made.stop()


@pytest.fixture(scope="session")
def grid_service(tmp_path_factory):
    """One coordinator over Ray and Spark, shared by the tests: starting both takes long.

    It gets packages only from its folder ``wheels``, and its machine has none in the beginning.
    """
    made = Service(tmp_path_factory.mktemp("grid-coordinator"), "--placement", "grid")
    made.wheels, made.cache = made.home / "wheels", made.home / "cache"
    made.wheels.mkdir()
    made.environment = {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(made.wheels),
        "XDG_CACHE_HOME": str(made.cache),
    }
    yield made.start()
    made.stop()


@pytest.fixture(scope="session")
def make_service():
    """Make a coordinator over a home folder; whoever makes it starts and stops it."""
    return Service


@pytest.fixture
def own_service(tmp_path):
    """Make coordinators of a test's own, by placement; they are stopped after the test."""
    made = []

    def make(*options, port=0):
        made.append(Service(tmp_path / f"home{len(made)}", *options, port=port))
        return made[-1]

    yield make
    for one in made:
        one.stop()


@pytest.fixture(scope="module")
def database():
    """URL of a PostgreSQL server of our own."""
    import pgserver

    folder = tempfile.mkdtemp(prefix="gsdm-postgresql-")
    os.chmod(folder, 0o755)  # the server runs under another account if we are root
    server = pgserver.get_server(folder, cleanup_mode="stop")
    yield server.get_uri().replace("postgresql://", "postgresql+psycopg://")
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def free_port():
    """A port that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def start_ray(tmp_path_factory):
    """Start a node of a Ray cluster with these options, ``inside`` of another command; ended with all that is below."""
    folder, started = tmp_path_factory.mktemp("ray"), []

    def start(*options, inside=(), environment=None):
        command = [
            *inside,
            Path(sys.executable).with_name("ray"),
            "start",
            "--block",
            "--disable-usage-stats",
            *options,
        ]
        with (folder / f"ray{len(started)}.log").open("wb") as log:
            started.append(subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **(environment or {})}))

    yield start
    below = [one for process in started for one in psutil.Process(process.pid).children(recursive=True)]
    for process in reversed(started):
        process.terminate()
        process.wait(60)
    for process in psutil.wait_procs(below, timeout=10)[1]:
        process.kill()


@pytest.fixture(scope="session")
def make_browser(tmp_path_factory):
    """Open a browser window of a size; closed after the ``with`` statement."""
    executable = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if executable is None:
        pytest.skip("no Chromium on this machine: install the package chromium to take the screenshots")

    @contextmanager
    def make(width, height):
        with tempfile.TemporaryDirectory(prefix="gsdm-chromium-") as scratch:
            browser = Browser(executable, tmp_path_factory.mktemp("chromium"), scratch, width, height)
            try:
                yield browser
            finally:
                browser.close()

    return make


@pytest.fixture
def rest(service):
    """A client with the admin token."""
    with service.client() as client:
        yield client


@pytest.fixture(scope="session")
def done():
    """Wait for the operation that a response promises; gives it."""

    def wait(client, response, timeout_s=60.0):
        assert response.status_code == 202, response.text
        place = response.headers["Location"]
        found = eventually(lambda: client.get(place).json(), lambda one: one["finished"] is not None, timeout_s)
        assert found["status"] == "succeeded", found["error"]
        return found

    return wait
