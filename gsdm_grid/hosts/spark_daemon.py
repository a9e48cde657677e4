"""A daemon of a Spark standalone cluster, master or worker, hosted by a Ray actor.

The Java virtual machine runs Spark's own classes, as they come with pyspark; nothing else need be installed but Java.
Which daemons there are, and when, is the business of the resource manager.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gsdm_grid.errors import ResourceError
from gsdm_grid.hosts.kept_process import LOG, KeptProcess

WORKER_ATTRIBUTE = "GSDM_WORKER"
"""An executor tells the name of its worker under this key of its attributes."""
WORKER_TIMEOUT_S = 20
LOOPBACK = "127.0.0.1"
_POLL_S = 0.05
_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@dataclass(frozen=True)
class MasterRole:
    """What a master needs. Immutable, pickled."""

    recovery: str
    """Folder in which it remembers its workers and applications, so that the next one can go on."""
    port: int = 0
    """0 takes a free one."""


@dataclass(frozen=True)
class WorkerRole:
    """What a worker needs. Immutable, pickled."""

    master: str
    slots: int
    memory_mb: int


class SparkDaemon:
    """The actor. ``local`` says that all daemons are on this machine, so that nobody else need reach them."""

    def __init__(self, name: str, role: MasterRole | WorkerRole, secret: str, local: bool) -> None:
        self._role = role
        self._folder = Path(tempfile.mkdtemp(prefix=f"gsdm-{name}-"))
        command = [find_java(), *_JVM, *_properties(role), "-cp", str(spark_home() / "jars" / "*")]
        address = LOOPBACK if local else _node_address()
        command += _main(role, address, self._folder)
        self._process = KeptProcess(command, self._folder, _environment(name, secret, self._folder))
        self._reason: str | None = None

    def url(self, timeout_s: float) -> str:
        """Where it is reached, as soon as it is: ``spark://…`` of a master, its web page of a worker."""
        pattern = r"Starting Spark master at (\S+)" if isinstance(self._role, MasterRole) else r"started at (http\S+)"
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s and self._reason is None:
            try:
                found = re.search(pattern, (self._folder / LOG).read_text(errors="replace"))
            except FileNotFoundError:
                found = None
            if found:
                return found[1]
            time.sleep(_POLL_S)
        raise ResourceError(self._reason or f"it did not start within {timeout_s:g} s")

    def run(self) -> str:
        """Wait until the daemon has ended, by itself or by `stop`, and nothing is left of it; says why."""
        self._reason = self._process.wait()
        return self._reason

    def decommission(self) -> None:
        """Let a worker's executor take no more tasks, and end when it has none."""
        os.kill(self._process.pid, signal.SIGPWR)

    def stop(self) -> None:
        """End the daemon; `run` returns when it has ended."""
        self._process.close()

    def pids(self) -> dict[str, int]:
        """Processes, for tests that kill them."""
        return {"actor": os.getpid(), "daemon": self._process.pid}


def find_java() -> str:
    """The Java program: that of JAVA_HOME, else the first on the path."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")
    if found is None:
        place = f"in JAVA_HOME ({home})" if home else "on the path, and JAVA_HOME is not set"
        raise ResourceError(f"Spark needs Java 17 or newer; there is no java {place}")
    return found


def spark_home() -> Path:
    """Where pyspark's own Spark is."""
    import pyspark

    return Path(pyspark.__path__[0])


def _properties(role: MasterRole | WorkerRole) -> list[str]:
    settings: dict[str, Any] = {
        "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true",
        "spark.worker.timeout": WORKER_TIMEOUT_S,
        "spark.ui.killEnabled": "false",
    }
    if isinstance(role, MasterRole):
        settings |= {
            "spark.master.rest.enabled": "false",
            "spark.port.maxRetries": 0,  # at its address, or not at all
            "spark.deploy.recoveryMode": "FILESYSTEM",
            "spark.deploy.recoveryDirectory": role.recovery,
            "spark.deploy.maxExecutorRetries": -1,  # an application lives through any number of lost executors
            "spark.deploy.retainedApplications": 5,
        }
    else:
        settings |= {
            "spark.decommission.enabled": "true",
            "spark.worker.ui.retainedExecutors": 5,
            "spark.executor.logs.rolling.strategy": "size",
            "spark.executor.logs.rolling.maxSize": 1 << 20,
            "spark.executor.logs.rolling.maxRetainedFiles": 2,
        }
    return [f"-D{name}={value}" for name, value in settings.items()]


def _main(role: MasterRole | WorkerRole, address: str, folder: Path) -> list[str]:
    if isinstance(role, MasterRole):
        return [
            *("org.apache.spark.deploy.master.Master", "--host", address),
            *("--port", str(role.port), "--webui-port", "0"),
        ]
    return [
        *("org.apache.spark.deploy.worker.Worker", "--host", address, "--port", "0", "--webui-port", "0"),
        *("--cores", str(role.slots), "--memory", f"{role.memory_mb}m", "--work-dir", str(folder / "work")),
        role.master,
    ]


def _environment(name: str, secret: str, folder: Path) -> dict[str, str]:
    """Of a daemon, and of the executors it starts. The secret is here, where other people do not see it."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "SPARK_", "PYSPARK_"))}
    java = f"{inherited.get('JAVA_TOOL_OPTIONS', '')} -XX:-UsePerfData -Djava.io.tmpdir={folder}".strip()
    return inherited | {
        "JAVA_TOOL_OPTIONS": java,
        "_SPARK_AUTH_SECRET": secret,
        "SPARK_HOME": str(spark_home()),
        "SPARK_SCALA_VERSION": _scala_version(),  # else a worker looks for the folders of a build
        "SPARK_LOCAL_IP": LOOPBACK,  # for its web pages only: they know no passwords
        "SPARK_LOCAL_DIRS": str(folder),
        f"SPARK_EXECUTOR_ATTRIBUTE_{WORKER_ATTRIBUTE}": name,
    }


def _scala_version() -> str:
    """Such as 2.13, by the name of the library that comes with Spark."""
    found = next((spark_home() / "jars").glob("scala-library-*.jar"), None)
    if found is None:
        raise ResourceError(f"there is no Spark in {spark_home()}: no scala-library among its jars")
    return ".".join(found.stem.rpartition("-")[2].split(".")[:2])


def _node_address() -> str:
    import ray

    return str(ray.util.get_node_ip_address())
