"""An Airflow of one's own, on this machine: its settings, its start, its health, its end.

This side imports nothing of Airflow and stays quick; the process that does is `gsdm_grid.airflow.components`.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any

import httpx

from gsdm_grid.airflow.components import API_SERVER, GRACE_S, ComponentsRequest
from gsdm_grid.errors import GsdmError

CONNECTION, POOL, USER = "gsdm_default", "gsdm_trials", "admin"
START_S = 300.0
_LINES_OF_LOG = 15
_PASSWORDS, _KEYS = "passwords.json", "keys.json"
_SHARED = ("AIRFLOW__CORE__FERNET_KEY", "AIRFLOW__API__SECRET_KEY", "AIRFLOW__API_AUTH__JWT_SECRET")
"""Keys that all components must have in common; left to themselves, each makes its own at the first start."""


@dataclass(frozen=True)
class LocalSettings:
    """What a local Airflow is started with. Immutable.

    ``connection`` are the fields of the connection to the coordinator, ``database`` a URL if it is not to be SQLite in
    the home, ``dags`` the folder of DAG files.
    """

    home: Path
    dags: Path
    connection: Mapping[str, Any]
    host: str = "127.0.0.1"
    port: int = 8080
    database: str | None = None
    parallelism: int = 2
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)

    @property
    def url(self) -> str:
        """Where its user interface is."""
        shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.host, self.host)
        return f"http://{shown}:{self.port}"

    @property
    def logs(self) -> Path:
        """Where its components log; the logs of tasks are below it."""
        return self.home / "logs"

    def variables(self) -> dict[str, str]:
        """The environment of its processes. What people set there themselves wins, except for addresses and places.

        Few processes, no example DAGs, nothing told to anybody; scripts of this Python come first, as tasks may look
        for ``airflow`` itself, and what is asked on this machine is not asked through a proxy.
        """
        gentle = {
            "AIRFLOW__CORE__PARALLELISM": str(self.parallelism),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        }
        placed = {
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.dags),
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__AUTH_MANAGER": (
                "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager"
            ),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.home / _PASSWORDS),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(self.logs),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), self.environment.get("PATH", os.defpath)]),
            **self._database(),
        }
        unproxied = [self.environment.get("NO_PROXY") or self.environment.get("no_proxy"), "127.0.0.1,localhost"]
        proxies = dict.fromkeys(("NO_PROXY", "no_proxy"), ",".join(filter(None, unproxied)))
        return {**gentle, **self.environment, **proxies, **placed}

    def _database(self) -> dict[str, str]:
        name = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"
        if self.database is None:
            return {name: f"sqlite:///{self.home / 'airflow.db'}"}
        if not self.database.startswith("postgres"):
            return {name: self.database}
        url = f"postgresql+psycopg://{self.database.partition('://')[2]}"
        return {name: url, f"{name}_ASYNC": url}  # psycopg, which the coordinator uses too, serves both


class LocalAirflow:
    """A running Airflow; see `started`. Made by `gsdm airflow`, ended with it, also if that is killed."""

    def __init__(self, settings: LocalSettings, process: subprocess.Popen[bytes], password: str) -> None:
        self.settings = settings
        self.password = password
        self._process = process
        self._steps: list[dict[str, Any]] = []
        self._reader = Thread(target=self._read, name="gsdm-airflow-steps", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._steps.append(json.loads(line))

    @property
    def step(self) -> str:
        """How far it is."""
        return str(self._steps[-1]["step"]) if self._steps else "starting"

    def check(self) -> None:
        """Raises if it has ended without being told to, with the reason as far as there is one."""
        if self._process.poll() is None:
            return
        self._reader.join(5)
        component = next((one["component"] for one in self._steps if one["step"] == "ended"), None)
        log = self.settings.logs / f"{component or 'start'}.log"
        doing = next(
            (one["step"] for one in reversed(self._steps) if one["step"] not in ("ending", "ended")), "starting"
        )
        what = f"Airflow's {component} has ended" if component else f"Airflow has ended while {doing}"
        raise GsdmError(f"{what}; the end of {log}:\n{_end_of(log)}")

    def wait_until_ready(self, dag: str, told: Callable[[str], None] = lambda _step: None) -> None:
        """Wait until all components are at work and a DAG can be started; ``told`` hears how far it is."""
        deadline_s = time.monotonic() + START_S
        with httpx.Client(base_url=self.settings.url, timeout=10.0, trust_env=False) as http:
            while waiting := self._missing(http, dag):
                self.check()
                if time.monotonic() > deadline_s:
                    raise GsdmError(f"Airflow is not ready after {START_S:.0f} s: {waiting}; see {self.settings.logs}")
                told(waiting)
                time.sleep(0.2)

    def _missing(self, http: httpx.Client, dag: str) -> str | None:
        """What is waited for; nothing if it is ready."""
        if self.step != "started":
            return self.step
        try:
            health = http.get("/api/v2/monitor/health").json()
            for name, told in health.items():
                if told is not None and told["status"] != "healthy":
                    return f"waiting for the {name.replace('_', ' ')}"
            login = http.post("/auth/token", json={"username": USER, "password": self.password})
            token = login.raise_for_status().json()["access_token"]
            found = http.get(f"/api/v2/dags/{dag}", headers={"Authorization": f"Bearer {token}"})
        except (httpx.HTTPError, ValueError):
            return f"waiting for the {API_SERVER}"
        return None if found.is_success else "reading the DAG files"

    def wait(self) -> None:
        """Wait until it ends by itself, which raises; Ctrl-C ends the waiting."""
        self._process.wait()
        self.check()

    def stop(self) -> None:
        """End it with all its children, and wait for that."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.terminate()  # it may still be starting, and not look at its stdin
        try:
            self._process.wait(GRACE_S + 20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def started(settings: LocalSettings) -> Iterator[LocalAirflow]:
    """Start an Airflow in its home; it is stopped at the end. Refuses if the home or the port is in use."""
    if find_spec("airflow") is None:
        raise GsdmError("Airflow is not installed here: pip install 'gsdm-grid[airflow]'")
    settings.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _alone_in(settings.home):
        _check_free(settings.host, settings.port)
        password = kept_secrets(settings.home / _PASSWORDS, USER)[USER]
        keys = kept_secrets(settings.home / _KEYS, *_SHARED)
        request: ComponentsRequest = {
            "host": settings.host,
            "port": settings.port,
            "logs": str(settings.logs),
            "connection_id": CONNECTION,
            "connection": json.dumps({"conn_type": "gsdm", **settings.connection}),
            "pool": POOL,
        }
        with (settings.logs / "start.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "gsdm_grid.airflow.components"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**keys, **settings.variables()},
                cwd=settings.home,
                start_new_session=True,  # Ctrl-C is for the command; it ends the components in their order
            )
        assert process.stdin is not None
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        made = LocalAirflow(settings, process, password)
        try:
            yield made
        finally:
            made.stop()


@contextmanager
def _alone_in(home: Path) -> Iterator[None]:
    with (home / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise GsdmError(f"an Airflow runs in {home} already; --home names another folder") from None
        yield


def _check_free(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            reason = error.strerror or str(error)
            raise GsdmError(f"Airflow cannot listen on {host}:{port} ({reason}); --port names another port") from None


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody listens on now."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def kept_secrets(file: Path, *names: str) -> dict[str, str]:
    """Secrets that stay the same from start to start: made when they are first asked for, readable for nobody else."""
    try:
        known = {str(name): str(secret) for name, secret in json.loads(file.read_text()).items()}
    except (OSError, ValueError):
        known = {}
    if missing := [name for name in names if name not in known]:
        known |= {name: base64.urlsafe_b64encode(secrets.token_bytes(32)).decode() for name in missing}
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as written:
            json.dump(known, written)
    return known


def _end_of(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return "nothing was logged"
    return "\n".join(lines[-_LINES_OF_LOG:]) or "nothing was logged"
